from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy
from sklearn import metrics as sklearn_metrics

from wyrm.errors import DataError, DTypeError, NotFinite, ShapeError
from wyrm.metrics import (
    explained_variance,
    max_error,
    mean_absolute_error,
    mean_absolute_percentage_error,
    mean_squared_error,
    r2,
    root_mean_squared_error,
)

PAIRED: list[tuple[Callable[..., float], Callable[..., Any]]] = [
    (mean_squared_error, sklearn_metrics.mean_squared_error),
    (root_mean_squared_error, sklearn_metrics.root_mean_squared_error),
    (mean_absolute_error, sklearn_metrics.mean_absolute_error),
    (r2, sklearn_metrics.r2_score),
    (mean_absolute_percentage_error, sklearn_metrics.mean_absolute_percentage_error),
    (explained_variance, sklearn_metrics.explained_variance_score),
]
METRICS = [ours for ours, _ in PAIRED]


@settings(deadline=None)
@given(
    hypothesis_numpy.arrays(
        np.float64,
        # Two arrays, at least two rows, one or more outputs.
        st.tuples(st.just(2), st.integers(2, 12), st.integers(1, 3)),
        # Sixteenths, so that a constant column has no rounding error in scikit-learn either.
        elements=st.integers(-800, 800).map(lambda value: value / 16),
    )
)
def test_metrics_equal_scikit_learn(pair: np.ndarray[Any, np.dtype[np.float64]]) -> None:
    targets, predictions = pair
    for ours, theirs in PAIRED:
        assert ours(targets, predictions) == pytest.approx(theirs(targets, predictions), rel=1e-9, abs=1e-9)
        first = theirs(targets[:, 0], predictions[:, 0])
        assert ours(targets[:, 0], predictions[:, 0]) == pytest.approx(first, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("targets", [[2.0, 2.0, 2.0], [0.1, 0.1, 0.1]])
def test_r2_of_a_constant_target(targets: list[float]) -> None:
    assert r2(targets, targets) == 1.0
    assert r2(targets, [2.0, 2.0, 3.0]) == 0.0
    both = np.stack([targets, [1.0, 2.0, 3.0]], axis=1)
    assert r2(both, both) == 1.0
    assert r2(both, both + 1) == pytest.approx(sklearn_metrics.r2_score(np.round(both), np.round(both) + 1))


def test_r2_of_a_bad_prediction_is_negative() -> None:
    assert r2([1.0, 2.0, 3.0], [3.0, 2.0, 1.0]) == -3.0


def test_sums_are_taken_in_float64() -> None:
    targets = np.full(1_000_000, 1000.1, dtype=np.float32)
    predictions = np.zeros_like(targets)
    exact = float(targets[0]) ** 2
    assert mean_squared_error(targets, predictions) == pytest.approx(exact, rel=1e-12)
    assert mean_squared_error(np.array([0, 0], np.uint8), np.array([1, 255], np.uint8)) == (1 + 255**2) / 2


@pytest.mark.parametrize("metric", METRICS)
def test_results_are_python_floats(metric: Callable[..., float]) -> None:
    assert type(metric(np.array([1.0, 2.0]), np.array([1, 2]))) is float


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    ("targets", "predictions", "error", "message"),
    [
        ([1.0, 2.0], [1.0], ShapeError, r"targets has shape \(2,\) and predictions has shape \(1,\)"),
        ([1.0, 2.0], [[1.0], [2.0]], ShapeError, r"targets has shape \(2,\) and predictions has shape \(2, 1\)"),
        (1.0, 2.0, ShapeError, "single numbers"),
        ([], [], DataError, "targets is empty"),
        ([1.0], [], DataError, "predictions is empty"),
        ([1.0, np.nan], [1.0, 2.0], NotFinite, r"targets, of shape \(2,\), holds nan at 1; expected finite numbers"),
        ([1.0, 2.0], [-np.inf, 2.0], NotFinite, r"predictions, of shape \(2,\), holds -inf at 0"),
        ([1.0, 2.0], [1j, 2.0], DTypeError, "predictions has dtype complex128"),
        (["1", "2"], [1.0, 2.0], DTypeError, "targets has dtype <U1"),
    ],
)
def test_bad_arrays_are_refused(
    metric: Callable[..., float], targets: Any, predictions: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        metric(targets, predictions)


def test_r2_of_one_row_is_refused() -> None:
    with pytest.raises(DataError, match="at least two rows"):
        r2([1.0], [1.0])


def test_the_largest_error_equals_scikit_learn_and_covers_all_outputs() -> None:
    targets, predictions = np.random.default_rng(0).normal(size=(2, 9, 3))
    assert max_error(targets[:, 1], predictions[:, 1]) == sklearn_metrics.max_error(targets[:, 1], predictions[:, 1])
    assert max_error(targets, predictions) == np.abs(targets - predictions).max()
