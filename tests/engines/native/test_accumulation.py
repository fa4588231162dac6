"""Gradients of several batches in one step: the step of one large batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.engines.native.test_training import model
from wyrm.errors import Diverged, OptionError


class Batch(wy.Dim): ...


def trained(batch_size: int, **options: Any) -> tuple[list[float], list[np.ndarray], int]:
    """Return the losses of two epochs, the parameters after them, and the number of steps."""
    loss, columns, parameters = model(np.float64)
    optimizer = wy.optim.Adam(parameters, 0.1, max_norm=0.5, average=wy.optim.EMA(0.9))
    program = wy.compile(loss, optimizer)
    losses = [program.epoch(columns, batch_size=batch_size, **options) for _ in range(2)]
    return losses, [parameter.value for parameter in parameters], optimizer.steps


@pytest.mark.parametrize("options", [{}, {"threads": 2, "mode": "synchronized"}, {"shuffle": True, "seed": 5}])
@pytest.mark.parametrize(("batch_size", "accumulate"), [(4, 2), (2, 4), (8, 1), (1, 8)])
def test_batches_that_accumulate_equal_a_larger_batch(batch_size: int, accumulate: int, options: Any) -> None:
    """Of 23 rows, the last step has 7, in batches of at most `batch_size`."""
    losses, values, steps = trained(8, **options)
    found, parameters, count = trained(batch_size, accumulate=accumulate, **options)
    assert count == steps == 6
    np.testing.assert_allclose(found, losses, rtol=1e-10)
    for have, want in zip(parameters, values, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("batch_size", "accumulate"), [(4, 2), (2, 4), (3, 3)])
def test_batches_of_a_loader_accumulate_too(batch_size: int, accumulate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wyrm.engines.epochs._BYTES", 200)  # many chunks
    _, values, steps = trained(batch_size, accumulate=accumulate)
    loss, columns, parameters = model(np.float64)
    optimizer = wy.optim.Adam(parameters, 0.1, max_norm=0.5, average=wy.optim.EMA(0.9))
    program = wy.compile(loss, optimizer)
    for _ in range(2):
        batches: Any = [
            {leaf: column[start : start + batch_size] for leaf, column in columns.items()}
            for start in range(0, 23, batch_size)
        ]
        program.epoch(batches, accumulate=accumulate)
    assert optimizer.steps == steps
    for have, want in zip(parameters, values, strict=True):
        np.testing.assert_allclose(have.value, want, rtol=1e-9, atol=1e-11)


def test_each_batch_has_its_own_random_numbers() -> None:
    x: Any = wy.Input(dims=(Batch(),))
    weight = wy.Parameter(1.0)
    program = wy.compile((weight * x.dropout(0.5, seed=3, stream=1)).mean(), wy.optim.SGD([weight], 1.0))
    program.epoch({x: np.ones(64, np.float32)}, batch_size=16, accumulate=4)
    assert program.state_dict() == {"steps": 4, "epochs": 1}
    same = wy.Parameter(1.0)
    other = wy.compile((same * x.dropout(0.5, seed=3, stream=1)).mean(), wy.optim.SGD([same], 0.25))
    other.epoch({x: np.ones(64, np.float32)}, batch_size=16)
    np.testing.assert_allclose(float(weight), float(same), rtol=1e-5)  # a loss linear in the weight


def test_buffers_move_with_each_batch() -> None:
    x: Any = wy.Input(dims=(Batch(),), dtype=np.float64)
    weight, mean = wy.Parameter(np.float64(1.0)), wy.Buffer(np.float64(0.0))
    loss = wy.updating((weight * x).mean(), {mean: 0.5 * mean + 0.5 * x.mean()})
    program = wy.compile(loss, wy.optim.SGD([weight], 0.1))
    program.epoch({x: np.array([1.0, 1.0, 3.0, 3.0])}, batch_size=2, accumulate=2)
    assert (float(mean), float(weight)) == (1.75, 0.8)


def test_what_diverged_is_taken_back_with_its_counts() -> None:
    x: Any = wy.Input(dims=(Batch(),), dtype=np.float64)
    weight = wy.Parameter(np.float64(1.0))
    optimizer = wy.optim.SGD([weight], 0.1)
    program = wy.compile((weight * x).square().mean(), optimizer)
    program.epoch({x: np.ones(4)}, accumulate=2)
    before = float(weight)
    with pytest.raises(Diverged, match="epoch 2"):
        program.epoch({x: np.array([1.0, 1.0, 1.0, 1e200, 1.0, 1.0])}, accumulate=2)
    steps = optimizer.steps
    assert steps in (2, 3) and program.state_dict() == {"steps": 2 * steps, "epochs": 1}
    assert steps == 3 or float(weight) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accumulate": 0}, "accumulate must be an integer of at least 1"),
        ({"accumulate": 2, "threads": 2}, "'hogwild' do not accumulate"),
    ],
)
def test_options_without_meaning_are_refused(options: Any, message: str) -> None:
    loss, columns, parameters = model(np.float64)
    program = wy.compile(loss, wy.optim.SGD(parameters, 0.1))
    with pytest.raises(OptionError, match=message):
        program.epoch(columns, batch_size=4, **options)
