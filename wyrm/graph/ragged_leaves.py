"""The leaves that engines read in place of an input with rows of different lengths: its entries, and whose they are."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wyrm.graph.axes import Axis, Dims, Entries, axis_of_entries, flat_dims, ragged_axis
from wyrm.graph.base import BaseNode, _set
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.ragged import RaggedArray, RaggedStorage
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
            values = _sharing(type(leaf), storage, flat_dims(leaf.dims), leaf.name, leaf)
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
