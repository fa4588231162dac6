"""NumPy calls that evaluate formulas, bound to preallocated arrays: a run allocates nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, TypeVar

import numpy as np

from wyrm.graph.base import BaseNode
from wyrm.ops.elementwise.formula import MASKS, FormulaCall, Operand, array_function, interpret, parse

T = TypeVar("T")

# A positional `out` is faster, but NumPy deprecates it for these two functions.
_KEYWORD_OUT = frozenset(["maximum", "minimum"])


class Scratch:
    """Intermediate arrays, one per shape, dtype and position in a formula, which all nodes of a plan share."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[Any, ...], np.ndarray] = {}

    def array(self, shape: tuple[int, ...], dtype: np.dtype, position: int) -> np.ndarray:
        key = (shape, dtype, position)
        if key not in self._arrays:
            self._arrays[key] = np.empty(shape, dtype)
        return self._arrays[key]


@cache
def single_call(formula: str) -> tuple[Callable[..., Any], tuple[int, ...]] | None:
    """Return the NumPy function and operand positions of a formula that is one call of operands, else None."""
    function, arguments = parse(formula)[-1]
    positions = tuple(argument.position for argument in arguments if isinstance(argument, Operand))
    if len(parse(formula)) > 1 or len(positions) < len(arguments) or function == "where" or function in _KEYWORD_OUT:
        return None
    return array_function(np, function), positions


def formula_calls(
    node: BaseNode,
    operands: Sequence[T],
    number: np.dtype,
    constant: Callable[[np.ndarray], T],
    result: Callable[[int, str, Sequence[T]], T],
) -> list[tuple[str, tuple[T, ...], T]]:
    """Return the calls of a node's formula, as NumPy's name, operands and result; the last one makes the value.

    `constant` returns the value of a number of dtype `number`, `result` that of a call at a position.
    """
    assert node.formula is not None
    calls: list[tuple[str, tuple[T, ...], T]] = []

    def scalar(value: float) -> T:
        return constant(np.asarray(value, number))

    def apply(position: int, call: FormulaCall, arguments: list[T]) -> T:
        made = result(position, call.function, arguments)
        calls.append((call.function, tuple(arguments), made))
        return made

    interpret(node.formula, operands, lambda name: scalar(getattr(node, name)), scalar, apply)
    return calls


def bound_calls(
    node: BaseNode, operands: list[np.ndarray], out: np.ndarray, scratch: Scratch
) -> list[Callable[[], Any]]:
    """Return calls without arguments that evaluate the node's formula on `operands` and write the result to `out`."""
    assert node.formula is not None
    floats = [operand.dtype for operand in operands if operand.dtype.kind == "f"]
    number = node.dtype if node.dtype.kind == "f" else floats[0] if floats else np.dtype(np.float32)
    last = len(parse(node.formula)) - 1

    def result(position: int, name: str, arguments: Sequence[np.ndarray]) -> np.ndarray:
        if position == last:
            return out
        shape = np.broadcast_shapes(*(argument.shape for argument in arguments))
        return scratch.array(shape, np.dtype(np.bool_) if name in MASKS else number, position)

    bound: list[Callable[[], Any]] = []
    for name, arguments, into in formula_calls(node, operands, number, lambda array: array, result):
        if name == "where":
            condition, chosen, other = arguments
            bound += [partial(np.copyto, into, other), partial(np.copyto, into, chosen, where=condition)]
        elif name in _KEYWORD_OUT:
            bound.append(partial(array_function(np, name), *arguments, out=into))
        else:
            bound.append(partial(array_function(np, name), *arguments, into))
    return bound
