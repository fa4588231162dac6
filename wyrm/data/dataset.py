"""Datasets: named columns of equal length, in memory or computed on demand."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.data.checks import ColumnLike, Columns, Rows, as_columns, check_lengths, whole_number
from wyrm.errors import DataError, DTypeError, IndexOutOfRange, NotFinite, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.ragged import RaggedArray, entries_of, joined, position_of
from wyrm.support.foreign_names import ForeignName

# How many rows a dataset computes at once when all are needed.
_AT_ONCE = 1024


class Dataset:
    """Named columns over the same rows: `Dataset(users=..., items=...)` or `Dataset({"users": ...})`.

    Each column is an array of shape (rows, ...). Arrays are not copied; lists of Python floats become float32. A column
    whose rows have different lengths, such as the words of texts, is a `wyrm.RaggedArray`.
    `len(dataset)` is the number of rows, `dataset["users"]` the array of a column, and `dataset[rows]` a dataset of
    some rows: a slice, indices (negative ones count from the end) or a boolean mask.

    Raises:
        ShapeError: the columns have different lengths, or one has no axis of rows.
        DTypeError: a column holds Python objects.
        DataError: there are no columns or no rows.

    >>> dataset = Dataset(users=[0, 0, 1], ratings=[3.0, 5.0, 4.0])
    >>> dataset
    Dataset(3 rows: users int64, ratings float32)
    >>> dataset["ratings"]
    array([3., 5., 4.], dtype=float32)
    >>> dataset[dataset["users"] == 0]
    Dataset(2 rows: users int64, ratings float32)
    """

    __slots__ = ("_columns", "_length")
    if not TYPE_CHECKING:
        shuffle = ForeignName(
            "shuffle", "use wy.data.DataLoader(dataset, batch_size), or shuffle=True of epoch and fit"
        )
        batch = ForeignName("batch", "use wy.data.DataLoader(dataset, batch_size)")

    def __init__(self, mapping: Mapping[str, ColumnLike] | None = None, /, **columns: ColumnLike) -> None:
        if not isinstance(mapping, Mapping | None):
            raise TypeError(
                f"Dataset takes columns by name, as in Dataset(images=x, labels=y), not {type(mapping).__name__}"
            )
        given = dict(mapping or {})
        repeated = sorted(given.keys() & columns.keys())
        if repeated:
            raise DataError(f"columns {repeated} are given twice, in the mapping and by keyword; give each once.")
        self._columns = as_columns(given | columns)
        if not self._columns:
            raise DataError("a dataset needs at least one column, such as Dataset(users=..., items=...); got none.")
        self._length = check_lengths(self._columns)
        if self._length == 0:
            raise DataError(f"an empty dataset: columns {list(self._columns)} have no rows; expected at least one.")

    @property
    def columns(self) -> Mapping[str, np.ndarray]:
        """A read-only mapping from name to array, in the order given."""
        return MappingProxyType(self._columns)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in the order given."""
        return list(self._columns)

    @property
    def outline(self) -> Columns:
        """The columns of the first row."""
        return {name: column[:1] for name, column in self._columns.items()}

    def __len__(self) -> int:
        return self._length

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __repr__(self) -> str:
        described = (f"{name} {column.dtype}{_shape_of_rows(column)}" for name, column in self._columns.items())
        return f"Dataset({self._length} {'row' if self._length == 1 else 'rows'}: {', '.join(described)})"

    @overload
    def __getitem__(self, key: str) -> np.ndarray: ...
    @overload
    def __getitem__(self, key: Rows) -> Dataset: ...
    def __getitem__(self, key: str | Rows) -> np.ndarray | Dataset:
        if isinstance(key, str):
            if key not in self._columns:
                raise DataError(f"no column {key!r}; this dataset has {list(self._columns)}.")
            return self.columns[key]
        return self._of_rows(key if isinstance(key, slice) else self._row_indices(key))

    def _of_rows(self, rows: slice | np.ndarray) -> Dataset:
        selected = {name: column[rows] for name, column in self._columns.items()}
        if not len(next(iter(selected.values()))):
            raise _no_rows(self._length)
        return Dataset(selected)

    def _row_indices(self, key: Sequence[int] | np.ndarray) -> np.ndarray:
        rows = as_array(key)
        if rows.size == 0:
            return np.zeros(0, dtype=np.intp)
        if rows.ndim != 1 or rows.dtype.kind not in "iub":
            raise DTypeError(
                f"rows are selected by an array of shape {rows.shape} and dtype {rows.dtype}; expected a column's "
                f"name, a slice, or a one-dimensional array of integers or booleans. For one row write dataset[3:4], "
                f"for batches use wyrm.data.DataLoader."
            )
        if rows.dtype.kind == "b":
            if len(rows) != self._length:
                raise ShapeError(f"a mask of {len(rows)} entries over {self._length} rows; expected one per row.")
            return rows
        outside = (rows < -self._length) | (rows >= self._length)
        if outside.any():
            position = int(outside.argmax())
            raise IndexOutOfRange(
                f"row {rows[position]} (at position {position}) of a dataset of {self._length} rows; "
                f"expected {-self._length} to {self._length - 1}."
            )
        return rows

    def take(self, rows: NDArray[np.integer], *, epoch: int = 0, batch: int = 0) -> Columns:
        """Return copies of the columns of some rows by name, for the given batch of an epoch of a loader.

        >>> Dataset(x=[5, 6, 7]).take(np.array([2, 0]))
        {'x': array([7, 5])}
        """
        return {name: column[rows] for name, column in self._columns.items()}

    @overload
    def map(self, function: Callable[[Columns], Mapping[str, ColumnLike]], *, seed: None = None) -> Dataset: ...
    @overload
    def map(
        self, function: Callable[[Columns, np.random.Generator], Mapping[str, ColumnLike]], *, seed: int
    ) -> Dataset: ...
    def map(self, function: Callable[..., Mapping[str, ColumnLike]], *, seed: int | None = None) -> Dataset:
        """Return a dataset of the columns that `function` returns for the columns of a batch of rows.

        The function is applied when rows are needed: to the batches of a `DataLoader`, or to all rows for a column. It
        treats each row on its own, and returns as many rows as it gets. With a `seed` it also gets a random generator,
        which depends only on the seed, the loader's epoch and the number of the batch. Calls of `map` are composed.

        Raises, for the first row now and for other rows later:
            TypeError: the function takes other arguments.
            DTypeError: it returns something other than columns by name.
            ShapeError: it returns another number of rows.

        >>> dataset = Dataset(x=[1, 2, 3]).map(lambda columns: {"double": 2 * columns["x"]})
        >>> dataset["double"].tolist(), dataset.column_names
        ([2, 4, 6], ['double'])
        >>> noisy = dataset.map(lambda columns, generator: {"y": columns["double"] + generator.random()}, seed=0)
        >>> bool((noisy["y"] == noisy["y"]).all())
        True
        """
        return Mapped(self, function, seed)

    def filter(self, predicate: Callable[[Columns], ArrayLike]) -> Dataset:
        """Return the rows for which `predicate`, a function of columns, returns True: booleans of shape (rows,).

        Raises:
            DTypeError: the predicate returns something else.
            DataError: no row is left.

        >>> Dataset(age=[3, 40, 60]).filter(lambda columns: columns["age"] > 18)["age"].tolist()
        [40, 60]
        """
        return self[np.concatenate([_accepted_rows(predicate, columns) for columns in self._in_parts()])]

    def select_columns(self, *names: str) -> Dataset:
        """Return a dataset of these columns alone, in this order.

        Raises:
            DataError: there is no such column, or no name is given.

        >>> Dataset(x=[1], y=[2], z=[3]).select_columns("z", "x")
        Dataset(1 row: z int64, x int64)
        """
        for name in names:
            if name not in self:
                raise DataError(f"no column {name!r}; this dataset has {self.column_names}.")
        if not names:
            raise DataError(f"select_columns needs the name of a column; this dataset has {self.column_names}.")
        return self._of_columns(names)

    def _of_columns(self, names: Sequence[str]) -> Dataset:
        return Dataset({name: self._columns[name] for name in names})

    def _in_parts(self) -> Iterator[Columns]:
        """Yield the columns of all rows, a part of the rows at a time."""
        yield self._columns

    def check_finite(self, *names: str) -> None:
        """Raise `NotFinite` if a named column, by default any, holds a NaN or an infinity.

        Integer, boolean and string columns always pass.

        Raises:
            NotFinite: with the column, its first such row and the value.
            DataError: a name is not a column.

        >>> Dataset(ratings=[3.0, float("nan")]).check_finite()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        wyrm.errors.NotFinite: column 'ratings' holds nan in row 1; ...
        """
        for name in names or self._columns:
            column = self[name]
            if column.dtype.kind not in "fc":
                continue
            entries = entries_of(column)
            finite = np.isfinite(entries)
            if not finite.all():
                place = np.unravel_index(int(finite.argmin()), entries.shape)
                index = list(map(int, position_of(column, place)))
                within = f" (at {tuple(index)})" if len(index) > 1 else ""
                raise NotFinite(
                    f"column {name!r} holds {entries[place]} in row {index[0]}{within}; expected finite numbers only. "
                    f"Repair the data, or drop such rows with dataset[mask]."
                )

    def check_index(self, name: str, size: int) -> None:
        """Raise `IndexOutOfRange` unless every entry of the column is an index from 0 to `size - 1`.

        Raises:
            IndexOutOfRange: with the column, its first such row, the value and the allowed range.
            DTypeError: the column does not hold integers, or `size` is not an integer.
            DataError: there is no such column, or `size` is below 1.

        >>> Dataset(items=[3, 5, 4]).check_index("items", 5)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        wyrm.errors.IndexOutOfRange: column 'items' holds 5 in row 1; ...
        """
        size = whole_number("size", size, minimum=1)
        column = self[name]
        if column.dtype.kind not in "iu":
            raise DTypeError(
                f"column {name!r} has dtype {column.dtype}; an index column must hold integers. "
                f"Convert it with .astype(np.int64)."
            )
        entries = entries_of(column)
        outside = (entries < 0) | (entries >= size)
        if outside.any():
            place = np.unravel_index(int(outside.argmax()), entries.shape)
            row = position_of(column, place)[0]
            raise IndexOutOfRange(
                f"column {name!r} holds {entries[place]} in row {row}; expected 0 to {size - 1}, the rows of a "
                f"table of size {size}. Enlarge the table, or number the ids from 0 with "
                f"np.unique(ids, return_inverse=True)."
            )


