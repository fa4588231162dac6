"""Ranking metrics: area under the ROC curve and reciprocal rank, for binary labels and for recommenders."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.errors import DataError, DTypeError, IndexOutOfRange, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.metrics.checks import numbers, same_shape, score_matrix
from wyrm.metrics.recommendations import auc, mrr

Mask: TypeAlias = NDArray[np.bool_]
Items: TypeAlias = Collection[int] | NDArray[np.integer] | Mask


def _area(positives: NDArray[np.float64], negatives: NDArray[np.float64]) -> float:
    """Return the fraction of pairs with the positive above the negative; a tie counts one half."""
    ordered = np.sort(negatives)
    below = np.searchsorted(ordered, positives, side="left")
    not_above = np.searchsorted(ordered, positives, side="right")
    # Integer sums are exact in any order.
    return float(int(below.sum()) + int(not_above.sum())) / (2 * len(positives) * len(negatives))


def roc_auc(targets: ArrayLike, scores: ArrayLike) -> float:
    """Return the area under the ROC curve: the probability that a positive row has a higher score than a negative one.

    `targets`, of shape (rows,), hold two different numbers, such as 0 and 1; the greater marks the positive rows.
    `scores` have the same shape and may be infinite; only their order matters. A perfect ranking has 1, a random one
    0.5; a positive and a negative of equal score count one half.

    Raises:
        ShapeError: the shapes differ, or are not one-dimensional.
        DataError: there are no rows, or `targets` do not hold exactly two different numbers.
        NotFinite: an entry is NaN, or a target is infinite.

    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    labels, ranked = numbers("targets", targets), numbers("scores", scores, infinite=True)
    same_shape("targets", labels, "scores", ranked)
    if labels.ndim != 1:
        raise ShapeError(f"targets and scores have shape {labels.shape}; expected (rows,). Use .ravel() for a column.")
    values = np.unique(labels)
    if len(values) != 2:
        found = f"only {values[0]}" if len(values) == 1 else f"{len(values)} different numbers"
        raise DataError(
            f"targets hold {found}; expected two different labels, such as 0 and 1. "
            f"(Arguments are targets, then scores.)"
        )
    positive = labels == values[1]
    return _area(ranked[positive], ranked[~positive])


def _item_mask(name: str, items: Items | None, count: int) -> Mask:
    """Return a mask over `count` items, given a mask or item indices."""
    mask = np.zeros(count, dtype=np.bool_)
    if items is None:
        return mask
    if not isinstance(items, Iterable):
        raise DTypeError(f"{name} is {items!r}; expected a mask of dtype bool, or the indices of items, such as [5].")
    given = as_array(items if isinstance(items, np.ndarray) else list(items), name)
    if given.shape == (0,) and given.dtype.kind != "b":
        return mask
    if given.dtype.kind == "b":
        if given.shape != (count,):
            raise ShapeError(f"{name} is a mask of shape {given.shape} over {count} scores; expected ({count},).")
        return given
    if given.dtype.kind not in "iu" or given.ndim != 1:
        raise DTypeError(
            f"{name} has dtype {given.dtype} and shape {given.shape} for {count} scores; expected a mask of dtype "
            f"bool, or the indices of items. (Arguments are scores, then relevant items.)"
        )
    outside = (given < 0) | (given >= count)
    if outside.any():
        raise IndexOutOfRange(f"{name} holds item {given[outside][0]}; expected 0 to {count - 1}, the range of scores.")
    mask[given] = True
    if mask.sum() != len(given):
        raise DataError(
            f"{name} holds {len(given)} indices but only {mask.sum()} different items; expected each item once. "
            f"If these zeros and ones are a mask, convert it with .astype(bool)."
        )
    return mask


