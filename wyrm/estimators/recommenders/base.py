"""What all recommenders do: they know ids and histories, recommend, fold users in, and are saved in one file."""

from __future__ import annotations

import dataclasses
import importlib
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from wyrm.data.interactions import Interactions
from wyrm.data.recommending import recommend
from wyrm.errors import CheckpointError, DataError, NotSet
from wyrm.estimators.recommenders.history import History, Names, Numbers, Rows
from wyrm.estimators.recommenders.reading import Data, as_interactions
from wyrm.estimators.recommenders.saving import Stored, read, write
from wyrm.support.files import FilePath
from wyrm.support.item_rows import NONE, ItemRows, Recommendations
from wyrm.support.options import flag, whole

# A weight may be so many times the mean of all; sums of larger ones are not finite in float32.
_HEAVIEST = 1e12
_NO_ROWS = Rows(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))


@dataclass(eq=False)
class Recommender(ABC):
    """Base class of recommenders: a subclass says how arrays are learned from histories, and what they score.

    The fields of a subclass are its options. What it learns are arrays in `self.state`, which `save` writes. Threads
    that share a recommender take turns.
    """

    # Whether a user without interactions has scores.
    scores_anybody: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.state: dict[str, np.ndarray] = {}
        self._history: History | None = None
        self._mean_weight: float = 1.0
        self._cache: dict[str, Any] = {}  # what is computed from the rest
        self._lock = threading.RLock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in self.__dict__.items() if name != "_lock"} | {"_cache": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())

    # --- what subclasses say ----------------------------------------------------------------------------------------

    @abstractmethod
    def _train(self, history: History, data: Interactions) -> None:
        """Learn `self.state` from the histories of users; `data` has the features, if there are any."""

    @abstractmethod
    def _scores(self, users: Numbers) -> NDArray[Any]:
        """Return the scores of all items, of shape (users, items)."""

    @abstractmethod
    def _likeness(self, items: Numbers) -> NDArray[Any]:
        """Return how much all items are like some, of shape (some, items)."""

    def _continue(self, history: History, new: Rows, data: Interactions) -> None:
        """Learn more from rows that are new and in the history already; by default from the whole history."""
        self._train(history, data)

    def _fold(self, users: Numbers) -> None:
        """Learn about users, who may be new, while everything that is known about items stays."""
        return

    def _best(self, users: Numbers, k: int, exclude: ItemRows) -> Recommendations:
        """Return the best items of users."""
        everyone = np.arange(len(users))
        return recommend(lambda rows: self._scores(users[rows]), k=k, rows=everyone, exclude=exclude)

    def _takes_dislikes(self) -> bool:
        """Whether a weight below 0 means something."""
        return False

    # --- learning ---------------------------------------------------------------------------------------------------

    def fit(self, interactions: Data) -> Self:
        """Learn from interactions: `wy.data.Interactions`, a table, a CSV file, or a sparse matrix of users by items.

        A table of pandas, polars or Arrow has the columns `user_id` and `item_id`, or similar names, and perhaps
        `weight` or `rating`, and `timestamp`. Weights are above 0 and count in proportion to their mean; an item that a
        user has several times counts once, with the sum. What was learned before is forgotten.

        Raise `DataError` for missing ids, and for weights that are no numbers above 0.
        """
        data = as_interactions(interactions)
        self._check(data)
        with self._whole():
            self._mean_weight = float(np.abs(data.ratings).mean(dtype=np.float64))
            names = Names("user", data.user_ids), Names("item", data.item_ids)
            self._history = History(*names, _NO_ROWS).with_rows(*self._ordered(data, data.users, data.items))
            self.state, self._cache = {}, {}
            self._train(self._history, data)
        return self

    def partial_fit(self, interactions: Data) -> Self:
        """Learn from more interactions, which come after those before; users and items may be new."""
        if self._history is None:
            return self.fit(interactions)
        data = as_interactions(interactions)
        self._check(data)
        with self._whole():
            history = self._known()
            users, items = history.users.add(data.user_ids), history.items.add(data.item_ids)
            rows = self._ordered(data, users[data.users], items[data.items])
            self._history = history.with_rows(*rows)
            new, self._cache = History(history.users, history.items, _NO_ROWS).with_rows(*rows), {}
            self._continue(self._history, new.rows, data)
        return self

    def fold_in(self, interactions: Data) -> Self:
        """Make users known, or what they did since, without a training: what is learned about items stays.

        It takes microseconds for a user, and `recommend` then answers by all that the user did. Raise `DataError` for
        an item that is not known, which `partial_fit` learns.
        """
        data = as_interactions(interactions)
        self._check(data)
        there = np.flatnonzero(data.user_counts)
        with self._whole():
            history = self._known()
            items = history.items.found(data.item_ids[data.items].tolist(), "partial_fit learns items that are new")
            numbers = history.users.add(data.user_ids[there])
            users, items, weights = self._ordered(data, numbers[np.searchsorted(there, data.users)], items)
            starts = np.flatnonzero(np.diff(users, prepend=-1)).tolist()
            before = history.noted
            for first, last in pairwise([*starts, len(users)]):
                history.append(int(users[first]), items[first:last], weights[first:last])
            try:
                self._fold(users[starts])
            except BaseException:
                history.forget(before, users[starts].tolist())
                raise
        return self

    def _check(self, data: Interactions) -> None:
        bad = data.ratings == 0.0 if self._takes_dislikes() else data.ratings <= 0.0
        if bad.any():
            row = int(bad.argmax())
            raise DataError(
                f"the weight of row {row} is {data.ratings[row]:g}; {type(self).__name__} takes weights above 0: leave "
                f"out rows that are no interest, as in data[data.ratings > 0]"
            )

    def _ordered(self, data: Interactions, users: Numbers, items: Numbers) -> tuple[Numbers, Numbers, NDArray[Any]]:
        """Return users, items and weights by user and time; raise `DataError` for a weight that is far too large."""
        order = np.lexsort((data.timestamps, users))
        weights = data.ratings / np.float32(self._mean_weight)
        if (heavy := np.flatnonzero(np.abs(weights) > _HEAVIEST)).size:
            row = int(heavy[0])
            raise DataError(
                f"the weight of row {row} is {data.ratings[row]:g}, {weights[row]:.0e} times the mean of those of fit: "
                f"expected weights of one scale"
            )
        return users[order], items[order], weights[order]

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Leave everything as it was if learning fails; other threads wait."""
        with self._lock:
            before, history, state = dict(self.__dict__), self._history, dict(self.state)
            sizes = (0, 0) if history is None else (len(history.users), len(history.items))
            try:
                yield
            except BaseException:
                vars(self).clear()
                vars(self).update(before)
                self.state = state
                if history is not None:
                    history.users.forget(sizes[0])
                    history.items.forget(sizes[1])
                raise

    def _known(self) -> History:
        if self._history is None:
            raise NotSet(f"this {type(self).__name__} has learned nothing yet: call fit first")
        return self._history

    # --- recommending -----------------------------------------------------------------------------------------------

    @property
    def user_ids(self) -> np.ndarray:
        """The ids of the users that are known."""
        with self._lock:
            return self._known().users.values

    @property
    def item_ids(self) -> np.ndarray:
        """The ids of the items that are known."""
        with self._lock:
            return self._known().items.values

    def recommend(
        self, users: Hashable | Iterable[Hashable], k: int = 10, *, exclude: Iterable[Hashable] = (), seen: bool = False
    ) -> Recommendations:
        """Return the ids of the k best items for each user, best first, and their scores.

        `users` is the id of one user, for arrays of at most k, or several ids, for arrays of shape (users, k). Items
        that a user had are left out unless `seen`, and so are those of `exclude`, ids that nobody is to get. Where
        fewer than k items are left, one user gets fewer; the rows of several end with None and the score -inf, and
        their ids are an array of objects then.

        Raise `DataError` for a user or an item that is not known, and for a user without interactions if the model
        needs them.
        """
        k, seen = whole("k", k, 1), flag("seen", seen)
        with self._lock:
            history = self._known()
            single, numbers = history.users.numbers(users, "fold_in makes a user known without a training")
            _, banned = history.items.numbers([exclude] if isinstance(exclude, str) else list(exclude), "leave it out")
            if not self.scores_anybody:
                for user in numbers[self.interaction_counts(numbers) == 0].tolist():
                    raise DataError(
                        f"the user {history.users.values[[user]].tolist()[0]!r} has no interactions, from which "
                        f"{type(self).__name__} scores items: fold_in some, or recommend by Popular"
                    )
            best = self.ranked(numbers, k, banned, seen)
            return _named(best, history.items.values, single)

    def ranked(self, users: Numbers, k: int, banned: Numbers, seen: bool) -> Recommendations:
        """Return the numbers of the best items of users by their numbers; -1 where fewer than k items are left."""
        history = self._known()
        count = len(history.items)
        nothing = ItemRows(np.zeros(len(users) + 1, np.int64), np.zeros(0, np.int64), count)
        left_out = nothing if seen else history.seen(users)
        if banned.size:
            everyone = np.repeat(np.arange(len(users)), len(banned))
            banned_of_each = np.tile(banned, len(users))
            left_out |= ItemRows.of_pairs(everyone, banned_of_each, user_count=len(users), item_count=count)
        best = self._best(users, min(k, count), left_out)
        if k <= count:
            return best
        ends = ((0, 0), (0, k - count))
        scores = np.pad(best.scores, ends, constant_values=-np.inf)
        return Recommendations(np.pad(best.items, ends, constant_values=NONE), scores)

    def interaction_counts(self, users: Numbers) -> Numbers:
        """Return how many interactions users have, by their numbers."""
        return np.diff(self._known().take(users).offsets)

    def similar_items(self, items: Hashable | Iterable[Hashable], k: int = 10) -> Recommendations:
        """Return the ids of the k items that are most like each, without itself, and how much they are.

        `items` is one id or several; arrays are as in `recommend`, and so is the error for an item that is not known.
        """
        k = whole("k", k, 1)
        with self._lock:
            history = self._known()
            single, numbers = history.items.numbers(items, "partial_fit learns items that are new")
            count = len(history.items)
            itself = ItemRows(np.arange(len(numbers) + 1), numbers, count)
            best = recommend(self._likeness(numbers), k=min(k, count), exclude=itself)
            return _named(best, history.items.values, single)

    # --- files ------------------------------------------------------------------------------------------------------

    def save(self, path: FilePath) -> None:
        """Write options, ids, histories and all that is learned to one file, completely or not at all.

        Raise `DataError` for ids that are no integers, floats or texts.
        """
        options = dataclasses.asdict(self)
        with self._lock:
            write(path, Stored(type(self).__name__, options, self._mean_weight, self._known(), self.state))

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Return the recommender of a file; `Recommender.load` reads any of `wyrm.estimators.recommenders`.

        Raise `CheckpointError` for a file of something else, of another recommender, or of a later version.
        """
        stored, kind = read(path), cls
        file, name = os.fspath(path), stored.model
        if cls is Recommender:
            package = importlib.import_module("wyrm.estimators.recommenders")
            if name not in package.__all__:
                raise CheckpointError(f"{file!r} holds {name}, a class of your own: call its own load")
            kind = getattr(package, name)
        elif cls.__name__ != name:
            raise CheckpointError(f"{file!r} holds {name}, not {cls.__name__}: call {name}.load")
        try:
            model = kind(**stored.options)
        except TypeError as error:
            raise CheckpointError(f"{file!r} has options of another version of {name}: {error}") from None
        model._history, model._mean_weight, model.state = stored.history, stored.mean_weight, stored.state
        return model


def _named(best: Recommendations, ids: np.ndarray, single: bool) -> Recommendations:
    """Return recommendations with ids in place of the numbers of items."""
    there = best.items != NONE
    if single:
        return Recommendations(ids[best.items[0][there[0]]], best.scores[0][there[0]])
    if there.all():
        return Recommendations(ids[best.items], best.scores)
    named = np.full(best.items.shape, None, object)
    named[there] = np.array(ids[best.items[there]].tolist(), object)
    return Recommendations(named, best.scores)
