"""The instrumented form of a program's `run`: it reads the clock after every call of a step.

The program's own `run` stays as it is. Both call the same functions, which are compiled once; only the functions of
loops inside the graph have an instrumented form too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    Return,
    Store,
    When,
)
from wyrm.engines.native.kernels.arrays import ArrayRoutine
from wyrm.engines.native.stages.loops import Invocation, KernelCall
from wyrm.engines.native.stages.runtime import load
from wyrm.engines.native.stages.write import Source
from wyrm.graph.base import BaseNode
from wyrm.profile.clock import ClockReading

READ_CLOCK = ClockReading()
# The times have a row for each step. Inside of loops, times are summed: the rows are the nanoseconds of each call, the
# number of its calls, the least time, and the last readings. Both arrays come at this position among the arguments of
# `run`.
_TIMES, _SUMS, _POSITION = "times_of_profile", "sums_of_profile", 7
SUM_ROWS = 4


@dataclass(frozen=True, eq=False)
class Site:
    """A timed call: of an invocation of `source`, or the copy of an input's rows into its batch.

    `around` is the call of the loop inside the graph that makes this call; None for a call of the step itself.
    """

    call: CallStatement
    invocation: Invocation | None
    column: BaseNode | None = None
    source: Source | None = None
    around: Site | None = None


@dataclass(frozen=True)
class Instrumented:
    """An instrumented `run`, the calls of a step that it times, and the calls inside of loops.

    Each step has one time more than calls, and the sums have a column more than there are calls in loops.
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
        elif statement.function is load:
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
    routine = ArrayRoutine(new, calls_shared=run.calls_shared, calls_apart=run.calls_apart)
    return Instrumented(routine, tuple(sites), tuple(inner))


def _with_sums(call: CallStatement, site: Site, inner: list[Site]) -> CallStatement:
    """Return a call of the instrumented form of a loop inside the graph; return any other call unchanged."""
    invocation = site.invocation
    item = None if invocation is None else invocation.item
    if not isinstance(item, KernelCall) or item.loop is None or call.function is not item.loop.run:
        return call
    code, options = item.loop.run.code, item.loop.run
    body = _timed(code.body, item.loop, site, inner)
    new = ArrayFunction(f"{code.name}_with_times", (*code.parameters, _SUMS), tuple(body))
    routine = ArrayRoutine(new, calls_shared=options.calls_shared, calls_apart=options.calls_apart)
    return CallStatement(routine, (*call.arguments, Name(_SUMS)), call.comment)


def _timed(
    statements: Sequence[arrays.Statement], source: Source, around: Site, inner: list[Site]
) -> list[arrays.Statement]:
    """Return statements that add the times of a loop's calls to the sums."""
    invocations = iter(source.invocations)
    called = {id(invocation.function) for invocation in source.invocations}
    # The reading before the first call; each iteration takes its own, because a loop in a loop uses other columns.
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
    return When(Apply("less", (ArraySize(array, axis), size)), (Return(Literal(0)),))
