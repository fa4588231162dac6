"""Tables of other libraries: their columns by input, as arrays."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from wyrm.errors import DataError, DTypeError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import ragged_axis
from wyrm.graph.base import BaseNode, describe, label
from wyrm.graph.storage import stored
from wyrm.support.texts import nearest


class Table(Protocol):
    """Columns by name: a `wy.data.Dataset`, a dict, or a table of pandas, polars, Arrow or Hugging Face."""

    def __getitem__(self, name: str, /) -> object: ...


class Loader(Protocol):
    """Batches of an epoch in a given order, such as a `wy.data.DataLoader`."""

    # Type checkers tell a loader by it from an array, which can be iterated too.
    @property
    def batch_size(self) -> int | None: ...
    def __iter__(self) -> Iterator[Any]: ...


class Feed(Protocol):
    """Data by input, a dict: `{input: array}`."""

    # Not `Mapping`, which is invariant in its keys. Values are arrays, lists, numbers: `object` alone covers them.
    def items(self) -> ItemsView[BaseNode, object]: ...


# Type variables, so that type checkers infer the type of a dict from its entries alone.
FeedT = TypeVar("FeedT", bound=Feed | Table)
OptionalFeedT = TypeVar("OptionalFeedT", bound=Feed | Table | None)

DataT = TypeVar("DataT", bound=Feed | Table | Loader | Iterator[Feed | Table])


def by_input(data: object, inputs: Sequence[BaseNode]) -> object:
    """Return the columns of a table by input, for inputs whose name is a column's; return anything else unchanged.

    Columns without an input are not read. Inputs that hold data need no column. If one has none, all columns of a dict
    must be read: an unread one could be its misspelled name.
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
    return {
        leaf: columns[name] if ragged_axis(leaf.dims) is not None else column_array(name, columns[name])
        for name, leaf in wanted.items()
    }


def _missing(leaf: BaseNode, listed: str, data: object) -> str:
    if leaf.name is None:
        return (
            f"{describe(leaf)} has no name, so no column belongs to it: name it after one of the columns {listed}, as "
            f"in wy.Input(name=...), or give {{input: column}}"
        )
    if isinstance(data, Mapping) and any(column_names(part) is not None for part in data.values()):
        return f"the data has the parts {listed}, each a table of its own: choose one, as in data['train']"
    hint = nearest(leaf.name, column_names(data) or ())
    return f"there is no column {leaf.name!r} for the input {label(leaf)}; the columns are: {listed}{hint}"


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
    """Return these columns of a table; a data set of Hugging Face becomes an Arrow table."""
    if hasattr(data, "select_columns") and hasattr(data, "with_format"):
        return data.select_columns(names).with_format("arrow")[:]
    # `wy.data.Dataset` may compute its columns: compute only these, and all at once.
    columns = data.select_columns(*names).columns if names and hasattr(data, "select_columns") else None
    return columns if isinstance(columns, Mapping) else data


def column_array(name: str, column: Any) -> np.ndarray:
    """Return a column of any library as an array, without a copy if it is contiguous and numeric.

    Raise `DataError` for nulls, `DTypeError` for text and other objects, `ShapeError` for rows of different lengths;
    the errors name the column and the row.
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
    """Whether a column of pandas has a NumPy dtype, so that NaN is a value and no null."""
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
    """Return an Arrow array without nulls; lists of equal lengths become axes."""
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