def _shape_of_rows(column: Any) -> str:
    if isinstance(column, RaggedArray):
        return " rows of different lengths"
    return f" {column.shape[1:]}" if column.ndim > 1 else ""


class LazyDataset(Dataset):
    """The base class of datasets that compute their rows; `columns` and `dataset[name]` compute all of them."""

    __slots__ = ()

    def __init__(self, length: int, outline: Columns) -> None:
        self._length = length
        # The columns of the first row: the names, dtypes and shapes of all rows.
        self._columns = outline

    @property
    def columns(self) -> Mapping[str, np.ndarray]:
        """The columns of all rows by name, computed anew."""
        parts = list(self._in_parts())
        return MappingProxyType({name: joined([part[name] for part in parts]) for name in self._columns})

    def _in_parts(self) -> Iterator[Columns]:
        """Yield the columns of all rows, a part of the rows at a time."""
        for batch, start in enumerate(range(0, self._length, _AT_ONCE)):
            yield self.take(np.arange(start, min(start + _AT_ONCE, self._length)), batch=batch)

    def _of_rows(self, rows: slice | np.ndarray) -> Dataset:
        return Selected(self, np.arange(self._length)[rows])

    def _of_columns(self, names: Sequence[str]) -> Dataset:
        return Mapped(self, lambda columns: {name: columns[name] for name in names}, None)


