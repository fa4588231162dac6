"""Random programs beside tables and random nodes: native steps equal the reference engine's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import wyrm as wy
from tests.fuzz.check import expected, precision_of
from tests.fuzz.generate import Generator
from tests.fuzz.program import Program as RandomProgram
from tests.fuzz.run import PRODUCTIONS
from tests.programs import Program, draw, programs

pytestmark = [pytest.mark.optimized, pytest.mark.usefixtures("_spoiled_memory")]

# Compiling takes most of the time, so there are few examples, and failures are not shrunk.
FEW = settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
OPTIMIZERS: list[Callable[[Any], wy.optim.Optimizer]] = [
    lambda p: wy.optim.SGD(p, learning_rate=0.01, momentum=0.5),
    # Far above the rounding errors of gradients that are exactly zero: these would otherwise make full steps.
    lambda p: wy.optim.Adagrad(p, learning_rate=0.01, epsilon=1e-3),
    lambda p: wy.optim.Adam(p, learning_rate=0.01, epsilon=1e-3),
]
STEPS = 4
GENERATOR = Generator([each for each in PRODUCTIONS if not each.tags & {"slow", "draws", "python"}], 4)


def stable(seed: int) -> RandomProgram:
    """Return a random program in float64 whose values and gradients differ by rounding only."""
    number = 0
    while True:
        program = replace(GENERATOR.program((seed, number)), rows=(3,), order=1)
        number += 1
        if program.dtype == np.float64 and program.with_gradients().order:
            tolerances = expected(program, 3, precision_of(program)).tolerances
            if tolerances and None not in tolerances:
                return program


class Case:
    """A random program, beside rows of a table that is also used as a whole, and dense parameters."""

    def __init__(self, program: RandomProgram, twice: bool, dense: bool, drops: bool) -> None:
        random = np.random.default_rng(0)
        graph = replace(program, order=0).graph(3)
        graph.feed(3)
        self.rows = wy.IndexInput(dims=(3,), name="rows")
        self.x = wy.Input(dims=(3, 4), name="x", dtype=np.float64)
        self.table = wy.Parameter(random.normal(size=(5, 4)), name="table")
        looked_up: Any = self.table.index(self.rows)
        if drops:
            looked_up = looked_up.dropout(0.3, seed=5, stream=6)
        floats = [node for node in graph.outputs if node.dtype.kind == "f"]
        self.loss: Any = sum((node * node.tanh()).sum() * 0.1 for node in floats) + (looked_up * self.x).sum()
        if twice:
            again: Any = self.table.index(self.rows[::-1])
            self.loss = self.loss + (again * self.x.cos()).square().sum() * 0.1
        if dense:
            self.loss = self.loss + self.table.square().mean()
        self.parameters = self.loss.parameters()
        self.batches = [(random.integers(0, 5, 3), random.normal(size=(3, 4))) for _ in range(STEPS)]


def eager(case: Case, optimizer: wy.optim.Optimizer) -> list[float]:
    """Return the losses of the reference engine's steps."""
    losses = []
    wy.random.set_step(0)
    for rows, x in case.batches:
        case.rows.set(rows)
        case.x.set(x)
        losses.append(float(case.loss.forward()))
        case.loss.backward()
        optimizer.step()
        case.loss.zero_gradient()
    return losses


@pytest.mark.parametrize("seed", range(12))
def test_steps_equal_those_of_the_reference(seed: int) -> None:
    random = np.random.default_rng(seed)
    twice, dense, drops, compiled = (bool(flag) for flag in random.random(4) < 0.5)
    optimizer = OPTIMIZERS[seed % len(OPTIMIZERS)]
    one, other = (Case(stable(seed), twice, dense, drops) for _ in range(2))
    losses = eager(one, optimizer(one.parameters))
    loop: Any = "compiled" if compiled else "auto"
    program = wy.compile(other.loss, optimizer(other.parameters), loop=loop)
    found = [float(program({other.rows: rows, other.x: x})) for rows, x in other.batches]
    np.testing.assert_allclose(found, losses, rtol=1e-9, atol=1e-9)
    for mine, reference in zip(other.parameters, one.parameters, strict=True):
        # The rounding error scales with the intermediate products.
        np.testing.assert_allclose(mine.value, reference.value, rtol=1e-8, atol=1e-8, err_msg=str(mine))


@FEW
@given(programs, st.lists(st.integers(1, 4), min_size=2, max_size=3), st.sampled_from(["compiled", "python"]))
def test_several_outputs_for_any_size_equal_those_of_the_reference(
    described: Program, sizes: list[int], loop: Any
) -> None:
    random = np.random.default_rng(0)
    fixed = [random.normal(size=3), random.normal(size=(5, 3))]
    leaves, _, roots = described.build([*draw(2, random), *fixed])
    loss: Any = roots[0].sum()
    gradients: list[Any] = wy.grad(loss, leaves[3:], allow_unused=True)
    outputs = [*roots, *gradients]
    program = wy.compile(outputs, loop=loop)
    read = set(program.graph.inputs)
    for size in sizes:
        data = draw(size, random)
        for leaf, value in zip(leaves[:3], data, strict=True):
            leaf.set(value)
        inputs = {leaf: value for leaf, value in zip(leaves[:3], data, strict=True) if leaf in read}
        expected = wy.run(outputs)
        for have, want in zip(program(inputs), expected, strict=True):
            want = np.asarray(want)
            scale = max(1.0, float(np.abs(want).max(initial=0.0)))
            np.testing.assert_allclose(have, want, rtol=1e-10, atol=1e-12 * scale)
