"""Running metrics: they take their data in batches, as `Program.evaluate` and `wy.train.fit` give it.

`update(...)` takes a batch into account, `compute()` returns the metric of all batches so far, and `reset()` forgets
them. The results are those of the functions over all rows at once, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wyrm.errors import DataError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.metrics.checks import class_labels, numbers, same_shape
from wyrm.metrics.classification import confusion_matrix
from wyrm.metrics.regression import output_columns
from wyrm.support.options import whole

T = TypeVar("T")


class _RunningSums:
    """Sums over rows, and the number of rows."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self._sums: NDArray[np.float64] = np.zeros(1)
        self._rows = 0

    def _add(self, rows: np.ndarray) -> None:
        """Add values of shape (rows, outputs)."""
        self._sums = self._sums + rows.sum(axis=0, dtype=np.float64)
        self._rows += len(rows)

    def _means(self) -> NDArray[np.float64]:
        if not self._rows:
            raise DataError(f"{type(self).__name__} has no rows yet: call update(...) with a batch first")
        return self._sums / self._rows

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._rows} rows)"


class Mean(_RunningSums):
    """The mean of numbers.

    >>> mean = Mean()
    >>> mean.update([1.0, 2.0])
    >>> mean.update([6.0])
    >>> mean.compute()
    3.0
    """

    def update(self, values: ArrayLike) -> None:
        """Add the values of a batch, numbers of any shape; raise what `mean_squared_error` raises for them."""
        self._add(numbers("values", values).reshape(-1, 1))

    def compute(self) -> float:
        """Return the mean; raise `DataError` without values."""
        return float(self._means()[0])


class Accuracy(_RunningSums):
    """The `accuracy` of labels, in batches.

    >>> metric = Accuracy()
    >>> metric.update([0, 1], [0, 2])
    >>> metric.update([2, 2], [2, 2])
    >>> metric.compute()
    0.75
    """

    def update(self, targets: ArrayLike, predictions: ArrayLike) -> None:
        """Add the labels of a batch; raise what `accuracy` raises for them."""
        true, predicted = class_labels("targets", targets), class_labels("predictions", predictions)
        same_shape("targets", true, "predictions", predicted)
        self._add((true == predicted)[:, np.newaxis])

    def compute(self) -> float:
        """Return the fraction of rows whose class is predicted; raise `DataError` without rows."""
        return float(self._means()[0])


class _MeanError(_RunningSums):
    """Base class of the means of a function of the differences."""

    # The function of the differences.
    measure: ClassVar[np.ufunc]

    def update(self, targets: ArrayLike, predictions: ArrayLike) -> None:
        """Add a batch; raise what `mean_squared_error` raises for it."""
        true, predicted = output_columns(targets, predictions)
        self._add(self.measure(true - predicted))

    def compute(self) -> float:
        """Return the mean; raise `DataError` without rows."""
        return float(self._means().mean())


class MeanSquaredError(_MeanError):
    """The `mean_squared_error`, in batches.

    >>> metric = MeanSquaredError()
    >>> metric.update([1.0, 2.0], [1.0, 4.0])
    >>> metric.compute()
    2.0
    """

    measure: ClassVar[np.ufunc] = np.square


class RootMeanSquaredError(MeanSquaredError):
    """The `root_mean_squared_error`, in batches.

    >>> metric = RootMeanSquaredError()
    >>> metric.update([1.0, 2.0], [1.0, 2.0])
    >>> metric.update([3.0, 4.0], [3.0, 8.0])
    >>> metric.compute()
    2.0
    """

    def compute(self) -> float:
        """Return the root of the mean, averaged over the outputs; raise `DataError` without rows."""
        return float(np.sqrt(self._means()).mean())


class MeanAbsoluteError(_MeanError):
    """The `mean_absolute_error`, in batches.

    >>> metric = MeanAbsoluteError()
    >>> metric.update([1.0, 2.0], [1.0, 4.0])
    >>> metric.compute()
    1.0
    """

    measure: ClassVar[np.ufunc] = np.abs


