"""How well scores rank: the area under the ROC curve, and reciprocal ranks, for labels and for recommenders."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.errors import DataError, DTypeError, IndexOutOfRange, ShapeError
from wyrm.metrics.checks import numbers, same_shape, score_matrix
from wyrm.types.arrays import as_array

Mask: TypeAlias = NDArray[np.bool_]
Items: TypeAlias = Collection[int] | NDArray[np.integer[Any]] | Mask


def _area(positives: NDArray[np.float64], negatives: NDArray[np.float64]) -> float:
    """The share of pairs that rank the positive above the negative, a tie counting one half."""
    ordered = np.sort(negatives)
    below = np.searchsorted(ordered, positives, side="left")
    not_above = np.searchsorted(ordered, positives, side="right")
    # Sums of integers: exact, whatever the order.
    return float(int(below.sum()) + int(not_above.sum())) / (2 * len(positives) * len(negatives))


def roc_auc(targets: ArrayLike, scores: ArrayLike) -> float:
    """The area under the ROC curve: the chance that a positive row has a higher score than a negative one.

    `targets`, of shape (rows,), hold two different numbers, such as 0 and 1, of which the greater marks the positive
    rows. `scores` have the same shape and may be infinite; only their order counts. 1 is a perfect ranking, 0.5 one
    by chance; a positive and a negative of equal score count one half.

    Raises:
        ShapeError: the shapes differ, or are not one-dimensional.
        DataError: there are no rows, or `targets` hold not exactly two different numbers.
        NotFinite: an entry is NaN, or a target infinite.

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
            f"(The targets come first, then the scores.)"
        )
    positive = labels == values[1]
    return _area(ranked[positive], ranked[~positive])


def _item_mask(name: str, items: Items | None, count: int) -> Mask:
    """A mask over `count` items, from a mask or from the items' indices."""
    mask = np.zeros(count, dtype=np.bool_)
    if items is None or len(items) == 0:
        return mask
    given = as_array(items if isinstance(items, np.ndarray) else list(items))
    if given.dtype.kind == "b":
        if given.shape != (count,):
            raise ShapeError(f"{name} is a mask of shape {given.shape} over {count} scores; expected ({count},).")
        return given
    if given.dtype.kind not in "iu" or given.ndim != 1:
        raise DTypeError(
            f"{name} has dtype {given.dtype} and shape {given.shape}; expected a mask of dtype bool, "
            f"or the indices of items."
        )
    outside = (given < 0) | (given >= count)
    if outside.any():
        raise IndexOutOfRange(f"{name} holds item {given[outside][0]}; expected 0 to {count - 1}, as there are scores.")
    mask[given] = True
    if mask.sum() != len(given):
        raise DataError(
            f"{name} holds {len(given)} indices but only {mask.sum()} different items; expected each item once. "
            f"If these zeros and ones are a mask, convert it with .astype(bool)."
        )
    return mask


