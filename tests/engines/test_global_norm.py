"""The graphs of the global norm, from which all engines compute the factor of clipped gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.global_norm import global_norm
from wyrm.engines.optimizer import Elements
from wyrm.graph.op import NUMPY
from wyrm.optim import SGD

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def limited(dtype: np.dtype[Any], gradient: Any, limit: float, in_units: bool) -> tuple[float, float]:
    """Return the norm of a gradient, and the factor that limits it."""
    norm, array = global_norm(dtype, in_units), np.asarray(gradient, dtype)
    with np.errstate(all="ignore"):
        (total,) = norm.squares(NUMPY, {Elements: array.size}, array)
        root, factor = norm.limited(NUMPY, {}, total, np.asarray(limit, dtype))
    return float(root), float(factor)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize(
    ("gradient", "limit", "expected"),
    [
        ([3.0, 4.0], 1.0, (5.0, 0.2)),
        ([3.0, 4.0], 5.0, (5.0, 1.0)),
        ([3.0, 4.0], math.inf, (5.0, 1.0)),
        ([0.0, 0.0], 1.0, (0.0, 1.0)),
        ([], 1.0, (0.0, 1.0)),
    ],
)
def test_the_factor_is_1_within_the_limit(
    dtype: np.dtype[Any], gradient: Any, limit: float, expected: tuple[float, float]
) -> None:
    assert limited(dtype, gradient, limit, in_units=False) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("in_units", [False, True])
@pytest.mark.parametrize("element", [math.inf, -math.inf, math.nan])
def test_the_factor_of_what_is_not_finite_is_a_nan(element: float, in_units: bool) -> None:
    assert math.isnan(limited(FLOAT64, [1.0, element], 1.0, in_units)[1])
    assert math.isnan(limited(FLOAT64, [1.0, element], math.inf, in_units)[1])


@pytest.mark.parametrize(
    ("dtype", "size"), [(FLOAT32, 1e38), (FLOAT32, 1e20), (FLOAT64, 1e307), (FLOAT64, 1e155)], ids=str
)
def test_squares_in_units_do_not_overflow_where_the_norm_does_not(dtype: np.dtype[Any], size: float) -> None:
    gradient = np.full(1000, size / 40.0)
    assert math.isnan(limited(dtype, gradient * 40.0, 2.0, in_units=False)[1])
    norm, factor = limited(dtype, gradient, 2.0, in_units=True)
    assert norm == pytest.approx(size / 40.0 * 1000**0.5, rel=1e-5)
    assert factor == pytest.approx(2.0 / norm, rel=1e-5)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_units_are_powers_of_two_that_round_nothing(dtype: np.dtype[Any]) -> None:
    size = 2.0 ** (np.finfo(dtype).maxexp * 0.4)
    gradient = np.random.default_rng(0).normal(size=100) * size
    found = limited(dtype, gradient, 0.5 * size, in_units=True)
    assert found == limited(dtype, gradient, 0.5 * size, in_units=False)
    assert 0.0 < found[1] < 1.0


class Batch(wy.Dim): ...


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_engines_clip_dense_and_row_sparse_gradients_of_two_dtypes_by_one_factor(engine: str) -> None:
    def model() -> tuple[Any, Any, list[Any]]:
        random = np.random.default_rng(0)
        table = wy.Parameter(random.normal(size=(6, 3)).astype(np.float32), name="table")
        bias = wy.Parameter(random.normal(size=6).astype(np.float32), name="bias")
        weight = wy.Parameter(random.normal(size=3), name="weight")
        rows = wy.IndexInput(dims=(Batch(),), name="rows")
        score = (table.index(rows).astype(np.float64) * weight).sum(axis=1) + bias.index(rows).astype(np.float64)
        return score.square().mean(), rows, [table, bias, weight]

    data = np.array([0, 2, 2, 5])
    loss, rows, mine = model()
    rows.set(data)
    loss.backward()
    SGD(mine, 0.5, max_norm=0.25).step()
    other, rows, theirs = model()
    wy.compile(other, SGD(theirs, 0.5, max_norm=0.25), engine=engine)({rows: data})
    for one, two in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(two.value, one.value, rtol=1e-6)
