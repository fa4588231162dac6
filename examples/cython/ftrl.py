"""Logistic regression by FTRL-proximal: whether a user likes a film, by eight sparse features of which few are kept.

McMahan et al. (2013) predict clicks on advertisements this way. Each row has the same number of features, whose names
are hashed into one table of weights; L1 sets most of these to zero. The peers are the same loop written by hand for
Numba, and scikit-learn's stochastic gradient descent.
"""

from __future__ import annotations

from itertools import count, islice

import numpy as np
from beside import Trainer, read_films, show
from numpy.typing import NDArray

import wyrm as wy

BUCKETS, RATE, BETA, L1, L2, EPOCHS, BATCH = 2**18, 0.1, 1.0, 0.5, 1.0, 5, 32
Rows = tuple[NDArray[np.int64], NDArray[np.float32]]


class Batch(wy.Dim): ...


class Features(wy.Dim): ...


def wyrm(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the model as a graph; its gradient is not written."""
    (features, liked), test = rows(part)
    batch, seeds = Batch(), count(1000 * seed)
    x = wy.IndexInput(dims=(batch, Features(features.shape[1])), name="features")
    y = wy.Input(dims=(batch,), name="liked")
    weights = wy.Parameter.zeros((BUCKETS,), name="weights")
    score = weights.index(x).sum(axis=-1)
    loss = wy.losses.bce_with_logits(score, y, reduction="sum")
    program = wy.compile(loss, wy.optim.FTRL([weights], RATE, beta=BETA, l1=L1, l2=L2))

    def epochs(number: int) -> None:
        for seed in islice(seeds, number):
            program.epoch({x: features, y: liked}, batch_size=BATCH, shuffle=True, seed=seed, threads=threads)

    return Trainer(epochs, lambda: auc(weights.value, test))


def by_hand(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the peer: the algorithm of the paper, a row at a time."""
    from numba import njit

    (features, liked), test = rows(part)
    weights, linear, total = (np.zeros(BUCKETS, np.float32) for _ in range(3))
    random = np.random.default_rng(seed)

    @njit(fastmath=True, nogil=True)
    def epoch(order, features, liked, w, z, n, rate, beta, l1, l2):  # type: ignore[no-untyped-def]
        for row in order:
            score = np.float32(0.0)
            for k in range(features.shape[1]):
                score += w[features[row, k]]
            slope = np.float32(1.0) / (np.float32(1.0) + np.exp(-score)) - liked[row]
            for k in range(features.shape[1]):
                i = features[row, k]
                root, square = np.sqrt(n[i]), n[i] + slope * slope
                n[i] = square
                z[i] += slope - (np.sqrt(square) - root) / rate * w[i]
                w[i] = 0.0
                if abs(z[i]) > l1:
                    w[i] = (np.copysign(l1, z[i]) - z[i]) / ((beta + np.sqrt(square)) / rate + l2)

    def epochs(number: int) -> None:
        for _ in range(number):
            numbers = (np.float32(each) for each in (RATE, BETA, L1, L2))
            epoch(random.permutation(len(liked)), features, liked, weights, linear, total, *numbers)

    return Trainer(epochs, lambda: auc(weights, test))


def scikit_learn(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the peer, which has no rates by coordinate; its loop is Cython too."""
    from scipy.sparse import csr_matrix
    from sklearn.linear_model import SGDClassifier

    (features, liked), test = rows(part)
    ends = np.arange(len(liked) + 1) * features.shape[1]
    matrix = csr_matrix((np.ones(features.size), features.ravel(), ends), (len(liked), BUCKETS))
    model = SGDClassifier(loss="log_loss", penalty="elasticnet", alpha=1e-5, random_state=seed)

    def epochs(number: int) -> None:
        for _ in range(number):
            model.partial_fit(matrix, liked, classes=[0.0, 1.0])

    return Trainer(epochs, lambda: auc(model.coef_[0], test))


def rows(part: float) -> tuple[Rows, Rows]:
    """Return the features and labels of ratings to train on and for tests: four or more of five stars are a like.

    A feature is a name and a number, hashed: user, film, the user's last film, hour, week, and pairs of these.
    """
    found = []
    for data in read_films(part):
        order = np.lexsort((data.timestamps, data.users))
        user, film, time = data.users[order], data.items[order], data.timestamps[order]
        last = np.where(np.roll(user, 1) == user, np.roll(film, 1), 0)
        hour, week = time // 3600 % 24, time // 604800
        columns = (user, film, last, hour, week, film * 4096 + last, user * 24 + hour, film * 4096 + week % 4096)
        mixed = [(column.astype(np.uint64) * 8 + k) * np.uint64(0x9E3779B97F4A7C15) for k, column in enumerate(columns)]
        hashed = (np.stack(mixed, axis=1) >> np.uint64(40)).astype(np.int64) % BUCKETS
        found.append((hashed, (data.ratings[order] >= 4.0).astype(np.float32)))
    return found[0], found[1]


def auc(weights: NDArray[np.floating], test: Rows) -> float:
    """Return how many likes score above how many others."""
    return float(wy.metrics.roc_auc(test[1], weights[test[0]].sum(axis=1)))


if __name__ == "__main__":
    show("AUC of held-out likes", EPOCHS, wyrm, by_hand, scikit_learn)
