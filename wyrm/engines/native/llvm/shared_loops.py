"""Loops whose turns threads share: a function over a range of the turns, and calls of it in the threads of products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wyrm.engines.native.ir.program import (
    AddressOf,
    Assign,
    Expression,
    Fail,
    For,
    If,
    Invoke,
    LibraryCall,
    LoopFunction,
    Number,
    Operation,
    Select,
    Statement,
    Table,
    Variable,
    word_at,
)
from wyrm.engines.native.ir.types import BOOL, INT32, INT64, PointerType
from wyrm.engines.native.kernels.builder import loads
from wyrm.engines.native.llvm.product_modules import pool_module
from wyrm.engines.native.products.pool import ALONE, ALWAYS
from wyrm.engines.native.products.target import Target

# Threads share loops of so many elements: fewer are done before another thread has begun.
LEAST_ELEMENTS = 1 << 17
# Ranges of a loop without loops inside begin at a multiple of so many turns, so that they share no cache line.
_UNIT = 64
_FIRST, _END = Variable("first turn", INT64), Variable("end of turns", INT64)
# What threads are given, a function of a table of arguments and of a range; no variable of a kernel has these names.
_TABLE, _PART = Variable("table of arguments", PointerType(INT64)), Variable("part of loop", INT64)
_STATUS = Variable("status of parts", INT32)
_FAILED = Operation("not_equal", (_STATUS, Number(0, INT32)), BOOL)


def shared_loops(function: LoopFunction, target: Target) -> tuple[LoopFunction, ...]:
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
    ranged = replace(
        function, name=f"{function.name} in range", parameters=(*function.parameters, _FIRST, _END), divided=False,
        body=(*scalars, For(turn, counted, (moved, *loop.body))),
    )  # fmt: skip
    given = [word_at(_TABLE, place, each.type) for place, each in enumerate(function.parameters)]
    part = LoopFunction(
        f"part of {function.name}", (_TABLE, _FIRST, _END), (),
        (Invoke((), ranged.name, (*given, _FIRST, _END)),), fails=True,
    )  # fmt: skip
    inner = [loop.work] if loop.work is not None else _inner_counts(loop.body, function.parameters)
    elements = loop.count
    for count in inner:
        elements = Operation("multiply", (elements, count), INT64)
    # Few elements are done by this thread alone: others begin later.
    enough = Operation("greater_equal", (elements, Number(LEAST_ELEMENTS, INT64)), BOOL)
    work = Select(enough, Number(ALWAYS, INT64), Number(ALONE, INT64), INT64)
    unit = Number(1 if inner else _UNIT, INT64)
    body = (
        *before,
        Table(_TABLE, function.parameters),
        AddressOf(_PART, part.name),
        LibraryCall(pool_module(target).symbol, (_PART, _TABLE, work, loop.count, unit), by_value=True, result=_STATUS),
        *([If(_FAILED, (Fail(_STATUS),))] if function.fails else []),
    )
    return ranged, part, replace(function, body=body)


def _inner_counts(body: Sequence[Statement], parameters: Sequence[Variable]) -> list[Expression]:
    """Return the counts of the first loops inside of each other that are known before the outermost one."""
    loop = next((each for each in body if isinstance(each, For)), None)
    if loop is None or not (isinstance(loop.count, Number) or loop.count in parameters):
        return []
    return [loop.count, *_inner_counts(loop.body, parameters)]
