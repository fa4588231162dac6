"""The places that relevant items take in the rankings of users, by scores or as lists of items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DataError, DTypeError, OptionError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.metrics.checks import numbers, score_matrix
from wyrm.support.item_rows import NONE, Indices, ItemRows, Mask, Recommendations, item_rows

# The scores of some users at a time are sorted, to bound the memory.
_SCORES_AT_ONCE = 2**21


@dataclass
class RelevantPlaces:
    """The places of relevant items in the rankings of users, from 0: an element for each item that has one.

    The elements are in the order of users, and for each user in that of places. Items of equal scores, a tie, share the
    places from `first` up to but without `last`. `before` relevant items of the user come before the tie, and `until`
    with it. `place` is that of the item if ties count against the ranking, with irrelevant items first.
    """

    user: Indices
    first: Indices
    last: Indices
    before: Indices
    until: Indices
    gain: NDArray[np.float64]
    # For each user: the relevant items, also those without a place, and all items that are not excluded.
    wanted: Indices
    counts: Indices
    # The gains of all relevant items by user, the largest first, and the users.
    best: tuple[Indices, NDArray[np.float64]]

    @property
    def place(self) -> Indices:
        """The places of the items if ties count against the ranking."""
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.user, minlength=len(self.wanted)))])
        places: Indices = self.last - self.until + np.arange(len(self.user)) - starts[self.user]
        return places

    def sums(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return the sum for each user of a number for each place."""
        return np.asarray(np.bincount(self.user, values, len(self.wanted)), np.float64)


def places_of(ranking: Any, relevant: Any, exclude: Any, ranked: bool, *, graded: bool = False) -> RelevantPlaces:
    """Return the places of relevant items; with `graded`, `relevant` may be the gains of all items."""
    lists = item_lists(ranking, ranked)
    scores = np.empty((0, 0)) if lists is not None else _scores(ranking)
    users, items = (len(lists), None) if lists is not None else scores.shape
    gains = _gains(relevant, users, items) if graded else None
    if gains is None:
        rows = item_rows("relevant", relevant, users, items)
        user, item = np.repeat(np.arange(users), rows.counts), rows.indices
        gain = np.ones(len(item))
    else:
        user, item = np.nonzero(gains)
        gain = gains[user, item]
    excluded = excluded_items(exclude, users, items)
    kept = ~excluded.has_pairs(user, item)
    user, item, gain = user[kept], item[kept], gain[kept]
    order = np.lexsort((-gain, user))
    wanted, best = np.bincount(user, minlength=users), (user[order], gain[order])
    if lists is not None:
        place, there = _in_lists(lists, excluded, user, item)
        user, gain, first = user[there], gain[there], place[there]
        key: NDArray[Any] = first
        last, counts = first + 1, np.count_nonzero(lists != NONE, axis=1)
    else:
        key, first, last = _by_scores(scores, excluded, user, item)
        counts = scores.shape[1] - excluded.counts
    order = np.lexsort((key, user))
    user, first, last, gain, key = user[order], first[order], last[order], gain[order], key[order]
    before, until = _in_ties(user, key, users)
    return RelevantPlaces(user, first, last, before, until, gain, wanted, counts, best)


def _scores(ranking: Any) -> NDArray[np.floating[Any]]:
    """Return scores of shape (users, items), in their own precision."""
    matrix, given = score_matrix("ranking", ranking, "users", "items"), as_array(ranking)
    return given if given.dtype == np.float32 else matrix


def _in_ties(user: Indices, key: NDArray[Any], users: int) -> tuple[Indices, Indices]:
    """Return for each element, ordered by user and key, how many of its user come before its tie, and until its end."""
    count = len(user)
    starts = np.ones(count + 1, np.bool_)
    starts[1:-1] = (user[1:] != user[:-1]) | (key[1:] != key[:-1])
    ties = np.flatnonzero(starts)
    tie = np.cumsum(starts[:-1]) - 1
    begin = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=users))])[user]
    return ties[tie] - begin, ties[tie + 1] - begin


