"""Regression metrics. Arguments are in scikit-learn's order: targets first."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.errors import DataError, ShapeError
from wyrm.metrics.checks import numbers, same_shape


def output_columns(targets: ArrayLike, predictions: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both as float64 of shape (rows, outputs)."""
    true, predicted = numbers("targets", targets), numbers("predictions", predictions)
    same_shape("targets", true, "predictions", predicted)
    if true.ndim == 0:
        raise ShapeError("targets and predictions are single numbers; expected one entry per row, shape (rows,).")
    return true.reshape(len(true), -1), predicted.reshape(len(predicted), -1)


def mean_squared_error(targets: ArrayLike, predictions: ArrayLike) -> float:
    """Return the mean of the squared differences, at least 0.

    `targets` and `predictions` are finite numbers of one shape, (rows,) or (rows, outputs); nothing is broadcast.

    Raises:
        ShapeError: the shapes differ.
        DTypeError: an array does not hold real numbers.
        DataError: there are no rows.
        NotFinite: an entry is NaN or infinite.

    >>> mean_squared_error([1.0, 2.0], [1.0, 4.0])
    2.0
    """
    true, predicted = output_columns(targets, predictions)
    return float(np.mean((true - predicted) ** 2))


def root_mean_squared_error(targets: ArrayLike, predictions: ArrayLike) -> float:
    """Return the root of the mean squared error, at least 0, in the unit of the targets.

    Arguments and errors are as in `mean_squared_error`. For shape (rows, outputs) it is the mean of the root of each
    output, as in scikit-learn.

    >>> root_mean_squared_error([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 8.0])
    2.0
    """
    true, predicted = output_columns(targets, predictions)
    return float(np.mean(np.sqrt(np.mean((true - predicted) ** 2, axis=0))))


def mean_absolute_error(targets: ArrayLike, predictions: ArrayLike) -> float:
    """Return the mean of the absolute differences, at least 0, in the unit of the targets.

    Arguments and errors are as in `mean_squared_error`.

    >>> mean_absolute_error([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    true, predicted = output_columns(targets, predictions)
    return float(np.mean(np.abs(true - predicted)))


def r2(targets: ArrayLike, predictions: ArrayLike) -> float:
    """Return the coefficient of determination: 1 for a perfect prediction, 0 for the mean; it has no lower bound.

    Arguments and errors are as in `mean_squared_error`; at least two rows are needed. For shape (rows, outputs) it is
    the mean over the outputs. A constant target has no variance to explain: as in scikit-learn it scores 1 if it is
    predicted exactly, else 0.

    >>> r2([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])
    0.5
    >>> r2([2.0, 2.0], [2.0, 3.0])
    0.0
    """
    true, predicted = output_columns(targets, predictions)
    if len(true) < 2:
        raise DataError("r2 of a single row is undefined: one target has no variance. Give at least two rows.")
    unexplained = np.sum((true - predicted) ** 2, axis=0)
    # Exact comparison: the rounded mean of equal numbers can differ from them and leave a tiny variance.
    constant = np.all(true == true[0], axis=0)
    total = np.where(constant, 1.0, np.sum((true - true.mean(axis=0)) ** 2, axis=0))
    return float(np.mean(np.where(constant, unexplained == 0, 1.0 - unexplained / total)))


def mean_absolute_percentage_error(targets: ArrayLike, predictions: ArrayLike) -> float:
    """Return the mean of the absolute differences divided by the absolute targets, at least 0: 0.1 is ten percent.

    Arguments and errors are as in `mean_squared_error`. As in scikit-learn, a target of 0 counts as the float64
    machine epsilon, so an error there makes the result very large.

    >>> mean_absolute_percentage_error([1.0, 2.0], [1.5, 2.0])
    0.25
    """
    true, predicted = output_columns(targets, predictions)
    return float(np.mean(np.abs(true - predicted) / np.maximum(np.abs(true), np.finfo(np.float64).eps)))


def max_error(targets: ArrayLike, predictions: ArrayLike) -> float:
    """Return the largest absolute difference, at least 0, in the unit of the targets.

    Arguments and errors are as in `mean_squared_error`.

    >>> max_error([1.0, 2.0, 3.0], [1.0, 4.0, 2.0])
    2.0
    """
    true, predicted = output_columns(targets, predictions)
    return float(np.max(np.abs(true - predicted)))


def explained_variance(targets: ArrayLike, predictions: ArrayLike) -> float:
    """Return one minus the variance of the differences by the variance of the targets: `r2` without a constant bias.

    Arguments and errors are as in `mean_squared_error`. For shape (rows, outputs) it is the mean over the outputs. As
    in scikit-learn, a constant target scores 1 if the differences are constant too, else 0.

    >>> explained_variance([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])
    1.0
    """
    true, predicted = output_columns(targets, predictions)
    difference = true - predicted
    # Exact comparisons, as in `r2`.
    constant, unbiased = np.all(true == true[0], axis=0), np.all(difference == difference[0], axis=0)
    total = np.where(constant, 1.0, np.var(true, axis=0))
    return float(np.mean(np.where(unbiased, 1.0, np.where(constant, 0.0, 1.0 - np.var(difference, axis=0) / total))))
