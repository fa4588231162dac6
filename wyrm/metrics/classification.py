"""Classification metrics, the confusion matrix too. Arguments are in scikit-learn's order: targets first."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.errors import DataError, DTypeError, IndexOutOfRange, ShapeError
from wyrm.metrics.checks import class_labels, same_shape, score_matrix
from wyrm.support.options import choice, is_integer, whole

Average: TypeAlias = Literal["binary", "macro", "micro"]
Counts: TypeAlias = NDArray[np.int64]


def _both_labels(targets: ArrayLike, predictions: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    true, predicted = class_labels("targets", targets), class_labels("predictions", predictions)
    same_shape("targets", true, "predictions", predicted)
    return true, predicted


def accuracy(targets: ArrayLike, predictions: ArrayLike) -> float:
    """Return the fraction of rows whose predicted class is the true one, from 0 to 1.

    `targets` and `predictions` are labels (integers or booleans) of shape (rows,).

    Raises:
        ShapeError: the shapes differ, or are not one-dimensional.
        DataError: there are no rows, or a label is not a whole number.
        NotFinite: an entry is NaN or infinite.

    >>> accuracy([0, 1, 2, 2], [0, 2, 2, 2])
    0.75
    """
    true, predicted = _both_labels(targets, predictions)
    return float(np.mean(true == predicted))


def top_k_accuracy(targets: ArrayLike, scores: ArrayLike, k: int = 2) -> float:
    """Return the fraction of rows whose true class is among the `k` classes of highest score, from 0 to 1.

    `targets` are classes of shape (rows,), from 0 to classes - 1. `scores` have shape (rows, classes) and are any
    increasing function of the probabilities. Among equal scores, the higher class ranks first, as in scikit-learn.

    Raises:
        ShapeError: `scores` are not of shape (rows, classes), or `targets` have another number of rows.
        IndexOutOfRange: a target is not a column of `scores`.
        DTypeError: `k` is not an integer.
        DataError: there are no rows, or `k` is not from 1 to the number of classes.
        NotFinite: a score is NaN.

    >>> top_k_accuracy([0, 1, 2], [[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.5, 0.3, 0.2]], k=2)
    0.6666666666666666
    """
    true = class_labels("targets", targets)
    ranked = score_matrix("scores", scores, "rows", "classes")
    rows, classes = ranked.shape
    if len(true) != rows:
        raise ShapeError(
            f"targets have shape {true.shape} and scores have shape {ranked.shape}; expected the same number of rows."
        )
    if isinstance(k, bool) or not is_integer(k):
        raise DTypeError(f"k must be an integer in [1, {classes}], not {k!r}")
    if not 1 <= k <= classes:
        raise DataError(f"k must be in [1, {classes}], the classes in scores of shape {ranked.shape}, not {k}")
    outside = (true < 0) | (true >= classes)
    if outside.any():
        row = int(outside.argmax())
        raise IndexOutOfRange(
            f"targets hold {true[row]} in row {row}; expected 0 to {classes - 1}, the columns of scores of shape "
            f"{ranked.shape}."
        )
    own = ranked[np.arange(rows), true][:, np.newaxis]
    ahead = (ranked > own) | ((ranked == own) & (np.arange(classes) > true[:, np.newaxis]))
    return float(np.mean(ahead.sum(axis=1) < k))


def class_counts(
    targets: ArrayLike, predictions: ArrayLike, average: Average, positive_label: int
) -> tuple[Counts, Counts, Counts]:
    """Return, per class selected by `average`, the number of correct predictions, of predictions, and of targets."""
    choice("average", average, get_args(Average), DataError)
    true, predicted = _both_labels(targets, predictions)
    classes, class_of = np.unique(np.concatenate([true, predicted]), return_inverse=True)
    true_class, predicted_class = class_of[: len(true)], class_of[len(true) :]
    right = np.bincount(true_class[true_class == predicted_class], minlength=len(classes))
    claimed = np.bincount(predicted_class, minlength=len(classes))
    present = np.bincount(true_class, minlength=len(classes))
    if average == "macro":
        return right, claimed, present
    if average == "micro":
        return right.sum(keepdims=True), claimed.sum(keepdims=True), present.sum(keepdims=True)
    if len(classes) > 2:
        shown = ", ".join(map(str, classes[:6])) + (", ..." if len(classes) > 6 else "")
        raise DataError(
            f"average='binary' with the {len(classes)} labels {shown}; expected at most two. "
            f"Use average='macro' or average='micro' for more classes."
        )
    if positive_label not in classes:
        if len(classes) == 2:
            raise DataError(
                f"positive_label={positive_label} is not one of the labels {classes[0]} and {classes[1]}; "
                f"pass the positive one."
            )
        # Only the negative class occurs.
        nothing = np.zeros(1, dtype=np.int64)
        return nothing, nothing, nothing
    positive = classes == positive_label
    return right[positive], claimed[positive], present[positive]


def mean_ratio(numerator: Counts, denominator: Counts) -> float:
    """Return the mean over classes of the ratio, taken as 0 where the denominator is 0."""
    return float(np.mean(numerator / np.maximum(denominator, 1)))


def precision(
    targets: ArrayLike, predictions: ArrayLike, average: Average = "binary", positive_label: int = 1
) -> float:
    """Return the fraction of rows predicted as a class that belong to it, from 0 to 1.

    `targets` and `predictions` are labels (integers or booleans) of shape (rows,). `average="binary"` uses the class
    `positive_label`; `"macro"` is the unweighted mean over all classes that occur in either array; `"micro"` pools the
    rows of all classes, which equals the accuracy. A class that is never predicted has precision 0.

    Raises:
        ShapeError: the shapes differ, or are not one-dimensional.
        DataError: there are no rows, a label is not a whole number, `average` is unknown, or `average="binary"` and
            there are more than two labels, or two without `positive_label`.
        NotFinite: an entry is NaN or infinite.

    >>> precision([1, 1, 0, 0], [1, 1, 1, 0])
    0.6666666666666666
    """
    right, claimed, _ = class_counts(targets, predictions, average, positive_label)
    return mean_ratio(right, claimed)


def recall(targets: ArrayLike, predictions: ArrayLike, average: Average = "binary", positive_label: int = 1) -> float:
    """Return the fraction of rows of a class that are predicted as that class, from 0 to 1.

    Arguments and errors are as in `precision`. A class that does not occur in the targets has recall 0.

    >>> recall([1, 1, 0, 0], [1, 0, 1, 0])
    0.5
    """
    right, _, present = class_counts(targets, predictions, average, positive_label)
    return mean_ratio(right, present)


def f1(targets: ArrayLike, predictions: ArrayLike, average: Average = "binary", positive_label: int = 1) -> float:
    """Return the harmonic mean of precision and recall, from 0 to 1.

    Arguments and errors are as in `precision`. `"macro"` is the mean of the F1 of each class. A class without correct
    predictions has F1 0.

    >>> f1([1, 1, 0, 0], [1, 1, 1, 0])
    0.8
    """
    right, claimed, present = class_counts(targets, predictions, average, positive_label)
    return mean_ratio(2 * right, claimed + present)


def confusion_matrix(targets: ArrayLike, predictions: ArrayLike, classes: int | None = None) -> NDArray[np.int64]:
    """Return the number of rows of each true class (rows) that are predicted as each class (columns).

    `targets` and `predictions` are labels from 0 to `classes - 1`, of shape (rows,). `classes` is by default the
    largest label plus one. The result has shape (classes, classes).

    Raises:
        ShapeError: the shapes differ, or are not one-dimensional.
        IndexOutOfRange: a label is negative, or not below `classes`.
        DataError: there are no rows, a label is not a whole number, or `classes` is below 1.
        NotFinite: an entry is NaN or infinite.

    >>> confusion_matrix([0, 0, 1, 2], [0, 1, 1, 1])
    array([[1, 1, 0],
           [0, 1, 0],
           [0, 1, 0]])
    """
    true, predicted = class_labels("targets", targets), class_labels("predictions", predictions)
    same_shape("targets", true, "predictions", predicted)
    largest = int(max(true.max(), predicted.max()))
    size = max(largest, 0) + 1 if classes is None else whole("classes", classes, 1, DataError)
    for name, labels in (("targets", true), ("predictions", predicted)):
        outside = (labels < 0) | (labels >= size)
        if outside.any():
            row = int(outside.argmax())
            raise IndexOutOfRange(f"{name} hold {labels[row]} in row {row}; expected 0 to {size - 1}")
    return np.bincount(true * size + predicted, minlength=size * size).reshape(size, size)


def specificity(
    targets: ArrayLike, predictions: ArrayLike, average: Average = "binary", positive_label: int = 1
) -> float:
    """Return the fraction of rows of other classes that are not predicted as a class, from 0 to 1.

    This is the recall of the negative class. Arguments and errors are as in `precision`. If no row is of another class,
    it is 0.

    >>> specificity([1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0])
    0.75
    """
    right, claimed, present = class_counts(targets, predictions, average, positive_label)
    true, predicted = class_labels("targets", targets), class_labels("predictions", predictions)
    # "micro" adds up the counts of all classes, so each row counts as often as there are classes.
    pooled = len(np.union1d(true, predicted)) if average == "micro" else 1
    others = len(true) * pooled - present
    return mean_ratio(others - (claimed - right), others)
