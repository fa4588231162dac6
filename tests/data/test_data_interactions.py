from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from wyrm.data import Interactions, low_rank_preferences
from wyrm.errors import DataError, DTypeError, IndexOutOfRange, ShapeError
from wyrm.metrics import mean_ranking_auc


def interactions(**changes: Any) -> Interactions:
    columns: dict[str, Any] = {
        "users": np.array([0, 1]),
        "items": np.array([2, 0]),
        "ratings": np.ones(2, dtype=np.float32),
        "timestamps": np.array([5, 6]),
        "user_ids": np.array([10, 20]),
        "item_ids": np.array([1, 2, 3]),
    }
    return Interactions(**(columns | changes))


def test_interactions_count_and_convert() -> None:
    rows = interactions()
    assert (len(rows), rows.user_count, rows.item_count) == (2, 2, 3)
    assert repr(rows) == "Interactions(2 rows, 2 users, 3 items)"
    dataset = rows.dataset()
    assert list(dataset.columns) == ["users", "items", "ratings", "timestamps"]
    assert dataset["items"] is rows.items
    with pytest.raises(dataclasses.FrozenInstanceError):
        rows.users = rows.items  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"users": np.array([0, 1, 1])}, ShapeError, "'users' has 3, 'items' has 2"),
        ({"users": np.array([0, 2])}, IndexOutOfRange, "column 'users' holds 2 in row 1; expected 0 to 1"),
        ({"items": np.array([-1, 0])}, IndexOutOfRange, "column 'items' holds -1 in row 0; expected 0 to 2"),
        ({"item_ids": np.ones((3, 2))}, ShapeError, r"item_ids has shape \(3, 2\)"),
        ({"items": np.array([0.0, 1.0])}, DTypeError, "column 'items' has dtype float64"),
    ],
)
def test_interactions_that_contradict_themselves_are_refused(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        interactions(**changes)


def test_generated_users_choose_different_items() -> None:
    rows = low_rank_preferences(50, 30, rank=4, interactions_per_user=20, seed=5)
    assert (len(rows), rows.user_count, rows.item_count) == (1000, 50, 30)
    chosen = rows.items.reshape(50, 20)
    assert all(len(set(items)) == 20 for items in chosen.tolist())
    assert np.array_equal(rows.users.reshape(50, 20), np.repeat(np.arange(50), 20).reshape(50, 20))
    assert np.array_equal(rows.timestamps.reshape(50, 20), np.tile(np.arange(20), (50, 1)))
    assert set(rows.ratings.tolist()) == {1.0}
    rows.dataset().check_finite()


def test_generated_data_depend_on_the_seed_alone() -> None:
    first, second, other = (low_rank_preferences(40, 25, 3, 5, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.items, second.items)
    assert not np.array_equal(first.items, other.items)


def test_generating_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = low_rank_preferences(40, 25, 3, 5)
    monkeypatch.setattr("wyrm.data.interactions.SCORES_AT_ONCE", 7 * 25)
    assert np.array_equal(low_rank_preferences(40, 25, 3, 5).items, whole.items)


def test_every_item_can_be_chosen() -> None:
    rows = low_rank_preferences(3, 4, rank=1, interactions_per_user=4)
    assert np.array_equal(np.sort(rows.items.reshape(3, 4), axis=1), np.tile(np.arange(4), (3, 1)))
    assert len(low_rank_preferences(1, 1, 1, 1)) == 1


def test_choices_follow_the_softmax_without_replacement() -> None:
    """With TASTE 0 all users have the same scores, so frequencies can be compared with probabilities."""
    users, items = 40_000, 4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wyrm.data.interactions.TASTE", 0.0)
        rows = low_rank_preferences(users, items, rank=1, interactions_per_user=2, seed=11)
    generator = np.random.default_rng(11)
    generator.standard_normal(users + items)
    weights = np.exp(generator.standard_normal(items))
    pairs = np.zeros((items, items))
    np.add.at(pairs, tuple(rows.items.reshape(users, 2).T), 1 / users)
    for first, second in itertools.permutations(range(items), 2):
        expected = weights[first] / weights.sum() * weights[second] / (weights.sum() - weights[first])
        # Five standard deviations of a frequency over 40,000 users.
        assert abs(pairs[first, second] - expected) < 5 * np.sqrt(expected / users)


def test_generated_preferences_can_be_learned() -> None:
    """A truncated SVD of half the choices predicts the other half better than popularity."""
    rows = low_rank_preferences(300, 200, rank=4, interactions_per_user=40, seed=3)
    known, hidden = np.zeros((300, 200)), np.zeros((300, 200), dtype=np.bool_)
    late = rows.timestamps % 2 == 1
    known[rows.users[~late], rows.items[~late]] = 1
    hidden[rows.users[late], rows.items[late]] = True
    left, strength, right = np.linalg.svd(known - known.mean(axis=0), full_matrices=False)
    predicted = (left[:, :4] * strength[:4]) @ right[:4] + known.mean(axis=0)
    popularity = np.tile(known.mean(axis=0), (300, 1))
    learned = mean_ranking_auc(predicted, hidden, exclude=known > 0)
    by_popularity = mean_ranking_auc(popularity, hidden, exclude=known > 0)
    assert 0.55 < by_popularity < learned - 0.1
    assert learned > 0.85


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 5, 2, 3), DataError, "user_count must be an integer of at least 1, not 0"),
        ((5, 0, 2, 3), DataError, "item_count must be an integer of at least 1, not 0"),
        ((5, 5, 0, 3), DataError, "rank must be an integer of at least 1, not 0"),
        ((5, 5, 2, 0), DataError, "interactions_per_user must be an integer of at least 1, not 0"),
        ((5, 5, 2, 6), DataError, "interactions_per_user must be at most item_count, 5, .*, not 6"),
        ((5, 5, 2, 3, -1), DataError, "seed must be an integer of at least 0, not -1"),
        ((5.0, 5, 2, 3), DTypeError, r"user_count must be an integer of at least 1, not 5\.0"),
    ],
)
def test_bad_counts_are_refused(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        low_rank_preferences(*arguments)
