"""What the calls of a formula mean to NumPy, bound to arrays that are there already: nothing is allocated in a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from wyrm.node.base import BaseNode
from wyrm.ops.formula import MASKS, FormulaCall, Operand, array_function, interpret, parse

# The positional place for the result is faster, but NumPy is giving it up for these two.
_KEYWORD_OUT = frozenset(["maximum", "minimum"])


class Scratch:
    """Intermediate arrays, one per shape, dtype and place in a formula, shared by all steps of a plan."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[Any, ...], np.ndarray] = {}

    def array(self, shape: tuple[int, ...], dtype: np.dtype, place: int) -> np.ndarray:
        key = (shape, dtype, place)
        if key not in self._arrays:
            self._arrays[key] = np.empty(shape, dtype)
        return self._arrays[key]


@cache
def single_call(formula: str) -> tuple[Callable[..., Any], tuple[int, ...]] | None:
    """The function of NumPy and the positions of the operands, for a formula that is one call of operands alone."""
    function, arguments = parse(formula)[-1]
    places = tuple(argument.position for argument in arguments if isinstance(argument, Operand))
    if len(parse(formula)) > 1 or len(places) < len(arguments) or function == "where" or function in _KEYWORD_OUT:
        return None
    return array_function(np, function), places


def formula_steps(
    node: BaseNode, operands: list[np.ndarray], out: np.ndarray, scratch: Scratch
) -> list[Callable[[], Any]]:
    """Calls without arguments that compute the node's formula from `operands` into `out`."""
    assert node.formula is not None
    floats = [operand.dtype for operand in operands if operand.dtype.kind == "f"]
    number = node.dtype if node.dtype.kind == "f" else floats[0] if floats else np.dtype(np.float32)
    last = len(parse(node.formula)) - 1
    steps: list[Callable[[], Any]] = []

    def constant(value: float) -> np.ndarray:
        return np.asarray(value, number)

    def apply(place: int, call: FormulaCall, arguments: list[np.ndarray]) -> np.ndarray:
        result = out
        if place < last:
            shape = np.broadcast_shapes(*(argument.shape for argument in arguments))
            result = scratch.array(shape, np.dtype(np.bool_) if call.function in MASKS else number, place)
        if call.function == "where":
            condition, chosen, other = arguments
            steps.extend([partial(np.copyto, result, other), partial(np.copyto, result, chosen, where=condition)])
        elif call.function in _KEYWORD_OUT:
            steps.append(partial(array_function(np, call.function), *arguments, out=result))
        else:
            steps.append(partial(array_function(np, call.function), *arguments, result))
        return result

    interpret(node.formula, operands, lambda name: constant(getattr(node, name)), constant, apply)
    return steps
