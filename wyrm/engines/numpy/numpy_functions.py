"""NumPy calls that evaluate formulas, bound to preallocated arrays: a run allocates nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from wyrm.graph.base import BaseNode
from wyrm.ops.elementwise.formula import MASKS, FormulaCall, Operand, array_function, interpret, parse

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


def formula_steps(
    node: BaseNode, operands: list[np.ndarray], out: np.ndarray, scratch: Scratch
) -> list[Callable[[], Any]]:
    """Return calls without arguments that evaluate the node's formula on `operands` and write the result to `out`."""
    assert node.formula is not None
    floats = [operand.dtype for operand in operands if operand.dtype.kind == "f"]
    number = node.dtype if node.dtype.kind == "f" else floats[0] if floats else np.dtype(np.float32)
    last = len(parse(node.formula)) - 1
    steps: list[Callable[[], Any]] = []

    def constant(value: float) -> np.ndarray:
        return np.asarray(value, number)

    def apply(position: int, call: FormulaCall, arguments: list[np.ndarray]) -> np.ndarray:
        result = out
        if position < last:
            shape = np.broadcast_shapes(*(argument.shape for argument in arguments))
            result = scratch.array(shape, np.dtype(np.bool_) if call.function in MASKS else number, position)
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
