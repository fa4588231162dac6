"""The elements of an evaluation plan: cells that hold node values, and the calls that fill them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from wyrm.errors import ShapeError, WyrmError
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode, explain
from wyrm.graph.index_operands import check_index_operands

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
