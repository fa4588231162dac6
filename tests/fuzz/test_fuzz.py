"""Random programs in every engine; and that programs which fail are found, shrunk and printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.fuzz.check import failure
from tests.fuzz.generate import Generator
from tests.fuzz.production import P
from tests.fuzz.productions.needs import BESIDE, X
from tests.fuzz.program import Step
from tests.fuzz.run import PRODUCTIONS, described, fuzz
from wyrm.ops.kernels.native import DEBUG

# What programs read and never wrote is NaN.
pytestmark = pytest.mark.usefixtures("_spoiled_memory")
# Small programs: compiling takes most of the time. `python -m tests.fuzz` runs larger ones, and more.
STEPS, CHUNK = 3, 20
# Debug mode has programs of its own.
SEED = 1 if DEBUG else 0


class Wrong(wy.Unary):
    """The operand plus 1, which native code forgets for large operands."""

    def evaluate(self, xp: Any, *operands: Any, shape: Any) -> Any:
        return operands[0] + 1.0

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient,)


@wy.LOOPS.register(Wrong)
class WrongLoops(wy.LoopForm):
    @staticmethod
    def kernel(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = x[i] + 1.0 if x[i] < 1.5 else x[i]

    def kernel_arguments(self, node: Any, operands: Sequence[Any], out: Any) -> tuple[Any, ...]:
        return operands[0].reshape(-1), out.reshape(-1)


class WrongSlope(wy.Unary):
    """The square of the operand, with half of its gradient."""

    formula = "x * x"

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * self.parents[0],)


FAULTS = [
    P("wrong", lambda x: Wrong(x), x=X),
    P("wrong slope", lambda x: WrongSlope(x), x=X),
    P("not NumPy", lambda x: np.tanh(x) if isinstance(x, np.ndarray) else x.sin(), "numpy", x=X),
]
OTHERS = [P("sum of two", lambda x, y: x + y, x=X, y=BESIDE), P("cosine", lambda x: np.cos(x), x=X)]


def assert_none_fails(seed: int, first: int, engine: str, most_rows: int) -> None:
    generator = Generator(PRODUCTIONS, STEPS)
    for number in range(first, first + CHUNK):
        problem = fuzz(generator, (seed, number), [engine], most_rows)
        if problem is not None:
            pytest.fail(f"program {number} of seed {seed}\n{described(problem)}")


@pytest.mark.parametrize("first", range(0, 200, CHUNK))
def test_native_programs(first: int) -> None:
    assert_none_fails(SEED, first, "native", most_rows=3)


def test_programs_of_jax() -> None:
    assert_none_fails(SEED, 1000, "jax", most_rows=1)


def test_every_production_can_be_built() -> None:
    for production in PRODUCTIONS:
        production.check()
        generator = Generator([production], 1)
        for number in range(20):
            generator.program((0, number))
            if generator.built[production.name]:
                break
        assert generator.built[production.name], generator.refused


def test_productions_have_names_of_their_own() -> None:
    names = [production.name for production in PRODUCTIONS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(("fault", "engine"), list(zip(FAULTS, ["native", "differences", "numpy"], strict=True)))
def test_a_fault_is_found_and_shrunk_to_one_step(fault: P, engine: str) -> None:
    generator = Generator([fault, *OTHERS])
    problems = [fuzz(generator, (2, number), ["native"]) for number in range(12)]
    found = [problem for problem in problems if problem is not None and problem.failure.engine == engine]
    assert found
    smallest = min((problem.program for problem in found), key=lambda program: len(program.parts))
    steps = [part for part in smallest.parts if isinstance(part, Step)]
    assert [step.production for step in steps] == [fault]
    assert f"# {engine}: " in described(found[0])


def test_the_printed_program_fails_by_itself() -> None:
    generator = Generator(FAULTS[:1], 2)
    problem = next(filter(None, (fuzz(generator, (3, number), ["native"]) for number in range(12))))
    with pytest.raises(AssertionError, match="Mismatched elements"):
        exec(described(problem), {"Wrong": Wrong})


@pytest.mark.parametrize("number", range(6))
def test_the_printed_program_of_one_that_passes_passes(number: int) -> None:
    program = Generator(PRODUCTIONS, STEPS).program((4, number))
    assert failure(program, []) is None
    exec(program.source("native", program.rows[-1], 1e-4), {})
