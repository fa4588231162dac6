from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy
from sklearn import metrics as sklearn_metrics

from wyrm.errors import DataError, DTypeError, IndexOutOfRange, NotFinite, ShapeError
from wyrm.metrics import mean_ranking_auc, mean_reciprocal_rank, ranking_auc, reciprocal_rank, roc_auc

# Few different scores, so that ties are common.
LABELLED = st.lists(st.tuples(st.integers(0, 1), st.integers(-2, 2)), min_size=2, max_size=25)
MATRICES = st.tuples(st.integers(1, 5), st.integers(2, 6)).flatmap(
    lambda shape: st.tuples(
        hypothesis_numpy.arrays(np.float64, shape, elements=st.integers(-2, 2).map(float)),
        hypothesis_numpy.arrays(np.bool_, shape),
        hypothesis_numpy.arrays(np.bool_, shape),
    )
)


@settings(deadline=None)
@given(LABELLED)
def test_roc_auc_equals_scikit_learn_with_ties(rows: list[tuple[int, int]]) -> None:
    targets, scores = np.array(rows).T
    assume(0 < targets.sum() < len(targets))
    expected = sklearn_metrics.roc_auc_score(targets, scores)
    assert roc_auc(targets, scores) == pytest.approx(expected, abs=1e-12)
    assert roc_auc(targets == 1, scores * 0.5) == roc_auc(targets, scores)
    assert roc_auc(targets * 2 - 1, np.exp(scores.astype(float))) == roc_auc(targets, scores)
    assert roc_auc(1 - targets, -scores) == pytest.approx(expected, abs=1e-12)


def test_roc_auc_at_its_ends() -> None:
    assert roc_auc([0, 0, 1], [1, 2, 3]) == 1.0
    assert roc_auc([0, 0, 1], [3, 2, 1]) == 0.0
    assert roc_auc([0, 1, 0, 1], [5, 5, 5, 5]) == 0.5
    assert roc_auc([0, 1], [-np.inf, np.inf]) == 1.0
    assert type(roc_auc([0, 1], [0, 1])) is float


def test_roc_auc_of_many_rows_is_exact() -> None:
    generator = np.random.default_rng(0)
    targets, scores = generator.integers(0, 2, 100_000), generator.normal(size=100_000).astype(np.float32)
    assert roc_auc(targets, scores) == pytest.approx(sklearn_metrics.roc_auc_score(targets, scores), abs=1e-12)


