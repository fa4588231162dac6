"""Validation of the arrays passed to metrics."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.errors import DataError, DTypeError, NotFinite, ShapeError
from wyrm.graph.arrays import as_array


def _location(array: np.ndarray, wrong: NDArray[np.bool_]) -> str:
    """Return the index of the first wrong entry, for a message."""
    index = tuple(map(int, np.unravel_index(int(wrong.argmax()), array.shape)))
    return f"at {index[0] if len(index) == 1 else index}"


def numbers(name: str, values: ArrayLike, *, infinite: bool = False) -> NDArray[np.float64]:
    """Return the values as float64; raise for none, other dtypes, NaN and, without `infinite`, infinities."""
    given = as_array(values, name)
    if given.dtype.kind not in "iufb":
        raise DTypeError(f"{name} has dtype {given.dtype} and shape {given.shape}; expected real numbers.")
    if given.size == 0:
        raise DataError(f"{name} is empty (shape {given.shape}); a metric needs at least one entry.")
    array = given.astype(np.float64)
    wrong = np.isnan(array) if infinite else ~np.isfinite(array)
    if wrong.any():
        raise NotFinite(
            f"{name}, of shape {array.shape}, holds {array[wrong][0]} {_location(array, wrong)}; expected "
            f"{'no NaN' if infinite else 'finite numbers only'}. Find the source of the value, or leave it out."
        )
    return array


def class_labels(name: str, values: ArrayLike) -> NDArray[np.int64]:
    """Return the values as one-dimensional int64; they are integers, booleans, or floats that are whole numbers."""
    array = numbers(name, values)
    if array.ndim != 1:
        raise ShapeError(
            f"{name} has shape {array.shape}; expected one label per row, shape (rows,). "
            f"Turn scores into labels with .argmax(axis=1), a column into a vector with .ravel()."
        )
    given = as_array(values)
    if given.dtype.kind != "f":
        return given.astype(np.int64)
    # From 2**53 on, float64 cannot represent every whole number.
    wrong = (array != np.floor(array)) | (np.abs(array) >= 2.0**53)
    if wrong.any():
        raise DataError(
            f"{name} holds {array[wrong][0]} {_location(array, wrong)}; expected labels, which are whole numbers. "
            f"Turn probabilities into labels, for example with probabilities > 0.5."
        )
    return array.astype(np.int64)


def same_shape(first_name: str, first: np.ndarray, second_name: str, second: np.ndarray) -> None:
    """Raise `ShapeError` if the shapes differ, even where NumPy would broadcast."""
    if first.shape != second.shape:
        raise ShapeError(
            f"{first_name} has shape {first.shape} and {second_name} has shape {second.shape}; expected the same "
            f"shape, one entry per row. Reshape or slice one of them."
        )


def score_matrix(name: str, values: ArrayLike, rows: str, columns: str) -> NDArray[np.float64]:
    """Return the values as scores of shape (rows, columns), which may be infinite."""
    scores = numbers(name, values, infinite=True)
    if scores.ndim != 2:
        raise ShapeError(
            f"{name} has shape {scores.shape}; expected ({rows}, {columns}). Use scores[np.newaxis] for a single row."
        )
    return scores
