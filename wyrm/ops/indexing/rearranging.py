"""Methods that repeat elements and read diagonals, composed of other ops."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Dims, axis_size, normalize_axis
from wyrm.graph.base import describe
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.node import Node
from wyrm.graph.typing import IntegerArray, Shaped
from wyrm.ops.elementwise.elementwise import L, S, method
from wyrm.ops.indexing.gather import Gather
from wyrm.ops.shaping.arange import positions


def sized_axis(name: str, x: Node, axis: int) -> int:
    """Return the size of an axis; raise `ShapeError`, naming the function, if the data of each run decides it."""
    dims: Dims = x.dims
    size = axis_size(dims[axis])
    if size is None:
        raise ShapeError(
            f"{name}: {describe(x)}: the data of each run decides the size of axis {axis}, {dims[axis]!r}; "
            f"give it a size"
        )
    return size


def taken(x: Node, indices: IntegerArray, axis: int) -> Node:
    """Return the elements at static indices from 0 on along an axis."""
    return Gather(x, (IndexConstant(indices),), (axis,), axis)


@method("repeat")
def repeat(x: Shaped[L, S], repeats: int | Sequence[int] | IntegerArray, axis: int | None = None) -> Node:
    """Return `x` with each element repeated along `axis`, or all elements in row-major order if it is None.

    `repeats` is one count for all elements, or one for each position along the axis. Raise `ShapeError` if their number
    differs, or if the data of each run decides the size of the axis.

    >>> wy.Constant([1.0, 2.0]).repeat(2).forward().tolist(), wy.Constant([1.0, 2.0]).repeat([1, 2]).forward().tolist()
    ([1.0, 1.0, 2.0, 2.0], [1.0, 2.0, 2.0])
    """
    node: Any = x
    if axis is None:
        node, axis = node.ravel(), 0
    axis = normalize_axis(axis, node.ndim)
    size = sized_axis("repeat", node, axis)
    counts = as_array(repeats, "repeat: repeats")
    if not counts.size:  # a list without elements has no integers to tell its type
        counts = counts.astype(np.int64)
    if counts.ndim > 1 or counts.dtype.kind not in "iu" or (counts < 0).any():
        raise ShapeError(f"repeat: {describe(node)}: repeats must be counts of at least 0, not {repeats!r}")
    if counts.size != 1:
        if counts.size != size:
            raise ShapeError(f"repeat: {describe(node)}: {counts.size} counts for an axis of {size} elements")
        return taken(node, np.repeat(np.arange(size), counts), axis)
    count, dims = int(counts.reshape(())), tuple(node.dims)
    wide = node.expand_dims(axis + 1).broadcast_to((*dims[: axis + 1], count, *dims[axis + 1 :]))
    result: Node = wide.reshape((*dims[:axis], size * count, *dims[axis + 1 :]))
    return result


@method("diagonal")
def diagonal(x: Shaped[L, S], offset: int = 0, axis1: int = 0, axis2: int = 1) -> Node:
    """Return the diagonals of the matrices over two axes of `x`, which become its last axis.

    With an `offset` above 0 it is a diagonal above the main one, below 0 one below. Raise `ShapeError` for fewer than
    two axes, for equal axes, or if the data of each run decides the size of one; the main diagonal of matrices that
    have the same axis twice may have any size.

    >>> wy.Constant([[1.0, 2.0], [3.0, 4.0]]).diagonal().forward().tolist()
    [1.0, 4.0]
    """
    node: Any = x
    if node.ndim < 2:
        raise ShapeError(f"diagonal: {describe(node)} has fewer than two axes")
    first, second = normalize_axis(axis1, node.ndim), normalize_axis(axis2, node.ndim)
    if first == second:
        raise ShapeError(f"diagonal: {describe(node)}: axis1 and axis2 are both axis {first}")
    offset = operator.index(offset)
    if not offset and node.dims[first] == node.dims[second]:
        both = positions(node.dims[first])
        return Gather(node, (both, both), (first, second), node.ndim - 2)
    rows, columns = sized_axis("diagonal", node, first), sized_axis("diagonal", node, second)
    start = max(-offset, 0)
    along = np.arange(start, max(start, min(rows, columns - offset)))
    indices = (IndexConstant(along), IndexConstant(along + offset))
    return Gather(node, indices, (first, second), node.ndim - 2)


@method("trace")
def trace(x: Shaped[L, S], offset: int = 0, axis1: int = 0, axis2: int = 1) -> Node:
    """Return the sums of the diagonals of the matrices over two axes of `x`; arguments and errors as in `diagonal`.

    >>> wy.Constant([[1.0, 2.0], [3.0, 4.0]]).trace().forward().item()
    5.0
    """
    diagonals: Any = diagonal(x, offset, axis1, axis2)
    total: Node = diagonals.sum(-1)
    return total
