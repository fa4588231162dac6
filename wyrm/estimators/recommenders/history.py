"""What a recommender knows: the ids of users and items, and which items each user had, in order."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.data.ids import array_of, column_of
from wyrm.errors import DataError
from wyrm.support.item_rows import ItemRows

Numbers = NDArray[np.int64]
# Values that are one id, although they can be iterated.
_SINGLE = (str, bytes, tuple, frozenset)


class Names:
    """The ids of users or of items, numbered in the order in which they came; more can be added."""

    def __init__(self, kind: str, values: np.ndarray) -> None:
        self.kind = kind
        self._array = values
        self._numbers: dict[Hashable, int] = {each: number for number, each in enumerate(values.tolist())}

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def values(self) -> np.ndarray:
        """The ids by their numbers."""
        if len(self._array) < len(self):
            if self._array.dtype.kind in "iuU":  # longer texts and larger integers have another type
                self._array = array_of(list(self._numbers))
            else:
                more = np.empty(len(self) - len(self._array), self._array.dtype)
                more[:] = list(self._numbers)[len(self._array) :]
                self._array = np.concatenate([self._array, more])
        return self._array

    def add(self, ids: np.ndarray) -> Numbers:
        """Return the numbers of distinct ids; those that are new get the next ones."""
        kinds = [each.dtype.kind.replace("u", "i") for each in (self._array, ids)]
        if kinds[0] != kinds[1]:
            said = [f"{each.dtype}, such as {each[:1].tolist()[0]!r}" for each in (self._array, ids)]
            raise DataError(
                f"{self.kind}s have ids of {said[0]}, and now of {said[1]}: an id that is written in another way would "
                f"be another {self.kind}"
            )
        given, numbers = ids.tolist(), self._numbers
        new = [each for each in given if each not in numbers]
        numbers.update(zip(new, range(len(numbers), len(numbers) + len(new)), strict=True))
        return np.array([numbers[each] for each in given], np.int64)

    def known_numbers(self, ids: np.ndarray) -> Numbers:
        """Return the numbers of ids, -1 for one that is not known."""
        return np.array([self._numbers.get(each, -1) for each in ids.tolist()], np.int64)

    def forget(self, count: int) -> None:
        """Forget all ids but the first `count`."""
        while len(self._numbers) > count:
            self._numbers.popitem()
        self._array = self._array[:count]

    def numbers(self, ids: Any, remedy: str) -> tuple[bool, Numbers]:
        """Return whether there is one id, and the numbers of all; raise `DataError` for one that is not known."""
        single = isinstance(ids, _SINGLE) or not hasattr(ids, "__iter__") or getattr(ids, "ndim", 1) == 0
        given = [getattr(ids, "tolist", lambda: ids)()] if single else column_of(self.kind, ids).tolist()
        return single, self.found(given, remedy)

    def found(self, ids: Sequence[Hashable], remedy: str) -> Numbers:
        """Return the numbers of ids; raise `DataError` for one that is not known."""
        found = [self._numbers.get(each, -1) for each in ids]
        if -1 in found:
            known = f"{len(self)} {self.kind}s are, such as {self._array[:1].tolist()[0]!r}"
            raise DataError(f"the {self.kind} {ids[found.index(-1)]!r} is not known; {known}: {remedy}")
        return np.array(found, np.int64)


@dataclass(frozen=True)
class Rows:
    """Items of users with their weights: user u has `items[offsets[u]:offsets[u + 1]]`."""

    offsets: Numbers
    items: Numbers
    weights: NDArray[np.float32]

    @property
    def users(self) -> Numbers:
        """The user of each item."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def take(self, users: Numbers) -> Rows:
        """Return the rows of some users, in their order."""
        counts = np.diff(self.offsets)[users]
        offsets = np.append(0, np.cumsum(counts))
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[users] - offsets[:-1], counts)
        return Rows(offsets, self.items[places], self.weights[places])

    def distinct(self, item_count: int) -> Rows:
        """Return each item of a user once, in ascending order, with the sum of its weights."""
        pairs = self.users * item_count + self.items
        order = np.argsort(pairs, kind="stable")
        pairs, weights = pairs[order], self.weights[order]
        first = np.append(True, pairs[1:] != pairs[:-1])[: len(pairs)]
        if not first.all():
            pairs, weights = pairs[first], np.add.reduceat(weights, np.flatnonzero(first))
        users, items = np.divmod(pairs, max(item_count, 1))
        return _by_user(users, items, weights, len(self.offsets) - 1)

    def turned(self, item_count: int) -> Rows:
        """Return the users of each item."""
        order = np.argsort(self.items, kind="stable")
        return _by_user(self.items[order], self.users[order], self.weights[order], item_count)


