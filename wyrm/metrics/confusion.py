"""The confusion matrix, and the specificity."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.errors import DataError, IndexOutOfRange
from wyrm.metrics.checks import class_labels, same_shape
from wyrm.metrics.classification import Average, class_counts, mean_ratio
from wyrm.support.options import whole


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
    # "micro" pools the rows of all classes, each of which counts once for each class.
    pooled = len(np.union1d(true, predicted)) if average == "micro" else 1
    others = len(true) * pooled - present
    return mean_ratio(others - (claimed - right), others)
