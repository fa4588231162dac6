"""Covariance, histograms and convolution, with NumPy's names and arguments."""

from __future__ import annotations

import operator
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from wyrm.errors import ShapeError
from wyrm.functions.operands import Operand, as_node, as_nodes
from wyrm.functions.padding import pad
from wyrm.graph.base import describe
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import Indices
from wyrm.graph.weak_types import default_type
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.index import as_indices
from wyrm.ops.indexing.rearranging import sized_axis, taken
from wyrm.ops.indexing.slicing import concatenate
from wyrm.ops.reducing.sorting import SearchSorted
from wyrm.support.options import choice

__all__ = ["bincount", "convolve", "corrcoef", "correlate", "cov", "histogram"]

Mode = Literal["full", "same", "valid"]


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


def convolve(a: Operand, v: Operand, mode: Mode = "full") -> Node:
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


def correlate(a: Operand, v: Operand, mode: Mode = "valid") -> Node:
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


def _slid(longer: Node, shorter: Node, mode: Mode) -> Node:
    """Return the products of `shorter` with the parts of `longer` as it slides along it."""
    width = len(shorter)
    ends = {"full": (width - 1, width - 1), "same": (width // 2, width - width // 2 - 1), "valid": (0, 0)}
    choice("mode", mode, ends)
    padded = pad(longer, ends[mode])
    windows = np.arange(len(padded) - width + 1)[:, None] + np.arange(width)
    return taken(padded, windows, 0) @ shorter