@pytest.mark.parametrize(
    ("targets", "scores", "error", "message"),
    [
        ([0, 1], [0.1, 0.2, 0.3], ShapeError, r"targets has shape \(2,\) and scores has shape \(3,\)"),
        ([[0], [1]], [[0.1], [0.2]], ShapeError, r"have shape \(2, 1\); expected \(rows,\)"),
        ([], [], DataError, "targets is empty"),
        ([1, 1], [0.1, 0.2], DataError, r"targets hold only 1\.0; expected two different labels"),
        ([0.3, 0.1, 0.2], [0, 1, 1], DataError, r"3 different numbers.*Arguments are targets"),
        ([0, 1], [0.1, np.nan], NotFinite, r"scores, of shape \(2,\), holds nan at 1; expected no NaN"),
        ([0, np.inf], [0.1, 0.2], NotFinite, "targets, .* holds inf at 1"),
    ],
)
def test_bad_labels_and_scores_are_refused(targets: Any, scores: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        roc_auc(targets, scores)


@settings(deadline=None)
@given(
    scores=st.lists(st.integers(-2, 2), min_size=1, max_size=12),
    choice=st.integers(0, 11),
)
def test_reciprocal_rank_of_one_item_equals_scikit_learn(scores: list[int], choice: int) -> None:
    """With one relevant item, label ranking average precision is the reciprocal rank, with ties counted against it."""
    item = choice % len(scores)
    truth = np.arange(len(scores)) == item
    assume(len(scores) > 1)
    expected = sklearn_metrics.label_ranking_average_precision_score([truth], [scores])
    assert reciprocal_rank(scores, {item}) == pytest.approx(expected)
    assert reciprocal_rank(scores, truth) == reciprocal_rank(scores, [item])
    assert mean_reciprocal_rank([scores], [item]) == reciprocal_rank(scores, np.array([item]))


def test_the_first_relevant_item_counts() -> None:
    scores = [0.1, 0.9, 0.5, 0.3]
    assert reciprocal_rank(scores, {0, 3}) == pytest.approx(1 / 3)
    assert reciprocal_rank(scores, {0, 1}) == 1.0
    assert reciprocal_rank(scores, {0, 3}, exclude={1}) == 0.5
    assert reciprocal_rank(scores, {0, 3}, exclude=[3]) == pytest.approx(1 / 3)
    assert reciprocal_rank([-np.inf, -np.inf, 1.0], {0}) == pytest.approx(1 / 3)


def test_constant_scores_earn_the_last_place() -> None:
    assert reciprocal_rank(np.zeros(10), {4}) == pytest.approx(1 / 10)
    assert reciprocal_rank(np.zeros(10), {3, 4}) == pytest.approx(1 / 9)
    assert ranking_auc(np.zeros(10), {4}) == 0.5


@settings(deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(MATRICES)
def test_ranking_auc_equals_roc_auc_over_the_items_not_excluded(matrices: tuple[Any, Any, Any]) -> None:
    scores, relevant, exclude = (matrix[0] for matrix in matrices)
    counted = ~exclude
    assume((relevant & counted).any() and (~relevant & counted).any())
    expected = sklearn_metrics.roc_auc_score(relevant[counted], scores[counted])
    assert ranking_auc(scores, relevant, exclude) == pytest.approx(expected, abs=1e-12)
    indices = set(np.flatnonzero(relevant).tolist())
    assert ranking_auc(scores, indices, np.flatnonzero(exclude)) == ranking_auc(scores, relevant, exclude)


@settings(deadline=None)
@given(MATRICES)
def test_means_over_users_are_the_means_of_the_rows(matrices: tuple[Any, Any, Any]) -> None:
    ranks, areas = [], []
    for scores, relevant, exclude in zip(*matrices, strict=True):
        wanted, others = relevant & ~exclude, ~relevant & ~exclude
        if wanted.any():
            ranks.append(reciprocal_rank(scores, relevant, exclude))
            # The definition: sort by descending score, with the irrelevant first among equal scores.
            order = sorted(np.flatnonzero(~exclude), key=lambda item: (-scores[item], relevant[item]))
            assert ranks[-1] == 1 / (1 + [bool(relevant[item]) for item in order].index(True))
            if others.any():
                areas.append(ranking_auc(scores, relevant, exclude))
    if ranks:
        assert mean_reciprocal_rank(*matrices) == pytest.approx(np.mean(ranks))
    else:
        with pytest.raises(DataError, match="users has a relevant item"):
            mean_reciprocal_rank(*matrices)
    if areas:
        assert mean_ranking_auc(*matrices) == pytest.approx(np.mean(areas))
    else:
        with pytest.raises(DataError, match="users has both"):
            mean_ranking_auc(*matrices)


def test_one_relevant_item_per_user() -> None:
    scores = np.random.default_rng(0).normal(size=(50, 20))
    items = np.random.default_rng(1).integers(0, 20, 50)
    truth = np.arange(20) == items[:, np.newaxis]
    expected = sklearn_metrics.label_ranking_average_precision_score(truth, scores)
    assert mean_reciprocal_rank(scores, items) == pytest.approx(expected)
    assert mean_reciprocal_rank(scores, truth) == mean_reciprocal_rank(scores, items.tolist())
    assert mean_ranking_auc(scores, items) == mean_ranking_auc(scores, truth)


@pytest.mark.parametrize("metric", [reciprocal_rank, ranking_auc])
@pytest.mark.parametrize(
    ("scores", "relevant", "exclude", "error", "message"),
    [
        ([[1.0, 2.0]], {0}, None, ShapeError, r"scores have shape \(1, 2\); expected the scores of one user"),
        ([], {0}, None, DataError, "scores is empty"),
        ([1.0, np.nan], {0}, None, NotFinite, "scores, .* holds nan at 1"),
        ([1.0, 2.0], {2}, None, IndexOutOfRange, "relevant holds item 2; expected 0 to 1"),
        ([1.0, 2.0], {0}, {-1}, IndexOutOfRange, "exclude holds item -1"),
        ([1.0, 2.0], set(), None, DataError, "no relevant item among 2, of which 0 are excluded"),
        ([1.0, 2.0], {0}, {0}, DataError, "no relevant item among 2, of which 1 are excluded"),
        ([1.0, 2.0], [True], None, ShapeError, r"relevant is a mask of shape \(1,\) over 2 scores"),
        ([1.0, 2.0, 3.0], [0, 1, 1], None, DataError, r"3 indices but only 2 different items.*astype\(bool\)"),
        ([1.0, 2.0], [0.5], None, DTypeError, "relevant has dtype float64"),
        ([1.0, 2.0], np.array([[0]]), None, DTypeError, r"shape \(1, 1\)"),
    ],
)
def test_a_bad_row_is_refused(
    metric: Callable[..., float], scores: Any, relevant: Any, exclude: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        metric(scores, relevant, exclude)


def test_ranking_auc_needs_an_irrelevant_item() -> None:
    with pytest.raises(DataError, match="all 1 non-excluded items are relevant"):
        ranking_auc([1.0, 2.0], {0}, {1})
    assert reciprocal_rank([1.0, 2.0], {0}, {1}) == 1.0


@pytest.mark.parametrize("metric", [mean_reciprocal_rank, mean_ranking_auc])
@pytest.mark.parametrize(
    ("scores", "relevant", "exclude", "error", "message"),
    [
        ([1.0, 2.0], [0], None, ShapeError, r"scores has shape \(2,\); expected \(users, items\)"),
        ([[1.0, 2.0]], [0, 1], None, ShapeError, r"relevant has shape \(2,\) for scores of shape \(1, 2\)"),
        ([[1.0, 2.0]], [2], None, IndexOutOfRange, "relevant holds item 2 for user 0; expected 0 to 1"),
        ([[1.0, 2.0]], [[True]], None, ShapeError, r"scores has shape \(1, 2\) and relevant has shape \(1, 1\)"),
        ([[1.0, 2.0]], [[1, 0]], None, DTypeError, "relevant has dtype int64 .* mask of dtype bool"),
        ([[1.0, 2.0]], [0.0], None, DTypeError, "relevant has dtype float64"),
        ([[1.0, 2.0]], [0], [[0, 1]], DTypeError, "exclude has dtype int64"),
        ([[1.0, 2.0]], [0], [False, True], ShapeError, r"exclude has shape \(2,\)"),
        ([[1.0, np.nan]], [0], None, NotFinite, r"holds nan at \(0, 1\)"),
        (np.zeros((0, 2)), [], None, DataError, "scores is empty"),
    ],
)
def test_a_bad_matrix_is_refused(
    metric: Callable[..., float], scores: Any, relevant: Any, exclude: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        metric(scores, relevant, exclude)