def _split_row(scores: ArrayLike, relevant: Items, exclude: Items | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """The scores of the relevant items and of the others, without those excluded."""
    row = numbers("scores", scores, infinite=True)
    if row.ndim != 1:
        raise ShapeError(f"scores have shape {row.shape}; expected those of one user, shape (items,).")
    wanted = _item_mask("relevant", relevant, len(row))
    counted = ~_item_mask("exclude", exclude, len(row))
    if not (wanted & counted).any():
        raise DataError(
            f"no relevant item among {len(row)}, {int((~counted).sum())} of them excluded; the rank is undefined. "
            f"Leave such users out."
        )
    return row[wanted & counted], row[~wanted & counted]


def reciprocal_rank(scores: ArrayLike, relevant: Items, exclude: Items | None = None) -> float:
    """One over the rank of the first relevant item, when a user's items are ranked by descending score.

    `scores`, of shape (items,), may be infinite; only their order counts. `relevant` are the items to find and
    `exclude` those left out of the ranking (as a rule those already known in training), each as a mask of shape
    (items,) or as a collection of different indices; an item in both is left out. The best value is 1, for a relevant
    item on top. A tie counts against the ranking: of equal scores, items that are not relevant come first, so that
    constant scores earn no more than the last place.

    Raises:
        ShapeError: `scores` or a mask are not of shape (items,).
        IndexOutOfRange: an index is no item.
        DTypeError: `relevant` or `exclude` are neither a mask nor indices.
        DataError: there are no scores, no relevant item is left, or an index is repeated.
        NotFinite: a score is NaN.

    >>> reciprocal_rank([0.1, 0.9, 0.5, 0.3], relevant={2})
    0.5
    >>> reciprocal_rank([0.1, 0.9, 0.5, 0.3], relevant={2}, exclude={1})
    1.0
    """
    positives, negatives = _split_row(scores, relevant, exclude)
    return 1.0 / (1 + int(np.count_nonzero(negatives >= positives.max())))


def ranking_auc(scores: ArrayLike, relevant: Items, exclude: Items | None = None) -> float:
    """The chance that a relevant item of a user has a higher score than one that is not; ties count one half.

    Arguments and errors are those of `reciprocal_rank`; an item that is not relevant must be left too.

    >>> ranking_auc([0.1, 0.9, 0.5, 0.3], relevant={2})
    0.6666666666666666
    """
    positives, negatives = _split_row(scores, relevant, exclude)
    if not len(negatives):
        raise DataError(
            f"all {len(positives)} items that are not excluded are relevant; the area needs one that is not. "
            f"Leave such users out."
        )
    return _area(positives, negatives)


def _masks(scores: ArrayLike, relevant: ArrayLike, exclude: ArrayLike | None) -> tuple[NDArray[np.float64], Mask, Mask]:
    """The scores (users, items), and masks of the same shape of the relevant items and of the others."""
    matrix = score_matrix("scores", scores, "users", "items")
    users, items = matrix.shape
    given = as_array(relevant)
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
        wanted = _matrix_mask("relevant", given, matrix, f", or the index of one item for each user, shape ({users},)")
    if exclude is None:
        return matrix, wanted, ~wanted
    counted = ~_matrix_mask("exclude", as_array(exclude), matrix, "")
    return matrix, wanted & counted, ~wanted & counted


def _matrix_mask(name: str, given: NDArray[Any], matrix: NDArray[Any], alternative: str) -> Mask:
    if given.dtype.kind != "b":
        raise DTypeError(
            f"{name} has dtype {given.dtype} and shape {given.shape}; expected a mask of dtype bool and shape "
            f"{matrix.shape}{alternative}."
        )
    same_shape("scores", matrix, name, given)
    return given


def mean_reciprocal_rank(scores: ArrayLike, relevant: ArrayLike, exclude: ArrayLike | None = None) -> float:
    """The mean over users (or queries) of the `reciprocal_rank`, above 0 and at most 1.

    `scores` have shape (users, items). `relevant` is a mask of the same shape, or integers of shape (users,) with the
    one relevant item of each user; `exclude` is a mask of the same shape. A tie counts against the ranking, see
    `reciprocal_rank`. Users without a relevant item that is not excluded are left out of the mean.

    Raises:
        ShapeError: the shapes do not match.
        IndexOutOfRange: an index is no item.
        DTypeError: `relevant` or `exclude` are of another dtype.
        DataError: there are no scores, or no user has a relevant item.
        NotFinite: a score is NaN.

    >>> mean_reciprocal_rank([[0.1, 0.9, 0.5], [0.1, 0.9, 0.5]], relevant=[1, 2])
    0.75
    """
    matrix, wanted, others = _masks(scores, relevant, exclude)
    known = wanted.any(axis=1)
    if not known.any():
        raise DataError(f"none of the {len(matrix)} users has a relevant item that is not excluded; expected some.")
    best = np.where(wanted, matrix, -np.inf).max(axis=1, keepdims=True)
    ranks = 1 + np.count_nonzero(others & (matrix >= best), axis=1)
    return float(np.mean(1.0 / ranks[known]))


def mean_ranking_auc(scores: ArrayLike, relevant: ArrayLike, exclude: ArrayLike | None = None) -> float:
    """The mean over users of the `ranking_auc`, from 0 to 1.

    Arguments and errors are those of `mean_reciprocal_rank`. Users who lack a relevant item, or one that is not, are
    left out of the mean.

    >>> mean_ranking_auc([[0.1, 0.9, 0.5], [0.1, 0.9, 0.5]], relevant=[1, 2])
    0.75
    """
    matrix, wanted, others = _masks(scores, relevant, exclude)
    areas = [
        _area(row[positive], row[negative])
        for row, positive, negative in zip(matrix, wanted, others, strict=True)
        if positive.any() and negative.any()
    ]
    if not areas:
        raise DataError(
            f"none of the {len(matrix)} users has both a relevant item and another that are not excluded; "
            f"expected some."
        )
    return float(np.mean(areas))