class Mapped(LazyDataset):
    """The rows of a dataset after a function of batches; see `Dataset.map`."""

    __slots__ = ("_function", "_seed", "_source")

    def __init__(self, source: Dataset, function: Callable[..., Mapping[str, ColumnLike]], seed: int | None) -> None:
        self._source, self._function = source, function
        self._seed = None if seed is None else whole_number("seed", seed, minimum=0)
        _check_arguments(function, self._seed)
        super().__init__(len(source), self.take(np.zeros(1, np.intp)))

    def take(self, rows: NDArray[np.integer], *, epoch: int = 0, batch: int = 0) -> Columns:
        """Return the function's columns for these rows."""
        given = self._source.take(rows, epoch=epoch, batch=batch)
        random = [] if self._seed is None else [np.random.default_rng([self._seed, epoch, batch])]
        name = _name_of(self._function)
        found: Any = self._function(given, *random)
        if not isinstance(found, Mapping) or not found:
            raise DTypeError(
                f"{name} must return columns by name, as in {{'x': ...}}, at least one; it returned "
                f"{type(found).__name__}"
            )
        columns = as_columns(found)
        for column, array in columns.items():
            if len(array) != len(rows):
                raise ShapeError(
                    f"{name} returned {len(array)} rows of column {column!r} for a batch of {len(rows)} rows; it must "
                    f"return one for each"
                )
        return columns

    def _of_rows(self, rows: slice | np.ndarray) -> Dataset:
        # Select rows before applying the function, so that other rows are never computed.
        return Mapped(self._source[rows], self._function, self._seed)


