"""Order statistics and searching in sorted values, with NumPy's names and arguments."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from wyrm.errors import IndexOutOfRange, ShapeError
from wyrm.functions.operands import Numbers, Operand, as_node, as_nodes
from wyrm.functions.reduction_types import reduction
from wyrm.graph.axes import AxisLike, Dims, all_axes, normalize_axis, reduced_dims
from wyrm.graph.base import describe
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import FloatArray, Indices
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import S
from wyrm.ops.indexing.index import Index, as_indices
from wyrm.ops.indexing.rearranging import sized_axis, taken
from wyrm.ops.reducing.sorting import SearchSorted

__all__ = ["argpartition", "digitize", "median", "partition", "percentile", "quantile", "searchsorted"]

Side = Literal["left", "right"]


def _check_kth(name: str, x: Node, kth: int | Sequence[int], axis: int | None) -> None:
    size = x.size if axis is None else sized_axis(name, x, normalize_axis(axis, x.ndim))
    for each in np.atleast_1d(kth):
        if not -size <= operator.index(each) < size:
            raise IndexOutOfRange(f"{name}: {describe(x)}: kth={each} is out of range of {size} elements")


def partition(a: Operand, kth: int | Sequence[int], axis: int | None = -1) -> Node:
    """Return `a` with the element `kth` in its sorted position along `axis`, smaller ones before it, others after.

    All elements are sorted, one of the orders that NumPy allows. Raise `IndexOutOfRange` for a `kth` beyond the axis.

    >>> wy.partition([3.0, 1.0, 2.0], 1).forward().tolist()
    [1.0, 2.0, 3.0]
    """
    x = as_node(a)
    _check_kth("partition", x, kth, axis)
    return x.sort(axis)


def argpartition(a: Operand, kth: int | Sequence[int], axis: int | None = -1) -> IndexNode:
    """Return the indices that `partition` the elements of `a`; errors are the same.

    >>> wy.argpartition([3.0, 1.0, 2.0], 1).forward().tolist()
    [1, 2, 0]
    """
    x = as_node(a)
    _check_kth("argpartition", x, kth, axis)
    return x.argsort(axis)


def _between_sorted(name: str, a: Operand, positions: Any, axis: AxisLike, keepdims: bool) -> Node:
    """Return the values at fractional `positions` of the sorted elements along `axis`; NaN if one of them is NaN.

    `positions` is a function of the number of elements. The axes of its result come first in the result.
    """
    x = as_node(a)
    reduced = all_axes(axis, x.ndim)
    kept = [i for i in range(x.ndim) if i not in reduced]
    dims: Dims = x.dims
    count = int(np.prod([sized_axis(name, x, i) for i in reduced], dtype=np.int64))
    if not count:
        raise ShapeError(f"{name}: {describe(x)} has no value over an axis of size 0")
    shape: Any = (*(dims[i] for i in kept), count)
    rows = x.transpose([*kept, *reduced]).reshape(shape)
    ordered: Node = rows.sort(-1)
    at: FloatArray = np.asarray(positions(count))
    low = np.floor(at).astype(np.int64)
    fraction = at - low
    values = taken(ordered, low, len(kept))
    if fraction.any():
        above = taken(ordered, np.minimum(low + 1, count - 1), len(kept))
        halves = (fraction == 0.5).all()  # of two equal infinities, the difference is NaN, the sum is not
        between = (values + above) * 0.5 if halves else values + (above - values) * as_constant(fraction, x.dtype)
        values = between if fraction.all() else where(fraction > 0, between, values)
    beside: Any = (*shape[:-1], *[1] * at.ndim)
    largest = ordered[..., -1].reshape(beside)
    values = where(largest == largest, values, largest)  # NaN is the largest
    if at.ndim:
        values = values.transpose([*range(len(kept), values.ndim), *range(len(kept))])
    return values.reshape((*at.shape, *reduced_dims(dims, reduced, True))) if keepdims else values


@reduction
def median(a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return the median over `axis`: the middle one of the sorted elements, or the mean of the middle two.

    `axis` is an axis, several, or all by default. The gradient goes to these elements. The result is NaN where an
    element is. Raise `ShapeError` over an axis of size 0 or one whose size the data of each run decides.

    >>> wy.median([3.0, 1.0, 2.0, 10.0]).forward().item()
    2.5
    """
    return _between_sorted("median", a, lambda count: (count - 1) / 2, axis, keepdims)


