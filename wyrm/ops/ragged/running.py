"""The flat forms of ops that accumulate along the ragged axis, each row by itself.

They run over all entries one after the other, and begin anew where a row does.
"""

from __future__ import annotations

from typing import Any

from wyrm.graph.axes import ragged_axis
from wyrm.graph.leaves import as_constant
from wyrm.graph.ragged_leaves import Parts
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.ragged.forms import PartsOf, flat_form, repeated
from wyrm.ops.ragged.shaping import one_axis
from wyrm.ops.reducing.cumulative import CumSum, Recurrence, Shift
from wyrm.ops.shaping.arange import positions
from wyrm.ops.shaping.shape import with_axes


def begins(x: Any, own: Parts, reverse: bool) -> Any:
    """Return a mask of the entries that a row begins with, that it ends with if `reverse`; it broadcasts to `x`."""
    first = repeated(own, own.starts)
    if reverse:
        first = first + repeated(own, own.lengths) - 1
    return with_axes(positions(own.rows.dims[0]) == first, (own.rows.dims[0], *(1 for _ in x.dims[1:])))


def anew(factor: Any, term: Any, own: Parts, reverse: bool, *also: Any) -> Any:
    """Return the recurrence of each row, in which an infinity or a NaN stays; `also` may begin anew within a row."""
    starts = begins(term, own, reverse).astype(term.dtype).broadcast_to(term.dims)
    for each in also:
        starts = starts.maximum(each)
    return Recurrence(factor, term, starts, axis=0, reverse=reverse)


@flat_form(CumSum, Recurrence, Shift)
def _cumulative(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if node.axis % node.ndim != 1:
        return one_axis(node, operands, parts)
    axis = ragged_axis(node.dims)
    assert axis is not None
    own, reverse, x = parts(axis), node.reverse, operands[0]
    if isinstance(node, Shift):
        shifted = Shift(x, axis=0, reverse=reverse, fill=node.fill)
        return where(begins(x, own, reverse), node.fill, shifted)
    if isinstance(node, CumSum):
        return anew(as_constant(1.0, x.dtype).broadcast_to(x.dims), x, own, reverse)
    factor, term, *also = operands
    return anew(factor, term, own, reverse, *also)
