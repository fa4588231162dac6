"""The elements of an evaluation plan: cells that hold node values, and the NumPy calls that fill them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from wyrm.errors import ShapeError, WyrmError
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode, explain
from wyrm.graph.index_operands import check_index_operands
from wyrm.ops.elementwise.formula import MASKS, FormulaCall, Operand, array_function, interpret, parse

if TYPE_CHECKING:
    from wyrm.engines.numpy.plan import EvaluationPlan

Call: TypeAlias = Callable[[], Any]
Owners: TypeAlias = "tuple[weakref.ref[EvaluationPlan], ...]"


class Cell:
    """The value of one node, the time stamp of its last possible change, and the plans that compute it."""

    __slots__ = ("owners", "stamp", "value")

    def __init__(self, value: Any, owners: Owners) -> None:
        self.value: Any = value
        self.stamp = 0
        self.owners = owners

    def plans(self) -> list[EvaluationPlan]:
        """Return the owners that still exist."""
        return [plan for owner in self.owners if (plan := owner()) is not None]


class CheckIndices:
    """A call that checks the bounds of an op's index operands."""

    __slots__ = ("node", "operands", "sizes")

    def __init__(self, node: BaseNode, operands: list[Cell], sizes: dict[type[Dim], int]) -> None:
        self.node, self.operands, self.sizes = node, operands, sizes

    def __call__(self) -> None:
        check_index_operands(self.node, [operand.value for operand in self.operands], self.sizes)


class Evaluate:
    """A call that evaluates an op with a row-sparse result and stores it in the op's cell."""

    __slots__ = ("cell", "node", "operands", "shape")

    def __init__(self, node: BaseNode, operands: list[Cell], shape: tuple[int, ...], cell: Cell) -> None:
        self.node, self.operands, self.shape, self.cell = node, operands, shape, cell

    def __call__(self) -> None:
        self.cell.value = self.node.evaluate(np, *[operand.value for operand in self.operands], shape=self.shape)


class EvaluateInto:
    """A call that evaluates an op and copies the result to the op's array."""

    __slots__ = ("evaluate", "node", "out")

    def __init__(self, node: BaseNode, operands: list[Cell], shape: tuple[int, ...], out: np.ndarray) -> None:
        self.node, self.out = node, out
        self.evaluate: Call
        if node.takes_rows:  # each run replaces row-sparse values, while arrays stay the same objects
            self.evaluate = lambda: node.evaluate(np, *[operand.value for operand in operands], shape=shape)
        else:
            self.evaluate = partial(node.evaluate, np, *[_read_only(each.value) for each in operands], shape=shape)

    def __call__(self) -> None:
        out = self.out
        try:
            result = self.evaluate()
        except Exception as error:
            if not isinstance(error, WyrmError):
                error.add_note(explain(self.node, f"failed with {type(error).__name__}"))
            raise
        if getattr(result, "shape", ()) != out.shape:
            raise ShapeError(
                explain(
                    self.node,
                    f"evaluate returned shape {np.shape(result)}, but shape_rule gives {out.shape} for this run",
                )
            )
        if getattr(result, "dtype", None) is out.dtype:
            out[...] = result  # twice as fast as np.copyto
        else:
            np.copyto(out, result)


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


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
