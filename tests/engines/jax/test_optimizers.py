"""Every optimizer, and the options that they share: 50 steps of engine `jax` beside those of the reference engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.engines.native.test_optimizers import EVERY, MAKERS, same, trained
from tests.engines.native.test_training import eager_epoch, model

ROWS, BATCH, EPOCHS = 20, 4, 10


def rows_of(columns: dict[Any, Any]) -> dict[Any, Any]:
    return {leaf: column[:ROWS] for leaf, column in columns.items()}


def compiled(loss: Any, columns: Any, optimizer: Any) -> float:
    program = wy.compile(loss, optimizer, engine="jax")
    return [float(program.epoch(rows_of(columns), batch_size=BATCH)) for _ in range(EPOCHS)][-1]


def eager(loss: Any, columns: Any, optimizer: Any) -> float:
    return [eager_epoch(loss, rows_of(columns), optimizer, BATCH) for _ in range(EPOCHS)][-1]


@pytest.mark.parametrize("name", EVERY)
def test_fifty_steps_are_those_of_the_reference(name: str) -> None:
    same(trained(EVERY[name], compiled), trained(EVERY[name], eager))


def test_single_precision_agrees() -> None:
    results = []
    for run in (compiled, eager):
        loss, columns, parameters = model(np.float32)
        run(loss, columns, MAKERS["everything"](parameters))
        results.append([parameter.value for parameter in parameters])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-3)