def quantile(a: Operand, q: ArrayLike, axis: AxisLike = None, method: str = "linear", keepdims: bool = False) -> Node:
    """Return the quantiles `q`, numbers from 0 to 1, of the elements of `a` over `axis`, as `numpy.quantile`.

    `axis` is an axis, several, or all by default; the axes of `q` come first in the result. `method` is any of NumPy's
    names for the position of a quantile among the sorted elements; the result lies between the two elements beside it,
    which share the gradient. The result is NaN where an element is. Raise `ValueError` for a `q` out of range or an
    unknown method, and `ShapeError` over an axis of size 0 or one whose size the data of each run decides.

    >>> wy.quantile([1.0, 2.0, 4.0], [0.5, 0.75]).forward().tolist()
    [2.0, 3.0]
    """
    wanted = np.asarray(q, np.float64)

    def positions(count: int) -> FloatArray:
        position_of: Any = np.quantile  # whose types list the methods
        found: FloatArray = position_of(np.arange(count, dtype=float), wanted, method=method)
        return found  # of the numbers 0, 1, ..., a quantile is its own position

    return _between_sorted("quantile", a, positions, axis, keepdims)


def percentile(a: Operand, q: ArrayLike, axis: AxisLike = None, method: str = "linear", keepdims: bool = False) -> Node:
    """Return the percentiles `q`, numbers from 0 to 100: `quantile(a, q / 100)`, with its arguments and errors.

    >>> wy.percentile([1.0, 2.0, 4.0], 50).forward().item()
    2.0
    """
    return quantile(a, np.true_divide(q, 100), axis, method, keepdims)


@overload
def searchsorted(
    a: Operand, v: Node[Any, S], side: Side = "left", sorter: Indices | IndexNode | None = None
) -> IndexNode[S]: ...
@overload
def searchsorted(
    a: Operand, v: Numbers, side: Side = "left", sorter: Indices | IndexNode | None = None
) -> IndexNode: ...
def searchsorted(a: Operand, v: Operand, side: Side = "left", sorter: Indices | IndexNode | None = None) -> IndexNode:
    """Return for each element of `v` the index in the sorted `a` before which it belongs, from 0 to `len(a)`.

    Of equal elements, `side` chooses the place before the first ("left") or after the last ("right"). NaN is larger
    than any number. `sorter` holds indices that sort `a`; without it, an unsorted `a` gives meaningless indices. Raise
    `ShapeError` unless `a` has one axis.

    >>> wy.searchsorted([1.0, 2.0, 3.0], [0.5, 2.0, 9.0]).forward().tolist()
    [0, 1, 3]
    """
    ascending, values = as_nodes(a, v)
    if sorter is not None:
        ascending = Index(ascending, as_indices(sorter))
    return SearchSorted(ascending, values, side)


@overload
def digitize(x: Node[Any, S], bins: ArrayLike, right: bool = False) -> IndexNode[S]: ...
@overload
def digitize(x: Numbers, bins: ArrayLike, right: bool = False) -> IndexNode: ...
def digitize(x: Operand, bins: ArrayLike, right: bool = False) -> IndexNode:
    """Return for each element of `x` the number of the bin that holds it, as `numpy.digitize`.

    Bin i holds `bins[i - 1] <= x < bins[i]`, or `bins[i - 1] < x <= bins[i]` with `right`; bins may also fall. Raise
    `ValueError` unless they rise or fall.

    >>> wy.digitize([0.5, 1.0, 7.0], [0.0, 1.0, 2.0]).forward().tolist()
    [1, 2, 3]
    """
    values = as_node(x)
    edges = np.asarray(bins, values.dtype)
    steps = np.diff(edges)
    side: Side = "left" if right else "right"
    if (steps >= 0).all():
        return SearchSorted(as_constant(edges, values.dtype), values, side)
    if not (steps <= 0).all():
        raise ValueError(f"digitize: bins must rise or fall, not {edges.tolist()}")
    found = SearchSorted(as_constant(edges[::-1], values.dtype), values, side)
    return IndexConstant(np.arange(len(edges), -1, -1))[found]
