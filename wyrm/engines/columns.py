"""Checks of the data given to a program, made before any parameter changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.graph import ProgramGraph
from wyrm.engines.tables import by_input, column_array
from wyrm.errors import DTypeError, IndexOutOfRange, NotFinite, OptionError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Dim, Ragged, axis_size, open_axes, ragged_axis, resolve_axis
from wyrm.graph.base import BaseNode, describe, label
from wyrm.graph.index_operands import accepted_indices
from wyrm.graph.leaves import Input
from wyrm.graph.ragged import (
    Layout,
    RaggedArray,
    as_ragged,
    check_lengths,
    checked_rows,
    entries_of,
    of_values,
    position_of,
)
from wyrm.graph.ragged_leaves import MadeRows, made_of, parts_of, parts_shapes
from wyrm.graph.schedule import Limit
from wyrm.graph.shapes import remedy, wrong_rank
from wyrm.graph.storage import bound_array, check_int64, not_set, stored

_TIGHT: Mapping[type[Ragged], Layout] = MappingProxyType({})


class Columns(NamedTuple):
    """Checked columns of a data set by input, the number of their rows, and whether inputs take one row at a time.

    A column is an array, or a `RaggedArray` for an input with a `Ragged` axis.
    """

    given: dict[BaseNode, Any]
    rows: int
    singly: bool

    def shapes(
        self, inputs: Sequence[BaseNode], batch: int, rows: NDArray[np.int64] | None = None
    ) -> dict[BaseNode, tuple[int, ...]]:
        """Return the inputs' shapes for a batch of this size, from the columns or from the data that inputs hold.

        Rows of different lengths are these `rows`, or else the longest ones.
        """
        shapes: dict[BaseNode, tuple[int, ...]] = {}
        ragged = {**self.given, **self.made(inputs)} if Ragged.declared else {}
        for leaf, column in ragged.items():
            if isinstance(column, RaggedArray):
                entries = column.most_entries(batch) if rows is None else int(column.lengths[rows].sum())
                shapes |= parts_shapes(leaf, column, batch, entries)
        for leaf in inputs:
            if leaf in shapes:
                continue
            column = self.given.get(leaf)
            if column is None:
                shapes[leaf] = bound_array(leaf).shape
            else:
                shapes[leaf] = column.shape[1:] if self.singly else (batch, *column.shape[1:])
        return shapes

    def leaves(self, inputs: Sequence[BaseNode]) -> set[BaseNode]:
        """Return the leaves that the columns give data, those in place of `inputs` with a `Ragged` axis too."""
        rows = [leaf for leaf, column in self.given.items() if isinstance(column, RaggedArray)]
        return {*self.given, *(part for leaf in [*rows, *self.made(inputs)] for part in parts_of(leaf))}

    def made(self, inputs: Sequence[BaseNode]) -> dict[BaseNode, RaggedArray]:
        """Return the rows along the axes that are made of others, of those that `inputs` are about.

        Where the inputs that an axis is made of hold their data, its lengths are stored instead. Raise `ShapeError` if
        some of them have a column and others hold data.
        """
        found: dict[BaseNode, RaggedArray] = {}
        for leaf in made_of(inputs):
            held = [each for each in leaf.inputs if each not in self.given]
            rows = None if held else leaf.rows(self._rows)
            if rows is not None:
                found[leaf] = rows
            elif len(held) == len([*leaf.inputs]):
                leaf.update()
            else:
                raise ShapeError(
                    f"axis {leaf.dims[1]!r} is made of rows of the data and of those that {describe(held[0])} holds: "
                    f"give {label(held[0])} a column too"
                )
        return found

    def _rows(self, leaf: BaseNode) -> RaggedArray | None:
        return leaf.rows(self._rows) if isinstance(leaf, MadeRows) else self.given[leaf]

    def batch_sizes(self, batch: int, last: int | None = None) -> list[int]:
        """Return the sizes of the batches of these rows: that of the first, and that of a smaller last one.

        `last` is the size of one after these rows.
        """
        rest = self.rows % batch if self.rows > batch else 0
        return list(dict.fromkeys(size for size in (min(self.rows, batch), rest, last) if size))

    def check_batches(self, batch: int, rows: int | None = None) -> None:
        """Raise `ShapeError` if batches of this size do not fit the inputs; `rows` are by default all rows."""
        rows = self.rows if rows is None else rows
        if self.singly and batch != 1:
            raise ShapeError(
                f"the inputs take one row at a time, so batch_size must be 1, not {batch}; for larger batches declare "
                f"a batch axis, as in wy.Input(dims=(Batch(),))"
            )
        for leaf in self.given:
            size = None if self.singly else axis_size(leaf.dims[0])
            if size is not None and (size != batch or rows % batch):
                raise ShapeError(
                    f"{label(leaf)} has a batch axis of size {size}, so batch_size must be {size} and divide the "
                    f"number of rows; it is {batch}, for {rows:,} rows. A batch axis without a size takes any "
                    f"batch_size"
                )


class _Writable:
    """Declares the memory of a read-only array writable, for compiled code that only reads it."""

    def __init__(self, array: np.ndarray) -> None:
        self.owner = array
        self.__array_interface__ = array.__array_interface__ | {"data": (array.ctypes.data, False)}


def given_inputs(feed: object, inputs: Sequence[BaseNode]) -> dict[BaseNode, Any]:
    """Return the arrays given for the inputs, in the inputs' dtypes; inputs that hold data may be left out."""
    feed = by_input(feed, inputs)
    if not isinstance(feed, Mapping):
        raise TypeError(
            f"a program takes a dict of input nodes and arrays, as in {{x: X}}, or a table with columns named like the "
            f"inputs, not {type(feed).__name__}{'; give its .dataset()' if _makes_dataset(feed) else ''}"
            f"; the inputs are: {', '.join(map(label, inputs)) or 'none'}"
        )
    taken = set(inputs)
    for key in feed:
        if not isinstance(key, BaseNode):
            known = ", ".join(map(label, inputs)) or "none"
            raise TypeError(
                f"the keys of data are the input nodes themselves, as in {{x: X}}, or all are their names, and "
                f"{key!r} is {'a name among nodes' if isinstance(key, str) else 'neither'}; inputs: {known}"
            )
        if key not in taken:
            known = ", ".join(map(label, inputs)) or "none"
            same = any(leaf.name == key.name for leaf in inputs)
            advice = "; another node has the same name: use that one as the key" if same else ""
            raise ShapeError(f"{describe(key)} is not an input of this program, whose inputs are: {known}{advice}")
    for leaf in inputs:
        if leaf not in feed and stored(leaf).array is None:
            if leaf.stands_for:
                raise not_set(leaf, "")
            raise ShapeError(f"{describe(leaf)} is missing: give it an array, as in {{{label(leaf)}: array}}")
    return {leaf: _converted(leaf, feed[leaf]) for leaf in inputs if leaf in feed}


