"""Alternating least squares: exact vectors of all users, then of all items, in turn."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from wyrm.data.interactions import Interactions
from wyrm.estimators.recommenders.factors import FactorRecommender, Solver, with_room
from wyrm.estimators.recommenders.history import History, Rows
from wyrm.support.options import number, whole


@dataclass(eq=False)
class ALS(FactorRecommender):
    """Vectors whose dot products are near 1 for items that a user had, and near 0 for others: implicit feedback.

    Hu, Koren and Volinsky, "Collaborative filtering for implicit feedback datasets" (2008). An item that a user had
    counts 1 + `confidence` times its weight, any other 1; `regularization` times the squared lengths of vectors is
    added: lower it where users have few items. `factors` is the length of vectors. In each of `iterations` all vectors
    take three steps of conjugate gradients; at the end users are solved exactly. `partial_fit` solves for the users and
    items that it is given, `fold_in` for users alone.

    Raise `OptionError` for options out of range.

    >>> clicks = wy.data.Interactions.of([0, 0, 1, 1, 2, 3, 3], ["a", "b", "a", "b", "a", "c", "d"])
    >>> ALS(factors=2, regularization=0.1).fit(clicks).recommend(2, 1).items.tolist()
    ['b']
    """

    factors: int = 64
    _: KW_ONLY
    confidence: float = 2.0
    regularization: float = 10.0
    iterations: int = 10
    random_state: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("factors", self.factors, 1)
        whole("iterations", self.iterations, 1)
        number("confidence", self.confidence, 0.0)
        number("regularization", self.regularization, float(np.finfo(np.float32).tiny))

    def _train(self, history: History, data: Interactions) -> None:
        count = len(history.items)
        by_user = history.rows.distinct(count)
        by_item = by_user.turned(count)
        counts = np.diff(by_item.offsets)
        random = np.random.default_rng(self.random_state)
        items = (0.1 * random.standard_normal((count, self.factors)) * (counts > 0)[:, None]).astype(np.float32)
        users = np.zeros((len(history.users), self.factors), np.float32)
        for _ in range(self.iterations):
            users = self._solver(items, None).solve(by_user, users)
            items = self._solver(users, None).solve(by_item, items)
        self.state = {"users": self._solver(items, None).solve(by_user), "items": items}

    def _solver(self, items: np.ndarray, biases: np.ndarray | None) -> Solver:
        return Solver(items, self.confidence, self.regularization)

    def _continue(self, history: History, new: Rows, data: Interactions) -> None:
        count = len(history.items)
        users, items = np.unique(new.users), np.unique(new.items)
        tables = {
            name: with_room(self.state[name], len(names)).copy()
            for name, names in (("users", history.users), ("items", history.items))
        }
        by_user = history.rows.distinct(count)
        by_item = by_user.turned(count)

        # The users know only items that were there; then the new ones are learned, and the users know them.
        for name, other, some, rows in (
            ("users", "items", users, by_user), ("items", "users", items, by_item), ("users", "items", users, by_user)
        ):  # fmt: skip
            size = len(history.items) if other == "items" else len(history.users)
            tables[name][some] = self._solver(tables[other][:size], None).solve(rows.take(some))
        self.state = tables