class MaxError:
    """The `max_error`, in batches.

    >>> metric = MaxError()
    >>> metric.update([1.0, 2.0], [1.0, 4.0])
    >>> metric.update([3.0], [2.0])
    >>> metric.compute()
    2.0
    """

    def __init__(self) -> None:
        self._largest: float | None = None

    def reset(self) -> None:
        """Forget all batches."""
        self._largest = None

    def update(self, targets: ArrayLike, predictions: ArrayLike) -> None:
        """Take a batch into account; raise what `max_error` raises for it."""
        true, predicted = output_columns(targets, predictions)
        self._largest = max(self._largest or 0.0, float(np.abs(true - predicted).max()))

    def compute(self) -> float:
        """Return the largest absolute difference; raise `DataError` without rows."""
        if self._largest is None:
            raise DataError("MaxError has no rows yet: call update(...) with a batch first")
        return self._largest

    def __repr__(self) -> str:
        return f"MaxError({'no rows' if self._largest is None else self._largest})"


class ConfusionMatrix:
    """The `confusion_matrix` of labels from 0 to `classes - 1`, in batches.

    Raises:
        DTypeError: `classes` is not an integer.
        DataError: `classes` is below 1.

    >>> matrix = ConfusionMatrix(2)
    >>> matrix.update([0, 1], [0, 1])
    >>> matrix.update([0, 0], [1, 0])
    >>> matrix.compute()
    array([[2, 1],
           [0, 1]])
    """

    def __init__(self, classes: int) -> None:
        self.classes: int = whole("classes", classes, 1, DataError)
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        self._counts: NDArray[np.int64] = np.zeros((self.classes, self.classes), np.int64)

    def update(self, targets: ArrayLike, predictions: ArrayLike) -> None:
        """Add the labels of a batch; raise what `confusion_matrix` raises for them."""
        self._counts = self._counts + confusion_matrix(targets, predictions, self.classes)

    def compute(self) -> NDArray[np.int64]:
        """Return the numbers of rows by true class and predicted class, of shape (classes, classes)."""
        return self._counts.copy()

    def __repr__(self) -> str:
        return f"ConfusionMatrix({self.classes} classes, {self._counts.sum()} rows)"


class Collected(Generic[T]):
    """Any metric of two arrays, computed over the rows of all batches, which it keeps until `reset`.

    For metrics that no sum over batches gives: `Collected(wy.metrics.roc_auc)`, or with options
    `Collected(functools.partial(wy.metrics.f1, average="macro"))`.

    >>> from wyrm.metrics import roc_auc
    >>> metric = Collected(roc_auc)
    >>> metric.update([0, 0], [0.1, 0.4])
    >>> metric.update([1, 1], [0.35, 0.8])
    >>> metric.compute()
    0.75
    """

    def __init__(self, metric: Callable[[np.ndarray, np.ndarray], T]) -> None:
        self._metric = metric
        self.reset()

    def reset(self) -> None:
        """Forget all batches."""
        # Targets and predictions, an array for each batch.
        self._kept: tuple[list[np.ndarray], list[np.ndarray]] = [], []

    def update(self, targets: ArrayLike, predictions: ArrayLike) -> None:
        """Keep copies of the arrays of a batch, whose first axis is its rows; raise `ShapeError` for other rows."""
        given = np.array(as_array(targets, "targets")), np.array(as_array(predictions, "predictions"))
        shapes = [array.shape for array in given]
        if not all(shapes) or shapes[0][0] != shapes[1][0]:
            raise ShapeError(
                f"targets have shape {shapes[0]} and predictions have shape {shapes[1]}; expected the same number of "
                f"rows, on the first axis."
            )
        for name, kept, array in zip(("targets", "predictions"), self._kept, given, strict=True):
            if kept and kept[-1].shape[1:] != array.shape[1:]:
                raise ShapeError(
                    f"{name} have shape {array.shape}, those of the last batch {kept[-1].shape}; expected the same but "
                    f"for the number of rows."
                )
        for kept, array in zip(self._kept, given, strict=True):
            kept.append(array)

    def compute(self) -> T:
        """Return the metric of all rows; raise what it raises, and `DataError` without batches."""
        targets, predictions = self._kept
        if not targets:
            raise DataError("a collected metric has no rows yet: call update(...) with a batch first")
        return self._metric(np.concatenate(targets), np.concatenate(predictions))
