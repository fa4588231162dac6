"""Reductions by segments: the sum, mean, maximum, minimum and softmax of the rows with the same segment id."""

from __future__ import annotations

from typing import Any, TypeAlias

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, Dim
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.typing import D1, Bs, IntegerArray, N
from wyrm.ops.indexing.index import Index, as_indices
from wyrm.ops.indexing.segment import SegmentMax, segment_total
from wyrm.support.options import whole

__all__ = ["segment_max", "segment_mean", "segment_min", "segment_softmax", "segment_sum"]

Ids: TypeAlias = IndexNode[tuple[N]] | IntegerArray


def _segments(caller: str, data: Any, num_segments: Any) -> Axis:
    """Return the axis of segments; raise an error naming `caller` unless `data` is a float node with rows."""
    if not isinstance(data, Node) or data.dtype.kind != "f":
        what = describe(data) if isinstance(data, BaseNode) else type(data).__name__
        raise DTypeError(f"{caller} takes a float node, not {what}")
    if not data.dims:
        raise ShapeError(f"{caller}: {describe(data)} is a scalar and has no rows")
    if isinstance(num_segments, Dim):
        return num_segments
    return whole(f"{caller}: num_segments", num_segments, 0)


def segment_sum(data: Tensor[N, *Bs], segment_ids: Ids[N], num_segments: D1 | int) -> Tensor[D1, *Bs]:
    """Return the sum of the rows of each segment: row s of the result is the sum of all `data[i]` with id s.

    `data` has the axes (rows, ...), `segment_ids`, an index node or an array of integers in any order, the axis of
    rows, and the result (num_segments, ...). `num_segments` is a `Dim` or an integer. A segment without rows has sum 0.
    The names are JAX's; `data = nodes[senders]` and `segment_sum(data, receivers, num_nodes)` pass messages along
    the edges of a graph.

    Raise `IndexOutOfRange` for an id below 0 or not below `num_segments`, where JAX drops the row, `ShapeError` where
    axes do not match, and `DTypeError` for data that is not float.

    >>> wy.segment_sum(wy.Constant([1.0, 2.0, 4.0]), np.array([2, 0, 2]), 3).forward().tolist()
    [2.0, 0.0, 5.0]
    """
    return segment_total(data, segment_ids, _segments("segment_sum", data, num_segments))


def segment_mean(data: Tensor[N, *Bs], segment_ids: Ids[N], num_segments: D1 | int) -> Tensor[D1, *Bs]:
    """Return the mean of the rows of each segment, 0 for a segment without rows.

    Arguments and errors are those of `segment_sum`.

    >>> wy.segment_mean(wy.Constant([1.0, 2.0, 4.0]), np.array([2, 0, 2]), 3).forward().tolist()
    [2.0, 0.0, 2.5]
    """
    rows: Any = data
    segments = _segments("segment_mean", rows, num_segments)
    ids = as_indices(segment_ids)
    ones: Any = as_constant(1.0, rows.dtype).broadcast_to(ids.dims)
    counts = segment_total(ones, ids, segments).maximum(1.0).reshape((segments, *[1] * (rows.ndim - 1)))
    result: Tensor[D1, *Bs] = segment_total(rows, ids, segments) / counts
    return result


def segment_max(data: Tensor[N, *Bs], segment_ids: Ids[N], num_segments: D1 | int) -> Tensor[D1, *Bs]:
    """Return the elementwise maximum of the rows of each segment, -inf for a segment without rows, as JAX.

    Equal maxima share the gradient. Arguments and errors are those of `segment_sum`.

    >>> wy.segment_max(wy.Constant([1.0, 2.0, 4.0]), np.array([2, 0, 2]), 3).forward().tolist()
    [2.0, -inf, 4.0]
    """
    return SegmentMax(data, segment_ids, _segments("segment_max", data, num_segments))


def segment_min(data: Tensor[N, *Bs], segment_ids: Ids[N], num_segments: D1 | int) -> Tensor[D1, *Bs]:
    """Return the elementwise minimum of the rows of each segment, inf for a segment without rows, as JAX.

    Equal minima share the gradient. Arguments and errors are those of `segment_sum`.

    >>> wy.segment_min(wy.Constant([1.0, 2.0, 4.0]), np.array([2, 0, 2]), 3).forward().tolist()
    [2.0, inf, 1.0]
    """
    segments = _segments("segment_min", data, num_segments)
    highest: Node = SegmentMax(-data, segment_ids, segments)
    return -highest


def segment_softmax(data: Tensor[N, *Bs], segment_ids: Ids[N], num_segments: Dim | int) -> Tensor[N, *Bs]:
    """Return the softmax over the rows of each segment, elementwise, of the axes of `data`.

    The attention weights of a graph's edges, with the receivers as segments (Veličković et al., "Graph attention
    networks", 2018). Arguments and errors are those of `segment_sum`.

    >>> wy.segment_softmax(wy.Constant([1e4, 1e4, 5.0]), np.array([1, 1, 0]), 2).forward().tolist()
    [0.5, 0.5, 1.0]
    """
    rows: Any = data
    segments = _segments("segment_softmax", rows, num_segments)
    ids = as_indices(segment_ids)
    # A shift changes no quotient, so it has no gradient.
    shifts: Any = SegmentMax(rows.stop_gradient(), ids, segments)
    exponentials = (rows - Index(shifts, ids)).exp()
    result: Tensor[N, *Bs] = exponentials / Index(segment_total(exponentials, ids, segments), ids)
    return result
