"""Train/test splits, by rows or by groups of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wyrm.data.checks import part_size, whole_number
from wyrm.data.dataset import Dataset
from wyrm.errors import ShapeError


def _chosen_for_test(count: int, test_fraction: float, seed: int, what: str) -> NDArray[np.bool_]:
    """Return a mask over `count` elements with a random `test_fraction` of them set, and both parts non-empty."""
    test_count = part_size("test_fraction", test_fraction, count, what, f"use a fraction nearer to 0.5, or more {what}")
    generator = np.random.default_rng(whole_number("seed", seed, minimum=0))
    chosen = np.zeros(count, dtype=np.bool_)
    chosen[generator.permutation(count)[:test_count]] = True
    return chosen


def train_test_split(dataset: Dataset, test_fraction: float = 0.2, seed: int = 0) -> tuple[Dataset, Dataset]:
    """Split the rows at random into a training and a test part; equal seeds give equal splits.

    The test part holds `test_fraction` of the rows, above 0 and below 1, rounded to whole rows. Both parts keep the
    order of the dataset.

    Raises:
        DataError: `test_fraction` is out of range, or leaves a part empty.

    >>> train, test = train_test_split(Dataset(x=np.arange(10)), test_fraction=0.3)
    >>> len(train), len(test)
    (7, 3)
    """
    test = _chosen_for_test(len(dataset), test_fraction, seed, "rows")
    return dataset[~test], dataset[test]


def split_by_group(
    dataset: Dataset, group: str = "users", test_fraction: float = 0.2, seed: int = 0
) -> tuple[Dataset, Dataset]:
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
    column = dataset[group]
    if column.ndim != 1:
        raise ShapeError(f"column {group!r} has shape {column.shape}; expected one group per row.")
    groups, group_of_row = np.unique(column, return_inverse=True)
    test = _chosen_for_test(len(groups), test_fraction, seed, f"groups of column {group!r}")[group_of_row]
    return dataset[~test], dataset[test]
