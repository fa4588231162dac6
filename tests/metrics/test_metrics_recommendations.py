"""Metrics of recommendations beside scikit-learn, and beside their definitions written as loops, as in ranx."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy
from scipy import sparse
from sklearn import metrics as sklearn_metrics

import wyrm as wy
from wyrm.data import ItemRows
from wyrm.errors import DataError, DTypeError, IndexOutOfRange, NotFinite, OptionError, ShapeError
from wyrm.metrics import (
    auc,
    average_precision,
    coverage,
    hit_rate,
    mean_ranking_auc,
    mean_reciprocal_rank,
    mrr,
    ndcg,
    novelty,
    precision_at_k,
    recall_at_k,
)

OF_PLACES: list[Any] = [recall_at_k, precision_at_k, hit_rate, mrr, average_precision, ndcg]
OF_SCORES: list[Any] = [*OF_PLACES, auc]
# Few different scores, so that ties are common.
MATRICES = st.tuples(st.integers(1, 5), st.integers(2, 7)).flatmap(
    lambda shape: st.tuples(
        hypothesis_numpy.arrays(np.float64, shape, elements=st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 2.0, np.inf])),
        hypothesis_numpy.arrays(np.bool_, shape),
        hypothesis_numpy.arrays(np.bool_, shape),
    )
)
Row = list[int]
W: Any = wy.metrics


def random_case(users: int = 30, items: int = 25, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return scores without ties, relevant and excluded items."""
    random = np.random.default_rng(seed)
    scores = random.permuted(np.tile(np.arange(items, dtype=np.float64), (users, 1)), axis=1)
    return scores, random.random((users, items)) < 0.2, random.random((users, items)) < 0.2


# --- the definitions, for one user: a list of items, best first, and the set of relevant ones ------------------------


def by_recall(ranking: Row, relevant: set[int], k: int) -> float:
    return len(relevant & set(ranking[:k])) / len(relevant)


def by_precision(ranking: Row, relevant: set[int], k: int) -> float:
    return len(relevant & set(ranking[:k])) / k


def by_hit(ranking: Row, relevant: set[int], k: int) -> float:
    return float(bool(relevant & set(ranking[:k])))


def by_reciprocal_rank(ranking: Row, relevant: set[int], k: int) -> float:
    return next((1 / place for place, item in enumerate(ranking[:k], 1) if item in relevant), 0.0)


def by_precisions(ranking: Row, relevant: set[int], k: int) -> float:
    hits = [place for place, item in enumerate(ranking[:k], 1) if item in relevant]
    return sum(count / place for count, place in enumerate(hits, 1)) / len(relevant)


def by_gain(ranking: Row, relevant: set[int], k: int) -> float:
    gain = sum(1 / math.log2(place + 1) for place, item in enumerate(ranking[:k], 1) if item in relevant)
    return gain / sum(1 / math.log2(place + 1) for place in range(1, min(k, len(relevant)) + 1))


DEFINITIONS: dict[Any, Callable[[Row, set[int], int], float]] = {
    recall_at_k: by_recall,
    precision_at_k: by_precision,
    hit_rate: by_hit,
    mrr: by_reciprocal_rank,
    average_precision: by_precisions,
    ndcg: by_gain,
}


def by_definition(metric: Any, rankings: list[Row], relevant: list[set[int]], k: int) -> list[float]:
    return [
        DEFINITIONS[metric](ranking, wanted, k) if wanted else math.nan
        for ranking, wanted in zip(rankings, relevant, strict=True)
    ]


@pytest.mark.parametrize("metric", OF_PLACES)
@pytest.mark.parametrize("k", [1, 3, 10, 25])
def test_scores_without_ties_are_measured_by_definition(metric: Any, k: int) -> None:
    scores, relevant, exclude = random_case()
    rankings = [
        [item for item in np.argsort(-row).tolist() if not out[item]] for row, out in zip(scores, exclude, strict=True)
    ]
    wanted = [set(np.flatnonzero(row).tolist()) for row in relevant & ~exclude]
    expected = by_definition(metric, rankings, wanted, k)
    each = metric(scores, relevant, k, exclude=exclude, reduction="none")
    np.testing.assert_allclose(each, expected, rtol=1e-12)
    assert metric(scores, relevant, k, exclude=exclude) == pytest.approx(np.nanmean(expected), rel=1e-12)
    np.testing.assert_array_equal(
        metric(scores.astype(np.float32), relevant, k, exclude=exclude, reduction="none"), each
    )


