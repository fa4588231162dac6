"""The instrumented form of a program's `run`: it reads the clock after every call of a step.

The program's own `run` stays as it is. Both call the same compiled functions, except that loops inside the graph are
instrumented too.

The clock is that of `time.perf_counter_ns`, so times of native code, of Python and of all threads are comparable. The
processor's own counter would take half the time to read, but its rate, and whether cores agree, depend on the machine.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from wyrm.engines.native.ir import arrays
from wyrm.engines.native.ir.arrays import (
    Apply,
    ArrayFunction,
    ArraySize,
    CallStatement,
    CountedLoop,
    Element,
    Literal,
    Name,
    ReturnValue,
    Store,
    When,
)
from wyrm.engines.native.kernels.arrays import ArrayRoutine
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.memory import call, table
from wyrm.engines.native.stages.loops import Invocation
from wyrm.engines.native.stages.runtime import LOADS
from wyrm.engines.native.stages.write import Source
from wyrm.errors import OptionError
from wyrm.graph.base import BaseNode

_CLOCK = np.int32(getattr(time, "CLOCK_UPTIME_RAW" if sys.platform == "darwin" else "CLOCK_MONOTONIC", -1))
# The number of readings from which the cost of one is measured.
_READINGS = 2000


def _read_clock(times: np.ndarray, row: int, column: int) -> None:
    """Store the time in an element of a two-dimensional array."""
    found = table(0, 0)
    call("clock_gettime", _CLOCK, found)  # which may write anywhere: nothing moves across the call
    times[row, column] = found[0] * 1_000_000_000 + found[1]


READ_CLOCK = KernelFunction(_read_clock, name="read_clock", inlined=True)


def _read_often(times: np.ndarray) -> None:
    for i in range(times.shape[1]):
        READ_CLOCK(times, 0, i)


def check_clock() -> None:
    """Raise `OptionError` on a system without `clock_gettime`."""
    if _CLOCK < 0:
        raise OptionError("profile needs the function clock_gettime, which this system lacks; use wy.time_ops")


@cache
def cost_of_reading() -> float:
    """Return the nanoseconds that one reading of the clock adds to a measured time."""
    from wyrm.engines.native.llvm.library import CompiledFunction

    check_clock()
    read = CompiledFunction(KernelFunction(_read_often))
    times = np.zeros((1, _READINGS), np.int64)
    costs = []
    for _ in range(5):  # the least counts: the system may interrupt one, and the first loads the code into the cache
        read(times)
        costs.append(float(times[0, -1] - times[0, 0]) / (_READINGS - 1))
    return min(costs)


# Arrays that `run` takes at `_POSITION`. The times have a row for each step. The sums are of calls inside loops: their
# rows are the nanoseconds of each call, the number of its calls, the least time, and the last readings.
_TIMES, _SUMS, _POSITION = "times_of_profile", "sums_of_profile", 7
SUM_ROWS = 4


@dataclass(frozen=True, eq=False)
class Site:
    """A timed call: an invocation of `source`, or the copy of an input's rows into its batch.

    `around` is the call of the loop that contains this call; None for a call of the step itself.
    """

    call: CallStatement
    invocation: Invocation | None
    column: BaseNode | None = None
    source: Source | None = None
    around: Site | None = None


@dataclass(frozen=True)
class Instrumented:
    """An instrumented `run`, the calls of a step that it times, and the calls inside of loops.

    Each step has one time more than it has calls, and the sums have one column more than there are calls in loops.
    """

    routine: ArrayRoutine
    sites: tuple[Site, ...]
    inner: tuple[Site, ...]


def instrumented(source: Source) -> Instrumented:
    """Return the `run` of a program with a reading of the clock at the start of a step and after each of its calls.

    It takes two arrays after its first seven arguments: times of shape (steps, calls + 1) and sums of shape
    (4, calls in loops + 1). It does no step if one of them is smaller.
    """
    code = source.run.code
    loop, end = code.body
    assert isinstance(loop, CountedLoop)
    inner: list[Site] = []
    invocations, inputs = iter(source.calls), iter(leaf for leaf, _ in source.fed)
    called = {id(invocation.function) for invocation in source.calls}
    sites: list[Site] = []
    body: list[arrays.Statement] = [_reading(_TIMES, Name("k"), 0)]
    for statement in loop.body:
        if not isinstance(statement, CallStatement):
            body.append(statement)
        elif statement.function in LOADS:
            sites.append(Site(statement, None, next(inputs)))
            body += [statement, _reading(_TIMES, Name("k"), len(sites))]
        elif id(statement.function) in called:
            sites.append(Site(statement, next(invocations), source=source))
            body += [_with_sums(statement, sites[-1], inner), _reading(_TIMES, Name("k"), len(sites))]
        else:
            body.append(statement)
    assert next(invocations, None) is None and next(inputs, None) is None, "every call of a step is timed"
    guards = [
        _refuse_less(_TIMES, 0, loop.count),
        _refuse_less(_TIMES, 1, Literal(len(sites) + 1)),
        _refuse_less(_SUMS, 0, Literal(SUM_ROWS)),
        _refuse_less(_SUMS, 1, Literal(len(inner) + 1)),
    ]
    parameters = (*code.parameters[:_POSITION], _TIMES, _SUMS, *code.parameters[_POSITION:])
    new = ArrayFunction("run_with_times", parameters, (*guards, CountedLoop(loop.index, loop.count, tuple(body)), end))
    run = source.run
    routine = ArrayRoutine(new, calls_shared=run.calls_shared, calls_apart=run.calls_apart, small=run.small)
    return Instrumented(routine, tuple(sites), tuple(inner))


def _with_sums(call: CallStatement, site: Site, inner: list[Site]) -> CallStatement:
    """Return a call of the instrumented form of a loop inside the graph; return any other call unchanged."""
    scan = None if site.invocation is None else site.invocation.scan
    if scan is None:
        return call
    code, options = scan.run.code, scan.run
    body = _timed(code.body, scan, site, inner)
    new = ArrayFunction(f"{code.name}_with_times", (*code.parameters, _SUMS), tuple(body))
    routine = ArrayRoutine(new, calls_shared=options.calls_shared, calls_apart=options.calls_apart, small=options.small)
    return CallStatement(routine, (*call.arguments, Name(_SUMS)), call.comment)


def _timed(
    statements: Sequence[arrays.Statement], source: Source, around: Site, inner: list[Site]
) -> list[arrays.Statement]:
    """Return statements that add the times of a loop's calls to the sums."""
    invocations = iter(source.invocations)
    called = {id(invocation.function) for invocation in source.invocations}
    # Each call reads the clock before it too: an inner loop writes its last readings to other columns.
    found: list[arrays.Statement] = []
    for statement in statements:
        if not isinstance(statement, CountedLoop):
            found.append(statement)
            continue
        body: list[arrays.Statement] = []
        for each in statement.body:
            if not isinstance(each, CallStatement) or id(each.function) not in called:
                body.append(each)
                continue
            position = len(inner)
            inner.append(Site(each, next(invocations), source=source, around=around))
            body += [
                _reading(_SUMS, Literal(3), position),
                _with_sums(each, inner[-1], inner),
                *_add_since(position, len(inner)),
            ]
        found.append(CountedLoop(statement.index, statement.count, tuple(body)))
    assert next(invocations, None) is None, "every call of a loop is timed"
    return found


def _add_since(position: int, free: int) -> list[arrays.Statement]:
    """Return statements that add the time since the reading at a position to its sum; `free` is an unused column."""
    after, before = (Element(_SUMS, (Literal(3), Literal(column))) for column in (free, position))
    spent, least = Apply("subtract", (after, before)), (Literal(2), Literal(position))
    return [
        _reading(_SUMS, Literal(3), free),
        Store(_SUMS, (Literal(0), Literal(position)), spent, adds=True),
        Store(_SUMS, (Literal(1), Literal(position)), Literal(1), adds=True),
        Store(_SUMS, least, Apply("min", (Element(_SUMS, least), spent))),
    ]


def _reading(array: str, row: arrays.Expression, column: int) -> CallStatement:
    return CallStatement(READ_CLOCK, (Name(array), row, Literal(column)))


def _refuse_less(array: str, axis: int, size: arrays.Expression) -> When:
    """Return the statement that does no step if an axis of an array is smaller than a size."""
    return When(Apply("less", (ArraySize(array, axis), size)), (ReturnValue(Literal(0)),))
