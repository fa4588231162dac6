"""How good recommenders are: what they recommend beside what users had later."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from wyrm.data.in_time import leave_one_out
from wyrm.errors import DataError
from wyrm.estimators.recommenders.base import Recommender
from wyrm.estimators.recommenders.reading import Data, as_interactions
from wyrm.metrics.recommendations import coverage, ndcg, recall_at_k
from wyrm.support.item_rows import ItemRows
from wyrm.support.options import whole


class Measured(NamedTuple):
    """A recommender, its recall and NDCG at k, the share of items that it recommends, and the seconds of `fit`."""

    model: Recommender
    recall: float
    ndcg: float
    coverage: float
    seconds: float


def evaluate(model: Recommender, held_out: Data, k: int = 10) -> tuple[float, float, float]:
    """Return recall and NDCG at k, as means over users, and the coverage of what a model recommends.

    `held_out` are interactions that the model has not learned from, of any form that `fit` takes. Items that a user had
    before are neither recommended nor relevant, and an item that is not known counts as missed. Users who are not
    known, have no interactions, or have nothing left to find are left out of the means.

    Raise `DataError` if no user is left.

    >>> clicks = wy.data.Interactions.of(["a", "a", "b", "b", "c"], [1, 2, 1, 3, 1])
    >>> model = wy.estimators.recommenders.Popular().fit(clicks)
    >>> evaluate(model, wy.data.Interactions.of(["c", "b"], [2, 2]), k=1)
    (1.0, 1.0, 0.3333333333333333)
    """
    data, history = as_interactions(held_out), model._known()
    k = min(whole("k", k, 1), len(history.items))
    number_of = [names.known_numbers(ids) for names, ids in (
        (history.users, data.user_ids), (history.items, data.item_ids)
    )]  # fmt: skip
    user, item = number_of[0][data.users], number_of[1][data.items]
    # Items that are not known have numbers behind the others, where nothing is recommended.
    item = np.where(item < 0, len(history.items) + data.items, item)
    users = np.unique(user[user >= 0])
    users = users[model.interaction_counts(users) > 0]
    place = np.searchsorted(users, user)
    kept = np.isin(user, users)
    if not kept.any():
        raise DataError("none of the held-out users is known with interactions")
    every = len(history.items) + data.item_count
    relevant = ItemRows.of_pairs(place[kept], item[kept], user_count=len(users), item_count=every)
    seen = history.seen(users)
    seen = ItemRows(seen.indptr, seen.indices, every)
    best = model.ranked(users, k, np.zeros(0, np.int64), False)
    return (
        recall_at_k(best, relevant, k, exclude=seen),
        ndcg(best, relevant, k, exclude=seen),
        coverage(best, k, item_count=len(history.items)),
    )


def compare(
    interactions: Data, models: Iterable[Recommender] | None = None, *, k: int = 10, held_out: int = 5
) -> list[Measured]:
    """Fit recommenders to all but the latest interactions of each user, and measure whether they recommend these.

    `models` are by default one of each, with the options that they have by default. The latest `held_out` interactions
    of each user who has more are held out. The models are returned with the best recall first.

    Raise the errors of `fit`, and `DataError` if no user has more interactions than `held_out`.

    >>> data = wy.data.low_rank_preferences(50, 30, rank=2, interactions_per_user=8)
    >>> recommenders = wy.estimators.recommenders
    >>> found = compare(data, [recommenders.Popular(), recommenders.EASE()], held_out=2)
    >>> len(found), found[0].recall >= found[1].recall
    (2, True)
    """
    training, later = leave_one_out(as_interactions(interactions), whole("held_out", held_out, 1))
    found = []
    for model in default_models() if models is None else models:
        start = time.perf_counter()
        model.fit(training)
        seconds = time.perf_counter() - start
        found.append(Measured(model, *evaluate(model, later, k), seconds))
    return sorted(found, key=lambda each: -each.recall)


def table(found: Iterable[Measured], k: int) -> str:
    """Return what `compare` found as text, a line for each recommender."""
    lines = [f"{'model':<20}{f'recall@{k}':>10}{f'NDCG@{k}':>10}{'coverage':>10}{'seconds':>10}"]
    for model, recall, gain, covered, seconds in found:
        loss = getattr(model, "loss", None)
        name = type(model).__name__ + (f" ({loss})" if loss else "")
        lines.append(f"{name:<20}{recall:>10.4f}{gain:>10.4f}{covered:>10.4f}{seconds:>10.2f}")
    return "\n".join(lines)


def default_models() -> list[Recommender]:
    """Return one recommender of each kind."""
    from wyrm.estimators.recommenders import ALS, EASE, Hybrid, Popular, SASRec

    return [Popular(), EASE(), ALS(), Hybrid("warp"), Hybrid("bpr"), SASRec()]