@pytest.mark.parametrize("metric", OF_PLACES)
@pytest.mark.parametrize("k", [1, 3, 8])
def test_lists_are_measured_by_definition(metric: Any, k: int) -> None:
    scores, relevant, exclude = random_case(seed=1)
    found = wy.recommend(scores, k=8, exclude=exclude)
    wanted = [set(np.flatnonzero(row).tolist()) for row in relevant & ~exclude]
    expected = by_definition(metric, found.items.tolist(), wanted, k)
    left = relevant & ~exclude
    np.testing.assert_allclose(metric(found, left, k, reduction="none"), expected, rtol=1e-12)
    np.testing.assert_allclose(metric(found, relevant, k, exclude=exclude, reduction="none"), expected, rtol=1e-12)
    np.testing.assert_allclose(metric(found.items, left, k, ranked=True, reduction="none"), expected, rtol=1e-12)
    np.testing.assert_allclose(metric(scores, left, k, exclude=exclude, reduction="none"), expected, rtol=1e-12)
    # Excluded items in lists are passed over.
    everything = np.argsort(-scores, axis=1)
    np.testing.assert_allclose(
        metric(everything, relevant, k, ranked=True, exclude=exclude, reduction="none"), expected, rtol=1e-12
    )


@pytest.mark.parametrize("metric", OF_PLACES[3:])
def test_all_places_count_without_k(metric: Any) -> None:
    scores, relevant, exclude = random_case(seed=2)
    assert metric(scores, relevant, exclude=exclude) == metric(scores, relevant, 25, exclude=exclude)
    lists = np.argsort(-scores, axis=1)[:, :9]
    assert metric(lists, relevant, ranked=True) == metric(lists, relevant, 9, ranked=True)


@settings(deadline=None)
@given(MATRICES, st.integers(1, 8))
def test_ties_count_against_recall_hits_and_reciprocal_ranks(matrices: tuple[Any, Any, Any], k: int) -> None:
    scores, relevant, exclude = matrices
    rankings = [
        sorted(np.flatnonzero(~out).tolist(), key=lambda item: (-row[item], bool(liked[item])))
        for row, liked, out in zip(*matrices, strict=True)
    ]
    wanted = [set(np.flatnonzero(row).tolist()) for row in relevant & ~exclude]
    assume(any(wanted))
    for metric in OF_PLACES[:4]:
        expected = by_definition(metric, rankings, wanted, k)
        np.testing.assert_allclose(metric(scores, relevant, k, exclude=exclude, reduction="none"), expected)


@settings(deadline=None)
@given(MATRICES, st.integers(1, 8))
def test_ndcg_is_that_of_scikit_learn_with_ties(matrices: tuple[Any, Any, Any], k: int) -> None:
    scores, relevant, _ = matrices
    scores = np.clip(scores, -9.0, 9.0)
    assume(relevant.any())
    known = relevant.any(axis=1)
    for places in (k, None):
        expected = sklearn_metrics.ndcg_score(relevant[known], scores[known], k=places)
        assert ndcg(scores, relevant, places) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None)
@given(MATRICES, st.integers(0, 10))
def test_ndcg_of_gains_is_that_of_scikit_learn(matrices: tuple[Any, Any, Any], seed: int) -> None:
    scores, relevant, exclude = matrices
    scores = np.clip(scores, -9.0, 9.0)
    gains = np.random.default_rng(seed).integers(1, 5, scores.shape) * relevant.astype(np.float64)
    left = np.where(exclude, 0.0, gains)
    users = np.flatnonzero(left.any(axis=1))
    assume(users.size)
    expected = [
        sklearn_metrics.ndcg_score(left[[user]][:, ~exclude[user]], scores[[user]][:, ~exclude[user]], k=3)
        if (~exclude[user]).sum() > 1
        else 1.0
        for user in users
    ]
    each = ndcg(scores, gains, 3, exclude=exclude, reduction="none")
    np.testing.assert_allclose(each[users], expected, atol=1e-12)
    lists = np.argsort(-scores, axis=1, kind="stable")
    no_ties = -np.argsort(lists, axis=1).astype(np.float64)
    np.testing.assert_allclose(
        ndcg(lists, gains, 2, ranked=True, exclude=exclude, reduction="none"),
        ndcg(no_ties, gains, 2, exclude=exclude, reduction="none"),
        atol=1e-12,
    )


