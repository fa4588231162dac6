"""Checks of the arguments of readers and datasets: options, columns and files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.errors import DataError, DTypeError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.ragged import RaggedArray
from wyrm.support.options import whole


def whole_number(name: str, value: object, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`; raise `DataError`, or `DTypeError` for a float or a bool."""
    return whole(name, value, minimum, DataError)


def fraction(name: str, value: object) -> float:
    """Return `value` as a float; raise `DTypeError` unless it is a number, `DataError` unless it is in (0, 1)."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DTypeError(f"{name} must be a number in (0, 1), not {value!r}")
    if not 0.0 < value < 1.0:
        raise DataError(f"{name} must be in (0, 1), such as 0.2 for one part in five, not {value}")
    return float(value)


def part_size(name: str, value: object, count: int, what: str, remedy: str) -> int:
    """Return the size of the part that an option such as `test_fraction` gives; raise if a part would be empty."""
    share, part = fraction(name, value), name.removesuffix("_fraction")
    size = round(share * count)
    if not 0 < size < count:
        side = part if size == 0 else "training"
        raise DataError(f"{name}={share} of {count} {what} leaves none for the {side} part; {remedy}.")
    return size


Columns: TypeAlias = dict[str, np.ndarray]
# A column as it is given.
ColumnLike: TypeAlias = ArrayLike | RaggedArray[Any]
Rows: TypeAlias = slice | Sequence[int] | NDArray[np.integer] | NDArray[np.bool_]


def _column(name: str, values: ColumnLike) -> Any:
    if isinstance(values, RaggedArray):
        return values
    array = as_array(values, f"column {name!r}")
    if array.dtype.kind == "O":
        raise DTypeError(
            f"column {name!r} holds Python objects; expected numbers, booleans or strings. "
            f"Convert it, for example with np.asarray(values, dtype=np.float32)."
        )
    if array.ndim == 0:
        raise ShapeError(f"column {name!r} is a single value, {array.item()!r}; expected one entry per row.")
    if isinstance(values, list | tuple) and array.ndim == 1 and array.size:
        _check_kept(name, values, array)
    # Python floats become float32, as everywhere in wyrm; arrays keep their dtype.
    if array.dtype == np.float64 and not hasattr(values, "dtype"):
        return array.astype(np.float32)
    return array


def _check_kept(name: str, values: Sequence[object], array: np.ndarray) -> None:
    """Raise `DTypeError` if NumPy made texts of numbers, or floats of integers: different values may be equal then."""
    if array.dtype.kind in "US":
        kind = type(array[0]).__mro__[1]  # str or bytes
        other = next((each for each in values if not isinstance(each, kind)), None)
        if other is not None:
            raise DTypeError(f"column {name!r} holds {other!r} beside texts; expected values of one type")
    elif array.dtype.kind == "f" and all(isinstance(each, int | np.integer) for each in values):
        raise DTypeError(f"column {name!r} holds integers that no array holds exactly; wy.data.Ids numbers such ids")


def as_columns(values: Mapping[str, ColumnLike]) -> Columns:
    """Return columns as arrays; raise `ShapeError` or `DTypeError` with the column's name for other values."""
    return {name: _column(name, column) for name, column in values.items()}


def check_lengths(columns: Mapping[str, np.ndarray]) -> int:
    """Return the number of rows of the columns; raise `ShapeError` if their numbers differ."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise ShapeError(f"columns of different lengths: {listed} rows. Each column must hold one entry per row.")
    return next(iter(lengths.values()))


FilePath: TypeAlias = str | os.PathLike[str]


@contextmanager
def open_data_file(path: FilePath) -> Iterator[BufferedReader]:
    """Open a file for reading bytes; errors while opening and reading become `DataError`."""
    try:
        with Path(path).open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise DataError(
            f"no such file: {os.fspath(path)!r}. Pass the path of an existing data file (examples take it as --data)."
        ) from error
    except OSError as error:
        raise DataError(
            f"cannot read {os.fspath(path)!r}: {error.strerror}. "
            f"Pass the path of a readable data file (examples take it as --data)."
        ) from error