def _split_row(scores: ArrayLike, relevant: Items, exclude: Items | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores of the relevant items and of the others, both without excluded items."""
    row = numbers("scores", scores, infinite=True)
    if row.ndim != 1:
        raise ShapeError(f"scores have shape {row.shape}; expected the scores of one user, shape (items,).")
    relevant_mask = _item_mask("relevant", relevant, len(row))
    included = ~_item_mask("exclude", exclude, len(row))
    if not (relevant_mask & included).any():
        raise DataError(
            f"no relevant item among {len(row)}, of which {int((~included).sum())} are excluded; the rank is "
            f"undefined. Leave such users out."
        )
    return row[relevant_mask & included], row[~relevant_mask & included]


def reciprocal_rank(scores: ArrayLike, relevant: Items, exclude: Items | None = None) -> float:
    """Return 1 / rank of the first relevant item, with a user's items ranked by descending score.

    `scores`, of shape (items,), may be infinite; only their order matters. `relevant` are the items to find and
    `exclude` items left out of the ranking, usually those seen in training; each is a mask of shape (items,) or a
    collection of distinct indices. An item in both is left out. The best value is 1. Ties count against the ranking:
    among equal scores, irrelevant items rank first, so that constant scores earn no more than the last rank.

    Raises:
        ShapeError: `scores` or a mask does not have shape (items,).
        IndexOutOfRange: an index is not an item.
        DTypeError: `relevant` or `exclude` is neither a mask nor indices.
        DataError: there are no scores, all relevant items are excluded, or an index is repeated.
        NotFinite: a score is NaN.

    >>> reciprocal_rank([0.1, 0.9, 0.5, 0.3], relevant={2})
    0.5
    >>> reciprocal_rank([0.1, 0.9, 0.5, 0.3], relevant={2}, exclude={1})
    1.0
    """
    positives, negatives = _split_row(scores, relevant, exclude)
    return 1.0 / (1 + int(np.count_nonzero(negatives >= positives.max())))


def ranking_auc(scores: ArrayLike, relevant: Items, exclude: Items | None = None) -> float:
    """Return the probability that a relevant item of a user scores higher than an irrelevant one; ties count one half.

    Arguments and errors are as in `reciprocal_rank`; at least one irrelevant item must not be excluded.

    >>> ranking_auc([0.1, 0.9, 0.5, 0.3], relevant={2})
    0.6666666666666666
    """
    positives, negatives = _split_row(scores, relevant, exclude)
    if not len(negatives):
        raise DataError(
            f"all {len(positives)} non-excluded items are relevant; the area needs an irrelevant one. "
            f"Leave such users out."
        )
    return _area(positives, negatives)


def _masks(scores: ArrayLike, relevant: ArrayLike, exclude: ArrayLike | None) -> tuple[NDArray[np.float64], Mask, Mask]:
    """Return the scores (users, items), and masks of that shape of the relevant and of the irrelevant items."""
    matrix = score_matrix("scores", scores, "users", "items")
    users, items = matrix.shape
    given = as_array(relevant, "relevant")
    if given.dtype.kind in "iu" and given.ndim == 1:
        if len(given) != users:
            raise ShapeError(
                f"relevant has shape {given.shape} for scores of shape {matrix.shape}; expected ({users},)."
            )
        outside = (given < 0) | (given >= items)
        if outside.any():
            user = int(outside.argmax())
            raise IndexOutOfRange(f"relevant holds item {given[user]} for user {user}; expected 0 to {items - 1}.")
        wanted = np.arange(items) == given[:, np.newaxis]
    else:
        wanted = _matrix_mask("relevant", given, matrix, f", or one item index per user, shape ({users},)")
    if exclude is None:
        return matrix, wanted, ~wanted
    included = ~_matrix_mask("exclude", as_array(exclude, "exclude"), matrix, "")
    return matrix, wanted & included, ~wanted & included


def _matrix_mask(name: str, given: np.ndarray, matrix: np.ndarray, alternative: str) -> Mask:
    if given.dtype.kind != "b":
        raise DTypeError(
            f"{name} has dtype {given.dtype} and shape {given.shape}; expected a mask of dtype bool and shape "
            f"{matrix.shape}{alternative}."
        )
    same_shape("scores", matrix, name, given)
    return given


def mean_reciprocal_rank(scores: ArrayLike, relevant: ArrayLike, exclude: ArrayLike | None = None) -> float:
    """Return the mean over users (or queries) of `reciprocal_rank`: `mrr` of masks, above 0 and at most 1.

    `scores` have shape (users, items). `relevant` is a mask of that shape, or integers of shape (users,), one relevant
    item per user; `exclude` is a mask of the shape of `scores`. Ties count against the ranking, as in
    `reciprocal_rank`. Users whose relevant items are all excluded, or who have none, are left out of the mean.

    Raises:
        ShapeError: the shapes do not match.
        IndexOutOfRange: an index is not an item.
        DTypeError: `relevant` or `exclude` has another dtype.
        DataError: there are no scores, or no user has a relevant item.
        NotFinite: a score is NaN.

    >>> mean_reciprocal_rank([[0.1, 0.9, 0.5], [0.1, 0.9, 0.5]], relevant=[1, 2])
    0.75
    """
    matrix, wanted, others = _masks(scores, relevant, exclude)
    return mrr(matrix, wanted, exclude=~(wanted | others))


def mean_ranking_auc(scores: ArrayLike, relevant: ArrayLike, exclude: ArrayLike | None = None) -> float:
    """Return the mean over users of `ranking_auc`: `auc` of masks, from 0 to 1.

    Arguments and errors are as in `mean_reciprocal_rank`. Users without a relevant or without an irrelevant item are
    left out of the mean.

    >>> mean_ranking_auc([[0.1, 0.9, 0.5], [0.1, 0.9, 0.5]], relevant=[1, 2])
    0.75
    """
    matrix, wanted, others = _masks(scores, relevant, exclude)
    if not (wanted.any(axis=1) & others.any(axis=1)).any():
        raise DataError(
            f"none of the {len(matrix)} users has both a relevant and an irrelevant item that is not excluded; "
            f"at least one must."
        )
    return auc(matrix, wanted, exclude=~(wanted | others))