def _by_scores(
    scores: NDArray[np.floating[Any]], excluded: ItemRows, user: Indices, item: Indices
) -> tuple[NDArray[np.floating[Any]], Indices, Indices]:
    """Return the keys of items, lower for higher scores, and the places of their ties."""
    first, last, found = np.empty(len(user), np.int64), np.empty(len(user), np.int64), -scores[user, item]
    ends = np.searchsorted(user, np.arange(len(scores) + 1))
    for users in parts_of(*scores.shape):
        keys = -scores[users]
        if len(excluded.indices):
            keys[excluded.take(users).mask()] = np.nan  # which sorts behind infinity
        keys.sort(axis=1)
        for row, each in zip(keys, users.tolist(), strict=True):
            part = slice(ends[each], ends[each + 1])
            first[part] = row.searchsorted(found[part], "left")
            last[part] = row.searchsorted(found[part], "right")
    return found, first, last


def _in_lists(lists: Indices, excluded: ItemRows, user: Indices, item: Indices) -> tuple[Indices, Mask]:
    """Return the places of items among the items of lists that are not excluded, and which have one."""
    there = (lists != NONE) & ~excluded.has(lists)
    places = np.cumsum(there, axis=1) - 1
    width = 1 + max(int(lists.max(initial=0)), int(item.max(initial=0)))
    listed = np.flatnonzero(there)
    keys = (listed // lists.shape[1]) * width + lists.reshape(-1)[listed]
    order = np.argsort(keys)
    keys, asked = keys[order], user * width + item
    if not len(keys):
        return asked, np.zeros(len(asked), np.bool_)
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    found: Mask = keys[at] == asked
    return places.reshape(-1)[listed[order[at]]], found


def parts_of(users: int, items: int) -> Iterator[Indices]:
    """Yield the numbers of the users, some at a time."""
    step = _SCORES_AT_ONCE // max(items, 1) + 1
    for start in range(0, users, step):
        yield np.arange(start, min(start + step, users))


def item_lists(ranking: Any, ranked: bool) -> Indices | None:
    """Return lists of items, of shape (users, places), with -1 for no item; None if the ranking is scores.

    Raise `DTypeError`, `ShapeError` or `DataError` for lists of something else, or with an item twice.
    """
    given = ranking.items if isinstance(ranking, Recommendations) else ranking if ranked else None
    if given is None:
        return None
    lists = as_array(given, "ranking")
    if lists.dtype.kind not in "iu":
        raise DTypeError(f"ranking has dtype {lists.dtype}; ranked lists hold the numbers of items")
    if lists.ndim != 2 or not lists.size:
        raise ShapeError(f"ranking has shape {lists.shape}; expected lists of items of shape (users, places)")
    lists = lists.astype(np.int64)
    if lists.min() < NONE:
        raise DataError(f"ranking holds {lists.min()}; expected the numbers of items, or {NONE} for none")
    ordered = np.sort(lists, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != NONE)
    if twice.any():
        user, place = np.argwhere(twice)[0]
        raise DataError(f"ranking holds item {ordered[user, place]} twice for user {user}; expected each item once")
    return lists


def check_length(ranking: Any, ranked: bool, k: int) -> None:
    """Raise `OptionError` if lists of items have fewer than k places."""
    lists = item_lists(ranking, ranked)
    if lists is not None and lists.shape[1] < k:
        raise OptionError(f"k is {k}, but the ranking has only {lists.shape[1]} places")


def excluded_items(exclude: Any, users: int, items: int | None) -> ItemRows:
    """Return the excluded items of each user: none if nothing is given."""
    if exclude is None:
        return ItemRows(np.zeros(users + 1, np.int64), np.zeros(0, np.int64), items or 0)
    return item_rows("exclude", exclude, users, items)


def _gains(relevant: Any, users: int, items: int | None) -> NDArray[np.float64] | None:
    """Return the gains of all items, if that is what `relevant` holds: floats."""
    if not isinstance(relevant, np.ndarray) or relevant.dtype.kind != "f":
        return None
    gains = numbers("relevant", relevant)
    if gains.ndim != 2 or gains.shape != (users, gains.shape[1] if items is None else items):
        raise ShapeError(f"relevant has gains of shape {gains.shape}; expected ({users}, {items or 'items'})")
    if gains.min() < 0:
        raise DataError(f"relevant holds the gain {gains.min()}; expected at least 0")
    return gains