@settings(deadline=None)
@given(MATRICES)
def test_average_precision_and_auc_are_those_of_scikit_learn_with_ties(matrices: tuple[Any, Any, Any]) -> None:
    scores, relevant, exclude = matrices
    scores = np.clip(scores, -9.0, 9.0)
    precisions = average_precision(scores, relevant, exclude=exclude, reduction="none") if (
        relevant & ~exclude
    ).any() else np.full(len(scores), np.nan)  # fmt: skip
    for user, found in enumerate(precisions):
        kept = ~exclude[user]
        targets, row = relevant[user, kept], scores[user, kept]
        if not targets.any():
            assert math.isnan(found)
            continue
        assert found == pytest.approx(sklearn_metrics.average_precision_score(targets, row))
        if not targets.all():
            expected = sklearn_metrics.roc_auc_score(targets, row)
            assert auc(scores, relevant, exclude=exclude, reduction="none")[user] == pytest.approx(expected)


def test_means_of_masks_are_the_same_numbers() -> None:
    scores, relevant, exclude = random_case(seed=3)
    assert mrr(scores, relevant, exclude=exclude) == mean_reciprocal_rank(scores, relevant, exclude=exclude)
    assert auc(scores, relevant, exclude=exclude) == mean_ranking_auc(scores, relevant, exclude=exclude)
    expected = sklearn_metrics.label_ranking_average_precision_score(relevant, scores)
    known = relevant.any(axis=1)
    found = (average_precision(scores, relevant) * known.sum() + (~known).sum()) / len(known)
    assert found == pytest.approx(expected)


def test_constant_scores_earn_the_last_places() -> None:
    zeros = np.zeros((1, 10))
    assert recall_at_k(zeros, [[3, 4]], 9) == 0.5
    assert hit_rate(zeros, [[3, 4]], 8) == 0.0
    assert mrr(zeros, [[3, 4]]) == pytest.approx(1 / 9)
    assert auc(zeros, [[3, 4]]) == 0.5


def forms(mask: Any) -> dict[str, Any]:
    """Return all forms of the same items."""
    rows = ItemRows.of_pairs(*np.nonzero(mask), user_count=mask.shape[0], item_count=mask.shape[1])
    return {
        "rows": rows,
        "csr": sparse.csr_array(mask),
        "pair": (rows.indptr, rows.indices),
        "lists": [row.tolist() for row in map(rows.row, range(len(rows)))],
        "sets": [set(row.tolist()) for row in map(rows.row, range(len(rows)))],
        "padded": rows.padded(),
    }


@pytest.mark.parametrize("metric", OF_SCORES)
@pytest.mark.parametrize("form", forms(np.eye(3, dtype=bool)))
def test_items_have_many_forms(metric: Any, form: str) -> None:
    scores, relevant, exclude = random_case(seed=4)
    expected = metric(scores, relevant, exclude=exclude)
    assert metric(scores, forms(relevant)[form], exclude=forms(exclude)[form]) == expected
    if metric is not auc:
        lists = np.argsort(-scores, axis=1)[:, :12]
        expected = metric(lists, relevant, exclude=exclude, ranked=True)
        assert metric(lists, forms(relevant)[form], exclude=forms(exclude)[form], ranked=True) == expected


def test_one_item_for_each_user() -> None:
    scores, _, _ = random_case()
    wanted = np.arange(30) % 25
    mask = np.arange(25) == wanted[:, None]
    for metric in OF_SCORES:
        assert metric(scores, wanted) == metric(scores, mask)


def test_users_in_parts_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, relevant, exclude = random_case()
    whole = [metric(scores, relevant, exclude=exclude) for metric in OF_SCORES]
    covered = coverage(scores, 2, exclude=exclude)
    monkeypatch.setattr("wyrm.metrics.recommendations._SCORES_AT_ONCE", 60)
    assert [metric(scores, relevant, exclude=exclude) for metric in OF_SCORES] == whole
    assert coverage(scores, 2, exclude=exclude) == covered


# --- what is recommended at all ---------------------------------------------------------------------------------------


def test_coverage_and_novelty_are_those_of_what_is_recommended() -> None:
    scores, _, exclude = random_case(5, 25)
    counts = np.arange(25) % 6
    for k, out in itertools.product((1, 4), (None, exclude)):
        found = wy.recommend(scores, k=k, exclude=out)
        rows = [[item for item in row if item >= 0] for row in found.items.tolist()]
        bits = [[-math.log2(max(int(counts[item]), 1) / 8) for item in row] for row in rows]
        expected = np.mean([np.mean(row) for row in bits])
        distinct = set(itertools.chain(*rows))
        for ranking, options in (
            (scores, {"exclude": out}),
            (found, {}),
            (found.items, {"ranked": True}),
            (np.argsort(-scores, axis=1), {"ranked": True, "exclude": out}),
        ):
            given: Any = options
            assert novelty(ranking, counts, k, user_count=8, **given) == pytest.approx(expected)
            assert coverage(ranking, k, item_count=25, **given) == len(distinct) / 25
    assert coverage(scores, 25) == 1.0
    assert coverage(np.zeros((3, 25)), 5) == 0.2  # of equal scores, the first ones


