"""Calls as data: a loop over a table, for programs of many calls, such as those of equal layers.

LLVM takes a hundredth of the time for a call that is data and not code, and equal layers share what is code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wyrm.engines.native.ir.program import Invoke, LoopFunction, Number, Variable
from wyrm.engines.native.ir.types import BOOL
from wyrm.engines.native.llvm.instructions import constant, llvm_type

# So many calls in a row become a loop over a table.
FEWEST_CALLS = 4
# An entry of a table of calls: a function, and the first of the places of its arguments.
_CALL = "{ ptr, i64 }"
# Makes `count` calls; returns the first status that is not 0.
_EACH = f"""
define internal i32 @each(ptr %table, ptr %calls, i64 %count) noinline nounwind {{
  br label %again
again:
  %number = phi i64 [ 0, %0 ], [ %next, %on ]
  %call = getelementptr inbounds {_CALL}, ptr %calls, i64 %number
  %function = load ptr, ptr %call
  %first = getelementptr inbounds {_CALL}, ptr %call, i64 0, i32 1
  %place = load i64, ptr %first
  %places = getelementptr inbounds i32, ptr @places, i64 %place
  %status = call i32 %function(ptr %table, ptr %places)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %end, label %on
on:
  %next = add i64 %number, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %again, label %end
end:
  ret i32 %status
}}"""


class CallTable:
    """The tables of calls of a function whose arguments are in a table of words.

    For each function that is called there is another one: it takes the places of the arguments among the words, loads
    the arguments and calls it.
    """

    def __init__(self, symbols: Mapping[str, str], known: Mapping[str, LoopFunction]) -> None:
        self._symbols, self._known = symbols, known
        self._places: list[int] = []
        self._tables: list[str] = []
        # The names of the functions by the function that they call and the constants that they pass.
        self._names: dict[tuple[str, tuple[str | None, ...]], str] = {}
        self._functions: list[str] = []

    def call(self, calls: Sequence[Invoke], words: Mapping[str, int]) -> str:
        """Add a table of calls; return a call that makes them all, and returns the first status other than 0."""
        entries = []
        for call in calls:
            entries.append(f"{_CALL} {{ ptr @{self._function(call)}, i64 {len(self._places)} }}")
            self._places += [words[each.name] for each in call.arguments if isinstance(each, Variable)]
        name = f"calls{len(self._tables)}"
        self._tables.append(f"@{name} = internal constant [{len(entries)} x {_CALL}] [{', '.join(entries)}]")
        return f"call i32 @each(ptr %table, ptr @{name}, i64 {len(entries)})"

    def _function(self, call: Invoke) -> str:
        constants = tuple(constant(each) if isinstance(each, Number) else None for each in call.arguments)
        if (call.function, constants) not in self._names:
            name = self._names[call.function, constants] = f"by_places{len(self._names)}"
            self._functions.append(self._text(name, call, constants))
        return self._names[call.function, constants]

    def _text(self, name: str, call: Invoke, constants: Sequence[str | None]) -> str:
        lines, arguments, place = list[str](), list[str](), 0
        for position, (argument, given) in enumerate(zip(call.arguments, constants, strict=True)):
            type, value = llvm_type(argument.type), given
            if given is None:
                found = "i8" if argument.type == BOOL else type
                lines += [
                    f"%p{position} = getelementptr inbounds i32, ptr %places, i64 {place}",
                    f"%i{position} = load i32, ptr %p{position}",
                    f"%w{position} = getelementptr inbounds i64, ptr %table, i32 %i{position}",
                    f"%a{position} = load {found}, ptr %w{position}",
                ]
                value, place = f"%a{position}", place + 1
                if argument.type == BOOL:
                    lines.append(f"%b{position} = trunc i8 {value} to i1")
                    value = f"%b{position}"
            arguments.append(f"{type} {value}")
        function = self._known[call.function]
        returned, status = returned_type(function), "0"
        text = f"call {returned} @{self._symbols[call.function]}({', '.join(arguments)})"
        lines.append(text if returned == "void" else f"%result = {text}")
        if function.fails:
            lines.append(f"%status = extractvalue {returned} %result, 0")
            status = "%status"
        head = f"define internal i32 @{name}(ptr %table, ptr %places) noinline nounwind {{"
        return "\n".join([head, *(f"  {line}" for line in lines), f"  ret i32 {status}", "}"])

    def texts(self) -> list[str]:
        """Return the tables, the places and the functions."""
        if not self._tables:
            return []
        places = ", ".join(f"i32 {each}" for each in self._places)
        constants = [*self._tables, f"@places = internal constant [{len(self._places)} x i32] [{places}]"]
        return [*constants, *self._functions, _EACH]


def returned_type(function: LoopFunction) -> str:
    """Return the LLVM type of what a function returns: its status if it may fail, then its results."""
    types = [*(["i32"] if function.fails else []), *map(llvm_type, function.results)]
    return "{ " + ", ".join(types) + " }" if types else "void"
