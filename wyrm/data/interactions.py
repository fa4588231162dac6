"""Interactions of users with items, the data of recommenders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wyrm.data.dataset import Dataset
from wyrm.errors import ShapeError


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Interactions of users with items: per row a user, an item, a rating and a timestamp.

    `users` and `items`, both int64 of shape (rows,), are indices into `user_ids` and `item_ids`, the original ids in
    ascending order. `ratings` is float32 and `timestamps` int64, both of shape (rows,).

    Raises:
        ShapeError: the columns differ in length, or the ids are not one-dimensional.
        IndexOutOfRange: a user or an item index is beyond its ids.
        DataError: there are no rows.

    >>> Interactions(
    ...     users=np.array([0, 1]), items=np.array([0, 0]), ratings=np.array([4, 5], np.float32),
    ...     timestamps=np.array([10, 20]), user_ids=np.array([196, 204]), item_ids=np.array([242]),
    ... )
    Interactions(2 rows, 2 users, 1 items)
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    ratings: NDArray[np.float32]
    timestamps: NDArray[np.int64]
    user_ids: np.ndarray
    item_ids: np.ndarray

    def __post_init__(self) -> None:
        for name, ids in (("user_ids", self.user_ids), ("item_ids", self.item_ids)):
            if ids.ndim != 1:
                raise ShapeError(f"{name} has shape {ids.shape}; expected one dimension, with each id once.")
        dataset = self.dataset()
        dataset.check_index("users", self.user_count)
        dataset.check_index("items", self.item_count)

    def __len__(self) -> int:
        return len(self.users)

    def __repr__(self) -> str:
        return f"Interactions({len(self)} rows, {self.user_count} users, {self.item_count} items)"

    @property
    def user_count(self) -> int:
        """Number of users."""
        return len(self.user_ids)

    @property
    def item_count(self) -> int:
        """Number of items."""
        return len(self.item_ids)

    def dataset(self) -> Dataset:
        """Return a `Dataset` of the columns users, items, ratings and timestamps, which shares these arrays."""
        return Dataset(users=self.users, items=self.items, ratings=self.ratings, timestamps=self.timestamps)
