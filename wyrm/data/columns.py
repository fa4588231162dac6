"""Columns: arrays by name, whose first axis is the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.arrays import as_array

Columns: TypeAlias = dict[str, np.ndarray]
Rows: TypeAlias = slice | Sequence[int] | NDArray[np.integer] | NDArray[np.bool_]


def _column(name: str, values: ArrayLike) -> np.ndarray:
    array = as_array(values, f"column {name!r}")
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


def as_columns(values: Mapping[str, ArrayLike]) -> Columns:
    """Return columns as arrays; raise `ShapeError` or `DTypeError`, naming the column, for values of another kind."""
    return {name: _column(name, column) for name, column in values.items()}


def check_lengths(columns: Mapping[str, np.ndarray]) -> int:
    """Return the number of rows of the columns; raise `ShapeError` if they differ in it."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r} has {length}" for name, length in lengths.items())
        raise ShapeError(f"columns of different lengths: {listed} rows. Each column must hold one entry per row.")
    return next(iter(lengths.values()))
