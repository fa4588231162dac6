"""The flat forms of ops that accumulate along the ragged axis, each row by itself.

They run over all entries one after the other, and begin anew where a row does.
"""

from __future__ import annotations

from typing import Any

from wyrm.graph.axes import ragged_axis
from wyrm.graph.ragged_leaves import Parts
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import constant_like
from wyrm.ops.indexing.gather import IndexGather
from wyrm.ops.ragged.forms import PartsOf, flat_form, repeated
from wyrm.ops.ragged.shaping import one_axis
from wyrm.ops.reducing.cumulative import CumProd, CumSum, IndexCumSum, Recurrence, Shift
from wyrm.ops.shaping.arange import positions
from wyrm.ops.shaping.shape import with_axes


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
