"""`RaggedArray`: rows of different lengths as one array of entries, and how data of other forms becomes one."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypeVar

from wyrm.errors import DataError, DTypeError, OptionError, ShapeError
from wyrm.graph.arrays import as_array, check_unmasked
from wyrm.graph.axes import Dims, MadeRagged, Ragged, axis_size, is_name, ragged_axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.storage import Storage, store, stored
from wyrm.graph.traversal import topological_order
from wyrm.graph.typing import IntegerArray

if TYPE_CHECKING:
    from wyrm.graph.storage import DeclaredDims
    from wyrm.ops.ragged import Flattened

A = TypeVar("A", bound=np.ndarray, covariant=True, default=np.ndarray)
# More rows than fit in one message are not listed.
_SEVERAL = "; the rows are a list of arrays, a scipy.sparse matrix, a list column, or (values, offsets)"


class Padding(Enum):
    """Where arrays may have more entries than their rows: nowhere, behind all entries, or behind those of each part."""

    NONE = "none"
    LAST = "behind all entries"
    PARTS = "behind the entries of each part"


class RaggedArray(Generic[A]):
    """Rows of different lengths: row `i` is `values[offsets[i] : offsets[i + 1]]`.

    `values` has the entries of all rows one after the other, and perhaps further axes; `offsets` has one integer more
    than there are rows. An integer selects a row, a slice, a mask or an array of integers a `RaggedArray` of rows.

    >>> words = RaggedArray(np.array([3, 1, 2]), np.array([0, 2, 2, 3]))
    >>> words.tolist(), len(words), words.lengths.tolist()
    ([[3, 1], [], [2]], 3, [2, 0, 1])
    >>> words[[2, 0]].tolist()
    [[2], [3, 1]]

    Raise `ShapeError` for offsets that do not begin at 0, decrease, or do not end at the number of values, and
    `DTypeError` for offsets that are no integers.
    """

    __slots__ = ("_made", "_most", "offsets", "values")
    values: A
    offsets: IntegerArray
    __array_ufunc__ = None  # arithmetic is that of nodes

    def __init__(self, values: A, offsets: IntegerArray) -> None:
        self.values = values
        self.offsets = _checked_offsets(np.asarray(offsets), len(values))
        self._most: dict[int, int] = {}
        # The rows along axes that are made of that of these rows first, with the other rows that they are made of.
        self._made: dict[type[MadeRagged], tuple[Sequence[RaggedArray], RaggedArray]] = {}

    @classmethod
    def of_rows(cls, rows: Sequence[Any]) -> RaggedArray:
        """Return the array of these rows.

        >>> RaggedArray.of_rows([[1.0], [2.0, 3.0]]).lengths.tolist()
        [1, 2]
        """
        return as_ragged(rows if isinstance(rows, list) else list(rows), "a list of rows")

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of entries of each row."""
        return np.diff(self.offsets)

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values."""
        return self.values.dtype

    @property
    def nbytes(self) -> int:
        """The bytes of values and offsets."""
        return self.values.nbytes + self.offsets.nbytes

    def most_entries(self, rows: int) -> int:
        """Return the number of entries that so many rows have at most.

        >>> RaggedArray.of_rows([[1], [2, 3], [4, 5, 6]]).most_entries(2)
        5
        """
        if rows not in self._most:
            lengths = self.lengths
            longest = lengths if rows >= len(lengths) else np.partition(lengths, len(lengths) - rows)[-rows:]
            self._most[rows] = int(longest.sum())
        return self._most[rows]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[A]:
        return (self[row] for row in range(len(self)))

    @overload
    def __getitem__(self, key: int | np.integer) -> A: ...
    @overload
    def __getitem__(self, key: slice | IntegerArray | NDArray[np.bool_] | list[int]) -> RaggedArray[A]: ...
    def __getitem__(self, key: Any) -> Any:
        offsets = self.offsets
        if isinstance(key, slice) and key.step in (None, 1):
            start, stop, _ = key.indices(len(self))
            kept = offsets[start : max(start, stop) + 1]
            return _trusted(self.values[kept[0] : kept[-1]], kept - kept[0])
        rows: Any = np.arange(len(self))[key]
        if rows.ndim == 0:
            return self.values[offsets[rows] : offsets[rows + 1]]
        if rows.ndim > 1:
            raise ShapeError(f"rows are selected by a slice or by one axis of integers or masks, not by {rows.ndim}")
        lengths = offsets[rows + 1] - offsets[rows]
        ends = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(offsets[rows] - ends[:-1], lengths) + np.arange(ends[-1])
        return _trusted(self.values[places], ends)

    def __reversed__(self) -> Iterator[A]:
        return (self[row] for row in reversed(range(len(self))))

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError("rows of different lengths are not searched: ask 'value in array.values', or for one row")

    def __reduce__(self) -> tuple[object, ...]:
        return _trusted, (self.values, self.offsets)

    def tolist(self) -> list[Any]:
        """Return the rows as lists."""
        return [row.tolist() for row in self]

    def __repr__(self) -> str:
        shown = ", ".join(repr(row.tolist()) for row in self[:3])
        more = ", ..." if len(self) > 3 else ""
        return f"RaggedArray([{shown}{more}], rows={len(self)}, dtype={self.dtype})"


def of_values(values: Any, like: RaggedArray) -> RaggedArray:
    """Return other values in the rows of an array."""
    return _trusted(values, like.offsets)


def _trusted(values: Any, offsets: Any) -> RaggedArray:
    """Return an array of rows whose offsets are known to be right."""
    made = object.__new__(RaggedArray)
    made.values, made.offsets, made._most, made._made = values, offsets, {}, {}
    return made


def rows_along(name: type[MadeRagged], parts: Sequence[RaggedArray]) -> RaggedArray:
    """Return the rows along an axis that is made of those along its parts; their entries are zeros without memory.

    The same rows give the same object again. Raise `ShapeError` for parts with different numbers of rows, and for rows
    that are too long.
    """
    first, *others = parts
    known = first._made.get(name)
    if known is not None and all(a is b for a, b in zip(known[0], others, strict=True)):
        return known[1]
    if len({*map(len, parts)}) > 1:
        found = " and ".join(
            f"{len(rows):,} along {part.__name__}" for part, rows in zip(name.parts, parts, strict=True)
        )
        raise ShapeError(f"axis {name()!r} is made of axes of the same rows, and the data has {found}")
    offsets = name.offsets([part.offsets for part in parts])
    made = _trusted(np.broadcast_to(np.int64(0), offsets[-1:]), offsets)
    first._made[name] = others, made
    return made


def rows_of_lengths(values: Any, lengths: NDArray[np.int64]) -> RaggedArray:
    """Return an array of rows that have these numbers of entries, one after the other in `values`."""
    return _trusted(values, np.concatenate([[0], np.cumsum(lengths)]))


def joined(parts: Sequence[Any]) -> Any:
    """Return the rows of several arrays, all of one length or all of different lengths, one after the other."""
    if not isinstance(parts[0], RaggedArray):
        return np.concatenate(parts)
    lengths = np.concatenate([part.lengths for part in parts])
    return rows_of_lengths(np.concatenate([part.values for part in parts]), lengths)


def entries_of(array: Any) -> np.ndarray:
    """Return the entries of rows of different lengths, one after the other; another array unchanged."""
    entries: np.ndarray = array.values if isinstance(array, RaggedArray) else array
    return entries


def position_of(array: Any, place: Sequence[SupportsIndex]) -> tuple[int, ...]:
    """Return the row of an entry of rows of different lengths, and its place there; another position unchanged.

    >>> position_of(RaggedArray.of_rows([[1], [2, 3]]), (2,))
    (1, 1)
    """
    if not isinstance(array, RaggedArray):
        return tuple(map(int, place))
    entry, *rest = map(int, place)
    row = int(np.searchsorted(array.offsets, entry, "right")) - 1
    return row, entry - int(array.offsets[row]), *rest


def _checked_offsets(offsets: np.ndarray, count: int, what: str = "") -> NDArray[np.int64]:
    """Return offsets for a number of values; `what` names their data in errors."""
    name = f"{what}: offsets" if what else "offsets"
    if offsets.dtype.kind not in "iu":
        raise DTypeError(f"{name} are integers, not {offsets.dtype}")
    if offsets.ndim != 1 or not offsets.size:
        raise ShapeError(f"{name} have one axis and one integer more than there are rows, not shape {offsets.shape}")
    found = offsets.astype(np.int64)
    wrong = found[1:] < found[:-1]
    if wrong.any():
        row = int(wrong.argmax())
        raise ShapeError(f"{name} decrease from {found[row]} to {found[row + 1]} in row {row:,}")
    if found[0] != 0 or found[-1] != count:
        raise ShapeError(
            f"{name} begin at 0 and end at the number of values, {count:,}, with one integer more than there are rows; "
            f"these begin at {found[0]:,} and end at {found[-1]:,}"
        )
    return found


# --- data of other forms ----------------------------------------------------------------------------------------------


def as_ragged(value: Any, what: str, *, integers: bool = False) -> RaggedArray:
    """Return data as rows of different lengths.

    It is a `RaggedArray`, a list of rows, an array of objects, a tuple (values, offsets), a sparse matrix of SciPy, a
    list column of pandas, polars or Arrow, or a `wy.data.ItemRows`. Of a sparse matrix `integers` are the columns of
    its entries, and floats their values. `what` names the data in errors.

    Raise `DTypeError`, `ShapeError` or `DataError` for data that is none of these, or has a null.
    """
    if isinstance(value, RaggedArray):
        return value
    matrix = value.tocsr() if hasattr(value, "tocsr") else value
    if hasattr(matrix, "indptr") and (integers or hasattr(matrix, "data")):
        return _of_offsets(matrix.indices if integers else matrix.data, matrix.indptr, what)
    if isinstance(value, tuple):
        if len(value) != 2 or not all(isinstance(each, np.ndarray) for each in value):
            raise TypeError(f"{what}: a tuple is (values, offsets), two arrays{_SEVERAL}")
        check_unmasked(value[0])
        return _of_offsets(*value, what)
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        if value.ndim < 2:
            raise ShapeError(f"{what} was given an array of shape {value.shape}, which has no rows{_SEVERAL}")
        count, length = value.shape[:2]
        return _trusted(value.reshape(count * length, *value.shape[2:]), np.arange(count + 1) * length)
    column: Any = value
    if hasattr(column, "combine_chunks"):  # of Arrow
        column = column.combine_chunks()
    if hasattr(column, "flatten") and hasattr(column, "value_lengths"):
        return _of_arrow(column, what)
    if hasattr(column, "to_arrow"):  # of polars
        return as_ragged(column.to_arrow(), what)
    rows = list(value) if hasattr(value, "__iter__") and not isinstance(value, str | bytes) else None
    if rows is None:
        raise TypeError(f"{what} takes rows of different lengths, not {type(value).__name__}{_SEVERAL}")
    return _joined_rows(rows, what, integers)


def _of_offsets(values: np.ndarray, offsets: np.ndarray, what: str) -> RaggedArray:
    return _trusted(values, _checked_offsets(offsets, len(values), what))


def _joined_rows(rows: list[Any], what: str, integers: bool) -> RaggedArray:
    arrays = []
    for position, row in enumerate(rows):
        if not hasattr(row, "__len__") or not hasattr(row, "__getitem__") or isinstance(row, str | bytes | dict):
            raise DTypeError(f"{what}: row {position:,} is {row!r}, and each row is a list or an array of numbers")
        arrays.append(_entries_of_row(row, position, what))
    kept = [each for each in arrays if each.size] or arrays
    for position, each in enumerate(arrays):
        if each.size and (each.ndim == 0 or each.shape[1:] != kept[0].shape[1:]):
            raise ShapeError(
                f"{what}: the entries of row {position:,} have the shape {each.shape[1:]}, and those of others "
                f"{kept[0].shape[1:]}"
            )
    empty = np.zeros((0, *(kept[0].shape[1:] if kept else ())), np.int64 if integers else np.float32)
    values = np.concatenate([each if each.size else empty.astype(kept[0].dtype) for each in arrays]) if kept else empty
    if not values.size and not any(isinstance(row, np.ndarray) for row in rows):
        values = values.astype(empty.dtype)  # NumPy makes an empty list an array of float64
    return _trusted(values, np.concatenate([[0], np.cumsum([len(each) for each in arrays], dtype=np.int64)]))


def _entries_of_row(row: Any, position: int, what: str) -> np.ndarray:
    try:
        entries = as_array(row)
    except ShapeError:
        raise ShapeError(
            f"{what}: row {position:,} holds lists of different lengths; only rows differ in length, and all entries "
            f"have one shape: join the lists of a row, or make them equally long"
        ) from None
    if entries.dtype.kind not in "fiub":
        raise DTypeError(f"{what}: row {position:,} is {row!r}, and its entries are no numbers")
    return entries


def _of_arrow(column: Any, what: str) -> RaggedArray:
    values = column.flatten()
    for part, where in ((column, "rows"), (values, "entries")):
        if part.null_count:
            raise DataError(f"{what} has {part.null_count:,} nulls among its {where}; fill them, or leave them out")
    lengths = np.asarray(column.value_lengths(), np.int64)
    return rows_of_lengths(values.to_numpy(zero_copy_only=False), lengths)


# --- leaves -----------------------------------------------------------------------------------------------------------


class RaggedStorage(Storage):
    """The storage of an input with a `Ragged` axis: its array has all entries, and further storages say whose they are.

    `rows` has the row of each entry, `starts` the position of each row's first entry, `lengths` the number of entries.
    `parts` are the leaves that engines read in place of the input, once a graph has needed them. `made` has those for
    axes that are made of this one first, by their names and the other leaves that they are made of.
    """

    __slots__ = ("lengths", "made", "parts", "rows", "starts")

    def __init__(self) -> None:
        super().__init__(None)
        self.rows, self.starts, self.lengths = Storage(None), Storage(None), Storage(None)
        self.parts: Any = None
        self.made: dict[tuple[Any, ...], Any] = {}

    @property
    def held(self) -> RaggedArray | None:
        """The data as rows; None without data."""
        if self.array is None or self.lengths.array is None:
            return None
        return rows_of_lengths(self.array, self.lengths.array)

    def put(self, data: RaggedArray) -> None:
        """Store checked data."""
        store(self, data.values)
        for storage, array in zip((self.rows, self.starts, self.lengths), places(data), strict=True):
            store(storage, array)


def places(data: RaggedArray) -> tuple[IntegerArray, IntegerArray, IntegerArray]:
    """Return the row of each entry, the position of each row's first entry, and each row's number of entries."""
    lengths = data.lengths
    return np.repeat(np.arange(len(data)), lengths), data.offsets[:-1].copy(), lengths


class Layout(NamedTuple):
    """Where the entries of rows of different lengths stand in an array that has room for more of them.

    The rows are divided into `parts` of equally many, such as those of the devices of a mesh, and each part has places
    for `capacity` entries.
    """

    capacity: int
    parts: int = 1

    def needed(self, data: RaggedArray) -> int:
        """Return the number of entries of the part that has most."""
        return int(np.diff(self._starts_and_count(data)).max())

    def _starts_and_count(self, data: RaggedArray) -> IntegerArray:
        """Return the first entry of each part, and the number of all entries."""
        return data.offsets[np.arange(self.parts + 1) * (len(data) // self.parts)]

    def taken(self, data: RaggedArray) -> IntegerArray:
        """Return the entry for each place; places without an entry of their own repeat one, that of their part first.

        So that whatever is computed there is computed for another place too.
        """
        bounds = self._starts_and_count(data)
        first, counts = bounds[:-1, None], np.diff(bounds)[:, None]
        places = np.arange(self.capacity)
        return np.where(places < counts, first + places, np.where(counts > 0, first, 0)).reshape(-1)

    def starts(self, data: RaggedArray) -> IntegerArray:
        """Return the place of each row's first entry."""
        moved = np.arange(self.parts) * self.capacity - self._starts_and_count(data)[:-1]
        return data.offsets[:-1] + np.repeat(moved, len(data) // self.parts)

    def own(self, data: RaggedArray) -> IntegerArray:
        """Return the places of the entries of all rows, one row after the other."""
        return np.repeat(self.starts(data) - data.offsets[:-1], data.lengths) + np.arange(len(data.values))


def flat_graph(outputs: Sequence[BaseNode], padding: Padding = Padding.NONE) -> Flattened | None:
    """Return the graph of flat arrays that engines run in place of these outputs; None without a `Ragged` axis.

    With `padding`, a step may read more entries than its rows have; see `wyrm.ops.ragged.flattened`.
    """
    if not Ragged.declared:
        return None
    found: Flattened | None = importlib.import_module("wyrm.ops.ragged").flattened(outputs, padding)
    return found


def infinite_if_empty(outputs: Sequence[BaseNode]) -> BaseNode | None:
    """Return a maximum or a minimum along a `Ragged` axis, infinite for a row without entries; None without one."""
    for node in topological_order(outputs):
        axes: Any = getattr(node, "axis", ())
        if node.op_name() in ("max", "min", "logsumexp") and ragged_axis(node.parents[0].dims) and axes[:1] == (1,):
            return node
    return None


def refuse_ragged(outputs: Sequence[BaseNode], who: str) -> None:
    """Raise `OptionError` for a graph with an axis of different lengths; `who` names what does not take it."""
    flat = flat_graph(outputs)
    if flat is not None:
        leaf = next(iter(flat.inputs.values()))[0]
        axis = ragged_axis(leaf.dims)
        raise OptionError(
            f"{who} takes no rows of different lengths, and {describe(leaf)} has them along {axis!r}: "
            f"give the rows one length, with an axis wy.Dim and padding"
        )


def has_ragged(dims: DeclaredDims) -> bool:
    """Return whether the axes of a leaf, as declared, have a `Ragged` one."""
    if not Ragged.declared or not isinstance(dims, tuple | list):
        return False
    return any(isinstance(axis, Ragged) or (is_name(axis) and issubclass(axis, Ragged)) for axis in dims)


def ragged_dims(dims: Any, rebindable: bool, what: str) -> Dims:
    """Return the declared axes of a leaf with a `Ragged` axis; raise `ShapeError` unless it stands behind its rows.

    Only inputs have such an axis, which are `rebindable` to other data.
    """
    if not rebindable:
        raise ShapeError(f"{what}: an axis of different lengths is one of data, wy.Input or wy.IndexInput")
    axes: Dims = tuple([axis() if is_name(axis) else axis for axis in dims])
    places = [place for place, axis in enumerate(axes) if isinstance(axis, Ragged)]
    if places != [1]:
        raise ShapeError(
            f"{what} has the axes {axes}: one axis of different lengths stands behind the axis of its rows, as in "
            f"dims=(batch, words) or dims=(batch, words, 3), and all others have one length"
        )
    if isinstance(axes[1], MadeRagged):
        raise ShapeError(
            f"{what} has the axis {axes[1]!r}, whose lengths follow from those along other axes: data has an axis of "
            f"its own, class Targets(wy.Ragged): ..., or it comes along {' and '.join(map(repr, _parts_of(axes[1])))}"
        )
    return axes


def _parts_of(axis: MadeRagged) -> list[Ragged]:
    return [part() for part in axis.parts]


def held_rows(leaf: BaseNode) -> RaggedArray | None:
    """Return the data of an input with a `Ragged` axis as rows, None without data."""
    storage = stored(leaf)
    assert isinstance(storage, RaggedStorage)
    return storage.held


def checked_rows(leaf: BaseNode, data: RaggedArray) -> RaggedArray:
    """Return data for a leaf; raise `ShapeError` unless its rows and its entries have the leaf's other axes.

    Data without entries, such as empty lists, has those of the leaf.
    """
    dims: Dims = leaf.dims
    if not len(data.values):
        sizes = [size for size in map(axis_size, dims[2:]) if size is not None]
        known = len(sizes) == len(dims) - 2 and data.values.ndim == 1
        shape: tuple[int, ...] = (0, *sizes) if known else data.values.shape
        data = of_values(data.values.astype(leaf.dtype).reshape(shape), data)
    wanted, given = dims[2:], data.values.shape[1:]
    if len(wanted) != len(given) or any(
        axis_size(axis) not in (None, size) for axis, size in zip(wanted, given, strict=True)
    ):
        raise ShapeError(f"{describe(leaf)}: each entry has the axes {wanted}, the data has entries of shape {given}")
    if axis_size(dims[0]) not in (None, len(data)):
        raise ShapeError(f"{describe(leaf)}: axis 0 is {dims[0]!r}, the data has {len(data):,} rows")
    return data


def check_lengths(leaf: BaseNode, data: RaggedArray, other: BaseNode, others: RaggedArray) -> None:
    """Raise `ShapeError` for data of two inputs with the same `Ragged` axis whose rows have different lengths."""
    if np.array_equal(data.offsets, others.offsets):
        return
    name = repr(ragged_axis(leaf.dims))
    if len(data) != len(others):
        detail = f"{len(data):,} rows in {describe(leaf)} and {len(others):,} in {describe(other)}"
    else:
        row = int((data.lengths != others.lengths).argmax())
        detail = (
            f"row {row:,} has {data.lengths[row]:,} entries in {describe(leaf)} and {others.lengths[row]:,} in "
            f"{describe(other)}"
        )
    raise ShapeError(f"axis {name} has other lengths in two inputs: {detail}")
