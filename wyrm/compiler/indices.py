"""Index maps of ops as expressions of a function over arrays."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from wyrm.compiler.loops import Checked
from wyrm.compiler.runtime import checked
from wyrm.ir.arrays import Apply, Expression, Literal, Name, Result
from wyrm.node.entries import Difference, Entry, Pair, Position, Product, Sum, Whole

_NOTHING: Mapping[Entry, Expression] = MappingProxyType({})
_OPERATORS: dict[type[Pair], str] = {Sum: "add", Difference: "subtract", Product: "multiply"}


def expression_of(entry: Entry, leaves: Mapping[Entry, Expression] = _NOTHING) -> Expression:
    """An entry of an index, made of these leaves: sizes and integers that are read."""
    match entry:
        case Position():
            return Name(str(entry))
        case Whole(value):
            return Literal(value)
        case Checked(left, right):
            return Result(checked, (expression_of(left, leaves), expression_of(right, leaves)))
        case Pair(left, right):
            return Apply(_OPERATORS[type(entry)], (expression_of(left, leaves), expression_of(right, leaves)))
        case _:
            return leaves[entry]