def _makes_dataset(feed: object) -> bool:
    return callable(getattr(feed, "dataset", None))


def checked_inputs(feed: object, inputs: Sequence[BaseNode]) -> dict[BaseNode, Any]:
    """Return the arrays given for the inputs, checked, for one call; inputs that hold data may be left out."""
    given = given_inputs(feed, inputs)
    for leaf, array in given.items():
        if not isinstance(array, RaggedArray) and array.ndim != len(leaf.dims):
            raise wrong_rank(leaf, array.shape)
        check_values(leaf, array, "row")
    return given


def completed(
    graph: ProgramGraph, given: Mapping[BaseNode, Any], layouts: Mapping[type[Ragged], Layout] = _TIGHT
) -> dict[BaseNode, np.ndarray]:
    """Return an array for each leaf that a step reads: the given one, else the one that the input holds.

    Rows of different lengths have these layouts, or else their entries one after the other.

    Raise `ShapeError` for inputs with the same `Ragged` axis whose rows have different lengths.
    """
    complete: dict[BaseNode, np.ndarray] = {}
    if graph.flat is not None:
        given = {**given, **graph.flat.arrays(given, layouts)}
    for leaf in graph.fed:
        array = given[leaf] if leaf in given else stored(leaf).array
        if array is None:
            raise not_set(leaf, "give it to the program, or bind some with .set")
        complete[leaf] = array
    return complete


