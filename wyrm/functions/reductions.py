"""Reductions that are made of others: counts, ranges, averages, without NaN, and by segments."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.creation import full_like
from wyrm.functions.operands import Operand, as_node, as_nodes, reduction
from wyrm.functions.order_statistics import check_quantiles, sorted_rows
from wyrm.graph.axes import Axis, AxisLike, Dim, normalize_axis, reduced_dims
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.typing import D1, AxisSize, Bs, IntegerArray, N
from wyrm.ops.elementwise.comparison import IsNan, where
from wyrm.ops.indexing.index import Index, as_indices
from wyrm.ops.indexing.segment import SegmentMax, segment_total
from wyrm.ops.reducing.counting import CountTrue
from wyrm.support.options import whole


def count_nonzero(a: Operand | IndexNode, axis: AxisLike = None, *, keepdims: bool = False) -> IndexNode:
    """Return the number of elements over `axis` that are true, or not 0, as integers.

    >>> wy.count_nonzero(wy.Constant([0.0, 2.0, 3.0])).forward().item()
    2
    """
    if isinstance(a, IndexNode):
        return CountTrue(a != 0, axis, keepdims)
    node = as_node(a)
    return CountTrue(node if node.dtype.kind == "b" else node.not_equal(0.0), axis, keepdims)


def ptp(a: Operand, axis: AxisLike = None, *, keepdims: bool = False) -> Node:
    """Return the maximum less the minimum over `axis`. Raise `ShapeError` over an axis of size 0.

    >>> wy.ptp(wy.Constant([1.0, 4.0, 2.0])).forward().item()
    3.0
    """
    node = as_node(a)
    return node.max(axis=axis, keepdims=keepdims) - node.min(axis=axis, keepdims=keepdims)


@overload
def average(
    a: Operand,
    axis: AxisLike = None,
    weights: Operand | None = None,
    returned: Literal[False] = False,
    *,
    keepdims: bool = False,
) -> Node: ...
@overload
def average(
    a: Operand,
    axis: AxisLike = None,
    weights: Operand | None = None,
    *,
    returned: Literal[True],
    keepdims: bool = False,
) -> tuple[Node, Node]: ...
def average(
    a: Operand,
    axis: AxisLike = None,
    weights: Operand | None = None,
    returned: bool = False,
    *,
    keepdims: bool = False,
) -> Node | tuple[Node, Node]:
    """Return the mean over `axis`, weighted by `weights` of the shape of `a`, or with one axis that is `axis`.

    With `returned=True` the sum of the weights is returned too. Raise `ShapeError` for weights of another shape.

    >>> wy.average(wy.Constant([1.0, 4.0]), weights=np.array([3.0, 1.0])).forward().item()
    1.75
    """
    node = as_node(a)
    if weights is None:
        mean: Node = node.mean(axis=axis, keepdims=keepdims)
        return (mean, full_like(mean, node.size / max(1, mean.size))) if returned else mean
    scale = as_nodes(node, weights)[1]
    if scale.ndim != node.ndim:
        if scale.ndim != 1 or not isinstance(axis, int | np.integer):
            raise ShapeError(
                f"average: the weights must have the shape of {describe(node)}, or one axis that is the axis of the "
                f"mean; they have {scale.ndim} axes"
            )
        position = normalize_axis(int(axis), node.ndim)
        scale = scale.reshape([-1, *[1] * (node.ndim - position - 1)])
    scale = scale.broadcast_to(node.dims)
    total: Node = scale.sum(axis=axis, keepdims=keepdims)
    result: Node = (node * scale).sum(axis=axis, keepdims=keepdims) / total
    return (result, total) if returned else result


# --- without NaN ------------------------------------------------------------------------------------------------------


def _replaced(a: Operand, value: float) -> tuple[Node, Node]:
    """Return the elements with NaN replaced by `value`, and the mask of NaN."""
    node = as_node(a)
    missing: Node = IsNan(node)
    return where(missing, value, node), missing


def _count_present(missing: Node, node: Node, axis: AxisLike, keepdims: bool) -> Node:
    """Return the number of elements that are not NaN, as floats."""
    present: Node = (~missing).astype(node.dtype)
    return present.sum(axis=axis, keepdims=keepdims)


@reduction
def nansum(a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return the sum over `axis` without the NaN; no gradient goes to them.

    >>> wy.nansum(wy.Constant([1.0, np.nan])).forward().item()
    1.0
    """
    return _replaced(a, 0.0)[0].sum(axis=axis, keepdims=keepdims)


