"""Calls as data: a loop over a table, for programs of many calls, such as those of equal layers.

LLVM takes a hundredth of the time for a call that is data and not code, and equal layers share what is code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from wyrm.engines.native.ir.program import (
    Conversion,
    Fail,
    For,
    If,
    Invoke,
    LibraryCall,
    Load,
    LoopFunction,
    Number,
    Offset,
    Operation,
    Variable,
    word_at,
)
from wyrm.engines.native.ir.types import BOOL, INT32, INT64, PointerType, Type
from wyrm.engines.native.llvm.instructions import constant, llvm_type

# So many calls in a row become a loop over a table.
FEWEST_CALLS = 4
# The type of a status, which is all that a function returns that may fail and has no results.
STATUS = "i32"
_TABLE, _PLACES = Variable("table", PointerType(INT64)), Variable("places", PointerType(INT32))
# An entry of a table of calls: a function, and the first of the places of its arguments.
_CALL = "{ ptr, i64 }"
_CALLS, _COUNT, _NUMBER = Variable("calls", PointerType(INT64)), Variable("count", INT64), Variable("number", INT64)
_STATUS = Variable("status", INT32)


def _each_call() -> LoopFunction:
    """Return the function that makes the calls of a table, and ends with the first status that is not 0."""
    word = Operation("stride", (_NUMBER, Number(2, INT64)), INT64)
    function, first = (word_at(_CALLS, Operation("step", (word, Number(i, INT64)), INT64), INT64) for i in range(2))
    places = Offset(_PLACES, first, PointerType(INT32))
    call = LibraryCall(function, (_TABLE, places), by_value=True, result=_STATUS)
    fails = If(Operation("not_equal", (_STATUS, Number(0, INT32)), BOOL), (Fail(_STATUS),))
    loop = For(_NUMBER, _COUNT, (call, fails))
    return LoopFunction("each call", (_TABLE, _PLACES, _CALLS, _COUNT), (), (loop,), fails=True)


class CallTable:
    """The tables of calls of a function whose arguments are in a table of words.

    For each function that is called there is another one: it takes the places of the arguments among the words, loads
    the arguments and calls it.
    """

    def __init__(self) -> None:
        self._places: list[int] = []
        self._tables: list[str] = []
        # The functions by the function that they call and the constants that they pass.
        self._functions: dict[tuple[str, tuple[str | None, ...]], LoopFunction] = {}

    def call(self, calls: Sequence[Invoke], words: Mapping[str, int]) -> str:
        """Add a table of calls; return a call that makes them all, and returns the first status other than 0."""
        entries = []
        for call in calls:
            entries.append(f"{_CALL} {{ ptr @{self._function_of_call(call)}, i64 {len(self._places)} }}")
            self._places += [words[each.name] for each in call.arguments if isinstance(each, Variable)]
        name = f"calls{len(self._tables)}"
        self._tables.append(f"@{name} = internal constant [{len(entries)} x {_CALL}] [{', '.join(entries)}]")
        return f"call {STATUS} @each_call(ptr %table, ptr @places, ptr @{name}, i64 {len(entries)})"

    @property
    def functions(self) -> dict[str, LoopFunction]:
        """The functions by their symbols."""
        found = [*self._functions.values(), *([_each_call()] if self._tables else [])]
        return {each.name.replace(" ", "_"): each for each in found}

    def _function_of_call(self, call: Invoke) -> str:
        constants = tuple(constant(each) if isinstance(each, Number) else None for each in call.arguments)
        if (call.function, constants) not in self._functions:
            places = count()
            arguments = [each if isinstance(each, Number) else _at(next(places), each.type) for each in call.arguments]
            self._functions[call.function, constants] = LoopFunction(
                f"by places {len(self._functions)}", (_TABLE, _PLACES), (),
                (Invoke((), call.function, tuple(arguments)),), fails=True,
            )  # fmt: skip
        return self._functions[call.function, constants].name.replace(" ", "_")

    def texts(self) -> list[str]:
        """Return the tables, and the places."""
        if not self._tables:
            return []
        places = ", ".join(f"i32 {each}" for each in self._places)
        return [*self._tables, f"@places = internal constant [{len(self._places)} x i32] [{places}]"]


def _at(place: int, type: Type) -> Load:
    """Return the argument at one of the places."""
    return word_at(_TABLE, Conversion(Load(_PLACES, Number(place, INT64), INT32), INT64), type)


def returned_type(function: LoopFunction) -> str:
    """Return the LLVM type of what a function returns: its status if it may fail, then its results."""
    if not function.results:
        return STATUS if function.fails else "void"
    return "{ " + ", ".join([*([STATUS] if function.fails else []), *map(llvm_type, function.results)]) + " }"
