"""Ops of rows of different lengths: the lengths and positions of entries, and entries one after the other."""

from __future__ import annotations

from typing import Any, ClassVar

from wyrm.graph.axes import Dims, flat_dims, ragged_axis
from wyrm.graph.base import BaseNode
from wyrm.graph.node import IndexNode, Node
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.ragged.forms import PartsOf, flat_form, places_of, repeated
from wyrm.ops.shaping.shape import Unchanged


class _OfLengths(IndexNode[Axes], abstract=True):
    """An op whose value follows from the lengths of its operand's rows alone."""

    __slots__ = ()
    shape_only: ClassVar[bool] = True

    def __init__(self, x: BaseNode) -> None:
        self._construct((x,))

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        return dims[:2]


class RowLengthsOf(_OfLengths[Axes], abstract=True):
    """The number of entries of each row."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        return super().shape_rule()[:1]


class EntryPositions(_OfLengths[Axes], abstract=True):
    """The position of each entry in its row; counted from the row's last entry with `from_end`."""

    __slots__ = ("from_end",)
    from_end: bool

    def __init__(self, x: BaseNode, from_end: bool = False) -> None:
        self._construct((x,), from_end=from_end)


class EntryRowNumbers(_OfLengths[Axes], abstract=True):
    """The number of its row for each entry."""

    __slots__ = ()


@flat_form(_OfLengths)
def _of_lengths(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    axis = ragged_axis(node.parents[0].dims)
    assert axis is not None
    own = parts(axis)
    if isinstance(node, RowLengthsOf):
        return own.lengths
    if isinstance(node, EntryRowNumbers):
        return own.rows
    places = places_of(own)
    # Entries that only fill an array up have position 0, so that a loop along rows starts again at each of them.
    return parts.counted(own, repeated(own, own.lengths) - 1 - places if node.from_end else places, 0)


class _Entries(Unchanged[Any, Axes], abstract=True):
    """What `EntriesOf` and `IndexEntriesOf` share."""

    __slots__ = ()

    def __init__(self, x: BaseNode) -> None:
        self._construct((x,))

    def shape_rule(self) -> Dims:
        return flat_dims(self.parents[0].dims)


class _Rows(Unchanged[Any, Axes], abstract=True):
    """What `RowsOf` and `IndexRowsOf` share."""

    __slots__ = ("to",)
    to: Dims

    def __init__(self, x: BaseNode, to: Dims) -> None:
        self._construct((x,), to=to)

    def shape_rule(self) -> Dims:
        return self.to


class EntriesOf(_Entries[Axes], Node[Any, Axes], abstract=True):
    """The entries of all rows, one row after the other, of the shape (entries, ...)."""

    __slots__ = ()

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (RowsOf(gradient, self.parents[0].dims),)


class RowsOf(_Rows[Axes], Node[Any, Axes], abstract=True):
    """Entries that stand one row after the other, as the rows `to`, of the shape (rows, entries of each, ...)."""

    __slots__ = ()

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (EntriesOf(gradient),)


class IndexEntriesOf(_Entries[Axes], IndexNode[Axes], abstract=True):
    """The integers of all rows, one row after the other, of the shape (entries, ...)."""

    __slots__ = ()


class IndexRowsOf(_Rows[Axes], IndexNode[Axes], abstract=True):
    """Integers that stand one row after the other, as the rows `to`, of the shape (rows, entries of each, ...)."""

    __slots__ = ()


@flat_form(EntriesOf)
def _counted_entries(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    # Entries that only fill an array up become 0: a loop adds up the gradients of all entries.
    axis, (x,) = ragged_axis(node.parents[0].dims), operands
    assert axis is not None
    return parts.counted(parts(axis), x, 0.0) if x.dtype.kind == "f" else x


@flat_form(RowsOf, IndexEntriesOf, IndexRowsOf)
def _already_flat(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    return operands[0]


def entries_of(x: Any) -> Any:
    """Return the entries of all rows of a node of floats or of integers, one row after the other."""
    return IndexEntriesOf(x) if isinstance(x, IndexNode) else EntriesOf(x)


def rows_of(entries: Any, to: Dims) -> Any:
    """Return entries that stand one row after the other, a node of floats or of integers, as the rows `to`."""
    return IndexRowsOf(entries, to) if isinstance(entries, IndexNode) else RowsOf(entries, to)
