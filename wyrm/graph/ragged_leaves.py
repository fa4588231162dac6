"""The leaves that engines read in place of an input with rows of different lengths: its entries, and whose they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, Entries, MadeRagged, axis_of_entries, flat_dims, ragged_axis
from wyrm.graph.base import BaseNode, _set, describe
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.ragged import RaggedArray, RaggedStorage, held_rows, rows_along
from wyrm.graph.source_location import located_at
from wyrm.graph.storage import stored


class _OfRows(IndexInput, abstract=True):
    """Integers that follow from the lengths of rows."""

    __slots__ = ("_row_axis", "_whole")
    _row_axis: Axis
    # The storage of the input whose rows these are.
    _whole: RaggedStorage


class EntryRows(_OfRows, abstract=True):
    """The row of each entry, which is in the range of the rows by its making."""

    __slots__ = ()

    @property
    def within(self) -> Axis:
        """The axis of the rows."""
        return self._row_axis


class RowStarts(_OfRows, abstract=True):
    """The position of each row's first entry among the entries of all rows."""

    __slots__ = ()


class RowLengths(_OfRows, abstract=True):
    """The number of entries of each row."""

    __slots__ = ()


class Parts(NamedTuple):
    """The leaves that engines read in place of an input with a `Ragged` axis.

    These are its entries, the row of each entry, the position of each row's first entry, and each row's number of
    entries.
    """

    values: Any
    rows: EntryRows
    starts: RowStarts
    lengths: RowLengths

    @property
    def row_axis(self) -> Axis:
        """The axis of the rows."""
        return self.rows.within


def parts_of(leaf: BaseNode) -> Parts:
    """Return the leaves that engines read in place of an input with a `Ragged` axis, the same ones for every graph."""
    storage, axis, row_axis = stored(leaf), ragged_axis(leaf.dims), leaf.dims[0]
    assert isinstance(storage, RaggedStorage) and axis is not None
    if storage.parts is None:
        entries, name = (axis_of_entries(type(axis)),), leaf.name or leaf.op_name()
        with located_at(leaf.origin):
            kind = IndexInput if isinstance(leaf, MadeRows) else type(leaf)
            values = _sharing(kind, storage, flat_dims(leaf.dims), leaf.name, leaf)
            of_rows = [
                _sharing(EntryRows, storage.rows, entries, f"rows of {name}"),
                _sharing(RowStarts, storage.starts, (row_axis,), f"starts of {name}"),
                _sharing(RowLengths, storage.lengths, (row_axis,), f"lengths of {name}"),
            ]
        for each in of_rows:
            _set(each, "_row_axis", row_axis)
            _set(each, "_whole", storage)
        storage.parts = Parts(values, *of_rows)
    found: Parts = storage.parts
    return found


# --- axes that are made of others -------------------------------------------------------------------------------------


class MadeRows(IndexInput, abstract=True):
    """Stands in a graph for an input along an axis that is made of others; it has no data but lengths.

    These follow from the lengths of the rows of `sources`, an input or such a leaf for each part of the axis.
    """

    __slots__ = ()
    _storage: _MadeStorage

    @property
    def sources(self) -> Sequence[BaseNode]:
        """The leaf along each part of the axis."""
        return self._storage.sources

    @property
    def inputs(self) -> Iterator[BaseNode]:
        """The inputs that the lengths follow from."""
        for source in self.sources:
            yield from source.inputs if isinstance(source, MadeRows) else (source,)

    def rows(self, data_of: Callable[[BaseNode], RaggedArray | None]) -> RaggedArray | None:
        """Return the rows along the axis by the data of the sources; None if one has none."""
        axis, parts = ragged_axis(self.dims), [data_of(source) for source in self.sources]
        assert isinstance(axis, MadeRagged)
        known = [part for part in parts if part is not None]
        return rows_along(type(axis), known) if len(known) == len(parts) else None

    def update(self) -> None:
        """Store the lengths of the rows that the inputs hold, unless they are stored already."""
        storage, rows = self._storage, storage_rows(self)
        if rows is None:
            return
        known = storage.lengths.array
        if known is None or not np.array_equal(known, rows.lengths):
            storage.put(rows)


