"""Metrics of recommendations: how high relevant items rank for users, and which items are recommended at all.

A ranking is scores of shape (users, items), of which only the order matters; what `wy.recommend` returns; or with
`ranked=True` lists of items, best first, integers of shape (users, places) with -1 for no item. `relevant` are the
items to find: a mask of the shape of scores, one item for each user, lists of items, `wy.data.ItemRows`, or a SciPy
matrix in CSR format whose entries count whatever their values. `exclude`, of the same forms, are items left out of the
ranking and of the relevant ones, usually those seen in training.

Users without a relevant item that is not excluded are left out of means; `reduction="none"` returns the numbers of all
users, of shape (users,), with NaN for those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Unpack

from wyrm.errors import DataError, DTypeError, OptionError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.ragged import RaggedArray
from wyrm.metrics.checks import numbers, score_matrix
from wyrm.support.item_rows import NONE, CompressedRows, Indices, ItemRows, Mask, Recommendations, item_rows
from wyrm.support.options import whole

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
    scores = np.empty((0, 0)) if lists is not None else _checked_scores(ranking)
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


def _checked_scores(ranking: Any) -> NDArray[np.floating[Any]]:
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


Ranking: TypeAlias = ArrayLike | Recommendations
Items: TypeAlias = ArrayLike | CompressedRows | ItemRows | RaggedArray | Sequence[Iterable[int]]
PerUser: TypeAlias = NDArray[np.float64]


class RankingOptions(TypedDict, total=False):
    """The keyword arguments of the metrics of rankings."""

    exclude: Items | None
    ranked: bool


class MeanOfUsers(RankingOptions, total=False):
    """The keyword arguments that give a mean."""

    reduction: Literal["mean"]


class AllUsers(RankingOptions):
    """The keyword arguments that give the numbers of all users."""

    reduction: Literal["none"]


def _measure_of_users(
    measure: Callable[[RelevantPlaces], NDArray[Any]],
    ranking: Any,
    relevant: Any,
    k: int | None = None,
    *,
    exclude: Any = None,
    ranked: bool = False,
    reduction: str = "mean",
    graded: bool = False,
) -> Any:
    """Return a measure of the users' places, as a mean or for each user."""
    if reduction not in ("mean", "none"):
        raise OptionError(f"reduction must be 'mean' or 'none', not {reduction!r}")
    if k is not None:
        check_length(ranking, ranked, k)
    with np.errstate(divide="ignore", invalid="ignore"):  # of users who are left out
        places = places_of(ranking, relevant, exclude, ranked, graded=graded)
        values = np.where(places.wanted > 0, measure(places), np.nan)
    if reduction == "none":
        return values
    known = ~np.isnan(values)
    if not known.any():
        raise DataError(f"none of the {len(values)} users has a relevant item that is not excluded; at least one must.")
    return float(np.mean(values[known]))


@overload
def recall_at_k(ranking: Ranking, relevant: Items, k: int = 10, **options: Unpack[MeanOfUsers]) -> float: ...
@overload
def recall_at_k(ranking: Ranking, relevant: Items, k: int = 10, **options: Unpack[AllUsers]) -> PerUser: ...
def recall_at_k(ranking: Any, relevant: Any, k: int = 10, **options: Any) -> Any:
    """Return the share of a user's relevant items that are among the first k, from 0 to 1, as a mean over users.

    `ranking` are scores of shape (users, items), what `wy.recommend` returns, or with `ranked=True` lists of items of
    shape (users, places), best first, -1 for none. `relevant` is a mask (users, items), one item for each user, lists
    of items, `wy.data.ItemRows`, or a SciPy matrix in CSR format; `exclude` has the same forms. Excluded items are
    neither ranked nor relevant. Users without a relevant item are left out; `reduction="none"` gives the numbers of all
    users instead, of shape (users,), with NaN for those. Ties count against the ranking: of equal scores, irrelevant
    items come first, so that constant scores earn no more than the last places.

    Raises:
        ShapeError: the shapes do not match.
        DTypeError: an array holds something of another kind.
        OptionError: `k` is below 1, or above the number of places of lists; another `reduction`.
        IndexOutOfRange: a relevant or excluded item does not exist.
        DataError: no user has a relevant item, or lists hold an item twice.
        NotFinite: a score is NaN.

    >>> scores = [[0.9, 0.5, 0.3, 0.1], [0.1, 0.2, 0.3, 0.4]]
    >>> recall_at_k(scores, [[0, 3], [3]], k=2), recall_at_k(scores, [[0, 3], [3]], k=2, exclude=[[1, 2], []])
    (0.75, 1.0)
    >>> recall_at_k(scores, [[0, 3], []], k=2, reduction="none")
    array([0.5, nan])
    >>> recall_at_k([[2, 0]], [[0, 3]], k=2, ranked=True)
    0.5
    """
    k = whole("k", k, 1)
    return _measure_of_users(
        lambda places: places.sums(places.place < k) / places.wanted, ranking, relevant, k, **options
    )


