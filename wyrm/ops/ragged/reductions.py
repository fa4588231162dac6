"""The flat forms of ops that reduce and accumulate along the ragged axis.

A reduction is one by segments. What accumulates runs over all entries one after the other, and begins anew where a row
does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import flat_dims, ragged_axis
from wyrm.graph.leaves import Constant
from wyrm.graph.ragged_leaves import Parts
from wyrm.ops.control.digits import FromDigits, ToDigits
from wyrm.ops.elementwise.comparison import IsNan, where
from wyrm.ops.elementwise.elementwise import constant_like
from wyrm.ops.elementwise.rounding import Floor
from wyrm.ops.indexing.gather import IndexGather
from wyrm.ops.indexing.joining import stack
from wyrm.ops.indexing.segment import SegmentMax, segment_total
from wyrm.ops.products.prod import Prod
from wyrm.ops.ragged.forms import PartsOf, axis_of, flat_form, places_of, repeated
from wyrm.ops.ragged.shaping import one_axis
from wyrm.ops.reducing.base import Count, Reduction
from wyrm.ops.reducing.counting import CountTrue
from wyrm.ops.reducing.cumulative import CumProd, CumSum, IndexCumSum, Recurrence, Shift
from wyrm.ops.reducing.index_reduction import IndexMax, IndexMin, IndexSum
from wyrm.ops.reducing.positions import ArgMax
from wyrm.ops.reducing.reduction import Max, Mean, Min, Sum
from wyrm.ops.shaping.arange import positions
from wyrm.ops.shaping.shape import WithSizes, with_axes


def begins(x: Any, own: Parts, reverse: bool) -> Any:
    """Return a mask of the entries that a row begins with, that it ends with if `reverse`; it broadcasts to `x`."""
    first = repeated(own, own.starts)
    if reverse:
        first = first + repeated(own, own.lengths) - 1
    return with_axes(positions(own.rows.dims[0]) == first, (own.rows.dims[0], *(1 for _ in x.dims[1:])))


def _goes_on(x: Any, own: Parts, reverse: bool) -> Any:
    """Return for each entry 1 if another one of its row comes before it, after it with `reverse`, and else 0."""
    return where(begins(x, own, reverse), constant_like(0.0, x), constant_like(1.0, x)).broadcast_to(x.dims)


def row_products(x: Any, own: Parts, reverse: bool) -> Any:
    """Return the products of the entries of each row up to each one, from each one on with `reverse`."""
    # Adding -0.0 changes no number, not even the sign of a zero.
    return Recurrence(x, where(begins(x, own, reverse), x, -0.0), _goes_on(x, own, reverse), axis=0, reverse=reverse)


@flat_form(CumProd, CumSum, IndexCumSum, Recurrence, Shift)
def _cumulative(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if node.axis % node.ndim != 1:
        return one_axis(node, operands, parts)
    axis = ragged_axis(node.dims)
    assert axis is not None
    own, reverse, x = parts(axis), node.reverse, operands[0]
    if isinstance(node, Shift):
        shifted = Shift(x, axis=0, reverse=reverse, fill=node.fill)
        return where(begins(x, own, reverse), node.fill, shifted)
    if isinstance(node, CumProd):
        return row_products(x, own, reverse)
    if isinstance(node, IndexCumSum):
        # Integers lose nothing: what the entries before the row add up to is taken away again.
        sums = IndexCumSum(x, 0)
        return sums - IndexGather(sums - x, (repeated(own, own.starts),), (0,), 0)
    goes_on = _goes_on(x, own, reverse)
    if isinstance(node, CumSum):
        return Recurrence(goes_on, x, goes_on, axis=0, reverse=reverse)
    factor, term, *also = operands
    for each in also:
        goes_on = goes_on.minimum(each)
    return Recurrence(factor, term, goes_on, axis=0, reverse=reverse)


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


def _row_product(x: Any, own: Parts, parts: PartsOf) -> Any:
    # Of the products up to each entry, that at the row's last one; a row without entries has the product 1.
    last = where(begins(x, own, True), row_products(x, own, False), 0.0)
    return where(_has_entries(own, x), row_total(last, own, parts), 1.0)


def _has_entries(own: Parts, x: Any) -> Any:
    """Return a mask of the rows with entries, which broadcasts to a value of each row of `x`."""
    return with_axes(own.lengths > 0, (own.rows.within, *(1 for _ in x.dims[1:])))


_segments: Mapping[type[Any], Callable[[Any, Parts, PartsOf], Any]] = {
    Sum: row_total, Mean: _mean, Max: _largest, Min: _smallest, CountTrue: _count_true, Prod: _row_product,
}  # fmt: skip


# --- integers ---------------------------------------------------------------------------------------------------------

# A digit has 22 bits, and the last of three has the sign: the largest and the least integer of 64 bits are exact.
_DIGIT, _LEAST = 2.0**22, -(2**63)


@flat_form(ArgMax, IndexMax, IndexMin, IndexSum)
def _to_integers(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    axis, (x,) = ragged_axis(node.parents[0].dims), operands
    if node.axis != 1 or axis is None:
        return one_axis(node, operands, parts)
    return _with_ones(node, _integers[type(node)](x, parts(axis), parts))


def _integer_total(x: Any, own: Parts, parts: PartsOf) -> Any:
    digits = row_total(ToDigits(x, np.dtype(np.float64)), own, parts)
    low, middle, high = (digits[..., place] for place in range(3))
    # A sum of digits is carried on; like a sum of integers, that of the last ones wraps around.
    middle = middle + Floor(low / _DIGIT)
    high = high + Floor(middle / _DIGIT)
    sums = [(low, _DIGIT), (middle, _DIGIT), (high, 2.0**20)]
    return FromDigits(stack([each - Floor(each / size) * size for each, size in sums], axis=-1))


def _largest_integer(x: Any, own: Parts, parts: PartsOf) -> Any:
    return where(_has_entries(own, x), _largest_among(x, None, own, parts), _LEAST)


def _least_integer(x: Any, own: Parts, parts: PartsOf) -> Any:
    return -1 - _largest_integer(-1 - x, own, parts)


def _largest_among(x: Any, chosen: Any, own: Parts, parts: PartsOf) -> Any:
    """Return the largest integer of each row, among those that a mask selects unless it is None; 0 if there is none."""
    digits, found = ToDigits(x, np.dtype(np.float32)), []
    for place in (2, 1, 0):
        digit = digits[..., place]
        largest = _largest(digit if chosen is None else where(chosen, digit, -np.inf), own, parts)
        equal = digit == repeated(own, largest)
        chosen = equal if chosen is None else chosen & equal
        found.append(where(largest > -np.inf, largest, 0.0))
    return FromDigits(stack(found[::-1], axis=-1))


def first_place(chosen: Any, own: Parts, parts: PartsOf) -> Any:
    """Return the position in its row of the first entry that a mask selects, -1 for a row without one."""
    places = with_axes(places_of(own), (own.rows.dims[0], *(1 for _ in chosen.dims[1:])))
    return -1 - _largest_among(-1 - places, chosen, own, parts)


def _place_of_largest(x: Any, own: Parts, parts: PartsOf) -> Any:
    values = x.astype(np.float32) if x.dtype.kind == "b" else x
    largest = repeated(own, _largest(values, own, parts))
    return first_place((values == largest) | IsNan(values), own, parts)


_integers: Mapping[type[Any], Callable[[Any, Parts, PartsOf], Any]] = {
    ArgMax: _place_of_largest, IndexMax: _largest_integer, IndexMin: _least_integer, IndexSum: _integer_total,
}  # fmt: skip
