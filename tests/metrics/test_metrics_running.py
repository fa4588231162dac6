"""Running metrics over batches equal the functions over all rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from wyrm import metrics
from wyrm.errors import DataError, ShapeError

LABELS: list[tuple[Callable[[], Any], Callable[..., Any]]] = [
    (metrics.Accuracy, metrics.accuracy),
    (lambda: metrics.ConfusionMatrix(5), metrics.confusion_matrix),
    (lambda: metrics.Collected(partial(metrics.f1, average="macro")), partial(metrics.f1, average="macro")),
]
NUMBERS: list[tuple[Callable[[], Any], Callable[..., Any]]] = [
    (metrics.MeanSquaredError, metrics.mean_squared_error),
    (metrics.RootMeanSquaredError, metrics.root_mean_squared_error),
    (metrics.MeanAbsoluteError, metrics.mean_absolute_error),
    (metrics.MaxError, metrics.max_error),
    (lambda: metrics.Collected(metrics.r2), metrics.r2),
]


def in_batches(metric: Any, targets: np.ndarray, predictions: np.ndarray, size: int) -> Any:
    for start in range(0, len(targets), size):
        metric.update(targets[start : start + size], predictions[start : start + size])
    return metric.compute()


@pytest.mark.parametrize(("running", "whole"), LABELS)
@pytest.mark.parametrize("size", [1, 4, 100])
def test_of_labels(running: Callable[[], Any], whole: Callable[..., Any], size: int) -> None:
    generator = np.random.default_rng(0)
    targets, predictions = generator.integers(0, 5, (2, 33))
    np.testing.assert_allclose(in_batches(running(), targets, predictions, size), whole(targets, predictions))


@pytest.mark.parametrize(("running", "whole"), NUMBERS)
@pytest.mark.parametrize("shape", [(33,), (33, 3)])
def test_of_numbers(running: Callable[[], Any], whole: Callable[..., Any], shape: tuple[int, ...]) -> None:
    targets, predictions = np.random.default_rng(1).normal(size=(2, *shape))
    for size in (1, 4, 100):
        assert in_batches(running(), targets, predictions, size) == pytest.approx(whole(targets, predictions))


@pytest.mark.parametrize("running", [running for running, _ in LABELS + NUMBERS])
def test_a_reset_metric_is_as_a_new_one(running: Callable[[], Any]) -> None:
    metric, fresh = running(), running()
    metric.update([1, 2, 3], [3, 1, 2])
    metric.reset()
    for each in (metric, fresh):
        each.update([0, 1, 1], [0, 1, 0])
    np.testing.assert_array_equal(metric.compute(), fresh.compute())


@pytest.mark.parametrize("metric", [metrics.Mean(), metrics.Accuracy(), metrics.MaxError(), NUMBERS[-1][0]()])
def test_without_rows_there_is_no_result(metric: Any) -> None:
    with pytest.raises(DataError, match="no rows yet"):
        metric.compute()


def test_a_refused_batch_counts_for_nothing() -> None:
    metric = metrics.MeanSquaredError()
    metric.update([1.0], [2.0])
    with pytest.raises(ShapeError):
        metric.update([1.0, 2.0], [2.0])
    assert metric.compute() == 1.0 and repr(metric) == "MeanSquaredError(1 rows)"
