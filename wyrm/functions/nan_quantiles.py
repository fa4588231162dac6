"""Medians, quantiles and percentiles without the NaN, with NumPy's names and arguments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wyrm.functions.operands import Operand, reduction
from wyrm.functions.order_statistics import check_quantiles, sorted_rows
from wyrm.graph.axes import AxisLike, reduced_dims
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import Node
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.index import Index
from wyrm.ops.reducing.counting import CountTrue

__all__ = ["nanmedian", "nanpercentile", "nanquantile"]


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
