"""A factorization machine: whether a user likes a film, by the user, the film and the films rated before.

The model of Rendle (2010): each feature has a weight and a vector, and each pair of features of a row adds the product
of their vectors. A row has as many features as the user has a past, at most `PAST` films. The peer is the same loop
written by hand for Numba, which moves each feature as soon as its gradient is known.
"""

from __future__ import annotations

from itertools import count, islice

import numpy as np
from beside import Trainer, read_films, show
from numpy.typing import NDArray

import wyrm as wy

FACTORS, PAST, RATE, EPOCHS, BATCH = 16, 20, 0.02, 10, 32


class Batch(wy.Dim): ...


class Features(wy.Ragged): ...


def wyrm(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the model as a graph; its gradient is not written."""
    size, train, test = rows(part)
    batch, features, seeds = Batch(), Features(), count(1000 * seed)
    ids, value = wy.IndexInput(dims=(batch, features), name="ids"), wy.Input(dims=(batch, features), name="value")
    liked = wy.Input(dims=(batch,), name="liked")
    weights, bias = wy.Parameter.zeros((size,), name="weights"), wy.Parameter(0.0, name="bias")
    vectors = wy.Parameter(start(size, seed), name="vectors")
    each = vectors.index(ids) * value.expand_dims(-1)
    total = each.sum(axis=1)
    pairs = 0.5 * (total * total - (each * each).sum(axis=1)).sum(axis=-1)
    score = bias + (weights.index(ids) * value).sum(axis=1) + pairs
    loss = wy.losses.bce_with_logits(score, liked)
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), RATE * BATCH))
    data = {ids: train[0], value: train[1], liked: train[2]}

    def epochs(number: int) -> None:
        for seed in islice(seeds, number):
            program.epoch(data, batch_size=BATCH, shuffle=True, seed=seed, threads=threads)

    scores = wy.compile(score)
    return Trainer(epochs, lambda: auc(scores({ids: test[0], value: test[1]}), test[2]))


def by_hand(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the peer: a row at a time."""
    from numba import njit

    size, train, test = rows(part)
    weights, bias, vectors = np.zeros(size, np.float32), np.zeros(1, np.float32), start(size, seed)
    random = np.random.default_rng(seed)

    @njit(fastmath=True, nogil=True)
    def epoch(order, ids, values, ends, liked, bias, w, v, rate, learns, scores):  # type: ignore[no-untyped-def]
        total = np.empty(v.shape[1], np.float32)
        for row in order:
            total[:] = 0.0
            score, squares = bias[0], np.float32(0.0)
            for entry in range(ends[row], ends[row + 1]):
                i, x = ids[entry], values[entry]
                score += w[i] * x
                for k in range(v.shape[1]):
                    product = v[i, k] * x
                    total[k] += product
                    squares += product * product
            for k in range(v.shape[1]):
                score += np.float32(0.5) * total[k] * total[k]
            score -= np.float32(0.5) * squares
            scores[row] = score
            if not learns:
                continue
            step = rate * (np.float32(1.0) / (np.float32(1.0) + np.exp(-score)) - liked[row])
            bias[0] -= step
            for entry in range(ends[row], ends[row + 1]):
                i, x = ids[entry], values[entry]
                w[i] -= step * x
                for k in range(v.shape[1]):
                    v[i, k] -= step * x * (total[k] - v[i, k] * x)

    def run(order: NDArray[np.int64], data: Rows, learns: bool) -> NDArray[np.float32]:
        (ids, values, liked), scores = data, np.empty(len(data[2]), np.float32)
        ends = (ids.values, values.values, ids.offsets, liked, bias, weights, vectors)
        epoch(order, *ends, np.float32(RATE), learns, scores)
        return scores

    def epochs(number: int) -> None:
        for _ in range(number):
            run(random.permutation(len(train[2])), train, True)

    return Trainer(epochs, lambda: auc(run(np.arange(len(test[2])), test, False), test[2]))


Rows = tuple[wy.RaggedArray[NDArray[np.int64]], wy.RaggedArray[NDArray[np.float32]], NDArray[np.float32]]


def rows(part: float) -> tuple[int, Rows, Rows]:
    """Return the number of features, and those of each rating with their values and whether it is a 4 or a 5.

    The features are the user, the film and the films that the user rated before, whose values have the norm 1.
    """
    train, test = read_films(part)
    users, films = train.user_count, train.item_count

    def of(data: wy.data.Interactions, past: list[NDArray[np.int64]]) -> Rows:
        ids = [np.r_[u, users + i, users + films + p] for u, i, p in zip(data.users, data.items, past, strict=True)]
        values = [np.r_[1.0, 1.0, np.full(len(p), 1.0 / max(1, len(p)) ** 0.5)].astype(np.float32) for p in past]
        liked = (data.ratings >= 4).astype(np.float32)
        return wy.RaggedArray.of_rows(ids), wy.RaggedArray.of_rows(values), liked

    seen: dict[int, list[int]] = {}
    of_train: list[NDArray[np.int64]] = [np.zeros(0, np.int64)] * len(train.users)
    for row in np.argsort(train.timestamps, kind="stable"):
        past = seen.setdefault(int(train.users[row]), [])
        of_train[row] = np.array(past[-PAST:], np.int64)
        past.append(int(train.items[row]))
    of_test = [np.array(seen.get(int(user), [])[-PAST:], np.int64) for user in test.users]
    return users + 2 * films, of(train, of_train), of(test, of_test)


def start(size: int, seed: int) -> NDArray[np.float32]:
    """Return the first vectors of the features."""
    return (0.05 * np.random.default_rng(seed).standard_normal((size, FACTORS))).astype(np.float32)


def auc(scores: NDArray[np.floating], liked: NDArray[np.float32]) -> float:
    """Return how many of the films that are liked score above one that is not."""
    return float(wy.metrics.roc_auc(liked, scores))


if __name__ == "__main__":
    show("AUC of held-out ratings", EPOCHS, wyrm, by_hand)
