"""Training checkpoints of groups of parameters, of several optimizers, and of averages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError
from wyrm.io import Checkpoints
from wyrm.optim import EMA, Adafactor, Adam, Combined, Muon


class Batch(wy.Dim): ...


def made(seed: int, *, average: bool = True) -> tuple[wy.nn.Linear, wy.optim.Optimizer, Any, dict[Any, np.ndarray]]:
    """Return a model, an optimizer of three groups, its program, and data."""
    model = wy.nn.Linear(3, 4, seed=seed)
    extra = wy.Parameter(np.full((2, 4), 0.5, np.float32), name="extra")
    model.extra = extra
    x: Any = wy.Input(dims=(Batch(), 3), name="x")
    loss = (model(x) + extra.sum(axis=0)).square().mean()
    assert model.bias is not None
    adam = Adam([{"parameters": [model.bias], "learning_rate_factor": 0.5}], 0.1)
    optimizer = Combined(
        [Muon([model.weight], 0.1), Adafactor([extra], 0.1), adam],
        max_norm=1.0,
        average=EMA(0.8) if average else None,
    )
    data = {x: np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)}
    return model, optimizer, wy.compile(loss, optimizer), data


def test_resumed_training_equals_uninterrupted_training(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    model, optimizer, program, data = made(0)
    other, again, resumed, same = made(1)
    program.epoch(data, batch_size=4)
    path = checkpoints.save(1, model, optimizer, program.state_dict())
    resumed.load_state_dict(checkpoints.load(path, other, again))
    for each, columns in ((program, data), (resumed, same)):
        each.epoch(columns, batch_size=4)
    assert optimizer.steps == again.steps == 6
    assert [group.steps for group in again.groups] == [6, 6, 6]
    for name, array in optimizer.state_dict().items():
        np.testing.assert_array_equal(array, again.state_dict()[name], err_msg=name)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(one.value, two.value)


def test_a_checkpoint_without_averages_is_of_another_optimizer(tmp_path: Path) -> None:
    model, optimizer, _, _ = made(0, average=False)
    path = Checkpoints(tmp_path).save(1, model, optimizer, {})
    other, again, _, _ = made(0)
    with pytest.raises(CheckpointError, match=r"missing: 0\.averaged_parameter"):
        Checkpoints(tmp_path).load(path, other, again)


def test_averages_are_not_saved_as_the_parameters(tmp_path: Path) -> None:
    model, optimizer, program, data = made(0)
    program.epoch(data, batch_size=4)
    with optimizer.average_parameters(), pytest.raises(wy.errors.OptionError, match="hold their averages"):
        Checkpoints(tmp_path).save(1, model, optimizer, {})
