"""Order statistics, covariance, histograms and convolution, with NumPy's names and arguments."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from wyrm.errors import IndexOutOfRange, ShapeError
from wyrm.functions.operands import Operand, S, as_node, as_nodes, reduction
from wyrm.functions.rearranging import pad
from wyrm.graph.axes import AxisLike, Dims, all_axes, normalize_axis, reduced_dims
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import FloatArray, Indices
from wyrm.graph.weak_types import default_type
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.index import Index, as_indices
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.indexing.rearranging import sized_axis, taken
from wyrm.ops.indexing.taking import TakeAlongAxis
from wyrm.ops.reducing.positions import TopIndices
from wyrm.ops.reducing.sorting import SearchSorted
from wyrm.support.options import choice, whole

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


def top_k(x: Operand, k: int, axis: int = -1) -> tuple[Node, IndexNode]:
    """Return the `k` largest elements along `axis`, the largest first, and their indices, as `jax.lax.top_k` does.

    Of equal elements the first comes first, and NaN counts as the largest. The gradient of each value goes to the
    element that it came from. Raise `ShapeError` unless `k` is from 1 to the size of the axis, which must be known.

    >>> values, indices = wy.top_k([[1.0, 3.0, 2.0]], 2)
    >>> values.forward().tolist(), indices.forward().tolist()
    ([[3.0, 2.0]], [[1, 2]])
    """
    node = as_node(x)
    indices = TopIndices(node, whole("k", k, 1), axis)
    return TakeAlongAxis(node, indices, axis), indices


def sorted_rows(name: str, a: Operand, axis: AxisLike) -> tuple[Dims, list[int], tuple[int, ...], Node]:
    """Return the axes of `a`, the positions of those kept and of those reduced, and the elements.

    The elements have the axes that are kept, and are sorted along a last one.
    """
    x = as_node(a)
    reduced = all_axes(axis, x.ndim)
    kept = [i for i in range(x.ndim) if i not in reduced]
    dims: Dims = x.dims
    count = int(np.prod([sized_axis(name, x, i) for i in reduced], dtype=np.int64))
    if not count:
        raise ShapeError(f"{name}: {describe(x)} has no value over an axis of size 0")
    shape: Any = (*(dims[i] for i in kept), dims[reduced[0]] if len(reduced) == 1 else count)
    ordered: Node = x.transpose([*kept, *reduced]).reshape(shape).sort(-1)
    return dims, kept, reduced, ordered


def check_quantiles(name: str, q: ArrayLike) -> FloatArray:
    """Return the quantiles as an array; raise `TypeError` for a node."""
    if isinstance(q, BaseNode):
        raise TypeError(
            f"{name}: q holds numbers, not {describe(q)}; the loss of a quantile is "
            f"wy.losses.quantile(prediction, target, level=0.5)"
        )
    found: FloatArray = np.asarray(q, np.float64)
    return found


def _between_sorted(name: str, a: Operand, positions: Any, axis: AxisLike, keepdims: bool) -> Node:
    """Return the values at fractional `positions` of the sorted elements along `axis`; NaN if one of them is NaN.

    `positions` is a function of the number of elements. The axes of its result come first in the result.
    """
    dims, kept, reduced, ordered = sorted_rows(name, a, axis)
    count = ordered.shape[-1]
    at: FloatArray = np.asarray(positions(count))
    low = np.floor(at).astype(np.int64)
    fraction = at - low
    values = taken(ordered, low, len(kept))
    if fraction.any():
        above = taken(ordered, np.minimum(low + 1, count - 1), len(kept))
        halves = (fraction == 0.5).all()  # of two equal infinities, the difference is NaN, the sum is not
        between = (values + above) * 0.5 if halves else values + (above - values) * as_constant(fraction, ordered.dtype)
        values = between if fraction.all() else where(fraction > 0, between, values)
    beside: Any = (*(dims[i] for i in kept), *[1] * at.ndim)
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
    wanted = check_quantiles("quantile", q)

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
    return quantile(a, check_quantiles("percentile", q) / 100, axis, method, keepdims)


def searchsorted(
    a: Operand, v: Operand[S], side: Side = "left", sorter: Indices | IndexNode | None = None
) -> IndexNode[S]:
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


def digitize(x: Operand[S], bins: ArrayLike, right: bool = False) -> IndexNode[S]:
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
    places: Any = IndexConstant(np.arange(len(edges), -1, -1))
    counted: IndexNode[S] = places[found]
    return counted


ConvolveMode = Literal["full", "same", "valid"]


def cov(m: Operand, y: Operand | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Node:
    """Return the covariances of the variables in the rows of `m`, or with `rowvar=False` in its columns.

    `y` holds more variables. The sums are divided by `n - ddof`; `ddof` is by default 0 with `bias`, else 1. Raise
    `ShapeError` for more than two axes, or unless `n > ddof`.

    >>> wy.cov([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]).forward().tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    nodes = as_nodes(m) if y is None else as_nodes(m, y)
    parts = []
    for x in nodes:
        if x.ndim > 2:
            raise ShapeError(f"cov: {describe(x)} has more than two axes")
        rows = x if x.ndim == 2 else x.reshape((1, -1))
        parts.append(rows if rowvar or x.ndim < 2 else rows.T)
    rows = concatenate(parts, 0) if len(parts) > 1 else parts[0]
    count = sized_axis("cov", rows, 1)
    freedom = count - ((0 if bias else 1) if ddof is None else operator.index(ddof))
    if freedom <= 0:
        raise ShapeError(f"cov: {describe(rows)}: {count} observations are too few to divide by {freedom}")
    distance = rows - rows.mean(1, keepdims=True)
    return (distance @ distance.T / float(freedom)).squeeze()


