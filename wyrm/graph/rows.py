"""`RowSparse`: an array of which only a few rows are not zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wyrm.graph.typing import DTypeLike, FloatArray, IntegerArray


class RowSparse:
    """An array of shape `shape`: row `rows[i]` is `values[i]`, repeated rows add up, and other rows are zero.

    `rows` has shape (n,), `values` (n, *shape[1:]). `np.asarray` returns the dense array.

    >>> np.asarray(RowSparse(np.array([1, 1]), np.array([[1.0], [2.0]]), (3, 1))).tolist()
    [[0.0], [3.0], [0.0]]
    """

    __slots__ = ("rows", "shape", "values")

    def __init__(self, rows: IntegerArray, values: FloatArray, shape: tuple[int, ...]) -> None:
        self.rows: IntegerArray = rows
        self.values: FloatArray = values
        self.shape: tuple[int, ...] = shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values."""
        return self.values.dtype

    def summed(self) -> RowSparse:
        """Return the same value with each row once, in ascending order."""
        order = self.rows.argsort(kind="stable")
        rows, values = self.rows[order], self.values[order]
        first = np.empty(len(rows), np.bool_)
        first[:1] = True
        np.not_equal(rows[1:], rows[:-1], out=first[1:])
        starts = first.nonzero()[0]
        if len(starts) == len(rows):
            return RowSparse(rows, values, self.shape)
        return RowSparse(rows[starts], np.add.reduceat(values, starts, axis=0), self.shape)

    def joined(self, other: RowSparse) -> RowSparse:
        """Return the sum of two row-sparse values."""
        return self.total([self, other])

    @staticmethod
    def total(parts: Sequence[RowSparse]) -> RowSparse:
        """Return the sum of row-sparse values. Each is added up first: what cancels then does so exactly."""
        each = [part.summed() for part in parts]
        rows = np.concatenate([part.rows for part in each])
        return RowSparse(rows, np.concatenate([part.values for part in each]), parts[0].shape)

    def add_to(self, dense: FloatArray) -> None:
        """Add the rows to a dense array in place."""
        np.add.at(dense, self.rows, self.values)

    def dense(self) -> FloatArray:
        """Return a new dense array."""
        result = np.zeros(self.shape, self.values.dtype)
        self.add_to(result)
        return result

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> FloatArray:
        return np.asarray(self.dense(), dtype=dtype)

    def __repr__(self) -> str:
        return f"RowSparse({len(self.rows)} rows of {self.shape}, {self.dtype})"
