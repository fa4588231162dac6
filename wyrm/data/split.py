"""Splits of a dataset into a training and a test part, and datasets joined to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wyrm.data.checks import Columns, part_size, whole_number
from wyrm.data.dataset import Dataset, LazyDataset
from wyrm.data.interactions import Interactions
from wyrm.errors import DataError, ShapeError
from wyrm.graph.ragged import RaggedArray, entries_of, joined, of_values

# The rows that are split.
Data = TypeVar("Data", Dataset, Interactions)


def _chosen_for_test(count: int, test_fraction: float, seed: int, what: str) -> NDArray[np.bool_]:
    """Return a mask over `count` elements with a random `test_fraction` of them set, and both parts non-empty."""
    test_count = part_size("test_fraction", test_fraction, count, what, f"use a fraction nearer to 0.5, or more {what}")
    generator = np.random.default_rng(whole_number("seed", seed, minimum=0))
    chosen = np.zeros(count, dtype=np.bool_)
    chosen[generator.permutation(count)[:test_count]] = True
    return chosen


def train_test_split(dataset: Data, test_fraction: float = 0.2, seed: int = 0) -> tuple[Data, Data]:
    """Split the rows of a `Dataset` or `Interactions` at random into a training and a test part.

    The test part holds `test_fraction` of the rows, above 0 and below 1, rounded to whole rows. Both parts keep the
    order of the data. Equal seeds give equal splits.

    Raises:
        DataError: `test_fraction` is out of range, or leaves a part empty.

    >>> train, test = train_test_split(Dataset(x=np.arange(10)), test_fraction=0.3)
    >>> len(train), len(test)
    (7, 3)
    """
    test = _chosen_for_test(len(dataset), test_fraction, seed, "rows")
    return dataset[~test], dataset[test]


def split_by_group(dataset: Data, group: str = "users", test_fraction: float = 0.2, seed: int = 0) -> tuple[Data, Data]:
    """Split into a training and a test part so that no group, such as a user, is in both; equal seeds, equal splits.

    `group` names a column of shape (rows,). The test part holds all rows of `test_fraction` of the groups, above 0 and
    below 1, rounded to whole groups. Both parts keep the order of the dataset.

    Raises:
        DataError: there is no such column, or `test_fraction` is out of range or leaves a part empty.
        ShapeError: the column has more than one axis.

    >>> train, test = split_by_group(Dataset(users=[7, 7, 8, 8, 9]), test_fraction=0.3)
    >>> set(train["users"].tolist()) & set(test["users"].tolist())
    set()
    """
    column = (dataset.dataset() if isinstance(dataset, Interactions) else dataset)[group]
    if isinstance(column, RaggedArray) or column.ndim != 1:
        shape = "rows of different lengths" if isinstance(column, RaggedArray) else f"shape {column.shape}"
        raise ShapeError(f"column {group!r} has {shape}; expected one group per row.")
    groups, group_of_row = np.unique(column, return_inverse=True)
    test = _chosen_for_test(len(groups), test_fraction, seed, f"groups of column {group!r}")[group_of_row]
    return dataset[~test], dataset[test]


class Concatenated(LazyDataset):
    """The rows of several datasets, one after the other; see `concatenate`."""

    __slots__ = ("_parts", "_starts")

    def __init__(self, parts: Sequence[Dataset]) -> None:
        self._parts = list(parts)
        self._starts = np.cumsum([0, *(len(part) for part in self._parts)])
        outlines = [part.outline for part in self._parts]
        for position, outline in enumerate(outlines[1:], 1):
            _check_same_columns(outlines[0], outline, position)
        common = {name: joined([outline[name] for outline in outlines])[:1] for name in outlines[0]}
        super().__init__(int(self._starts[-1]), common)

    def take(self, rows: NDArray[np.integer], *, epoch: int = 0, batch: int = 0) -> Columns:
        """Return the columns of these rows, each taken from its dataset."""
        part_of_row = np.searchsorted(self._starts, rows, side="right") - 1
        taken = [
            self._parts[position].take(rows[part_of_row == position] - self._starts[position], epoch=epoch, batch=batch)
            for position in np.unique(part_of_row)
        ]
        place = np.argsort(np.argsort(part_of_row, kind="stable"))
        columns: dict[str, Any] = {}
        for name, row in self._columns.items():
            column = joined([found[name] for found in taken])[place]
            entries = entries_of(column).astype(row.dtype, copy=False)
            columns[name] = of_values(entries, column) if isinstance(column, RaggedArray) else entries
        return columns


def _check_same_columns(first: Columns, other: Columns, position: int) -> None:
    if first.keys() != other.keys():
        raise DataError(
            f"dataset 0 has the columns {', '.join(first)}, dataset {position} has {', '.join(other)}; join datasets "
            f"of the same columns, for example after select_columns or map"
        )
    for name, row in first.items():
        if isinstance(row, RaggedArray) != isinstance(other[name], RaggedArray):
            raise ShapeError(
                f"column {name!r} has rows of different lengths in one of the datasets 0 and {position}, and of one "
                f"length in the other; make both a wy.RaggedArray"
            )
        mine, its = [(each.dtype, entries_of(each).shape[1:]) for each in (row, other[name])]
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
    return parts[0] if len(parts) == 1 else Concatenated(parts)
