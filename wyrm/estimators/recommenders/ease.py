"""EASE: the score of an item is a sum over the items that a user had, by weights that are solved at once."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.data.interactions import Interactions
from wyrm.errors import OptionError
from wyrm.estimators.recommenders.base import Recommender
from wyrm.estimators.recommenders.history import History, Numbers
from wyrm.support.options import number

# The users whose rows are multiplied at once.
_USERS = 4096


@dataclass(eq=False)
class EASE(Recommender):
    """Score items by a matrix of items by items with a zero diagonal: ridge regression of each item on all others.

    Steck, "Embarrassingly shallow autoencoders for sparse data" (2019). The solution is exact; time grows with the
    third power of the number of items and memory with the second, so that it is for up to some 20,000. A user is known
    by the items alone, and `partial_fit` solves again. `regularization` is above 0.

    Raise `OptionError` for another `regularization`.

    >>> clicks = wy.data.Interactions.of([0, 0, 1, 1, 2, 3, 3], ["a", "b", "a", "b", "a", "c", "d"])
    >>> EASE(regularization=1.0).fit(clicks).recommend(2, 1).items.tolist()
    ['b']
    """

    regularization: float = 300.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if number("regularization", self.regularization, 0.0) == 0.0:
            raise OptionError("regularization must be above 0")

    def _train(self, history: History, data: Interactions) -> None:
        count = len(history.items)
        rows = history.rows.distinct(count)
        gram = np.zeros((count, count))
        for first in range(0, len(history.users), _USERS):
            part = rows.take(np.arange(first, min(first + _USERS, len(history.users))))
            dense = np.zeros((len(part.offsets) - 1, count), np.float32)
            dense[part.users, part.items] = part.weights
            gram += dense.T @ dense
        gram[np.diag_indices(count)] += self.regularization
        inverse = np.linalg.inv(gram)
        weights = inverse / -np.diag(inverse)
        np.fill_diagonal(weights, 0.0)
        self.state["weights"] = weights.astype(np.float32)

    def _scores(self, users: Numbers) -> NDArray[Any]:
        rows, weights = self._known().take(users).distinct(len(self.state["weights"])), self.state["weights"]
        return np.stack([
            rows.weights[first:last] @ weights[rows.items[first:last]]
            for first, last in pairwise(rows.offsets)
        ])  # fmt: skip

    def _likeness(self, items: Numbers) -> NDArray[Any]:
        return self.state["weights"][items]