def corrcoef(x: Operand, y: Operand | None = None, rowvar: bool = True) -> Node:
    """Return the correlation coefficients of the variables; the arguments and errors are those of `cov`.

    They are clipped to -1 and 1, as in NumPy.

    >>> wy.corrcoef([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]).forward().tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    covariance = cov(x, y, rowvar)
    if not covariance.ndim:
        return covariance / covariance
    deviation = covariance.diagonal().sqrt()
    return (covariance / deviation.expand_dims(1) / deviation).clip(-1.0, 1.0)


def bincount(x: IndexNode | Indices, weights: Operand | None = None, minlength: int = 0) -> Node:
    """Return for each integer from 0 to `minlength - 1` the sum of the weights where `x` holds it.

    Without weights it is the count of such elements, of a weak float type. The result has `minlength` elements; where
    NumPy would return more, it is an error. Raise `ShapeError` unless `x` has one axis, of the same size as the
    weights, and `IndexOutOfRange` for an integer below 0 or above `minlength - 1`.

    >>> wy.bincount([0, 2, 2], weights=[1.0, 2.0, 3.0], minlength=3).forward().tolist()
    [1.0, 0.0, 5.0]
    """
    rows = as_indices(x)
    if rows.ndim != 1:
        raise ShapeError(f"bincount: {describe(rows)} must have one axis")
    one = as_constant(1.0, default_type(rows))
    values = one.broadcast_to(rows.dims) if weights is None else as_node(weights)
    return as_constant(0.0, values.dtype).broadcast_to((operator.index(minlength),)).scatter_add(rows, values)


def histogram(
    a: Operand,
    bins: int | ArrayLike = 10,
    range: tuple[float, float] | None = None,  # NumPy's name
    density: bool = False,
    weights: Operand | None = None,
) -> tuple[Node, np.ndarray]:
    """Return the sum of the weights of the elements of `a` in each bin, and the edges of the bins.

    `bins` holds the rising edges, or is a number of equal bins over `range`. A bin holds its left edge, the last one
    also its right edge; elements beyond the edges do not count. Weights are 1 by default, and the counts floats. With
    `density` the integral over the bins is 1. Raise `ValueError` for a number of bins without a range: the data would
    decide the edges.

    >>> counts, edges = wy.histogram([0.5, 1.5, 1.7], bins=[0.0, 1.0, 2.0])
    >>> counts.forward().tolist()
    [1.0, 2.0]
    """
    x = as_node(a)
    if isinstance(bins, int | np.integer) and range is None:
        raise ValueError("histogram: the data would decide the edges; pass range=(low, high), or the edges as bins")
    edges: Any = np.histogram_bin_edges(np.zeros(0), bins, range)
    values = x.ravel()
    bounds = as_constant(np.asarray(edges, x.dtype), x.dtype)
    bin_of = SearchSorted(bounds[1:-1], values, "right")
    weight = as_constant(1.0, x.dtype).broadcast_to(values.dims) if weights is None else as_node(weights).ravel()
    counts: Any = (values >= bounds[0]) & (values <= bounds[-1])
    counted: Node = where(counts, weight, 0.0)
    sums: Node = as_constant(0.0, weight.dtype).broadcast_to((len(edges) - 1,)).scatter_add(bin_of, counted)
    return (sums / np.diff(edges) / sums.sum() if density else sums), edges


def convolve(a: Operand, v: Operand, mode: ConvolveMode = "full") -> Node:
    """Return the convolution of two arrays of one axis, as `numpy.convolve`.

    `mode` is "full" for all `n + m - 1` elements, "same" for the middle ones, as many as the longer array has, or
    "valid" for those where the shorter one lies within the longer. Raise `ShapeError` unless both have one axis and
    elements.

    >>> wy.convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5]).forward().tolist()
    [0.0, 1.0, 2.5, 4.0, 1.5]
    """
    longer, shorter = _with_elements("convolve", a, v)
    if len(shorter) > len(longer):
        longer, shorter = shorter, longer
    return _slid(longer, shorter[::-1], mode)


def correlate(a: Operand, v: Operand, mode: ConvolveMode = "valid") -> Node:
    """Return the cross-correlation of two arrays of one axis, as `numpy.correlate`: `sum(a[n + k] * v[n])` over n.

    The modes and errors are those of `convolve`.

    >>> wy.correlate([1.0, 2.0, 3.0], [0.0, 1.0]).forward().tolist()
    [2.0, 3.0]
    """
    x, y = _with_elements("correlate", a, v)
    return _slid(x, y, mode) if len(x) >= len(y) else _slid(y, x, mode)[::-1]


def _with_elements(name: str, a: Operand, v: Operand) -> tuple[Node, Node]:
    x, y = as_nodes(a, v)
    for each in (x, y):
        if each.ndim != 1 or not sized_axis(name, each, 0):
            raise ShapeError(f"{name}: {describe(each)} must have one axis, with elements")
    return x, y


def _slid(longer: Node, shorter: Node, mode: ConvolveMode) -> Node:
    """Return the products of `shorter` with the parts of `longer` as it slides along it."""
    width = len(shorter)
    ends = {"full": (width - 1, width - 1), "same": (width // 2, width - width // 2 - 1), "valid": (0, 0)}
    choice("mode", mode, ends)
    padded = pad(longer, ends[mode])
    windows = np.arange(len(padded) - width + 1)[:, None] + np.arange(width)
    return taken(padded, windows, 0) @ shorter
