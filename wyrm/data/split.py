"""Splitting a data set in two, by rows or by groups of rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wyrm.data.checks import part_size, whole_number
from wyrm.data.dataset import Dataset
from wyrm.errors import ShapeError


def _chosen_for_test(count: int, test_fraction: float, seed: int, what: str) -> NDArray[np.bool_]:
    """A mask over `count` things with a random `test_fraction` of them, both sides non-empty."""
    test_count = part_size("test_fraction", test_fraction, count, what, f"use a fraction nearer to 0.5, or more {what}")
    generator = np.random.default_rng(whole_number("seed", seed, minimum=0))
    chosen = np.zeros(count, dtype=np.bool_)
    chosen[generator.permutation(count)[:test_count]] = True
    return chosen


def train_test_split(dataset: Dataset, test_fraction: float = 0.2, seed: int = 0) -> tuple[Dataset, Dataset]:
    """Split the rows at random in a training and a test part, the same for the same seed.

    The test part holds the whole number of rows nearest to `test_fraction`, above 0 and below 1, of all. Each row is
    in exactly one part, and both keep the order of the data set.

    Raises:
        DataError: `test_fraction` is out of its range, or leaves one part empty.

    >>> train, test = train_test_split(Dataset(x=np.arange(10)), test_fraction=0.3)
    >>> len(train), len(test)
    (7, 3)
    """
    test = _chosen_for_test(len(dataset), test_fraction, seed, "rows")
    return dataset[~test], dataset[test]


def split_by_group(
    dataset: Dataset, group: str = "users", test_fraction: float = 0.2, seed: int = 0
) -> tuple[Dataset, Dataset]:
    """Split in a training and a test part with no group, such as a user, in both; the same for the same seed.

    `group` names a column of shape (rows,). The test part holds all rows of the whole number of groups nearest to
    `test_fraction`, above 0 and below 1, of all groups. Both parts keep the order of the data set.

    Raises:
        DataError: there is no such column, `test_fraction` is out of its range, or leaves one part empty.
        ShapeError: the column has more than one axis.

    >>> train, test = split_by_group(Dataset(users=[7, 7, 8, 8, 9]), test_fraction=0.3)
    >>> set(train["users"].tolist()) & set(test["users"].tolist())
    set()
    """
    column = dataset[group]
    if column.ndim != 1:
        raise ShapeError(f"column {group!r} has shape {column.shape}; expected one group for each row.")
    groups, group_of_row = np.unique(column, return_inverse=True)
    test = _chosen_for_test(len(groups), test_fraction, seed, f"groups of column {group!r}")[group_of_row]
    return dataset[~test], dataset[test]
