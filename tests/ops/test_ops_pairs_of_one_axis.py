"""A column against a row of one axis: refused with a features axis of size 1, not with one that `None` made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import ShapeError


class Batch(wy.Dim): ...


class Classes(wy.Dim): ...


PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "operator": lambda p, y: p - y,
    "reflected": lambda p, y: y * p,
    "comparison": lambda p, y: p >= y,
    "function": wy.maximum,
    "NumPy's function": np.subtract,
    "where": lambda p, y: wy.where(p > 0.0, y, 0.0),
    "where of the condition": lambda p, y: wy.where(y > 0.0, p, 0.0),
    "integers": lambda p, y: wy.searchsorted(wy.Constant([0.0, 1.0]), p) + wy.searchsorted(wy.Constant([0.0, 1.0]), y),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("batch", [wy.Dim(), Batch(), Batch(5), Batch() * 2], ids=repr)
def test_a_column_of_predictions_against_targets_is_refused(pair: Any, batch: wy.Dim) -> None:
    x, y = wy.Input(dims=(batch, 8), name="x"), wy.Input(dims=(batch,), name="y")
    predicted = wy.nn.Linear(8, 1)(x)
    with pytest.raises(ShapeError, match=r"twice: axis -1 of \(.*\) has size 1(.|\n)*\.squeeze\(-1\)") as caught:
        pair(predicted, y)
    assert "test_ops_pairs_of_one_axis.py" in str(caught.value)
    assert pair(predicted.squeeze(-1), y).dims == (batch,)
    assert pair(predicted, y[:, None]).dims[0] == batch


@pytest.mark.parametrize("column", [lambda x: x[:, :1], lambda x: x[:, :1] - x.mean(-1, keepdims=True)])
def test_a_column_stays_one_beside_axes_of_size_1_that_stretch(column: Any) -> None:
    x = wy.Input(dims=(Batch(), 8), name="x")
    for gate in (x.mean(-1, keepdims=True), x[:, 0][:, None]):
        with pytest.raises(ShapeError, match="twice"):
            column(x) * gate - x[:, 0]
        with pytest.raises(ShapeError, match="twice"):
            gate * column(x) - x[:, 0]


@pytest.mark.parametrize("engine", ["reference", "native", "jax"])
def test_all_pairs_that_are_meant_have_the_values_and_gradients_of_numpy(engine: str) -> None:
    v = wy.Input(dims=(wy.Dim(),), name="v")
    times = wy.Input(dims=v.dims, name="times")
    x = wy.Input(dims=(*v.dims, 3), name="x")
    differences = v[:, None] - v
    earlier = times[:, None] >= times[None, :]
    distances = (x[:, None] - x).square().sum(-1)
    centred = x.mean(-1, keepdims=True) - wy.expand_dims(v, 0)
    outputs: list[Any] = [differences, wy.where(earlier, differences, 0.0), distances, centred]
    outputs.append(wy.grad(sum((each.square().sum() for each in outputs), wy.Constant(0.0)), v))
    given = [np.random.default_rng(i).standard_normal((5, 3)[: 1 + i]).astype(np.float32) for i in (0, 0, 1)]
    given[1] = given[1][::-1].copy()
    if engine == "reference":
        for leaf, data in zip((v, times, x), given, strict=True):
            leaf.set(data)
        found = wy.run(outputs)
    else:
        if engine == "jax":
            pytest.importorskip("jax")
        found = wy.compile(outputs, engine=engine)(dict(zip((v, times, x), given, strict=True)))
    pairs = given[0][:, None] - given[0]
    mask = given[1][:, None] >= given[1][None, :]
    centre = given[2].mean(-1, keepdims=True) - given[0]
    expected = [pairs, np.where(mask, pairs, 0.0), np.square(given[2][:, None] - given[2]).sum(-1), centre]
    slope = 2.0 * (pairs.sum(1) - pairs.sum(0)) - 2.0 * centre.sum(0)
    masked = 2.0 * np.where(mask, pairs, 0.0)
    expected.append(slope + masked.sum(1) - masked.sum(0))
    for each, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(each, wanted, rtol=1e-4, atol=1e-5)


def test_a_column_stretches_along_other_axes_and_beside_a_square_of_its_axis() -> None:
    column = wy.Input(dims=(Batch(), 1), name="column")
    assert (column * wy.Input(dims=(Batch(), 4))).dims == (Batch(), 4)
    assert (column * wy.Input(dims=(Classes(),))).dims == (Batch(), Classes())
    assert (column + wy.Input(dims=(Batch(), Batch()))).dims == (Batch(), Batch())
    assert (column.T + column).dims == (Batch(), Batch())
    assert (wy.Input(dims=(5, 1)) - wy.Input(dims=(5,))).dims == (5, 5)


def test_the_name_of_an_axis_of_size_1_stays_beside_one_that_stretches() -> None:
    x, y = wy.Input(dims=(Batch(), Classes(1))), wy.Input(dims=(Batch(),))
    assert (x - y[:, None]).dims == (y[:, None] - x).dims == (Batch(), Classes(1))