@overload
def precision_at_k(ranking: Ranking, relevant: Items, k: int = 10, **options: Unpack[MeanOfUsers]) -> float: ...
@overload
def precision_at_k(ranking: Ranking, relevant: Items, k: int = 10, **options: Unpack[AllUsers]) -> PerUser: ...
def precision_at_k(ranking: Any, relevant: Any, k: int = 10, **options: Any) -> Any:
    """Return the share of the first k places that relevant items have, from 0 to 1, as a mean over users.

    Arguments, ties and errors are as in `recall_at_k`. A place without an item counts as irrelevant.

    >>> precision_at_k([[0.9, 0.5, 0.3, 0.1]], [[0, 3]], k=2)
    0.5
    """
    k = whole("k", k, 1)
    return _measure_of_users(lambda places: places.sums(places.place < k) / k, ranking, relevant, k, **options)


@overload
def hit_rate(ranking: Ranking, relevant: Items, k: int = 10, **options: Unpack[MeanOfUsers]) -> float: ...
@overload
def hit_rate(ranking: Ranking, relevant: Items, k: int = 10, **options: Unpack[AllUsers]) -> PerUser: ...
def hit_rate(ranking: Any, relevant: Any, k: int = 10, **options: Any) -> Any:
    """Return the share of users with a relevant item among the first k, from 0 to 1.

    Arguments, ties and errors are as in `recall_at_k`.

    >>> hit_rate([[0.9, 0.5, 0.3], [0.1, 0.2, 0.3]], [[0, 1], [0]], k=2)
    0.5
    """
    k = whole("k", k, 1)
    return _measure_of_users(lambda places: places.sums(places.place < k) > 0, ranking, relevant, k, **options)


@overload
def mrr(ranking: Ranking, relevant: Items, k: int | None = None, **options: Unpack[MeanOfUsers]) -> float: ...
@overload
def mrr(ranking: Ranking, relevant: Items, k: int | None = None, **options: Unpack[AllUsers]) -> PerUser: ...
def mrr(ranking: Any, relevant: Any, k: int | None = None, **options: Any) -> Any:
    """Return the mean reciprocal rank: 1 / the place of a user's first relevant item, as a mean over users.

    It is 0 for a user without a relevant item among the first `k` places, by default all. Other arguments, ties and
    errors are as in `recall_at_k`.

    >>> mrr([[0.9, 0.5, 0.3], [0.1, 0.2, 0.3]], [[0], [1]])
    0.75
    """
    k = None if k is None else whole("k", k, 1)

    def measure(places: RelevantPlaces) -> NDArray[Any]:
        place = places.place
        earliest = np.diff(places.user, prepend=-1) > 0
        return places.sums((earliest & (place < (np.inf if k is None else k))) / (1.0 + place))

    return _measure_of_users(measure, ranking, relevant, k, **options)


