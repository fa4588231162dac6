"""Labels of classes without those that a loss ignores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import IndexNode
from wyrm.graph.typing import Array, Indices, IntegerArray
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.indexing.index import as_indices


class CountedLabels(HasIndexOperands[tuple[IndexNode], Axes], IndexNode[Axes]):
    """The labels, with `ignore_index` replaced by class 0, so that they select a class in every row.

    `classes` is the axis of classes, which has at least one. Labels are in 0..classes - 1 or `ignore_index`.
    """

    __slots__ = ("classes", "ignore_index")
    written = "cross_entropy"
    classes: Axis
    ignore_index: int

    def __init__(self, labels: IndexNode | Indices, classes: Axis, ignore_index: int) -> None:
        self._construct((as_indices(labels),), classes=classes, ignore_index=ignore_index)

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(0, self.classes, self.ignore_index),)

    @property
    def within(self) -> Axis | None:
        """The axis that the values index, or None if it may have size 0, which has no class 0."""
        return self.classes if axis_size(self.classes) else None

    def shape_rule(self) -> Dims:
        if axis_size(self.classes) == 0:
            raise ShapeError("the axis of classes has size 0")
        dims: Dims = self.parents[0].dims
        return dims

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Array:
        labels = operands[0]
        return xp.where(labels == self.ignore_index, labels.dtype.type(0), labels)

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        return "rows" if rows[0] == 0 else None

    def batched(self, operands: Sequence[IndexNode], mapped: Sequence[bool]) -> IndexNode | None:
        return CountedLabels(operands[0], self.classes, self.ignore_index)


@LOOPS.register(CountedLabels)
class _CountedLabelsLoops(ByKernel):
    @staticmethod
    def kernel(labels: IntegerArray, out: IntegerArray, ignored: int) -> None:
        for i in range(out.size):
            out[i] = 0 if labels[i] == ignored else labels[i]

    def kernel_arguments(
        self, node: CountedLabels, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        return operands[0].reshape(-1), out.reshape(-1), node.ignore_index


__all__ = ["CountedLabels"]
