"""Formulas as the text of scalar expressions, in the float type of the node that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wyrm.node.base import BaseNode
from wyrm.ops.fast_math import float32_exp, float32_tanh
from wyrm.ops.formula import Attribute, Call, Operand, Result, parse

_BINARY = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "power": "**",
    "less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=",
    "logical_and": "and", "logical_or": "or",
}  # fmt: skip
_UNARY = {"negative": "-", "logical_not": "not "}
_FUNCTIONS = {"erf": "math.erf"}
# Functions of float32 numbers that loops over many of them can be vectorised with.
FAST: dict[str, Callable[..., Any]] = {"exp": float32_exp, "tanh": float32_tanh}


def number(value: float, dtype: np.dtype[Any]) -> str:
    """A literal of a dtype; a Python number is float64 in compiled code."""
    text = repr(float(value)) if np.isfinite(value) else "np.nan" if value != value else "np.inf"
    text = f"-{text}" if value == -np.inf else text
    return text if dtype == np.float64 else f"np.{dtype}({text})"


def scalar_type(dtype: np.dtype[Any]) -> str:
    """The function that makes a scalar of this dtype."""
    return f"np.{dtype}" if dtype.kind != "b" else "bool"


def float_type(node: BaseNode[Any, Any]) -> np.dtype[Any]:
    """The float type that the formula of a node computes in."""
    if node.dtype.kind == "f":
        return node.dtype
    return next((parent.dtype for parent in node.parents if parent.dtype.kind == "f"), np.dtype(np.float32))


def _call(function: str, arguments: list[str], dtype: np.dtype[Any]) -> str:
    if function in FAST and dtype == np.float32:
        return f"{FAST[function].__name__}({', '.join(arguments)})"
    if function in _BINARY:
        return f"({arguments[0]} {_BINARY[function]} {arguments[1]})"
    if function in _UNARY:
        return f"({_UNARY[function]}{arguments[0]})"
    if function == "where":
        return f"({arguments[1]} if {arguments[0]} else {arguments[2]})"
    return f"{_FUNCTIONS.get(function, f'np.{function}')}({', '.join(arguments)})"


def adds_up(step: str) -> bool:
    """Whether the step of a fold adds each element to the total, and does nothing else with that."""
    calls, total = parse(step), Attribute("total")
    return calls[-1].function == "add" and [a for call in calls for a in call.arguments].count(total) == 1


def formula_lines(
    formula: str,
    operands: Sequence[str],
    attribute: Callable[[str], str],
    dtype: np.dtype[Any],
    temporary: Callable[[], str],
    reordered: bool = False,
) -> tuple[list[str], str]:
    """The assignments that a formula needs for what it uses twice, and the expression of its value.

    `attribute` gives the text of a name that is not an operand; `temporary` makes names for intermediate results. Where
    the value is `reordered`, it is a sum of a total and a term, which may be added up in another order.
    """
    calls = parse(formula)
    uses = [0] * len(calls)
    for call in calls:
        for argument in call.arguments:
            if isinstance(argument, Result):
                uses[argument.position] += 1
    lines: list[str] = []
    results: list[str] = []
    for place, call in enumerate(calls):
        arguments = _arguments(call, operands, results, attribute, dtype)
        if reordered and place == len(calls) - 1:
            total = call.arguments.index(Attribute("total"))
            text = f"accumulated({arguments[total]}, {arguments[1 - total]})"
        else:
            text = _call(call.function, arguments, dtype)
        # A conditional evaluates one side; both are computed first, for loops without branches are vectorised.
        if uses[place] > 1 or (uses[place] == 1 and _chosen(calls, place)):
            name = temporary()
            lines.append(f"{name} = {text}")
            text = name
        results.append(text)
    value = results[-1]
    return lines, value[1:-1] if _wrapped(value) else value


def _chosen(calls: Sequence[Call], place: int) -> bool:
    return any(Result(place) in call.arguments[1:] for call in calls if call.function == "where")


def _arguments(
    call: Call, operands: Sequence[str], results: Sequence[str], attribute: Callable[[str], str], dtype: np.dtype[Any]
) -> list[str]:
    found = []
    for argument in call.arguments:
        match argument:
            case Operand(position):
                found.append(operands[position])
            case Result(position):
                found.append(results[position])
            case Attribute(name):
                found.append(attribute(name))
            case value:
                found.append(number(value, dtype))
    return found


def _wrapped(text: str) -> bool:
    """Whether one pair of parentheses encloses the whole text."""
    if not text.startswith("("):
        return False
    depth = 0
    for i, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return i == len(text) - 1
    return False
