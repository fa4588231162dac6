"""A field-aware factorization machine: the data of `fm.py`, with a vector of each feature for each field of others.

The model of Juan et al. (2016): the pair of the features i and j adds `v[i, field of j] @ v[j, field of i]`, times
their values. The graph adds up the vectors of a row by the field of their feature: all pairs of features are then pairs
of fields, without the products of features with themselves. The peer is the loop over pairs, by hand for Numba.
"""

from __future__ import annotations

from itertools import count, islice

import numpy as np
from beside import Trainer, show
from fm import Rows, auc, rows
from numpy.typing import NDArray

import wyrm as wy

FACTORS, FIELDS, RATE, EPOCHS, BATCH = 8, 3, 0.02, 5, 32


class Batch(wy.Dim): ...


class Features(wy.Ragged): ...


class Fields(wy.Dim): ...


class Factors(wy.Dim): ...


def wyrm(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the model as a graph; its gradient is not written."""
    size, train, test = rows(part)
    batch, features, fields, factors, seeds = Batch(), Features(), Fields(FIELDS), Factors(FACTORS), count(1000 * seed)
    ids, field = (wy.IndexInput(dims=(batch, features), name=name) for name in ("ids", "field"))
    value, liked = wy.Input(dims=(batch, features), name="value"), wy.Input(dims=(batch,), name="liked")
    vectors = wy.Parameter(start(size, seed), dims=(size, fields * factors), name="vectors")
    each = vectors.index(ids) * value.expand_dims(-1)
    by_field = wy.row_segment_sum(each, field, fields).reshape((batch, FIELDS, FIELDS, FACTORS))
    own = (each * each).reshape((batch, features, fields, factors)).sum(axis=-1)
    alone = (own * wy.one_hot(field, FIELDS)).sum(axis=(1, 2))
    score = 0.5 * ((by_field * by_field.swapaxes(1, 2)).sum(axis=(1, 2, 3)) - alone)
    program = wy.compile(wy.losses.bce_with_logits(score, liked), wy.optim.SGD([vectors], RATE * BATCH))
    data = {ids: train[0], field: fields_of(train), value: train[1], liked: train[2]}

    def epochs(number: int) -> None:
        for seed in islice(seeds, number):
            program.epoch(data, batch_size=BATCH, shuffle=True, seed=seed, threads=threads)

    scores = wy.compile(score)
    return Trainer(epochs, lambda: auc(scores({ids: test[0], field: fields_of(test), value: test[1]}), test[2]))


def by_hand(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the peer: a row at a time, the score of its pairs and then their steps."""
    from numba import njit

    size, train, test = rows(part)
    vectors = start(size, seed).reshape(size, FIELDS, FACTORS)
    random = np.random.default_rng(seed)

    @njit(fastmath=True, nogil=True)
    def epoch(order, ids, fields, values, ends, liked, v, rate, learns, scores):  # type: ignore[no-untyped-def]
        for row in order:
            score = np.float32(0.0)
            for a in range(ends[row], ends[row + 1]):
                for b in range(a + 1, ends[row + 1]):
                    product = np.float32(0.0)
                    for k in range(v.shape[2]):
                        product += v[ids[a], fields[b], k] * v[ids[b], fields[a], k]
                    score += product * values[a] * values[b]
            scores[row] = score
            if not learns:
                continue
            step = rate * (np.float32(1.0) / (np.float32(1.0) + np.exp(-score)) - liked[row])
            for a in range(ends[row], ends[row + 1]):
                for b in range(a + 1, ends[row + 1]):
                    move = step * values[a] * values[b]
                    for k in range(v.shape[2]):
                        x, y = v[ids[a], fields[b], k], v[ids[b], fields[a], k]
                        v[ids[a], fields[b], k] = x - move * y
                        v[ids[b], fields[a], k] = y - move * x

    def run(order: NDArray[np.int64], data: Rows, learns: bool) -> NDArray[np.float32]:
        (ids, values, liked), scores = data, np.empty(len(data[2]), np.float32)
        columns = ids.values, fields_of(data).values, values.values, ids.offsets, liked
        epoch(order, *columns, vectors, np.float32(RATE), learns, scores)
        return scores

    def epochs(number: int) -> None:
        for _ in range(number):
            run(random.permutation(len(train[2])), train, True)

    return Trainer(epochs, lambda: auc(run(np.arange(len(test[2])), test, False), test[2]))


def fields_of(data: Rows) -> wy.RaggedArray[NDArray[np.int64]]:
    """Return the field of each feature: 0 for the user, 1 for the film, 2 for films rated before."""
    offsets = data[0].offsets
    places = np.arange(offsets[-1]) - np.repeat(offsets[:-1], np.diff(offsets))
    return wy.RaggedArray(np.minimum(places, 2), offsets)


def start(size: int, seed: int) -> NDArray[np.float32]:
    """Return the first vectors of the features, those for all fields in one row."""
    return (0.1 * np.random.default_rng(seed).standard_normal((size, FIELDS * FACTORS))).astype(np.float32)


if __name__ == "__main__":
    show("AUC of held-out ratings", EPOCHS, wyrm, by_hand)