@overload
def average_precision(
    ranking: Ranking, relevant: Items, k: int | None = None, **options: Unpack[MeanOfUsers]
) -> float: ...
@overload
def average_precision(
    ranking: Ranking, relevant: Items, k: int | None = None, **options: Unpack[AllUsers]
) -> PerUser: ...
def average_precision(ranking: Any, relevant: Any, k: int | None = None, **options: Any) -> Any:
    """Return the average precision, from 0 to 1, as a mean over users (MAP).

    That of a user is the sum of the precisions at the places of relevant items, divided by the number of relevant
    items; only the first `k` places count, by default all. Items of equal scores all count at the last of their places,
    as in `sklearn.metrics.average_precision_score`. Other arguments and errors are as in `recall_at_k`.

    >>> average_precision([[0.9, 0.5, 0.3, 0.1]], [[0, 2]])
    0.8333333333333333
    """
    k = None if k is None else whole("k", k, 1)

    def measure(places: RelevantPlaces) -> NDArray[Any]:
        counted = True if k is None else places.last <= k
        return places.sums(np.where(counted, places.until / places.last, 0.0)) / places.wanted

    return _measure_of_users(measure, ranking, relevant, k, **options)


@overload
def ndcg(ranking: Ranking, relevant: Items, k: int | None = None, **options: Unpack[MeanOfUsers]) -> float: ...
@overload
def ndcg(ranking: Ranking, relevant: Items, k: int | None = None, **options: Unpack[AllUsers]) -> PerUser: ...
def ndcg(ranking: Any, relevant: Any, k: int | None = None, **options: Any) -> Any:
    """Return the normalized discounted cumulative gain (Järvelin and Kekäläinen, 2002), from 0 to 1, as a mean.

    A relevant item at place i, from 1, gains 1 / log2(i + 1); the sum over the first `k` places, by default all, is
    divided by that of the best ranking. `relevant` may also be the gains of all items, an array of floats of at least
    0 and shape (users, items). Items of equal scores share the mean of their places' discounts, as in
    `sklearn.metrics.ndcg_score`. Other arguments and errors are as in `recall_at_k`.

    >>> round(ndcg([[0.9, 0.5, 0.3, 0.1]], [[0, 2]]), 3)
    0.92
    >>> round(ndcg([[0.9, 0.5, 0.3]], np.array([[1.0, 0.0, 3.0]])), 3)
    0.689
    """
    k = None if k is None else whole("k", k, 1)

    def measure(places: RelevantPlaces) -> NDArray[Any]:
        length = max(int(places.last.max(initial=0)), int(places.wanted.max(initial=0)))
        discounts = 1.0 / np.log2(np.arange(2, length + 2))
        discounts[length if k is None else k :] = 0.0
        sums = np.concatenate([[0.0], np.cumsum(discounts)])
        shared = (sums[places.last] - sums[places.first]) / (places.last - places.first)
        user, gain = places.best
        starts = np.concatenate([[0], np.cumsum(places.wanted)])
        most = np.bincount(user, gain * discounts[np.arange(len(user)) - starts[user]], len(places.wanted))
        return places.sums(places.gain * shared) / most

    return _measure_of_users(measure, ranking, relevant, k, graded=True, **options)


@overload
def auc(ranking: ArrayLike, relevant: Items, **options: Unpack[MeanOfUsers]) -> float: ...
@overload
def auc(ranking: ArrayLike, relevant: Items, **options: Unpack[AllUsers]) -> PerUser: ...
def auc(ranking: Any, relevant: Any, **options: Any) -> Any:
    """Return the probability that a relevant item of a user scores above an irrelevant one, as a mean over users.

    `ranking` are the scores of all items, of shape (users, items). A tie counts one half, as in
    `sklearn.metrics.roc_auc_score`. Users without an irrelevant item are left out too. Other arguments and errors are
    as in `recall_at_k`.

    >>> auc([[0.1, 0.9, 0.5], [0.1, 0.9, 0.5]], relevant=[1, 2])
    0.75
    """
    if options.get("ranked") or isinstance(ranking, Recommendations):
        raise ShapeError("auc compares all items, so it takes the scores of all of them, not lists of the best")

    def measure(places: RelevantPlaces) -> NDArray[Any]:
        others = places.counts - places.wanted
        tied = places.last - places.first - (places.until - places.before)
        above = places.sums(2 * (places.first - places.before) + tied)
        pairs = 2 * places.wanted * others  # whole numbers, which are exact in any order
        return np.where(others > 0, (pairs - above) / pairs, np.nan)

    return _measure_of_users(measure, ranking, relevant, **options)


