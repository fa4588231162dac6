"""Hybrid recommendation: the vector of a user or a film is the sum of the vectors of its features.

The model of LightFM (Kula, 2015), with four features of each row. Those of a film are the film itself, how many rated
it, how well, and when: a film that few rated is known by the other three. Those of a user are of the same kinds. A film
that the user rated stands above a drawn one by BPR, or above the first of `TRIES` that is too near by WARP.
"""

from __future__ import annotations

from itertools import count, islice

import numpy as np
from beside import Trainer, ranking_auc, read_films, show
from numpy.typing import NDArray

import wyrm as wy

LENGTH, RATE, EPOCHS, BATCH, GROUPS, TRIES = 32, 0.05, 10, 10, 10, 10


class Batch(wy.Dim): ...


class Length(wy.Dim): ...


class Side(wy.nn.Module):
    """The users or the films: a vector and a bias for each feature; `features` has those of each row."""

    def __init__(self, features: NDArray[np.int64], length: Length) -> None:
        size = int(features.max()) + 1
        self.features = wy.IndexConstant(features)
        start = wy.nn.initializers.Uniform(-0.5 / LENGTH, 0.5 / LENGTH)
        self.vectors = wy.nn.Embedding(size, length, initializer=start)
        self.biases = wy.Parameter.zeros((size,), name="biases")

    def __call__(self, rows: wy.IndexNode) -> tuple[wy.Node, wy.Node]:
        """Return the sums over the features of these rows."""
        features = self.features[rows]
        return self.vectors(features).sum(axis=-2), self.biases.index(features).sum(axis=-1)


def wyrm(threads: int = 1, part: float = 1.0, seed: int = 0, loss: str = "warp") -> Trainer:
    """Return the model as a graph; its gradient is not written."""
    train, test = read_films(part)
    wy.nn.seed(seed)
    batch, length, seeds = Batch(), Length(LENGTH), count(1000 * seed)
    sides = users, films = [Side(each, length) for each in features(train)]
    user, film = (wy.IndexInput(dims=(batch,), name=name) for name in ("user", "film"))
    vector, _ = users(user)

    def score(items: wy.IndexNode) -> wy.Node:
        vectors, biases = films(items)
        return (vector.expand_dims(1) * vectors).sum(axis=-1) + biases

    size, liked, seen = train.item_count, score(film.expand_dims(1)), train.seen()
    if loss == "warp":
        drawn = wy.random.index(size, (batch, TRIES), exclude=seen, rows=user, seed=seed)
        total = wy.losses.warp(liked[:, 0], score, items=drawn, num_items=size, reduction="sum")
    else:  # films are drawn as often as they were rated
        drawn = wy.random.index(size, (batch, 1), weights=train.item_counts, exclude=seen, rows=user, seed=seed)
        total = wy.losses.bpr(liked, score(drawn), reduction="sum")
    program = wy.compile(total, wy.optim.Adagrad(total.parameters(), RATE, initial_accumulator=1.0))

    def epochs(number: int) -> None:
        columns = {user: train.users, film: train.items}
        for seed in islice(seeds, number):
            program.epoch(columns, batch_size=BATCH, shuffle=True, seed=seed, threads=threads)

    def auc() -> float:
        vectors = [each.vectors.weight.value[each.features.value].sum(axis=1) for each in sides]
        scores = vectors[0] @ vectors[1].T + films.biases.value[films.features.value].sum(axis=1)
        return ranking_auc(scores, train, test)

    return Trainer(epochs, auc)


def lightfm_next(threads: int = 1, part: float = 1.0, seed: int = 0, loss: str = "warp") -> Trainer:
    """Return the peer, whose Cython has a function for each loss."""
    from lightfm import LightFM
    from scipy.sparse import coo_matrix, csr_matrix

    train, test = read_films(part)
    ratings = coo_matrix((np.ones(len(train)), (train.users, train.items)), (train.user_count, train.item_count))
    sides = {
        name: csr_matrix((np.ones(each.size), each.ravel(), np.arange(len(each) + 1) * each.shape[1]))
        for name, each in zip(("user_features", "item_features"), features(train), strict=True)
    }
    model = LightFM(LENGTH, loss=loss, learning_rate=RATE, random_state=seed)

    def epochs(number: int) -> None:
        model.fit_partial(ratings, **sides, epochs=number, num_threads=threads)

    def auc() -> float:
        _, vectors = model.get_user_representations(sides["user_features"])
        biases, films = model.get_item_representations(sides["item_features"])
        return ranking_auc(vectors @ films.T + biases, train, test)

    return Trainer(epochs, auc)


def features(data: wy.data.Interactions) -> list[NDArray[np.int64]]:
    """Return the features of each user and each film: itself, and its group by count, mean rating and mean time."""
    found = []
    for rows, size in ((data.users, data.user_count), (data.items, data.item_count)):
        counts = np.bincount(rows, minlength=size)
        times = np.bincount(rows, data.timestamps - data.timestamps.min(), size) / np.maximum(counts, 1)
        ratings = np.bincount(rows, data.ratings, size) / np.maximum(counts, 1)
        ranks = [np.argsort(np.argsort(each, kind="stable")) * GROUPS // size for each in (counts, ratings, times)]
        found.append(np.stack([np.arange(size), *(size + k * GROUPS + rank for k, rank in enumerate(ranks))], axis=1))
    return found


if __name__ == "__main__":
    show("AUC of held-out films", EPOCHS, wyrm, lightfm_next, loss=("warp", "bpr"))