def _converted(leaf: BaseNode, value: object) -> Any:
    if ragged_axis(leaf.dims) is not None:
        rows = checked_rows(leaf, as_ragged(value, f"column {label(leaf)}", integers=leaf.dtype.kind == "i"))
        return of_values(_converted(parts_of(leaf).values, rows.values), rows)
    if isinstance(value, RaggedArray):
        raise ShapeError(
            f"{describe(leaf)} takes rows of one length, the data has rows of different lengths: declare their axis, "
            f"as in class Words(wy.Ragged): ... and dims=(batch, Words())"
        )
    if type(value) is np.ndarray:
        array = value
    else:
        array = as_array(value) if isinstance(value, float | int) else column_array(label(leaf), value)
    if array.size == 0 and not isinstance(value, np.ndarray):
        array = array.astype(leaf.dtype)
    if type(array) is np.ndarray and array.dtype is leaf.dtype and array.flags.c_contiguous:
        return array[...]  # a view, whose shape stays if someone assigns another one to the array
    kinds = {"i": "iu", "b": "b", "f": "fiub"}[leaf.dtype.kind]
    if array.dtype.kind not in kinds:
        taken = {"i": "integers", "b": "a mask", "f": "numbers"}[leaf.dtype.kind]
        convert = "; convert with array.astype(np.int64)" if leaf.dtype.kind == "i" and array.dtype.kind == "f" else ""
        if leaf.dims and axis_size(leaf.dims[0]) is None and array.ndim > len(leaf.dims):
            convert = f" of shape {array.shape}{remedy(leaf.dims, array.shape, leaf.dtype.kind == 'i') or convert}"
        raise DTypeError(f"{describe(leaf)} takes {taken}, the data is {array.dtype}{convert}")
    if leaf.dtype.kind == "i":
        check_int64(array, leaf)
    with np.errstate(over="ignore"):  # an overflow gives an infinity, which `check_values` reports
        return np.ascontiguousarray(array, leaf.dtype).reshape(array.shape)


def check_values(leaf: BaseNode, array: Any, row: str) -> None:
    """Raise `NotFinite`, naming the column and the row, for a NaN or infinity in an input declared finite."""
    values = entries_of(array)
    if leaf.dtype.kind == "f" and isinstance(leaf, Input) and leaf._finite and not np.isfinite(values).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise NotFinite(
            f"column {label(leaf)} holds {values[where]} in {row} "
            f"{_position(position_of(array, where))}; clean the data, or declare the "
            f"input with finite=False; no parameter has moved"
        )


def check_open_ranges(graph: ProgramGraph, columns: Columns, batch: int) -> None:
    """Raise `IndexOutOfRange` for an index beyond an axis whose size comes from the data, in batches of this size."""
    limits = [limit for limit in graph.ranges.limits if limit.size is None]
    if limits:
        sizes = graph.schedule.bind(columns.shapes(graph.fed, batch))
        check_ranges(limits, columns.given, sizes, columns=True)


def check_contrast(graph: ProgramGraph, columns: Columns, batch: int) -> None:
    """Raise `OptionError` for batches of one row if a loss compares the rows of a batch with each other."""
    if batch == 1 < columns.rows and not columns.singly and graph.contrast is not None:
        raise OptionError(
            f"{describe(graph.contrast)} compares each row of a batch with the other rows, but a batch has one row, so "
            f"the loss is 0 and nothing would be learned: give batch_size=, as in batch_size=256"
        )


def check_ranges(
    limits: Sequence[Limit],
    given: Mapping[BaseNode, Any],
    sizes: Mapping[type[Dim], int],
    *,
    columns: bool = False,
) -> None:
    """Raise `IndexOutOfRange`, naming the column and the row, for an index that is out of range.

    `sizes` holds the axis sizes that the data tells. Limits of unknown size are left to native code, which checks them
    as it runs. Indices that a leaf holds are checked here only if `set` could not do it, for an unknown size. `columns`
    says that the data is that of many batches.
    """
    rows: dict[BaseNode, RaggedArray] = {}
    if Ragged.declared:
        rows = {parts_of(leaf).values: data for leaf, data in given.items() if isinstance(data, RaggedArray)}
    given = entries_as_columns(given) if rows else given
    for limit in limits:
        leaf, user, (_, axis, _, from_end), _ = limit
        array = given[leaf] if leaf in given else None if limit.size is not None else stored(leaf).array
        if array is None or not (limit.size is not None or set(open_axes((axis,))) <= sizes.keys()):
            continue
        where = limit.position(array, sizes, columns)
        if where is not None:
            raise IndexOutOfRange(
                f"column {label(leaf)} holds {int(array[where])} in row "
                f"{_position(position_of(rows.get(leaf), where))}, but "
                f"{accepted_indices(user, resolve_axis(axis, sizes), from_end)}; no parameter has moved"
            )