def _name_of(function: Callable[..., object]) -> str:
    """Return the function's name for messages."""
    return str(getattr(function, "__name__", type(function).__name__))


def _check_arguments(function: Callable[..., object], seed: int | None) -> None:
    """Raise `TypeError` if a function takes another number of arguments than `map` gives."""
    given = ["columns"] if seed is None else ["columns", "generator"]
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # as of some builtins
        return
    try:
        signature.bind(*given)
    except TypeError as error:
        advice = "give seed=0 for a random generator" if seed is None else "leave out seed= if it draws nothing"
        raise TypeError(f"map calls {_name_of(function)}({', '.join(given)}), and {error}: {advice}") from None


class Selected(LazyDataset):
    """Some rows of another dataset, in any order."""

    __slots__ = ("_rows", "_source")

    def __init__(self, source: Dataset, rows: NDArray[np.intp]) -> None:
        if not len(rows):
            raise _no_rows(len(source))
        self._source, self._rows = source, rows
        super().__init__(len(rows), source.take(rows[:1]))

    def take(self, rows: NDArray[np.integer], *, epoch: int = 0, batch: int = 0) -> Columns:
        """Return the columns of these rows."""
        return self._source.take(self._rows[rows], epoch=epoch, batch=batch)


def _accepted_rows(predicate: Callable[[Columns], ArrayLike], columns: Columns) -> NDArray[np.bool_]:
    """Return the rows that a predicate accepts, as a mask."""
    rows, mask = check_lengths(columns), as_array(predicate(columns))
    if mask.dtype.kind != "b" or mask.shape != (rows,):
        raise DTypeError(
            f"the predicate returned {mask.dtype} of shape {mask.shape} for {rows} rows; expected booleans of shape "
            f"({rows},), as in lambda columns: columns['age'] > 18"
        )
    return mask


def _no_rows(count: int) -> DataError:
    return DataError(f"an empty dataset: the selection holds none of the {count} rows; select at least one.")
