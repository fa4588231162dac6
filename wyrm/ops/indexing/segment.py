"""Reductions of the rows that have the same segment id."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, unify
from wyrm.graph.base import ZERO, Gradient, format_dims
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.leaves import as_constant
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray, Indices, IntegerArray
from wyrm.ops.elementwise.elementwise import Axes, Left_co, float_dtype
from wyrm.ops.indexing.index import Index, Rows_co, as_indices


def segment_total(data: Node, ids: IndexNode | Indices, segments: Axis) -> Node:
    """Return the sum of the rows of each segment, zeros for a segment without rows."""
    zeros = as_constant(0.0, data.dtype).broadcast_to((segments, *data.dims[1:]))
    total: Node = zeros.scatter_add(as_indices(ids), data)
    return total


class SegmentMax(HasIndexOperands[tuple[Left_co, Rows_co], Axes], Node[tuple[Left_co, Rows_co], Axes]):
    """The elementwise maximum of the rows of each segment, -inf for a segment without rows; see `wyrm.segment_max`."""

    __slots__ = ("segments",)
    _own: SegmentMax[Any, Any, Axes]
    segments: Axis

    def __init__(self, x: Node, ids: IndexNode | Indices, segments: Axis) -> None:
        self._construct((x, as_indices(ids)), segments=segments)

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(1, self.segments),)

    def dtype_rule(self) -> np.dtype:
        return float_dtype(self.parents[0])

    def shape_rule(self) -> Dims:
        x, ids = self.parents
        if not x.dims or len(ids.dims) != 1:
            raise ShapeError(f"takes rows and one id for each, not {format_dims(x.dims)} and {format_dims(ids.dims)}")
        unify(x.dims[0], ids.dims[0])
        return (self.segments, *x.dims[1:])

    def evaluate(self, xp: ArrayNamespace, *operands: Any, shape: tuple[int, ...]) -> Any:
        x, ids = operands
        lowest: Any = xp.zeros(shape, self.dtype) - math.inf
        if hasattr(lowest, "at"):
            return lowest.at[ids].max(x)
        np.maximum.at(lowest, ids, x)
        return lowest

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        x, ids = self.parents
        largest = x.equal(Index(self.erase(), ids)).astype(self.dtype)
        share = gradient / segment_total(largest, ids, self.segments).maximum(1.0)
        return largest * Index(share, ids), ZERO


@LOOPS.register(SegmentMax)
class _SegmentMaxLoops(ByKernel):
    @staticmethod
    def kernel(x: FloatArray, ids: IntegerArray, out: FloatArray) -> None:
        out[:] = -math.inf
        for i in range(x.shape[0]):
            row = out[ids[i]]
            for j in range(x.shape[1]):
                if x[i, j] > row[j] or x[i, j] != x[i, j]:
                    row[j] = x[i, j]

    def kernel_arguments(self, node: SegmentMax, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        x, ids = operands
        width = math.prod(out.shape[1:])
        return x.reshape(len(ids), width), ids, out.reshape(len(out), width)
