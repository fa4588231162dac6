"""Checks of the data given to a program, made before any parameter changes."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from wyrm.engines.graph import ProgramGraph
from wyrm.errors import DataError, DTypeError, IndexOutOfRange, NotFinite, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Dim, axis_size, open_axes, resolve_axis
from wyrm.graph.base import BaseNode, describe, label
from wyrm.graph.leaves import Input
from wyrm.graph.schedule import Limit
from wyrm.graph.storage import accepted_indices, bound_array, check_int64, first_out_of_range, not_set, stored


class Columns(NamedTuple):
    """Checked columns of a data set by input, the number of their rows, and whether inputs take one row at a time."""

    given: dict[BaseNode, np.ndarray]
    rows: int
    singly: bool

    def shapes(self, inputs: Sequence[BaseNode], batch: int) -> dict[BaseNode, tuple[int, ...]]:
        """Return the inputs' shapes for a batch of this size, from the columns or from the data that inputs hold."""
        shapes: dict[BaseNode, tuple[int, ...]] = {}
        for leaf in inputs:
            column = self.given.get(leaf)
            if column is None:
                shapes[leaf] = bound_array(leaf).shape
            else:
                shapes[leaf] = column.shape[1:] if self.singly else (batch, *column.shape[1:])
        return shapes

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
    """A writable view of an array that may be read-only, for compiled code that only reads it."""

    def __init__(self, array: np.ndarray) -> None:
        self.owner = array
        self.__array_interface__ = array.__array_interface__ | {"data": (array.ctypes.data, False)}


