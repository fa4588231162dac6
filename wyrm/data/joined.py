"""Several datasets as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wyrm.data.columns import Columns
from wyrm.data.dataset import Dataset, LazyDataset
from wyrm.errors import DataError, ShapeError


class Joined(LazyDataset):
    """The rows of several datasets, one after the other; see `concatenate`."""

    __slots__ = ("_parts", "_starts")

    def __init__(self, parts: Sequence[Dataset]) -> None:
        self._parts = list(parts)
        self._starts = np.cumsum([0, *(len(part) for part in self._parts)])
        outlines = [part.outline for part in self._parts]
        for position, outline in enumerate(outlines[1:], 1):
            _check_same_columns(outlines[0], outline, position)
        common = {name: np.concatenate([outline[name] for outline in outlines])[:1] for name in outlines[0]}
        super().__init__(int(self._starts[-1]), common)

    def take(self, rows: NDArray[np.integer], *, epoch: int = 0, batch: int = 0) -> Columns:
        """Return the columns of these rows, each taken from its dataset."""
        part_of_row = np.searchsorted(self._starts, rows, side="right") - 1
        columns = {name: np.empty((len(rows), *row.shape[1:]), row.dtype) for name, row in self._columns.items()}
        for position in np.unique(part_of_row):
            chosen = part_of_row == position
            found = self._parts[position].take(rows[chosen] - self._starts[position], epoch=epoch, batch=batch)
            for name, column in columns.items():
                column[chosen] = found[name]
        return columns


def _check_same_columns(first: Columns, other: Columns, position: int) -> None:
    if first.keys() != other.keys():
        raise DataError(
            f"dataset 0 has the columns {', '.join(first)}, dataset {position} has {', '.join(other)}; join datasets "
            f"of the same columns, for example after select_columns or map"
        )
    for name, row in first.items():
        mine, its = (row.dtype, row.shape[1:]), (other[name].dtype, other[name].shape[1:])
        kinds = {dtype.kind for dtype, _ in (mine, its)}
        if mine[1] != its[1] or (len(kinds) > 1 and not kinds <= set("iuf")):
            raise ShapeError(
                f"column {name!r} holds {mine[0]} of shape {mine[1]} for each row of dataset 0, and {its[0]} of shape "
                f"{its[1]} of dataset {position}; the rows of all datasets must be alike"
            )


def concatenate(datasets: Sequence[Dataset]) -> Dataset:
    """Return the rows of several datasets, one dataset after the other, without copying them.

    The datasets have the same columns, of the same kinds and shapes; rows are gathered when a batch needs them.

    Raises:
        DataError: there is no dataset, or they have different columns.
        ShapeError: the rows of a column differ in kind or shape.
        TypeError: an element is not a `Dataset`.

    >>> from wyrm.data import Dataset
    >>> both = concatenate([Dataset(x=[1, 2]), Dataset(x=[3])])
    >>> both["x"].tolist(), both
    ([1, 2, 3], Dataset(3 rows: x int64))
    """
    parts = list(datasets)
    for part in parts:
        if not isinstance(part, Dataset):
            raise TypeError(f"concatenate takes a list of datasets, not of {type(part).__name__}")
    if not parts:
        raise DataError("concatenate needs at least one dataset")
    return parts[0] if len(parts) == 1 else Joined(parts)
