"""Index maps of ops as expressions of array functions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from wyrm.engines.native.ir.arrays import Apply, CallResult, Expression, Literal, Name
from wyrm.engines.native.stages.loops import Checked
from wyrm.engines.native.stages.runtime import checked
from wyrm.graph.index_maps import (
    IndexDifference,
    IndexExpression,
    IndexLiteral,
    IndexPair,
    IndexProduct,
    IndexSum,
    LoopIndex,
)

_NOTHING: Mapping[IndexExpression, Expression] = MappingProxyType({})
_OPERATORS: dict[type[IndexPair], str] = {IndexSum: "add", IndexDifference: "subtract", IndexProduct: "multiply"}


def expression_of(entry: IndexExpression, leaves: Mapping[IndexExpression, Expression] = _NOTHING) -> Expression:
    """Return an index entry as an expression; `leaves` has the expressions of sizes and of integers that it reads."""
    match entry:
        case LoopIndex():
            return Name(str(entry))
        case IndexLiteral(value):
            return Literal(value)
        case Checked(left, right):
            return CallResult(checked, (expression_of(left, leaves), expression_of(right, leaves)))
        case IndexPair(left, right):
            return Apply(_OPERATORS[type(entry)], (expression_of(left, leaves), expression_of(right, leaves)))
        case _:
            return leaves[entry]
