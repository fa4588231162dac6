"""The standard problems: values and gradients in float64, the same in all engines."""

from __future__ import annotations

from functools import partial
from types import ModuleType

import numpy as np
import pytest

import wyrm as wy
from tests.engines.jax.parity import assert_parity
from tests.problems import dynamics, loops, networks, statistics
from tests.problems.problem import Problem

ROOMS: dict[str, ModuleType] = {
    "statistics": statistics, "dynamics": dynamics, "networks": networks, "loops": loops,
}  # fmt: skip
PROBLEMS: dict[str, list[Problem]] = {name: list(room.PROBLEMS) for name, room in ROOMS.items()}


def test_there_are_forty() -> None:
    assert sum(map(len, PROBLEMS.values())) >= 40


@pytest.mark.parametrize("room", PROBLEMS)
def test_problems(room: str) -> None:
    nodes = {}
    for problem in PROBLEMS[room]:
        parameters = [wy.Parameter(np.asarray(array, np.float64)) for array in problem.arrays]
        nodes[problem.name] = wy.function(partial(problem.function, np))(*parameters)
    assert_parity(nodes, 1e-9)