@reduction
def nanprod(a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return the product over `axis` without the NaN; no gradient goes to them.

    >>> wy.nanprod(wy.Constant([3.0, np.nan])).forward().item()
    3.0
    """
    return _replaced(a, 1.0)[0].prod(axis=axis, keepdims=keepdims)


@reduction
def nanmean(a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return the mean over `axis` without the NaN; NaN where all elements are.

    >>> wy.nanmean(wy.Constant([1.0, 3.0, np.nan])).forward().item()
    2.0
    """
    node, missing = _replaced(a, 0.0)
    return node.sum(axis=axis, keepdims=keepdims) / _count_present(missing, node, axis, keepdims)


@reduction
def nanmax(a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return the maximum over `axis` without the NaN; NaN where all elements are.

    Raise `ShapeError` over an axis of size 0.

    >>> wy.nanmax(wy.Constant([1.0, 3.0, np.nan])).forward().item()
    3.0
    """
    node, missing = _replaced(a, -math.inf)
    return where(missing.all(axis=axis, keepdims=keepdims), math.nan, node.max(axis=axis, keepdims=keepdims))


@reduction
def nanmin(a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return the minimum over `axis` without the NaN; NaN where all elements are.

    Raise `ShapeError` over an axis of size 0.

    >>> wy.nanmin(wy.Constant([1.0, 3.0, np.nan])).forward().item()
    1.0
    """
    node, missing = _replaced(a, math.inf)
    return where(missing.all(axis=axis, keepdims=keepdims), math.nan, node.min(axis=axis, keepdims=keepdims))


def nanvar(a: Operand, axis: AxisLike = None, ddof: int = 0, keepdims: bool = False) -> Node:
    """Return the variance over `axis` without the NaN; NaN where at most `ddof` elements are left.

    >>> wy.nanvar(wy.Constant([1.0, 3.0, np.nan])).forward().item()
    1.0
    """
    node, missing = _replaced(a, 0.0)
    count = _count_present(missing, node, axis, True)
    distance = where(missing, 0.0, node - node.sum(axis=axis, keepdims=True) / count)
    left = _count_present(missing, node, axis, keepdims) - float(ddof)
    total: Node = distance.square().sum(axis=axis, keepdims=keepdims)
    return total / where(left > 0.0, left, math.nan)


def nanstd(a: Operand, axis: AxisLike = None, ddof: int = 0, keepdims: bool = False) -> Node:
    """Return the standard deviation over `axis` without the NaN: the square root of `nanvar`.

    >>> wy.nanstd(wy.Constant([1.0, 3.0, np.nan])).forward().item()
    1.0
    """
    return nanvar(a, axis, ddof, keepdims).sqrt()


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


def segment_sum(data: Tensor[N, *Bs], segment_ids: Ids[N], num_segments: AxisSize[D1]) -> Tensor[D1, *Bs]:
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


def segment_mean(data: Tensor[N, *Bs], segment_ids: Ids[N], num_segments: AxisSize[D1]) -> Tensor[D1, *Bs]:
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


def segment_max(data: Tensor[N, *Bs], segment_ids: Ids[N], num_segments: AxisSize[D1]) -> Tensor[D1, *Bs]:
    """Return the elementwise maximum of the rows of each segment, -inf for a segment without rows, as JAX.

    Equal maxima share the gradient. Arguments and errors are those of `segment_sum`.

    >>> wy.segment_max(wy.Constant([1.0, 2.0, 4.0]), np.array([2, 0, 2]), 3).forward().tolist()
    [2.0, -inf, 4.0]
    """
    return SegmentMax(data, segment_ids, _segments("segment_max", data, num_segments))


def segment_min(data: Tensor[N, *Bs], segment_ids: Ids[N], num_segments: AxisSize[D1]) -> Tensor[D1, *Bs]:
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


@reduction
def nanmedian(a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return the median over `axis` without the NaN; NaN where all elements are. Errors and gradients as in `median`.

    >>> wy.nanmedian(wy.Constant([3.0, np.nan, 1.0, 2.0])).forward().item()
    2.0
    """
    return _quantiles("nanmedian", a, np.float64(0.5), axis, "linear", keepdims)


def nanquantile(
    a: Operand, q: ArrayLike, axis: AxisLike = None, method: str = "linear", keepdims: bool = False
) -> Node:
    """Return the quantiles `q` of the elements over `axis` that are not NaN, as `numpy.nanquantile`.

    The result is NaN where all elements are; axes, methods, gradients and errors are as in `quantile`.

    >>> wy.nanquantile(wy.Constant([1.0, np.nan, 2.0, 4.0]), [0.5, 0.75]).forward().tolist()
    [2.0, 3.0]
    """
    return _quantiles("nanquantile", a, check_quantiles("nanquantile", q), axis, method, keepdims)


def nanpercentile(
    a: Operand, q: ArrayLike, axis: AxisLike = None, method: str = "linear", keepdims: bool = False
) -> Node:
    """Return the percentiles `q`, numbers from 0 to 100: `nanquantile(a, q / 100)`, with its arguments and errors.

    >>> wy.nanpercentile(wy.Constant([1.0, np.nan, 2.0, 4.0]), 50).forward().item()
    2.0
    """
    return _quantiles("nanpercentile", a, check_quantiles("nanpercentile", q) / 100, axis, method, keepdims)


def _quantiles(name: str, a: Operand, q: Any, axis: AxisLike, method: str, keepdims: bool) -> Node:
    dims, kept, reduced, ordered = sorted_rows(name, a, axis)
    most = ordered.shape[-1]
    # By the number of elements that are not NaN, which come first: the positions of the two beside each quantile, and
    # the fraction of the way between them.
    low, high = (np.zeros((most + 1, q.size), np.int64) for _ in range(2))
    fraction = np.zeros((most + 1, q.size))
    position_of: Any = np.quantile  # whose types list the methods
    for count in range(1, most + 1):
        at = position_of(np.arange(count, dtype=float), q.ravel(), method=method)
        low[count] = np.floor(at)
        high[count] = np.minimum(low[count] + 1, count - 1)
        fraction[count] = at - low[count]
    known: Any = CountTrue(ordered == ordered, -1, False)
    below = ordered.take_along_axis(IndexConstant(low)[known], -1)
    above = ordered.take_along_axis(IndexConstant(high)[known], -1)
    share: Node = Index(as_constant(fraction, ordered.dtype), known)
    # Of two equal infinities, the difference is NaN, the sum is not.
    between = where(share.equal(0.5), (below + above) * 0.5, below + (above - below) * share)
    values: Any = where(share > 0.0, between, below)
    beside: Any = (*(dims[i] for i in kept), *q.shape)
    values = values.reshape(beside)
    if q.ndim:
        values = values.transpose([*range(len(kept), values.ndim), *range(len(kept))])
    result: Node = values.reshape((*q.shape, *reduced_dims(dims, reduced, True))) if keepdims else values
    return result
