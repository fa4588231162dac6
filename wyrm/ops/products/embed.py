"""Token plus position embeddings as one op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, overload

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims, axis_size, unify
from wyrm.graph.base import ZERO, Gradient, format_dims, label
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import Array, AtLeast1D, Bs, Indices, K, M, N, Shaped
from wyrm.ops.composed import Composed
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, common_dtype, method, operand
from wyrm.ops.gradients.accumulation import unbroadcast
from wyrm.ops.indexing.index import Index, RowGradient, as_indices


class Embed(
    HasIndexOperands[tuple[Left_co, Node, IndexNode], Axes],
    Composed[tuple[Left_co, Node, IndexNode], Axes],
    Generic[Left_co, Axes],
):
    """`table[indices] + positions[:time]`: token embeddings plus position embeddings.

    `table` has the axes (tokens, width), `positions` (context, width), `indices` (..., time). Time is at most context,
    and both need a size unless they are the same axis. The gradient of the table is row-sparse.

    Raise `ShapeError` for axes that do not match, `DTypeError` for float indices and for tables of two float dtypes,
    `IndexOutOfRange` for an index beyond the table.
    """

    __slots__ = ()
    _own: Embed[Any, Axes]

    def __init__(self, table: Node, positions: Node, indices: IndexNode | Indices) -> None:
        self._construct((table, positions, as_indices(indices)))

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(2, self.parents[0].dims[0]),)

    def dtype_rule(self) -> np.dtype:
        return common_dtype(self.parents[:2])

    def shape_rule(self) -> Dims:
        table, positions, indices = self.parents
        if len(table.dims) != 2 or len(positions.dims) != 2 or not indices.dims:
            raise ShapeError(
                f"the tables must have two axes and the indices at least one, not {format_dims(table.dims)}, "
                f"{format_dims(positions.dims)} and {format_dims(indices.dims)}"
            )
        time, context = indices.dims[-1], positions.dims[0]
        if time != context:
            length, context_length = axis_size(time), axis_size(context)
            if length is None or context_length is None:
                raise ShapeError(f"the time axis, {time!r}, and the axis of positions, {context!r}, need sizes")
            if length > context_length:
                raise ShapeError(
                    f"a sequence of {length} is longer than the {context_length} positions of {label(positions)}"
                )
        return (*indices.dims, unify(table.dims[1], positions.dims[1]))

    def compose(self, table: Node, positions: Node, indices: IndexNode) -> Node:
        rows: Node = Index(table, indices)
        return rows + _first(positions, indices)

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Node | None:
        return None if any(mapped[:2]) else Embed(*operands)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        table, positions, indices = self.parents
        used = _first(positions, indices)
        used_gradient = unbroadcast(gradient, used.dims)
        (positions_gradient,) = (used_gradient,) if used is positions else used.vjp(used_gradient)
        return RowGradient(gradient, indices, table.dims), positions_gradient, ZERO


def _first(positions: Node, indices: IndexNode) -> Node:
    """Return `positions[:time]`, whose first axis has no name unless it is that of the indices."""
    time, context = indices.dims[-1], positions.dims[0]
    if axis_size(time) != axis_size(context):
        return positions[: axis_size(time)]
    same = type(time) is type(context) or isinstance(time, int)
    return positions if same else positions.reshape((axis_size(context), positions.dims[1]))


@overload
def embed(table: Shaped[L, AtLeast1D], indices: IndexNode | Indices, positions: Node | Array) -> Embed[L]: ...
@overload
def embed(
    table: Shaped[L, tuple[M, N]], indices: IndexNode[tuple[*Bs]], positions: Shaped[Any, tuple[K, N]]
) -> Embed[L, tuple[*Bs, N]]: ...
@method("embed", function=False)
def embed(table: Any, indices: Any, positions: object) -> Embed:
    """Return `table[indices] + positions[:time]`, of the axes (..., time, width).

    `table` has the axes (tokens, width), `indices` (..., time), `positions` (context, width). See `Embed` for the
    errors.

    >>> table, positions = wy.Constant([[1.0], [2.0]]), wy.Constant([[10.0], [20.0], [30.0]])
    >>> table.embed(wy.IndexConstant([1, 0]), positions).forward().tolist()
    [[12.0], [21.0]]
    """
    return Embed(table, operand(positions, table), indices)