def given_inputs(feed: object, inputs: Sequence[BaseNode]) -> dict[BaseNode, np.ndarray]:
    """Return the arrays given for the inputs, in the inputs' dtypes; inputs that hold data may be left out."""
    feed = by_input(feed, inputs)
    if not isinstance(feed, Mapping):
        raise TypeError(
            f"a program takes a dict of input nodes and arrays, as in {{x: X}}, or a table with columns named like the "
            f"inputs, not {type(feed).__name__}"
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
            raise ShapeError(f"{describe(key)} is not an input of this program, whose inputs are: {known}")
    for leaf in inputs:
        if leaf not in feed and stored(leaf).array is None:
            if leaf.stands_for:
                raise not_set(leaf, "")
            raise ShapeError(f"{describe(leaf)} is missing: give it an array, as in {{{label(leaf)}: array}}")
    return {leaf: _converted(leaf, feed[leaf]) for leaf in inputs if leaf in feed}


def checked_inputs(feed: object, inputs: Sequence[BaseNode]) -> dict[BaseNode, np.ndarray]:
    """Return the arrays given for the inputs as wholes, checked; inputs that hold data may be left out."""
    given = given_inputs(feed, inputs)
    for leaf, array in given.items():
        if array.ndim != len(leaf.dims):
            raise ShapeError(f"{describe(leaf)} has {len(leaf.dims)} axes, the data has shape {array.shape}")
        check_values(leaf, array, "row")
    return given


def completed(inputs: Sequence[BaseNode], given: Mapping[BaseNode, np.ndarray]) -> dict[BaseNode, np.ndarray]:
    """Return the data of all inputs: the given arrays, else those that the inputs hold."""
    complete: dict[BaseNode, np.ndarray] = {}
    for leaf in inputs:
        array = given[leaf] if leaf in given else stored(leaf).array
        if array is None:
            raise not_set(leaf, "give it to the program, or bind some with .set")
        complete[leaf] = array
    return complete


def _converted(leaf: BaseNode, value: object) -> np.ndarray:
    if type(value) is np.ndarray:
        array = value
    else:
        array = as_array(value) if isinstance(value, float | int) else column_array(label(leaf), value)
    if array.size == 0 and not isinstance(value, np.ndarray):
        array = array.astype(leaf.dtype)
    kinds = {"i": "iu", "b": "b", "f": "fiub"}[leaf.dtype.kind]
    if array.dtype.kind not in kinds:
        taken = {"i": "integers", "b": "a mask", "f": "numbers"}[leaf.dtype.kind]
        remedy = "; convert with array.astype(np.int64)" if leaf.dtype.kind == "i" and array.dtype.kind == "f" else ""
        raise DTypeError(f"{describe(leaf)} takes {taken}, the data is {array.dtype}{remedy}")
    if leaf.dtype.kind == "i":
        check_int64(array, leaf)
    with np.errstate(over="ignore"):  # an overflow gives an infinity, which `check_values` reports
        return np.ascontiguousarray(array, leaf.dtype).reshape(array.shape)


def check_values(leaf: BaseNode, array: np.ndarray, row: str) -> None:
    """Raise `NotFinite`, naming the column and the row, for a NaN or infinity in an input declared finite."""
    if leaf.dtype.kind == "f" and isinstance(leaf, Input) and leaf._finite and not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise NotFinite(
            f"column {label(leaf)} holds {array[where]} in {row} {_position(where)}; clean the data, or declare the "
            f"input with finite=False; no parameter has moved"
        )


def check_open_ranges(graph: ProgramGraph, columns: Columns, batch: int) -> None:
    """Raise `IndexOutOfRange` for an index beyond an axis whose size comes from the data, in batches of this size."""
    limits = [limit for limit in graph.ranges.limits if axis_size(limit.axis) is None]
    if limits:
        check_ranges(limits, columns.given, graph.schedule.bind(columns.shapes(graph.inputs, batch)))


def check_ranges(limits: Sequence[Limit], given: Mapping[BaseNode, np.ndarray], sizes: Mapping[type[Dim], int]) -> None:
    """Raise `IndexOutOfRange`, naming the column and the row, for an index that is out of range.

    `sizes` holds the axis sizes known from the data of a run; native code checks limits of unknown size as it runs.
    Indices that a leaf holds were checked when they were set, unless the size was unknown then.
    """
    for leaf, user, axis, ignore_index, from_end in limits:
        sized = axis_size(axis) is not None
        array = given[leaf] if leaf in given else None if sized else stored(leaf).array
        if array is None or not (sized or set(open_axes((axis,))) <= sizes.keys()):
            continue
        size = resolve_axis(axis, sizes)
        where = first_out_of_range(array, size, ignore_index, from_end)
        if where is not None:
            raise IndexOutOfRange(
                f"column {label(leaf)} holds {int(array[where])} in row {_position(where)}, but "
                f"{accepted_indices(user, size, from_end)}; no parameter has moved"
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


def rows_of(given: dict[BaseNode, np.ndarray], limits: Sequence[Limit]) -> Columns:
    """Check columns that `given_inputs` has converted."""
    if not given:
        raise ShapeError("an epoch needs columns of data, but none was given")
    lengths: dict[BaseNode, int] = {}
    singly: dict[BaseNode, bool] = {}
    for leaf, array in given.items():
        extra = array.ndim - len(leaf.dims)
        if array.ndim == 0 or extra not in (0, 1):
            raise ShapeError(f"{describe(leaf)} takes a column of rows, the data has shape {array.shape}")
        lengths[leaf], singly[leaf] = len(array), extra == 1
        for axis, size in zip(leaf.dims[1 - extra :], array.shape[1:], strict=True):
            if axis_size(axis) not in (None, size):
                raise ShapeError(f"{describe(leaf)} has an axis {axis!r}, the data has {size} there: {array.shape}")
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{label(leaf)} has {length:,} rows" for leaf, length in lengths.items())
        raise ShapeError(f"the columns have different lengths: {found}")
    if len(set(singly.values())) > 1:
        names = ", ".join(label(leaf) for leaf, single in singly.items() if single)
        raise ShapeError(f"some inputs have a batch axis and some do not ({names}); give all of them one")
    for leaf, array in given.items():
        check_values(leaf, array, "row")
    check_ranges(limits, given, {})
    count = next(iter(lengths.values()))
    if count == 0:
        raise ShapeError("the columns have no rows, so there is nothing to train on")
    return Columns(given, count, next(iter(singly.values())))


def as_column(array: np.ndarray) -> np.ndarray:
    """Return the column as a (rows, elements) array that compiled code accepts as writable."""
    flat = array.reshape(len(array), array.size // max(1, len(array)))
    return flat if flat.flags.writeable else np.asarray(_Writable(flat))


class Table(Protocol):
    """Columns by name: a `wy.data.Dataset`, a dict, or a table of pandas, polars, Arrow or Hugging Face."""

    def __getitem__(self, name: str, /) -> object: ...


class Loader(Protocol):
    """Batches of an epoch in an order of their own, such as a `wy.data.DataLoader`."""

    # The attribute tells type checkers a loader from an array, which can be iterated too.
    @property
    def batch_size(self) -> int | None: ...
    def __iter__(self) -> Iterator[Any]: ...


class Feed(Protocol):
    """Data by input, a dict: `{input: array}`."""

    # Not `Mapping`, whose keys are of one type. A dict of floats and integers has values of no narrower type than this.
    def items(self) -> ItemsView[BaseNode, object]: ...


# Type variables, so that type checkers infer the type of a dict from its entries alone.
FeedT = TypeVar("FeedT", bound=Feed | Table)
DataT = TypeVar("DataT", bound=Feed | Table | Loader | Iterator[Feed | Table])


def by_input(data: object, inputs: Sequence[BaseNode]) -> object:
    """Return the columns of a table by input, for inputs whose name is a column's; return anything else unchanged.

    Columns without an input are not read. Inputs that hold data need no column; a dict may then have no other columns,
    which may be misspelled names.
    """
    if type(data) is dict and isinstance(next(iter(data), None), BaseNode):
        return data  # at once, for calls of a few microseconds
    names = column_names(data)
    if names is None:
        return data
    wanted: dict[str, BaseNode] = {}
    for leaf in inputs:
        if leaf.name in wanted:
            raise DataError(
                f"{describe(wanted[leaf.name])} and {describe(leaf)} have the same name, so a column cannot be "
                f"assigned by it: rename one, or give {{input: column}}"
            )
        if leaf.name is not None and leaf.name in names:
            if names.count(leaf.name) > 1:
                raise DataError(f"the table has several columns {leaf.name!r}: rename all but one")
            wanted[leaf.name] = leaf
        elif stored(leaf).array is None and not leaf.stands_for:
            listed = ", ".join(map(repr, names[:20])) + (", ..." if len(names) > 20 else "")
            raise DataError(_missing(leaf, listed, data))
    unread = [name for name in names if name not in wanted] if isinstance(data, Mapping) else []
    if unread and len(wanted) < len(inputs):
        holding = next(leaf for leaf in inputs if leaf.name not in wanted)
        raise DataError(
            f"the columns {', '.join(map(repr, unread))} belong to no input, and {label(holding)}, which holds data, "
            f"has no column: correct the name, or leave out columns that the program does not read"
        )
    columns = _selected(data, list(wanted))
    return {leaf: column_array(name, columns[name]) for name, leaf in wanted.items()}


def _missing(leaf: BaseNode, listed: str, data: object) -> str:
    if leaf.name is None:
        return (
            f"{describe(leaf)} has no name, so no column belongs to it: name it after one of the columns {listed}, as "
            f"in wy.Input(name=...), or give {{input: column}}"
        )
    if isinstance(data, Mapping) and any(column_names(part) is not None for part in data.values()):
        return f"the data has the parts {listed}, each a table of its own: choose one, as in data['train']"
    return f"there is no column {leaf.name!r} for the input {label(leaf)}; the columns are: {listed}"


def column_names(data: object) -> list[str] | None:
    """Return the names of the columns of a table, or None if `data` is none."""
    if isinstance(data, Mapping):
        return list(data) if data and all(isinstance(name, str) for name in data) else None
    if not hasattr(data, "__getitem__") or isinstance(data, np.ndarray):
        return None
    for attribute in ("column_names", "columns"):
        names = getattr(data, attribute, None)
        if names is not None and not callable(names):
            return [name for name in names if isinstance(name, str)]
    return None


def is_batches(data: object) -> bool:
    """Whether `data` is an iterable of batches, and no dict, table or array."""
    if isinstance(data, Mapping | np.ndarray | str) or column_names(data) is not None:
        return False
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(batch, Mapping) or column_names(batch) is not None for batch in data)
    return hasattr(data, "__iter__") and not isinstance(data, BaseNode)


def row_count(data: Any) -> int | None:
    """Return the number of rows of columns by input, or of a loader's data set; None if it is unknown."""
    rows: Any = next(iter(data.values()), None) if isinstance(data, Mapping) else getattr(data, "dataset", None)
    return len(rows) if hasattr(rows, "__len__") else None


def _selected(data: Any, names: list[str]) -> Any:
    """Return the table with these columns, as an Arrow table for a data set of Hugging Face."""
    if hasattr(data, "select_columns") and hasattr(data, "with_format"):
        return data.select_columns(names).with_format("arrow")[:]
    # A dataset of this library may compute its columns: all at once, and only those needed.
    columns = data.select_columns(*names).columns if names and hasattr(data, "select_columns") else None
    return columns if isinstance(columns, Mapping) else data


def column_array(name: str, column: Any) -> np.ndarray:
    """Return a column of any library as an array; views its memory where that is contiguous and numeric.

    Raise `DataError` for nulls, `DTypeError` for text and other objects, `ShapeError` for rows of different lengths,
    each with the column and the row.
    """
    if isinstance(column, np.ndarray | list | tuple | int | float):
        return as_array(column, f"column {name}")
    if hasattr(column, "combine_chunks"):  # of Arrow
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if hasattr(column, "is_null") and hasattr(column, "null_count"):
        count: Any = column.null_count  # a method in polars
        _refuse_nulls(name, column.is_null() if (count() if callable(count) else count) else None)
        if hasattr(column, "buffers") and hasattr(column, "type"):
            return _of_arrow(name, column)
    elif hasattr(column, "isna") and not _is_plain(column):  # of pandas
        _refuse_nulls(name, column.isna())
    if not hasattr(column, "to_numpy"):
        return as_array(column)
    array = np.asarray(column.to_numpy())
    return _of_objects(name, array) if array.dtype.kind == "O" else array


def _is_plain(column: Any) -> bool:
    """Whether a column of pandas holds NumPy's numbers, in which a NaN is a value and no null."""
    dtype = getattr(column, "dtype", None)
    return isinstance(dtype, np.dtype) and dtype.kind != "O"


def _refuse_nulls(name: str, nulls: Any) -> None:
    mask = np.zeros(0, np.bool_) if nulls is None else np.asarray(nulls)
    if mask.any():
        raise DataError(
            f"column {name!r} has {int(mask.sum()):,} nulls, the first in row {int(mask.argmax()):,}; fill them, or "
            f"leave out the rows; no parameter has moved"
        )


def _of_arrow(name: str, array: Any) -> np.ndarray:
    """Return an Arrow array without nulls as (rows, ...); lists of equal lengths become axes."""
    if hasattr(array, "storage"):  # an extension type, such as an image of fixed size
        return _of_arrow(name, array.storage)
    if array.null_count:
        raise DataError(f"column {name!r} has {array.null_count:,} nulls inside its lists; fill them")
    if not (hasattr(array, "flatten") and hasattr(array.type, "value_field")):
        values = array.to_numpy(zero_copy_only=False)
        return _of_objects(name, values) if values.dtype.kind == "O" else np.asarray(values)
    inner = _of_arrow(name, array.flatten())
    size = getattr(array.type, "list_size", None)
    if size is None:
        lengths = np.asarray(array.value_lengths())
        _refuse_lengths(name, lengths)
        size = int(lengths[0]) if len(lengths) else 0
    return inner.reshape(len(array), size, *inner.shape[1:])


def _refuse_lengths(name: str, lengths: np.ndarray) -> None:
    different = lengths != lengths[:1]
    if different.any():
        row = int(different.argmax())
        raise ShapeError(
            f"column {name!r} holds {lengths[0]} numbers in row 0 and {lengths[row]} in row {row:,}; give every row "
            f"the same length, for example by padding"
        )


def _of_objects(name: str, objects: np.ndarray) -> np.ndarray:
    """Return an array of Python objects as numbers, if it holds numbers, or arrays or lists of one length."""
    for row, value in enumerate(objects):
        if isinstance(value, str | bytes) or not (hasattr(value, "__len__") or hasattr(value, "__float__")):
            kind = "text" if isinstance(value, str | bytes) else f"a {type(value).__name__}"
            raise DTypeError(
                f"column {name!r} holds {kind}, {value!r} in row {row:,}; an input takes numbers: encode it, for "
                f"example np.unique(column, return_inverse=True)[1] for categories; no parameter has moved"
            )
    if len(objects) and hasattr(objects[0], "__len__"):
        _refuse_lengths(name, np.array([len(value) if hasattr(value, "__len__") else 1 for value in objects]))
        return np.stack([_of_objects(name, a) if (a := as_array(v)).dtype.kind == "O" else a for v in objects])
    return np.array(objects.tolist())
