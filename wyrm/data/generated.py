"""Synthetic data, for examples without a file."""

from __future__ import annotations

import numpy as np

from wyrm.data.checks import whole_number
from wyrm.data.interactions import Interactions
from wyrm.errors import DataError

# Standard deviation of the taste part of a score; that of popularity is 1.
TASTE = 3.0

# Scores per chunk: enough for vectorization, little enough to fit in tens of megabytes.
SCORES_AT_ONCE = 1 << 20


def low_rank_preferences(
    user_count: int, item_count: int, rank: int, interactions_per_user: int, seed: int = 0
) -> Interactions:
    """Generate implicit feedback: each user's choices among items, driven by hidden preferences of low rank.

    Users and items have hidden standard normal vectors of length `rank`, and each item has a popularity. Each user
    draws `interactions_per_user` distinct items, one after the other, with probabilities proportional to exp(score),
    where the score is the scaled dot product of both vectors plus the popularity. Rows are ordered by user;
    timestamps number each user's choices from 0 in the order drawn; every rating is 1.

    Raises:
        DTypeError: a count or the seed is not an integer.
        DataError: a count is below 1, the seed is below 0, or `interactions_per_user` exceeds `item_count`.

    >>> preferences = low_rank_preferences(3, 10, rank=2, interactions_per_user=4)
    >>> preferences
    Interactions(12 rows, 3 users, 10 items)
    >>> preferences.users
    array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2])
    """
    user_count = whole_number("user_count", user_count, minimum=1)
    item_count = whole_number("item_count", item_count, minimum=1)
    rank = whole_number("rank", rank, minimum=1)
    chosen_count = whole_number("interactions_per_user", interactions_per_user, minimum=1)
    if chosen_count > item_count:
        raise DataError(
            f"interactions_per_user must be at most item_count, {item_count}, because a user chooses each item at most "
            f"once, not {chosen_count}"
        )
    generator = np.random.default_rng(whole_number("seed", seed, minimum=0))
    user_vectors = generator.standard_normal((user_count, rank))
    item_vectors = generator.standard_normal((item_count, rank)) * (TASTE / np.sqrt(rank))
    popularity = generator.standard_normal(item_count)

    items = np.empty((user_count, chosen_count), dtype=np.int64)
    users_at_once = max(1, SCORES_AT_ONCE // item_count)
    for start in range(0, user_count, users_at_once):
        scores = user_vectors[start : start + users_at_once] @ item_vectors.T + popularity
        # Exponential races: item i arrives after an exponential time of rate exp(score i). The first k arrivals are k
        # softmax draws without replacement, in order. (The negative log times are the keys of the Gumbel top-k trick.)
        arrivals = generator.standard_exponential(scores.shape) * np.exp(-scores)
        first = np.argpartition(arrivals, chosen_count - 1, axis=1)[:, :chosen_count]
        order = np.argsort(np.take_along_axis(arrivals, first, axis=1), axis=1)
        items[start : start + users_at_once] = np.take_along_axis(first, order, axis=1)
    return Interactions(
        users=np.repeat(np.arange(user_count, dtype=np.int64), chosen_count),
        items=items.reshape(-1),
        ratings=np.ones(user_count * chosen_count, dtype=np.float32),
        timestamps=np.tile(np.arange(chosen_count, dtype=np.int64), user_count),
        user_ids=np.arange(user_count, dtype=np.int64),
        item_ids=np.arange(item_count, dtype=np.int64),
    )
