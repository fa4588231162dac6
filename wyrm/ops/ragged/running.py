"""The flat forms of ops that accumulate along the ragged axis, each row by itself.

They run over all entries one after the other, and begin again where a row does.
"""

from __future__ import annotations

from typing import Any

from wyrm.graph.axes import ragged_axis
from wyrm.graph.ragged_leaves import Parts
from wyrm.ops.ragged.forms import PartsOf, flat_form, repeated
from wyrm.ops.ragged.shaping import one_axis
from wyrm.ops.reducing.cumulative import CumSum, Recurrence, Shift
from wyrm.ops.shaping.arange import positions
from wyrm.ops.shaping.shape import with_axes


def _continues(x: Any, own: Parts, reverse: bool) -> Any:
    """Return for each entry 1 if another entry of its row comes before it, after it with `reverse`, and else 0."""
    first = repeated(own, own.starts)
    if reverse:
        first = first + repeated(own, own.lengths) - 1
    continues = (positions(own.rows.dims[0]) != first).astype(x.dtype)
    return with_axes(continues, (own.rows.dims[0], *(1 for _ in x.dims[1:]))).broadcast_to(x.dims)


@flat_form(CumSum, Recurrence, Shift)
def _cumulative(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if node.axis % node.ndim != 1:
        return one_axis(node, operands, parts)
    axis = ragged_axis(node.dims)
    assert axis is not None
    own, reverse = parts(axis), node.reverse
    *factor, x = operands
    continues = _continues(x, own, reverse)
    if isinstance(node, Shift):
        shifted = Shift(x, axis=0, reverse=reverse, fill=node.fill)
        return shifted * continues + (1.0 - continues) * node.fill if node.fill else shifted * continues
    before = continues * factor[0] if factor else continues
    return Recurrence(before, x, axis=0, reverse=reverse)
