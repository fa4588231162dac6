from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from wyrm.errors import DataError, DTypeError, IndexOutOfRange, ShapeError
from wyrm.metrics import confusion_matrix, specificity


def pairs_of(labels: st.SearchStrategy[int]) -> st.SearchStrategy[list[tuple[int, int]]]:
    return st.lists(st.tuples(labels, labels), min_size=1, max_size=30)


@settings(deadline=None)
@given(pairs=pairs_of(st.integers(0, 5)))
def test_the_matrix_equals_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    targets, predictions = np.array(pairs).T
    expected = sklearn_metrics.confusion_matrix(targets, predictions, labels=range(6))
    np.testing.assert_array_equal(confusion_matrix(targets, predictions, 6), expected)
    size = max(max(pair) for pair in pairs) + 1
    np.testing.assert_array_equal(confusion_matrix(targets, predictions), expected[:size, :size])


@settings(deadline=None)
@given(pairs=pairs_of(st.integers(0, 4)))
def test_specificity_is_the_recall_of_the_other_rows(pairs: list[tuple[int, int]]) -> None:
    targets, predictions = np.array(pairs).T
    classes = np.union1d(targets, predictions)
    each = [sklearn_metrics.recall_score(targets != c, predictions != c, zero_division=0.0) for c in classes]
    assert specificity(targets, predictions, average="macro") == pytest.approx(np.mean(each))
    spread = [np.concatenate([labels != c for c in classes]) for labels in (targets, predictions)]
    pooled = sklearn_metrics.recall_score(*spread, zero_division=0.0)
    assert specificity(targets, predictions, average="micro") == pytest.approx(pooled)


@settings(deadline=None)
@given(pairs=pairs_of(st.integers(0, 1)))
def test_binary_specificity_is_the_recall_of_the_negative_class(pairs: list[tuple[int, int]]) -> None:
    targets, predictions = np.array(pairs).T
    expected = sklearn_metrics.recall_score(targets, predictions, pos_label=0, zero_division=0.0)
    assert specificity(targets, predictions) == pytest.approx(expected)


def test_labels_out_of_range_are_refused() -> None:
    with pytest.raises(IndexOutOfRange, match="targets hold 3 in row 1; expected 0 to 2"):
        confusion_matrix([0, 3], [0, 1], 3)
    with pytest.raises(IndexOutOfRange, match="predictions hold -1 in row 0"):
        confusion_matrix([0, 3], [-1, 1])
    with pytest.raises(DataError, match="classes must be an integer of at least 1"):
        confusion_matrix([0], [0], 0)
    with pytest.raises(DTypeError, match="classes"):
        confusion_matrix([0], [0], 2.0)  # type: ignore[arg-type]  # what it checks
    with pytest.raises(ShapeError):
        confusion_matrix([0, 1], [0])
