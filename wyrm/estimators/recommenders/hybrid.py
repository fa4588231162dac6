"""Hybrid recommendation: the vector of a user or an item is the sum of the vectors of its features."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

import wyrm.losses as losses
import wyrm.random as random
from wyrm.data.interactions import Interactions
from wyrm.errors import DataError
from wyrm.estimators.recommenders.factors import FactorRecommender, Solver
from wyrm.estimators.recommenders.features import Side
from wyrm.estimators.recommenders.history import History, Numbers, Rows
from wyrm.graph.axes import Dim
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.node import IndexNode, Node
from wyrm.optim import Adagrad
from wyrm.support.options import choice, number, whole
from wyrm.train.compiling import compile


class _Batch(Dim): ...


# How a user is folded in, found on MovieLens: the score that is wanted of an item that the user had, how much that
# counts and how short the vector is to be, both for each item that there is.
_GOAL, _CONFIDENCE, _REGULARIZATION = 10.0, 1.0 / 16.0, 3.0


@dataclass(eq=False)
class Hybrid(FactorRecommender):
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
    loss: Literal["warp", "bpr", "logistic"] = "warp"
    factors: int = 32
    _: KW_ONLY
    epochs: int = 30
    learning_rate: float = 0.05
    batch_size: int = 10
    tries: int = 10
    threads: int = 1
    random_state: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("loss", self.loss, ("warp", "bpr", "logistic"))
        for name in ("factors", "epochs", "batch_size", "tries", "threads"):
            whole(name, getattr(self, name), 1)
        number("learning_rate", self.learning_rate, 0.0)

    def _takes_dislikes(self) -> bool:
        return self.loss == "logistic"

    def _sides(self) -> list[Side]:
        draws = np.random.default_rng([self.random_state, int(self.state.get("steps", 0))])

        def draw(rows: int) -> Any:
            return (draws.random((rows, self.factors), np.float32) - np.float32(0.5)) / np.float32(self.factors)

        return [Side(kind, self.state, draw) for kind in ("user", "item")]

    def _train(self, history: History, data: Interactions) -> None:
        everyone = np.arange(len(history.users)), np.arange(len(history.items))
        self._learn(history, history.rows, data, everyone)

    def _continue(self, history: History, new: Rows, data: Interactions) -> None:
        self.state = {name: array.copy() for name, array in self.state.items()}
        known = history.users.known_numbers(data.user_ids), history.items.known_numbers(data.item_ids)
        self._learn(history, new, data, known)

    def _learn(self, history: History, rows: Rows, data: Interactions, ids: tuple[Numbers, Numbers]) -> None:
        if len(history.items) < 2:
            raise DataError("there is one item; expected two or more, to rank one above another")
        sides = self._sides()
        for side, numbers, features in zip(sides, ids, (data.user_features, data.item_features), strict=True):
            side.describe(numbers, features)
        self._grow(history, sides)
        parameters = sides[0].parameters(self.loss == "logistic") | sides[1].parameters(True)
        optimizer = Adagrad(list(parameters.values()), self.learning_rate, initial_accumulator=1.0)
        before = {f"{i}.total": self.state[f"{name}.total"] for i, name in enumerate(parameters)}
        optimizer.load_state_dict(optimizer.state_dict() | before)
        users, items, weights = rows.users, rows.items, rows.weights
        total, inputs = self._graph(history, sides, parameters)
        columns = dict(zip(inputs, (users, items, weights), strict=True))
        program = compile(total, optimizer)
        steps = int(self.state.get("steps", 0))
        for epoch in range(self.epochs):
            seed = self.random_state + steps + epoch
            program.epoch(columns, batch_size=self.batch_size, shuffle=True, seed=seed, threads=self.threads)
        after = optimizer.state_dict()
        for i, (name, parameter) in enumerate(parameters.items()):
            self.state |= {name: np.array(parameter.value), f"{name}.total": after[f"{i}.total"]}
        (self.state["users"], _), (self.state["items"], self.state["biases"]) = (side.sums() for side in sides)
        self.state["steps"] = np.array(steps + self.epochs)

    def _grow(self, history: History, sides: list[Side]) -> None:
        for side, names in zip(sides, (history.users, history.items), strict=True):
            side.grow(len(names))

    def _graph(self, history: History, sides: list[Side], parameters: Any) -> tuple[Node, list[Any]]:
        """Return the loss of a batch, and its inputs: users, items and weights."""
        batch, size = _Batch(), len(history.items)
        user, item = (IndexInput(dims=(batch,), name=name) for name in ("user", "item"))
        weight = Input(dims=(batch,), name="weight")
        vector, user_bias = sides[0].of(user, parameters)

        def score(items: IndexNode) -> Node:
            vectors, biases = sides[1].of(items, parameters)
            assert biases is not None
            scores = (vector.expand_dims(1) * vectors).sum(axis=-1) + biases
            return scores if user_bias is None else scores + user_bias.expand_dims(1)

        seen, liked = history.seen(np.arange(len(history.users))), score(item.expand_dims(1))
        draw: Any = {
            "exclude": seen,
            "rows": user,
            "seed": self.random_state + int(self.state.get("steps", 0)),
            "stream": 0,
        }
        if self.loss == "warp":
            dims: Any = (batch, self.tries)
            drawn = random.index(size, dims, **draw)
            each = losses.warp(liked[:, 0], score, items=drawn, num_items=size, reduction="none")
        else:
            other = score(random.index(size, (batch, 1), **draw))[:, 0]
            if self.loss == "bpr":
                each = losses.bpr(liked[:, 0], other, reduction="none")
            else:
                each = (liked[:, 0] * -weight.sign()).softplus() + other.softplus()
        return (each * weight.abs()).sum(), [user, item, weight]

    def _solver(self, items: Any, biases: Any) -> Solver:
        # Centered, as losses of pairs compare scores: what is added to all of them changes nothing.
        centered, size = items - items.mean(axis=0), len(items)
        options: Any = {"biases": biases - biases.mean(), "goal": _GOAL}
        return Solver(centered, _CONFIDENCE * size, _REGULARIZATION * size, **options)

    def _fold(self, users: Numbers) -> None:
        sides = self._cache.get("sides") or self._cache.setdefault("sides", self._sides())
        self._grow(self._known(), sides)
        super()._fold(users)
        self.state["user.own"][users] = self.state["users"][users] - sides[0].of_tags(users)[0]
