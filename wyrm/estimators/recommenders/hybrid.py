"""Hybrid recommendation: the vector of a user or an item is the sum of the vectors of its features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from wyrm.data.interactions import Interactions
from wyrm.errors import DataError
from wyrm.estimators.recommenders.factors import FactorRecommender, Solver
from wyrm.estimators.recommenders.features import Side
from wyrm.estimators.recommenders.history import History, Numbers, Rows
from wyrm.estimators.recommenders.hybrid_graph import HybridForm
from wyrm.estimators.recommenders.trained import TrainedRecommender
from wyrm.losses.ranking import rank_weights
from wyrm.support.options import choice, number, whole

# How a user is folded in, found on MovieLens: the score that is wanted of an item that the user had, how much that
# counts and how short the vector is to be, both for each item that there is.
_GOAL, _CONFIDENCE, _REGULARIZATION = 10.0, 1.0 / 16.0, 3.0


@dataclass(eq=False)
class Hybrid(TrainedRecommender, FactorRecommender):
    """Vectors that are sums over features, trained so that items that a user had rank above drawn ones.

    The model of Kula, "Metadata embeddings for user and item cold-start recommendations" (2015). Each user and item has
    a vector of its own, and each tag that it has adds another: `Interactions.with_features` says which. A column of
    floats is one tag that counts so much, any other value is a tag of its own. `loss` is "warp", which attends to the
    top of the ranking and looks at up to `tries` drawn items for one that stands too high, "bpr", or "logistic", where
    rows with a weight below 0 are dislikes. `partial_fit` trains on the new interactions alone; tables grow, with the
    sums of squared gradients of Adagrad. `fold_in` solves for users as `ALS` does.

    Raise `OptionError` for options out of range, and in `fit` `DataError` for fewer than two items.

    >>> clicks = wy.data.low_rank_preferences(50, 30, rank=2, interactions_per_user=8)
    >>> model = Hybrid("bpr", factors=8, epochs=3).fit(clicks)
    >>> model.recommend([0, 1], k=3).items.shape
    (2, 3)
    """

    scores_anybody: ClassVar[bool] = True
    moments: ClassVar[Mapping[str, float]] = {"total": 1.0}
    loss: Literal["warp", "bpr", "logistic"] = "warp"
    factors: int = 32
    _: KW_ONLY
    tries: int = 10
    threads: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("loss", self.loss, ("warp", "bpr", "logistic"))
        for name in ("factors", "epochs", "batch_size", "tries", "threads"):
            whole(name, getattr(self, name), 1)
        number("learning_rate", self.learning_rate, 0.0)

    def _takes_dislikes(self) -> bool:
        return self.loss == "logistic"

    def _sides(self) -> list[Side]:
        draws = np.random.default_rng([self.random_state, int(self.state.get("epochs", 0))])

        def draw(rows: int) -> Any:
            return (draws.random((rows, self.factors), np.float32) - np.float32(0.5)) / np.float32(self.factors)

        return [Side(kind, self, draw) for kind in ("user", "item")]

    def _form(self) -> HybridForm:
        tagged = tuple(side.kind for side in self._sides() if side.tags)
        return HybridForm(self.loss, self.factors, self.tries if self.loss == "warp" else 1, tagged)

    def _train(self, history: History, data: Interactions) -> None:
        everyone = np.arange(len(history.users)), np.arange(len(history.items))
        self._learn(history, history.rows, data, everyone)

    def _continue(self, history: History, new: Rows, data: Interactions) -> None:
        known = history.users.known_numbers(data.user_ids), history.items.known_numbers(data.item_ids)
        self._learn(history, new, data, known)

    def _learn(self, history: History, rows: Rows, data: Interactions, ids: tuple[Numbers, Numbers]) -> None:
        if len(history.items) < 2:
            raise DataError("there is one item; expected two or more, to rank one above another")
        sides, held = self._sides(), dict[str, Any]()
        for side, names, numbers, features in zip(
            sides, (history.users, history.items), ids, (data.user_features, data.item_features), strict=True
        ):
            side.describe(numbers, features)
            side.grow(len(names))
            if side.tags:
                held |= {f"{side.kind}.{name}": side[name][: side.count] for name in ("places", "values")}
        users, row = np.unique(rows.users, return_inverse=True)
        seen = history.seen(users)
        held |= {"spans": np.stack([seen.indptr[:-1], seen.indptr[1:]], axis=1), "excluded": seen.indices}
        if self.loss == "warp":
            held["weights"] = rank_weights(len(history.items), self.tries + 1)
        columns = {"user": rows.users, "item": rows.items, "row": row, "weight": rows.weights}
        self._trained(columns, held, {f"{side.kind}.own": side.count for side in sides}, self.threads)
        (self.state["users"], _), (self.state["items"], self.state["biases"]) = (side.sums() for side in sides)

    def _solver(self, items: Any, biases: Any) -> Solver:
        # Centered, as losses of pairs compare scores: what is added to all of them changes nothing.
        centered, size = items - items.mean(axis=0), len(items)
        options: Any = {"biases": biases - biases.mean(), "goal": _GOAL}
        return Solver(centered, _CONFIDENCE * size, _REGULARIZATION * size, **options)

    def _fold(self, users: Numbers) -> None:
        sides = self._cache.get("sides") or self._cache.setdefault("sides", self._sides())
        for side, names in zip(sides, (self._known().users, self._known().items), strict=True):
            side.grow(len(names))
        super()._fold(users)
        self.state["user.own"][users] = self.state["users"][users] - sides[0].of_tags(users)[0]
