"""The items that most users had: what any other recommender has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wyrm.data.interactions import Interactions
from wyrm.estimators.recommenders.base import Recommender
from wyrm.estimators.recommenders.history import History, Numbers


@dataclass(eq=False)
class Popular(Recommender):
    """Recommend to everybody the items with the largest sum of weights. Items are alike if the same users had them.

    >>> clicks = wy.data.Interactions.of(["ann", "ann", "bob", "bob", "eve"], ["a", "b", "a", "c", "a"])
    >>> model = Popular().fit(clicks)
    >>> model.recommend("eve", 2).items.tolist(), model.similar_items("b", 1).items.tolist()
    (['b', 'c'], ['a'])
    """

    scores_anybody: ClassVar[bool] = True

    def _train(self, history: History, data: Interactions) -> None:
        rows = history.rows
        self.state["sums"] = np.bincount(rows.items, rows.weights, len(history.items))

    def _scores(self, users: Numbers) -> NDArray[Any]:
        return np.broadcast_to(self.state["sums"], (len(users), len(self.state["sums"])))

    def _likeness(self, items: Numbers) -> NDArray[Any]:
        """Return the cosines of items as the sets of their users."""
        history = self._known()
        count = len(history.items)
        rows = history.rows.distinct(count)
        by_item = rows.turned(count)
        lengths = np.sqrt(np.maximum(np.diff(by_item.offsets), 1))
        found = np.zeros((len(items), count))
        for place, item in enumerate(items.tolist()):
            users = by_item.items[by_item.offsets[item] : by_item.offsets[item + 1]]
            found[place] = np.bincount(rows.take(users).items, minlength=count) / lengths[item] / lengths
        return found
