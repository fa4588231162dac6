"""The flat forms of reductions along the ragged axis: reductions by segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import flat_dims, ragged_axis
from wyrm.graph.leaves import Constant
from wyrm.graph.ragged_leaves import Parts
from wyrm.ops.control.digits import FromDigits
from wyrm.ops.indexing.segment import SegmentMax, segment_total
from wyrm.ops.ragged.forms import PartsOf, axis_of, flat_form
from wyrm.ops.reducing.base import Count, Reduction
from wyrm.ops.reducing.counting import CountTrue
from wyrm.ops.reducing.index_reduction import IndexSum
from wyrm.ops.reducing.reduction import Max, Mean, Min, Sum
from wyrm.ops.shaping.shape import WithSizes, with_axes


@flat_form(Reduction, CountTrue)
def _reduction(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    ((given,), (x,)) = node.parents, operands
    axis, rest = ragged_axis(given.dims), tuple([each - 1 for each in node.axis if each > 1])
    if axis is None:
        raise ShapeError(f"is not defined along {axis_of(node)!r}")
    if 1 not in node.axis:
        if 0 in node.axis:
            raise ShapeError(
                f"reduces the axis of rows, along which the entries of {axis!r} do not stand side by side: reduce "
                f"axis 1, or both axes"
            )
        return node.rebuild((x,), axis=rest)
    if 0 in node.axis and not parts.padded:
        if isinstance(node, Mean):
            return _with_ones(node, _mean_of(Sum(x, (0, *rest)), Count(x, (0, *rest))))
        return _with_ones(node, node.rebuild((x,), axis=(0, *rest), keepdims=False))
    own = parts(axis)
    if isinstance(node, Count) and 0 in node.axis:
        entries = own.lengths.sum(axis=0).astype(node.dtype)
        return entries * Count(x, rest) if rest else entries
    inner = node.rebuild((x,), axis=rest, keepdims=False) if rest else x
    reduced = next((_segments[cls] for cls in type(node).__mro__ if cls in _segments), None)
    if reduced is None:
        raise ShapeError(f"is not defined along {axis!r}, whose rows have different lengths")
    by_row = reduced(inner, own, parts)
    if 0 not in node.axis:
        return _with_ones(node, by_row)
    # Of all entries: rows first, so that only their entries count.
    if isinstance(node, Mean):
        total = Sum(row_total(inner, own, parts), 0)
        return _with_ones(node, _mean_of(total, own.lengths.sum(axis=0).astype(total.dtype)))
    every: Any = IndexSum(by_row, 0) if isinstance(node, CountTrue) else type(node)(by_row, 0)
    return _with_ones(node, every)


def _with_ones(node: Any, reduced: Any) -> Any:
    """Return a reduced value with the axes of size 1 that `keepdims` keeps."""
    return with_axes(reduced, flat_dims(node.dims)) if node.keepdims else reduced


def row_total(x: Any, own: Parts, parts: PartsOf) -> Any:
    # The lengths give the axis of rows its size.
    return WithSizes(segment_total(parts.counted(own, x, 0.0), own.rows, own.rows.within), (own.lengths,))


def _mean_of(total: Any, number: Any) -> Any:
    """Return the mean of so many entries; of no entry it is 0, so that a step without any is one that moves nothing."""
    return total / number.maximum(1.0)


def _mean(x: Any, own: Parts, parts: PartsOf) -> Any:
    number = with_axes(own.lengths.astype(x.dtype), (own.rows.within, *(1 for _ in x.dims[1:])))
    return _mean_of(row_total(x, own, parts), number)


def _largest(x: Any, own: Parts, parts: PartsOf) -> Any:
    return WithSizes(SegmentMax(parts.counted(own, x, -np.inf), own.rows, own.rows.within), (own.lengths,))


def _smallest(x: Any, own: Parts, parts: PartsOf) -> Any:
    return -_largest(-x, own, parts)


def _count_true(x: Any, own: Parts, parts: PartsOf) -> Any:
    # Sums of float64 are exact up to 2**53. `x` holds numbers if it was reduced before.
    total = row_total(x.astype(np.float64), own, parts).expand_dims(-1)
    return FromDigits(total * Constant([1.0, 0.0, 0.0], dtype=np.float64))


_segments: Mapping[type[Any], Callable[[Any, Parts, PartsOf], Any]] = {
    Sum: row_total, Mean: _mean, Max: _largest, Min: _smallest, CountTrue: _count_true,
}  # fmt: skip