def test_places_without_an_item_are_not_counted() -> None:
    lists = np.array([[3, -1, -1], [1, 3, -1], [-1, -1, -1]])
    assert coverage(lists, 3, item_count=4, ranked=True) == 0.5
    assert novelty(lists, [0, 2, 0, 1], 3, user_count=4, ranked=True) == (2.0 + 1.5) / 2
    assert recall_at_k(lists, [[1, 3]] * 3, 3, ranked=True) == 0.5
    assert precision_at_k(lists, [[1, 3]] * 3, 3, ranked=True) == pytest.approx(1 / 3)


SCORES = [[0.5, 0.2, 0.1]]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: recall_at_k(SCORES, [[0]], 0), OptionError, "k must be an integer of at least 1"),
        (lambda: recall_at_k([0.5, 0.2], [0]), ShapeError, r"ranking has shape \(2,\); expected \(users, items\)"),
        (lambda: recall_at_k([[0.5, np.nan]], [0]), NotFinite, "holds nan at"),
        (lambda: recall_at_k(SCORES, [[3]]), IndexOutOfRange, "relevant: user 0 has item 3; expected 0 to 2"),
        (lambda: recall_at_k(SCORES, [[0]], exclude=[[4]]), IndexOutOfRange, "exclude: user 0 has item 4"),
        (lambda: recall_at_k(SCORES, [[0], [1]]), ShapeError, "relevant has the items of 2 users"),
        (lambda: recall_at_k(SCORES, [[True, False]]), ShapeError, r"a mask of shape \(1, 2\); expected \(1, 3\)"),
        (lambda: recall_at_k(SCORES, [[]]), DataError, "none of the 1 users has a relevant item"),
        (lambda: recall_at_k(SCORES, [[0]], exclude=[[0]]), DataError, "none of the 1 users has a relevant item"),
        (lambda: recall_at_k(SCORES, np.array([[0.5, 1.0, 1.0]])), DTypeError, "relevant: an array of float64"),
        (lambda: W.recall_at_k(SCORES, [[0]], reduction="sum"), OptionError, "reduction must be 'mean' or 'none'"),
        (lambda: recall_at_k([[0, 1]], [[0]], 3, ranked=True), OptionError, "k is 3, but the ranking has only 2"),
        (lambda: recall_at_k([[0, 0]], [[0]], 2, ranked=True), DataError, "ranking holds item 0 twice for user 0"),
        (lambda: recall_at_k([[0, -2]], [[0]], 2, ranked=True), DataError, "ranking holds -2"),
        (lambda: recall_at_k([[0.5]], [[0]], 1, ranked=True), DTypeError, "ranked lists hold the numbers of items"),
        (lambda: recall_at_k([0, 1], [[0]], 1, ranked=True), ShapeError, "expected lists of items"),
        (lambda: ndcg(SCORES, np.array([[-1.0, 0, 0]])), DataError, "the gain -1.0"),
        (lambda: ndcg(SCORES, np.array([[1.0, 0.0]])), ShapeError, r"gains of shape \(1, 2\); expected \(1, 3\)"),
        (lambda: auc([[0, 1]], [[0]], ranked=True), ShapeError, "auc compares all items"),
        (lambda: auc(SCORES, [[0, 1, 2]]), DataError, "none of the 1 users"),
        (lambda: coverage([[0, 1]], 2, ranked=True), OptionError, "item_count, the number of all items, must be given"),
        (lambda: coverage([[0, 7]], 2, ranked=True, item_count=5), OptionError, "item_count is 5, but item 7"),
        (lambda: novelty(SCORES, [1, 2], 2, user_count=3), ShapeError, r"counts has shape \(2,\); expected \(3,\)"),
        (lambda: coverage(SCORES), OptionError, "k is 10, but there are 3 items"),
        (lambda: novelty(SCORES, [1, 2, 3], 2), DataError, "expected 0 to user_count, 1"),
        (lambda: novelty([[-1]], [1], 1, ranked=True), DataError, "no user has an item"),
    ],
)  # fmt: skip
def test_mistakes_are_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
