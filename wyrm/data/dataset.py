"""A dataset: named NumPy arrays of equal length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.data.checks import whole_number
from wyrm.errors import DataError, DTypeError, IndexOutOfRange, NotFinite, ShapeError
from wyrm.types.arrays import as_array

Rows: TypeAlias = slice | Sequence[int] | NDArray[np.integer] | NDArray[np.bool_]


def _column(name: str, values: ArrayLike) -> np.ndarray:
    try:
        array = as_array(values)
    except ValueError as error:
        raise ShapeError(
            f"column {name!r} is not an array: {error}. Give every row the same shape, for example by padding."
        ) from error
    if array.dtype.kind == "O":
        raise DTypeError(
            f"column {name!r} holds Python objects; expected numbers, booleans or strings. "
            f"Convert it, for example with np.asarray(values, dtype=np.float32)."
        )
    if array.ndim == 0:
        raise ShapeError(f"column {name!r} is a single value, {array.item()!r}; expected one entry per row.")
    # Python floats become float32, as everywhere in wyrm; arrays keep their dtype.
    if array.dtype == np.float64 and not hasattr(values, "dtype"):
        return array.astype(np.float32)
    return array


class Dataset:
    """Named columns over the same rows: `Dataset(users=..., items=...)` or `Dataset({"users": ...})`.

    Each column is an array of shape (rows, ...). Arrays are not copied; lists of Python floats become float32.
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

    def __init__(self, mapping: Mapping[str, ArrayLike] | None = None, /, **columns: ArrayLike) -> None:
        if not isinstance(mapping, Mapping | None):
            raise TypeError(
                f"Dataset takes columns by name, as in Dataset(images=x, labels=y), not {type(mapping).__name__}"
            )
        given = dict(mapping or {})
        repeated = sorted(given.keys() & columns.keys())
        if repeated:
            raise DataError(f"columns {repeated} are given twice, in the mapping and by keyword; give each once.")
        self._columns = {name: _column(name, values) for name, values in (given | columns).items()}
        if not self._columns:
            raise DataError("a dataset needs at least one column, such as Dataset(users=..., items=...); got none.")
        lengths = {name: len(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1:
            listed = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
            raise ShapeError(f"columns of different lengths: {listed} rows. Each column must hold one entry per row.")
        self._length = next(iter(lengths.values()))
        if self._length == 0:
            raise DataError(f"an empty dataset: columns {list(self._columns)} have no rows; expected at least one.")

    @property
    def columns(self) -> Mapping[str, np.ndarray]:
        """A read-only mapping from name to array, in the order given."""
        return MappingProxyType(self._columns)

    def __len__(self) -> int:
        return self._length

    def __contains__(self, name: object) -> bool:
        return name in self._columns

    def __repr__(self) -> str:
        described = (
            f"{name} {column.dtype}" + (f" {column.shape[1:]}" if column.ndim > 1 else "")
            for name, column in self._columns.items()
        )
        return f"Dataset({self._length} {'row' if self._length == 1 else 'rows'}: {', '.join(described)})"

    @overload
    def __getitem__(self, key: str) -> np.ndarray: ...
    @overload
    def __getitem__(self, key: Rows) -> Dataset: ...
    def __getitem__(self, key: str | Rows) -> np.ndarray | Dataset:
        if isinstance(key, str):
            if key not in self._columns:
                raise DataError(f"no column {key!r}; this dataset has {list(self._columns)}.")
            return self._columns[key]
        rows = key if isinstance(key, slice) else self._row_indices(key)
        selected = {name: column[rows] for name, column in self._columns.items()}
        if not len(next(iter(selected.values()))):
            raise DataError(
                f"an empty dataset: the selection holds none of the {self._length} rows; select at least one."
            )
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
            finite = np.isfinite(column)
            if not finite.all():
                index = np.unravel_index(int(finite.argmin()), column.shape)
                within = f" (at {tuple(map(int, index))})" if column.ndim > 1 else ""
                raise NotFinite(
                    f"column {name!r} holds {column[index]} in row {index[0]}{within}; expected finite numbers only. "
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
        outside = (column < 0) | (column >= size)
        if outside.any():
            index = np.unravel_index(int(outside.argmax()), column.shape)
            raise IndexOutOfRange(
                f"column {name!r} holds {column[index]} in row {index[0]}; expected 0 to {size - 1}, the rows of a "
                f"table of size {size}. Enlarge the table, or number the ids from 0 with "
                f"np.unique(ids, return_inverse=True)."
            )
