"""What the calls of a formula mean to NumPy, bound to arrays that are there already: nothing is allocated in a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.node.base import BaseNode
from wyrm.ops.formula import MASKS, Operand, array_function, parse

# The positional place for the result is faster, but NumPy is giving it up for these two.
_KEYWORD_OUT = frozenset(["maximum", "minimum"])


class Scratch:
    """Intermediate arrays, one per shape, dtype and place in a formula, shared by all steps of a plan."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[Any, ...], NDArray[Any]] = {}

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], place: int) -> NDArray[Any]:
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
    node: BaseNode[Any, Any], operands: list[NDArray[Any]], out: NDArray[Any], scratch: Scratch
) -> list[Callable[[], Any]]:
    """Calls without arguments that compute the node's formula from `operands` into `out`."""
    assert node.formula is not None
    floats = [operand.dtype for operand in operands if operand.dtype.kind == "f"]
    number = node.dtype if node.dtype.kind == "f" else floats[0] if floats else np.dtype(np.float32)
    calls = parse(node.formula)
    results: list[NDArray[Any]] = []
    steps: list[Callable[[], Any]] = []
    for place, call in enumerate(calls):
        arguments = call.resolve(node, operands, results, lambda value: np.asarray(value, number))
        if place == len(calls) - 1:
            result = out
        else:
            shape = np.broadcast_shapes(*(argument.shape for argument in arguments))
            dtype = np.dtype(np.bool_) if call.function in MASKS else number
            result = scratch.array(shape, dtype, place)
        results.append(result)
        if call.function == "where":
            condition, chosen, other = arguments
            steps += [partial(np.copyto, result, other), partial(np.copyto, result, chosen, where=condition)]
        else:
            function = array_function(np, call.function)
            if call.function in _KEYWORD_OUT:
                steps.append(partial(function, *arguments, out=result))
            else:
                steps.append(partial(function, *arguments, result))
    return steps