def _position(where: tuple[int, ...]) -> str:
    if not where:
        return "0"
    return f"{where[0]:,}" + (f", position {where[1:]}" if len(where) > 1 else "")


def checked_columns(feed: object, inputs: Sequence[BaseNode], limits: Sequence[Limit]) -> Columns:
    """Return the checked columns of a data set.

    The first axis of a column is its rows. An input has the batch axis first, or takes a single row.
    """
    return rows_of(given_inputs(feed, inputs), limits)


def rows_of(given: dict[BaseNode, Any], limits: Sequence[Limit]) -> Columns:
    """Check columns that `given_inputs` has converted."""
    if not given:
        raise ShapeError("an epoch needs columns of data, but none was given")
    lengths: dict[BaseNode, int] = {}
    singly: dict[BaseNode, bool] = {}
    for leaf, array in given.items():
        if isinstance(array, RaggedArray):
            lengths[leaf], singly[leaf] = len(array), False
            continue
        extra = array.ndim - len(leaf.dims)
        if array.ndim == 0 or extra not in (0, 1):
            raise wrong_rank(leaf, array.shape)
        lengths[leaf], singly[leaf] = len(array), extra == 1
        for axis, size in zip(leaf.dims[1 - extra :], array.shape[1:], strict=True):
            if axis_size(axis) not in (None, size):
                raise ShapeError(
                    f"{describe(leaf)} has an axis {axis!r}, the data has {size} there: {array.shape}"
                    f"{remedy(leaf.dims, array.shape, leaf.dtype.kind == 'i')}"
                )
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{label(leaf)} has {length:,} rows" for leaf, length in lengths.items())
        raise ShapeError(f"the columns have different lengths: {found}")
    if Ragged.declared:
        _check_ragged(given)
    if len(set(singly.values())) > 1:
        for leaf, single in singly.items():
            if single and leaf.dims and axis_size(leaf.dims[0]) is None:
                raise wrong_rank(leaf, given[leaf].shape)
        names = ", ".join(label(leaf) for leaf, single in singly.items() if single)
        raise ShapeError(f"some inputs have a batch axis and some do not ({names}); give all of them one")
    for leaf, array in given.items():
        check_values(leaf, array, "row")
    check_ranges(limits, given, {}, columns=True)
    count = next(iter(lengths.values()))
    if count == 0:
        raise ShapeError("the columns have no rows, so there is nothing to train on")
    return Columns(given, count, next(iter(singly.values())))


def _check_ragged(given: Mapping[BaseNode, Any]) -> None:
    """Raise `ShapeError` for columns of inputs with the same `Ragged` axis whose rows have different lengths."""
    first: dict[object, BaseNode] = {}
    for leaf, array in given.items():
        if isinstance(array, RaggedArray):
            other = first.setdefault(type(leaf.dims[1]), leaf)
            check_lengths(leaf, array, other, given[other])


def flat_columns(columns: Columns, inputs: Sequence[BaseNode]) -> dict[BaseNode, np.ndarray]:
    """Return the columns as (rows, elements) by the leaf that reads them, among `inputs` or others.

    Rows of different lengths are two: all entries, and the offsets of the rows among them, which have one row more.
    Along axes that are made of others there are offsets alone.
    """
    found: dict[BaseNode, np.ndarray] = {}
    for leaf, rows in columns.made(inputs).items():
        found[parts_of(leaf).lengths] = as_column(rows.offsets)
    for leaf, column in columns.given.items():
        if isinstance(column, RaggedArray):
            parts = parts_of(leaf)
            found[parts.values], found[parts.lengths] = as_column(column.values), as_column(column.offsets)
        else:
            found[leaf] = as_column(column)
    return found


def entries_as_columns(given: Mapping[BaseNode, Any]) -> dict[BaseNode, np.ndarray]:
    """Return the columns with all entries in place of rows of different lengths."""
    return {
        parts_of(leaf).values if isinstance(column, RaggedArray) else leaf: entries_of(column)
        for leaf, column in given.items()
    }


def as_column(array: np.ndarray) -> np.ndarray:
    """Return the column as a (rows, elements) array that compiled code accepts as writable."""
    flat = array.reshape(len(array), array.size // max(1, len(array)))
    return flat if flat.flags.writeable else np.asarray(_Writable(flat))
