"""Loops whose turns threads share: a function over a range of the turns, and calls of it in the threads of products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from wyrm.engines.native.ir.program import (
    Assign,
    Expression,
    For,
    Invoke,
    LoopFunction,
    Number,
    Operation,
    SharedCall,
    Statement,
    Variable,
)
from wyrm.engines.native.ir.types import INT64
from wyrm.engines.native.kernels.builder import loads
from wyrm.engines.native.products.pool import bounds_of_part
from wyrm.engines.native.products.writer import Writer

# Threads share loops of so many elements: fewer are done before another thread has begun.
LEAST_ELEMENTS = 1 << 17
# Ranges of a loop without loops inside begin at a multiple of so many turns, so that they share no cache line.
_UNIT = 64
_FIRST, _END = Variable("first turn", INT64), Variable("end of turns", INT64)


def shared_loops(function: LoopFunction) -> tuple[LoopFunction, ...]:
    """Return the functions in place of one, callees first: a divided one shares its loop, others stay as they are."""
    *before, loop = function.body or (None,)
    scalars = [each for each in before if isinstance(each, Assign)]
    # Calls without results are made once, before all parts, which compute the scalars again.
    calls = [each for each in before if isinstance(each, Invoke) and not each.results]
    if not isinstance(loop, For) or not (function.divided or loop.work is not None):
        return (function,)
    if (
        function.results
        or len(scalars) + len(calls) != len(before)
        or (calls and any(loads(each.value) for each in scalars))
    ):
        return (function,)
    turn = Variable(f"{loop.index.name} of range", INT64)
    moved = Assign(loop.index, Operation("step", (_FIRST, turn), INT64))
    counted = Operation("subtract", (_END, _FIRST), INT64)
    part = replace(
        function, name=f"{function.name} in range", parameters=(*function.parameters, _FIRST, _END), divided=False,
        body=(*scalars, For(turn, counted, (moved, *loop.body))),
    )  # fmt: skip
    inner = [loop.work] if loop.work is not None else _inner_counts(loop.body, function.parameters)
    work = loop.count
    for count in inner:
        work = Operation("multiply", (work, count), INT64)
    call = SharedCall(part.name, function.parameters, loop.count, work, 1 if inner else _UNIT)
    return part, replace(function, body=(*before, call))


def _inner_counts(body: Sequence[Statement], parameters: Sequence[Variable]) -> list[Expression]:
    """Return the counts of the first loops inside of each other that are known before the outermost one."""
    loop = next((each for each in body if isinstance(each, For)), None)
    if loop is None or not (isinstance(loop.count, Number) or loop.count in parameters):
        return []
    return [loop.count, *_inner_counts(loop.body, parameters)]


def part_of(name: str, function: str, types: Sequence[str], unit: int, attributes: str, fails: bool) -> str:
    """Return the text of a function that calls another one for a thread's part of a record.

    If the other one `fails`, a status that is not 0 is written to the record.
    """
    to, record = Writer(), record_of(types)
    values = []
    for position, type in enumerate((*types, "i64")):
        place = to.new(f"getelementptr {record}, ptr %record, i32 0, i32 {position}")
        values.append(to.new(f"load {type}, ptr {place}"))
    *given, count = values
    bounds = bounds_of_part(to, count, unit)
    arguments = ", ".join(
        f"{type} {value}" for type, value in zip((*types, "i64", "i64"), (*given, *bounds), strict=True)
    )
    if fails:
        status = to.new(f"extractvalue {{ i32 }} {to.new(f'call {{ i32 }} @{function}({arguments})')}, 0")
        place = place_of_status(record, types)
        to.branch(
            to.new(f"icmp ne i32 {status}, 0"),
            lambda: to.do(f"store atomic i32 {status}, ptr {to.new(place)} monotonic, align 4"),
        )
    else:
        to.do(f"call void @{function}({arguments})")
    return to.function(f"internal void @{name}(ptr %record, i64 %part, i64 %parts) noinline {attributes}")


def record_of(types: Sequence[str]) -> str:
    """Return the type of a record of arguments, the count and the status."""
    return "{ " + ", ".join((*types, "i64", "i32")) + " }"


def place_of_status(record: str, types: Sequence[str]) -> str:
    """Return the expression of the address of the status in a record at `%record`."""
    return f"getelementptr {record}, ptr %record, i32 0, i32 {len(types) + 1}"


def stores(values: Sequence[str], record: str) -> Iterator[str]:
    """Yield the instructions that store values, with their types, in a record at `%record`."""
    for position, value in enumerate(values):
        yield f"  %place{position} = getelementptr {record}, ptr %record, i32 0, i32 {position}"
        yield f"  store {value}, ptr %place{position}"
