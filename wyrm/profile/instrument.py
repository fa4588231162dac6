"""The instrumented form of a program's `run`: it reads the clock after every call of a step.

The program's own `run` stays as it is. Both call the same functions, which are compiled once.
"""

from __future__ import annotations

from dataclasses import dataclass

from wyrm.compiler.invocations import Invocation
from wyrm.compiler.runtime import load
from wyrm.compiler.source import Source
from wyrm.ir import arrays
from wyrm.ir.arrays import Apply, ArrayFunction, ArraySize, CallStatement, CountedLoop, Name, Return, When
from wyrm.kernels.arrays import ArrayRoutine
from wyrm.node.base import BaseNode
from wyrm.profile.clock import ClockReading

READ_CLOCK = ClockReading()
# The array of times has a row for each step, and this position among the arguments of `run`.
_TIMES, _POSITION = "times_of_profile", 7


@dataclass(frozen=True, eq=False)
class Site:
    """A timed call of a step: of an invocation, or the copy of an input's rows into its batch."""

    call: CallStatement
    invocation: Invocation | None
    column: BaseNode | None


@dataclass(frozen=True)
class Instrumented:
    """An instrumented `run`, and the calls that it times, in order; each step has one time more than calls."""

    routine: ArrayRoutine
    sites: tuple[Site, ...]


def instrumented(source: Source) -> Instrumented:
    """Return the `run` of a program with a reading of the clock at the start of a step and after each of its calls.

    It takes an array of times of shape (steps, calls + 1) after its first seven arguments, and does no step if that
    array is smaller.
    """
    code = source.run.code
    loop, end = code.body
    assert isinstance(loop, CountedLoop)
    invocations, inputs = iter(source.calls), iter(leaf for leaf, _ in source.fed)
    called = {id(invocation.function) for invocation in source.calls}
    sites: list[Site] = []
    body: list[arrays.Statement] = [_reading(0)]
    for statement in loop.body:
        body.append(statement)
        if not isinstance(statement, CallStatement):
            continue
        if statement.function is load:
            sites.append(Site(statement, None, next(inputs)))
        elif id(statement.function) in called:
            sites.append(Site(statement, next(invocations), None))
        else:
            continue
        body.append(_reading(len(sites)))
    assert next(invocations, None) is None and next(inputs, None) is None, "every call of a step is timed"
    guards = (_refuse_less(0, loop.count), _refuse_less(1, arrays.Literal(len(sites) + 1)))
    parameters = [*code.parameters]
    parameters.insert(_POSITION, _TIMES)
    new = ArrayFunction(
        "run_with_times", tuple(parameters), (*guards, CountedLoop(loop.index, loop.count, tuple(body)), end)
    )
    run = source.run
    routine = ArrayRoutine(new, calls_shared=run.calls_shared, calls_apart=run.calls_apart)
    return Instrumented(routine, tuple(sites))


def _reading(column: int) -> CallStatement:
    return CallStatement(READ_CLOCK, (Name(_TIMES), Name("k"), arrays.Literal(column)))


def _refuse_less(axis: int, size: arrays.Expression) -> When:
    """Return the statement that does no step if an axis of the times is smaller than a size."""
    return When(Apply("less", (ArraySize(_TIMES, axis), size)), (Return(arrays.Literal(0)),))
