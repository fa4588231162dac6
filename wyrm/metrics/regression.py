"""How far predicted numbers are from the true ones. The arguments come in scikit-learn's order: the truth first."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.errors import DataError, ShapeError
from wyrm.metrics.checks import numbers, same_shape


def _columns(targets: ArrayLike, predictions: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as (rows, outputs). Sums are then taken in float64, whatever was given."""
    true, predicted = numbers("targets", targets), numbers("predictions", predictions)
    same_shape("targets", true, "predictions", predicted)
    if true.ndim == 0:
        raise ShapeError("targets and predictions are single numbers; expected one entry for each row, shape (rows,).")
    return true.reshape(len(true), -1), predicted.reshape(len(predicted), -1)


def mean_squared_error(targets: ArrayLike, predictions: ArrayLike) -> float:
    """The mean of the squared differences, at least 0, in the square of the targets' unit.

    `targets` and `predictions` are finite numbers of one shape, (rows,) or (rows, outputs); nothing is broadcast.

    Raises:
        ShapeError: the shapes differ.
        DTypeError: an array holds no real numbers.
        DataError: there are no rows.
        NotFinite: an entry is NaN or infinite.

    >>> mean_squared_error([1.0, 2.0], [1.0, 4.0])
    2.0
    """
    true, predicted = _columns(targets, predictions)
    return float(np.mean((true - predicted) ** 2))


def root_mean_squared_error(targets: ArrayLike, predictions: ArrayLike) -> float:
    """The root of the mean squared error, at least 0, in the targets' unit.

    Arguments and errors are those of `mean_squared_error`. With (rows, outputs) it is the mean over the outputs of the
    root of each, as in scikit-learn.

    >>> root_mean_squared_error([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 8.0])
    2.0
    """
    true, predicted = _columns(targets, predictions)
    return float(np.mean(np.sqrt(np.mean((true - predicted) ** 2, axis=0))))


def mean_absolute_error(targets: ArrayLike, predictions: ArrayLike) -> float:
    """The mean of the absolute differences, at least 0, in the targets' unit.

    Arguments and errors are those of `mean_squared_error`.

    >>> mean_absolute_error([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    true, predicted = _columns(targets, predictions)
    return float(np.mean(np.abs(true - predicted)))


def r2(targets: ArrayLike, predictions: ArrayLike) -> float:
    """The coefficient of determination: 1 for a perfect prediction, 0 for one no better than the mean; no lower bound.

    Arguments and errors are those of `mean_squared_error`, and at least two rows are needed. With (rows, outputs) it
    is the mean over the outputs. A constant target has nothing to explain: as in scikit-learn it counts 1 where
    predicted exactly and 0 otherwise.

    >>> r2([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])
    0.5
    >>> r2([2.0, 2.0], [2.0, 3.0])
    0.0
    """
    true, predicted = _columns(targets, predictions)
    if len(true) < 2:
        raise DataError("r2 of a single row is undefined: one target has no variance. Give at least two rows.")
    unexplained = np.sum((true - predicted) ** 2, axis=0)
    # Compared exactly: the rounded mean of equal numbers can differ from them, and leave a variance of rounding errors.
    constant = np.all(true == true[0], axis=0)
    total = np.where(constant, 1.0, np.sum((true - true.mean(axis=0)) ** 2, axis=0))
    return float(np.mean(np.where(constant, unexplained == 0, 1.0 - unexplained / total)))