# --- what is recommended at all ---------------------------------------------------------------------------------------


def _recommended(ranking: Any, k: int, exclude: Any, ranked: bool) -> tuple[Indices, int | None]:
    """Return the first k items of each user, -1 for none, and the number of all items if it is known."""
    k = whole("k", k, 1)
    check_length(ranking, ranked, k)
    lists = item_lists(ranking, ranked)
    if lists is not None:
        there = (lists != NONE) & ~excluded_items(exclude, len(lists), None).has(lists)
        order = np.argsort(~there, axis=1, kind="stable")
        return np.take_along_axis(np.where(there, lists, NONE), order, axis=1)[:, :k], None
    scores = score_matrix("ranking", ranking, "users", "items")
    users, items = scores.shape
    if k > items:
        raise OptionError(f"k is {k}, but there are {items} items; it must be at most that")
    excluded, found = excluded_items(exclude, users, items), []
    for part in parts_of(users, items):
        keys = -scores[part]
        keys[excluded.take(part).mask()] = np.inf
        order = np.argsort(keys, axis=1, kind="stable")[:, :k]
        found.append(np.where(np.take_along_axis(keys, order, axis=1) < np.inf, order, NONE))
    return np.concatenate(found), items


def coverage(
    ranking: Ranking, k: int = 10, *, item_count: int | None = None, exclude: Items | None = None, ranked: bool = False
) -> float:
    """Return the share of all items that are among the first k of at least one user, above 0 and at most 1.

    `item_count` is the number of all items; scores know it. Of equal scores, the item of the lower index comes first,
    as in `wy.recommend`. Items of score -inf are never recommended. Other arguments and errors are as in `recall_at_k`.

    >>> coverage([[0.9, 0.5, 0.3, 0.1], [0.8, 0.9, 0.3, 0.1]], k=2)
    0.5
    >>> coverage([[0, 1], [1, 2]], k=2, item_count=6, ranked=True)
    0.5
    """
    items, known = _recommended(ranking, k, exclude, ranked)
    if item_count is None and known is None:
        raise OptionError("item_count, the number of all items, must be given for lists of items")
    total = whole("item_count", known if item_count is None else item_count, 1)
    distinct = np.unique(items[items != NONE])
    if len(distinct) and distinct[-1] >= total:
        raise OptionError(f"item_count is {total}, but item {distinct[-1]} is recommended")
    return len(distinct) / total


def novelty(
    ranking: Ranking,
    counts: ArrayLike,
    k: int = 10,
    *,
    user_count: int | None = None,
    exclude: Items | None = None,
    ranked: bool = False,
) -> float:
    """Return how little known the first k items are: the mean of -log2(share of users who know the item), in bits.

    `counts`, of shape (items,), are the numbers of users who know each item, such as those who rated it in training,
    out of `user_count`, by default those of the ranking (Zhou et al., 2010). An item that nobody knows counts as known
    to one user. The mean is that of each user's items, then that of users; users without any item are left out. Other
    arguments, ties and errors are as in `coverage`.

    >>> novelty([[0.9, 0.5, 0.3], [0.9, 0.5, 0.3]], counts=[4, 2, 1], user_count=8, k=2)
    1.5
    """
    known = numbers("counts", counts)
    items, count = _recommended(ranking, k, exclude, ranked)
    total = whole("user_count", len(items) if user_count is None else user_count, 1)
    if known.ndim != 1 or len(known) <= items.max() or len(known) < (count or 0):
        raise ShapeError(f"counts has shape {known.shape}; expected ({count or 'items'},), one number for each item")
    if known.min() < 0 or known.max() > total:
        raise DataError(
            f"counts are from {known.min():g} to {known.max():g}; expected 0 to user_count, {total}, the number of all "
            f"users"
        )
    bits = -np.log2(np.maximum(known, 1.0) / total)
    there = items != NONE
    listed = np.count_nonzero(there, axis=1)
    if not listed.any():
        raise DataError("no user has an item that is not excluded")
    sums = np.where(there, bits[np.maximum(items, 0)], 0.0).sum(axis=1)
    return float(np.mean(sums[listed > 0] / listed[listed > 0]))