def _by_user(users: Numbers, items: Numbers, weights: NDArray[np.float32], count: int) -> Rows:
    if count == 1:  # at once, for requests of microseconds
        return Rows(np.array([0, len(items)]), items, weights)
    return Rows(np.append(0, np.cumsum(np.bincount(users, minlength=count))), items, weights)


class History:
    """The ids that are known, and the items of each user in the order of time.

    `later` has what users folded in had since: lists of items and weights by the number of a user.
    """

    def __init__(self, users: Names, items: Names, rows: Rows) -> None:
        self.users: Names = users
        self.items: Names = items
        self._rows: Rows = rows
        self.later: dict[int, list[tuple[Numbers, NDArray[np.float32]]]] = {}

    @property
    def rows(self) -> Rows:
        """The items of all users."""
        if self.later or len(self._rows.offsets) <= len(self.users):
            users = [np.full(len(items), user) for user, each in self.later.items() for items, _ in each]
            items = [items for each in self.later.values() for items, _ in each]
            weights = [weights for each in self.later.values() for _, weights in each]
            self._rows = joined(self._rows, users, items, weights, len(self.users))
            self.later = {}
        return self._rows

    def with_rows(self, users: Numbers, items: Numbers, weights: NDArray[np.float32]) -> History:
        """Return a history with the same ids and more rows, which come after those there are."""
        return History(self.users, self.items, joined(self.rows, [users], [items], [weights], len(self.users)))

    def append(self, user: int, items: Numbers, weights: NDArray[np.float32]) -> None:
        """Note what a user, who may be new, had since."""
        self.later.setdefault(user, []).append((items, weights))

    def row(self, user: int) -> tuple[Numbers, NDArray[np.float32]]:
        """Return the items of one user, and their weights."""
        rows, later = self._rows, self.later.get(user, [])
        first, last = rows.offsets[user : user + 2] if user + 1 < len(rows.offsets) else (0, 0)
        items, weights = rows.items[first:last], rows.weights[first:last]
        if later:
            items = np.concatenate([items, *(each for each, _ in later)])
            weights = np.concatenate([weights, *(each for _, each in later)])
        return items, weights

    def take(self, users: Numbers) -> Rows:
        """Return the items of some users."""
        if len(users) == 1:
            items, weights = self.row(int(users[0]))
            return Rows(np.array([0, len(items)]), items, weights)
        return self.rows.take(users)

    def seen(self, users: Numbers) -> ItemRows:
        """Return the distinct items of some users."""
        rows = self.take(users).distinct(len(self.items))
        return ItemRows(rows.offsets, rows.items, len(self.items))


def joined(rows: Rows, users: list[Numbers], items: list[Numbers], weights: list[Any], count: int) -> Rows:
    """Return rows with more items of users, which come after those that a user has."""
    all_users = np.concatenate([rows.users, *users])
    order = np.argsort(all_users, kind="stable")
    every = np.concatenate([rows.items, *items])[order], np.concatenate([rows.weights, *weights])[order]
    return _by_user(all_users[order], *every, count)
