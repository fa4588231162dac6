from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from wyrm.errors import DataError, DTypeError, IndexOutOfRange, NotFinite, ShapeError
from wyrm.metrics import accuracy, f1, precision, recall, top_k_accuracy

PAIRED: list[tuple[Callable[..., float], Callable[..., Any]]] = [
    (precision, sklearn_metrics.precision_score),
    (recall, sklearn_metrics.recall_score),
    (f1, sklearn_metrics.f1_score),
]


def pairs_of(labels: st.SearchStrategy[int]) -> st.SearchStrategy[list[tuple[int, int]]]:
    return st.lists(st.tuples(labels, labels), min_size=1, max_size=30)


@settings(deadline=None)
@given(pairs=pairs_of(st.integers(-2, 5)))
def test_macro_micro_and_accuracy_equal_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    targets, predictions = np.array(pairs).T
    assert accuracy(targets, predictions) == pytest.approx(sklearn_metrics.accuracy_score(targets, predictions))
    for ours, theirs in PAIRED:
        for average in ("macro", "micro"):
            expected = theirs(targets, predictions, average=average, zero_division=0.0)
            assert ours(targets, predictions, average=average) == pytest.approx(expected)


@settings(deadline=None)
@given(pairs=pairs_of(st.integers(0, 1)))
def test_binary_equals_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    targets, predictions = np.array(pairs).T
    for ours, theirs in PAIRED:
        assert ours(targets, predictions) == pytest.approx(theirs(targets, predictions, zero_division=0.0))
        assert ours(targets == 1, predictions == 1) == ours(targets, predictions)


@pytest.mark.parametrize(("ours", "theirs"), PAIRED)
def test_another_label_may_be_positive(ours: Callable[..., float], theirs: Callable[..., Any]) -> None:
    targets, predictions = [-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1]
    expected = theirs(targets, predictions, pos_label=-1)
    assert ours(targets, predictions, positive_label=-1) == pytest.approx(expected)
    assert expected != pytest.approx(theirs(targets, predictions))


@pytest.mark.parametrize("metric", [precision, recall, f1])
def test_nothing_to_divide_by_gives_zero_without_a_warning(metric: Callable[..., float]) -> None:
    assert metric([0, 0], [0, 0]) == 0.0
    assert metric([1, 1], [0, 0]) == 0.0
    assert metric([0, 0], [1, 1]) == 0.0
    assert metric([1, 2], [3, 4], average="macro") == 0.0


def test_results_are_python_floats() -> None:
    for metric in (accuracy, precision, recall, f1):
        assert type(metric(np.array([1, 0]), np.array([1, 1]))) is float
    assert type(top_k_accuracy([0], [[1.0, 2.0]])) is float


def test_whole_floats_are_labels() -> None:
    assert accuracy(np.array([0.0, 1.0]), [0, 1]) == 1.0
    assert accuracy([2**60, 2**60], [2**60, 2**60 + 1]) == 0.5


@settings(deadline=None)
@given(data=st.data(), rows=st.integers(1, 12), classes=st.integers(3, 6))
def test_top_k_equals_scikit_learn_with_ties(data: st.DataObject, rows: int, classes: int) -> None:
    targets = data.draw(st.lists(st.integers(0, classes - 1), min_size=rows, max_size=rows))
    flat = data.draw(st.lists(st.integers(0, 3), min_size=rows * classes, max_size=rows * classes))
    scores = np.array(flat, dtype=np.float64).reshape(rows, classes)
    for k in range(1, classes):
        expected = sklearn_metrics.top_k_accuracy_score(targets, scores, k=k, labels=np.arange(classes))
        assert top_k_accuracy(targets, scores, k) == pytest.approx(expected)
    assert top_k_accuracy(targets, scores, classes) == 1.0


def test_top_1_is_the_accuracy_of_the_best_class() -> None:
    scores = np.random.default_rng(0).normal(size=(200, 7))
    targets = np.random.default_rng(1).integers(0, 7, 200)
    assert top_k_accuracy(targets, scores, k=1) == accuracy(targets, scores.argmax(axis=1))
    assert top_k_accuracy([1], [[-np.inf, np.inf, 0.0]], k=1) == 1.0


@pytest.mark.parametrize("metric", [accuracy, precision, recall, f1])
@pytest.mark.parametrize(
    ("targets", "predictions", "error", "message"),
    [
        ([0, 1], [0, 1, 1], ShapeError, r"targets has shape \(2,\) and predictions has shape \(3,\)"),
        ([0, 1], [[0], [1]], ShapeError, r"predictions has shape \(2, 1\); expected one label per row"),
        ([0, 1], [[0, 1], [2]], ShapeError, "predictions was given lists of different lengths"),
        ([], [], DataError, r"targets is empty \(shape \(0,\)\)"),
        ([0, 1], [0.0, np.nan], NotFinite, r"predictions, of shape \(2,\), holds nan at 1"),
        ([np.inf, 1.0], [0, 1], NotFinite, "targets, .* holds inf at 0"),
        ([0, 1], [0.3, 0.9], DataError, r"predictions holds 0\.3 at 0; .*probabilities > 0\.5"),
        ([0, 1], [0.0, 1e300], DataError, r"predictions holds 1e\+300 at 1"),
        (["a", "b"], [0, 1], DTypeError, "targets has dtype <U1"),
    ],
)
def test_bad_labels_are_refused(
    metric: Callable[..., float], targets: Any, predictions: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        metric(targets, predictions)


@pytest.mark.parametrize("metric", [precision, recall, f1])
def test_bad_averages_are_refused(metric: Callable[..., float]) -> None:
    with pytest.raises(DataError, match=r"average='binary' with the 3 labels 0, 1, 2;.*macro"):
        metric([0, 1, 2], [0, 1, 2])
    with pytest.raises(DataError, match=r"the 8 labels 0, 1, 2, 3, 4, 5, \.\.\.;"):
        metric(np.arange(8), np.arange(8))
    with pytest.raises(DataError, match="average must be 'binary', 'macro' or 'micro', not 'weighted'"):
        metric([0, 1], [0, 1], average="weighted")
    with pytest.raises(DataError, match="positive_label=1 is not one of the labels 2 and 3"):
        metric([2, 3], [2, 3])


@pytest.mark.parametrize(
    ("targets", "scores", "k", "error", "message"),
    [
        ([0, 1], [0.1, 0.2], 1, ShapeError, r"scores has shape \(2,\); expected \(rows, classes\)"),
        ([0, 1], [[0.1, 0.2]], 1, ShapeError, r"targets have shape \(2,\) and scores have shape \(1, 2\)"),
        ([2], [[0.1, 0.2]], 1, IndexOutOfRange, "targets hold 2 in row 0; expected 0 to 1"),
        ([-1], [[0.1, 0.2]], 1, IndexOutOfRange, "targets hold -1 in row 0"),
        ([0], [[0.1, np.nan]], 1, NotFinite, r"scores, of shape \(1, 2\), holds nan at \(0, 1\); expected no NaN"),
        ([0], [[0.1, 0.2]], 0, DataError, r"k must be in \[1, 2\], .*, not 0"),
        ([0], [[0.1, 0.2]], 3, DataError, r"k must be in \[1, 2\], .*, not 3"),
        ([0], [[0.1, 0.2]], 1.0, DTypeError, r"k must be an integer in \[1, 2\], not 1\.0"),
        ([], np.zeros((0, 2)), 1, DataError, "targets is empty"),
    ],
)
def test_bad_scores_are_refused(targets: Any, scores: Any, k: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        top_k_accuracy(targets, scores, k)
