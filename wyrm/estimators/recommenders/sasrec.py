"""SASRec: the next item of a user, by attention over the items that the user had last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wyrm.data.interactions import Interactions
from wyrm.errors import DataError
from wyrm.estimators.recommenders.factors import cosines
from wyrm.estimators.recommenders.history import History, Numbers, Rows
from wyrm.estimators.recommenders.sasrec_graph import SASRecForm
from wyrm.estimators.recommenders.trained import TrainedRecommender
from wyrm.estimators.trials import PROGRAMS
from wyrm.support.options import number, whole


@dataclass(eq=False)
class SASRec(TrainedRecommender):
    """Score the item that comes next, from the order of the last `length` items of a user, whoever it is.

    Kang and McAuley, "Self-attentive sequential recommendation" (2018): `blocks` of causal attention with `heads` over
    vectors of `factors`. It is trained with Adam to tell the next item from `negatives` drawn ones by a softmax, and
    weights do not count. `partial_fit` goes on with the new interactions, and `fold_in` costs nothing: a user is known
    by the items alone.

    Raise `OptionError` for options out of range, and in `fit` `DataError` if no user has two items.

    >>> clicks = wy.data.low_rank_preferences(50, 30, rank=2, interactions_per_user=8)
    >>> SASRec(8, length=5, epochs=1).fit(clicks).recommend(3, k=2).items.shape
    (2,)
    """

    moments: ClassVar[Mapping[str, float]] = {"mean": 0.0, "square": 0.0}
    factors: int = 32
    _: KW_ONLY
    length: int = 50
    blocks: int = 1
    heads: int = 1
    dropout: float = 0.2
    epochs: int = 25
    learning_rate: float = 0.005
    batch_size: int = 32
    negatives: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("factors", "length", "blocks", "heads", "epochs", "batch_size", "negatives"):
            whole(name, getattr(self, name), 1)
        number("dropout", self.dropout, 0.0, 1.0)
        number("learning_rate", self.learning_rate, 0.0)

    def _form(self) -> SASRecForm:
        return SASRecForm(self.factors, self.length, self.blocks, self.heads, self.dropout, self.negatives)

    def _train(self, history: History, data: Interactions) -> None:
        columns = self._windows(history.rows)
        for name, array in self._form().drawn(self.random_state).items():
            self._add_rows(name, array[:0] if name == "items" else array)
        self._learn(history, columns, known=0)

    def _continue(self, history: History, new: Rows, data: Interactions) -> None:
        # What comes next is learned from new items, with what a user had before them.
        users = np.unique(new.users)
        fresh = np.bincount(new.users, minlength=len(history.users))[users]
        rows = history.rows.take(users)
        ends, more = rows.offsets[1:], np.minimum(fresh + self.length, np.diff(rows.offsets))
        places = np.concatenate([np.arange(end - count, end) for end, count in zip(ends, more, strict=True)])
        some = Rows(np.append(0, np.cumsum(more)), rows.items[places], rows.weights[places])
        self._learn(history, self._windows(some), known=len(self.state["items"]))

    def _learn(self, history: History, columns: dict[str, Any], known: int) -> None:
        draws = np.random.default_rng([self.random_state, known])
        rows = draws.standard_normal((len(history.items) - known, self.factors)) / np.sqrt(self.factors)
        self._add_rows("items", rows.astype(np.float32), known)
        self._trained(columns, {}, {"items": len(history.items)})

    def _windows(self, rows: Rows) -> dict[str, NDArray[Any]]:
        """Return items, those that follow them, and where one follows: each item of a user follows once."""
        found = [
            rows.items[max(first, end - self.length - 1) : end]
            for first, last in zip(rows.offsets[:-1].tolist(), rows.offsets[1:].tolist(), strict=True)
            for end in range(last, first + 1, -self.length)
        ]
        if not found:
            raise DataError("no user has two items, so that nothing tells which comes next")
        return {
            "before": self._filled([row[:-1] for row in found]), "after": self._filled([row[1:] for row in found]),
            "counted": np.array([np.arange(self.length) < len(row) - 1 for row in found], np.float32),
        }  # fmt: skip

    def _filled(self, rows: list[Numbers]) -> Numbers:
        """Return rows of up to `length` items as an array, with zeros behind them."""
        there = np.arange(self.length) < np.array([len(row) for row in rows])[:, np.newaxis]
        found = np.zeros(there.shape, np.int64)
        found[there] = np.concatenate(rows)
        return found

    def _scores(self, users: Numbers) -> NDArray[Any]:
        history = self._known()
        form, last = self._form(), [history.row(user)[0][-self.length :] for user in users.tolist()]
        states = PROGRAMS.scorer(form)([self.state[name] for name in form.names], {"before": self._filled(last)})
        ends = np.maximum([len(each) - 1 for each in last], 0)
        return np.asarray(states[np.arange(len(users)), ends] @ self.state["items"].T)

    def _likeness(self, items: Numbers) -> NDArray[Any]:
        return cosines(self.state["items"], items)