class _MadeStorage(RaggedStorage):
    """The storage of a `MadeRows`, which it refers to, and its sources."""

    __slots__ = ("leaf", "sources")

    def __init__(self, leaf: MadeRows, sources: Sequence[BaseNode]) -> None:
        super().__init__()
        self.leaf, self.sources = leaf, sources


def made_rows(axis: MadeRagged, sources: Sequence[BaseNode]) -> MadeRows:
    """Return the leaf for an axis whose parts have the lengths of these leaves, the same one for every graph.

    Raise `ShapeError` for leaves of different rows.
    """
    first = sources[0]
    for other in sources[1:]:
        if type(other.dims[0]) is not type(first.dims[0]):
            raise ShapeError(
                f"axis {axis!r} is made of axes of the same rows, and these are {first.dims[0]!r} in {describe(first)} "
                f"and {other.dims[0]!r} in {describe(other)}"
            )
    storage, key = stored(first), (type(axis), *sources[1:])
    assert isinstance(storage, RaggedStorage)
    leaf = storage.made.get(key)
    if leaf is None:
        leaf = object.__new__(MadeRows)
        _set(leaf, "_storage", _MadeStorage(leaf, sources))
        _set(leaf, "dims", (first.dims[0], axis))
        with located_at(first.origin):
            leaf._construct((), repr(axis))
        storage.made[key] = leaf
    found: MadeRows = leaf
    return found


def made_of(leaves: Sequence[BaseNode]) -> list[MadeRows]:
    """Return the leaves of made axes among the wholes of which these leaves are parts."""
    wholes = (leaf._whole for leaf in leaves if isinstance(leaf, _OfRows))
    return list(dict.fromkeys(whole.leaf for whole in wholes if isinstance(whole, _MadeStorage)))


def storage_rows(leaf: BaseNode) -> RaggedArray | None:
    """Return the rows that an input holds, or those along a made axis that follow from what its inputs hold."""
    return leaf.rows(storage_rows) if isinstance(leaf, MadeRows) else held_rows(leaf)


def lengths_of(leaf: BaseNode) -> RowLengths | None:
    """Return the lengths of the rows whose entries, or integers of these, a leaf holds; None for another leaf."""
    storage = leaf._whole if isinstance(leaf, _OfRows) else stored(leaf)
    found: RowLengths | None = storage.parts.lengths if isinstance(storage, RaggedStorage) and storage.parts else None
    return found


def _sharing(cls: type[Any], storage: Any, dims: Dims, name: str | None, like: Any = None) -> Any:
    """Return a leaf that shares its storage with others."""
    leaf = object.__new__(cls)
    if isinstance(like, Input):
        _set(leaf, "_finite", like._finite)
        leaf._restore(None, dims, name, like.dtype)
    else:
        leaf._restore(None, dims, name, np.dtype(np.int64))
    _set(leaf, "_storage", storage)
    return leaf


def entries_axis(leaf: BaseNode) -> Entries | None:
    """Return the axis of the entries of rows of different lengths that a leaf is about; None for another leaf."""
    lengths = lengths_of(leaf)
    found: Entries | None = None if lengths is None else lengths._whole.parts.values.dims[0]
    return found


def parts_shapes(leaf: BaseNode, data: RaggedArray, rows: int, entries: int) -> dict[BaseNode, tuple[int, ...]]:
    """Return the shapes of the leaves in place of an input, for so many of its rows with so many entries."""
    parts = parts_of(leaf)
    return dict(zip(parts, ((entries, *data.values.shape[1:]), (entries,), (rows,), (rows,)), strict=True))
