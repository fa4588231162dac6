"""The flat forms of ops that order the entries of each row, and of those that take entries at positions in it."""

from __future__ import annotations

from typing import Any

from wyrm.graph.axes import flat_dims, ragged_axis
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.node import IndexNode
from wyrm.graph.ragged_leaves import Parts
from wyrm.ops.elementwise.comparison import IsNan, where
from wyrm.ops.elementwise.integers import IndexWhere
from wyrm.ops.indexing.gather import Gather, IndexGather, Place
from wyrm.ops.indexing.taking import IndexTakeAlongAxis, PlaceAlongAxis, TakeAlongAxis
from wyrm.ops.ragged.forms import PartsOf, axis_of, flat_form, repeated
from wyrm.ops.ragged.reductions import first_place
from wyrm.ops.ragged.shaping import one_axis
from wyrm.ops.reducing.running_extremes import RunningArg
from wyrm.ops.reducing.sorting import ArgSort
from wyrm.ops.shaping.arange import positions
from wyrm.ops.shaping.shape import WithSizes, with_axes


def _beside(by_entry: Any, x: Any) -> Any:
    """Return a value of each entry with the axes that broadcast to those of `x`."""
    return with_axes(by_entry, (by_entry.dims[0], *(1 for _ in x.dims[1:])))


def _sorted(x: Any, own: Parts, parts: PartsOf) -> Any:
    """Return which entry stands at each place once the entries of each row are sorted, equal ones in their order."""
    # What fills arrays up stays where it is: each such entry is a row by itself.
    return ArgSort(x, 0, parts.counted(own, repeated(own, own.starts), positions(own.rows.dims[0])))


@flat_form(ArgSort, RunningArg)
def _order(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if node.axis != 1:
        return one_axis(node, operands, parts)
    (x,), axis = operands, ragged_axis(node.dims)
    assert axis is not None
    own = parts(axis)
    found = _sorted(x, own, parts) if isinstance(node, ArgSort) else _running(node, x, own, parts)
    return found - _beside(repeated(own, own.starts), found)


def _running(node: RunningArg, x: Any, own: Parts, parts: PartsOf) -> Any:
    """Return the entry that is the greatest one of its row up to each entry."""
    value = x if node.greatest else -1 - x if isinstance(x, IndexNode) else -x
    # The places after sorting increase with the rows, so that no entry of a row before is the greatest one.
    found: Any = RunningArg(_sorted(_sorted(value, own, parts), own, parts), 0, True)
    if isinstance(x, IndexNode):
        return found
    first = first_place(IsNan(x), own, parts)
    return where(IsNan(TakeAlongAxis(x, found, 0)), repeated(own, first) + _beside(repeated(own, own.starts), x), found)


@flat_form(IndexTakeAlongAxis, PlaceAlongAxis, TakeAlongAxis)
def _along_axis(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    if node.axis != 1:
        return one_axis(node, operands, parts)
    (x, indices), (given, places), axis = operands, node.parents, axis_of(node)
    assert axis is not None
    own, source = parts(axis), node.to if isinstance(node, PlaceAlongAxis) else given.dims
    by_entry, of_entries = ragged_axis(places.dims) is not None, ragged_axis(source) is not None
    if of_entries:
        chosen: list[Any] = [_entries_at(indices, by_entry, own, parts)]
    else:
        chosen = [_beside(own.rows, indices), indices]
    rest = source[2:]
    for number, each in enumerate(rest, 1):
        chosen.append(with_axes(positions(each), (each, *(1 for _ in rest[number:]))))
    axes = tuple(range(len(chosen)))
    if not isinstance(node, PlaceAlongAxis):
        return (IndexGather if isinstance(x, IndexNode) else Gather)(x, chosen, axes, 0)
    values = parts.counted(own, x, 0.0) if by_entry else x
    return WithSizes(Place(values, chosen, axes, 0, flat_dims(source)), (own.rows, own.lengths))


def _entries_at(indices: Any, by_entry: bool, own: Parts, parts: PartsOf) -> Any:
    """Return the entries at positions in their rows; a position beyond its row gives -1, which no index may be."""
    starts, lengths = (
        _beside(repeated(own, each) if by_entry else each, indices) for each in (own.starts, own.lengths)
    )
    inside = (indices >= 0) & (indices < lengths)
    beyond: Any = IndexConstant(-1)
    found: Any = IndexWhere(inside, indices + starts, beyond, "entries, -1 for a position beyond its row,")
    return parts.counted(own, found, 0) if by_entry else found
