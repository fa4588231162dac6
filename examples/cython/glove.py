"""GloVe: vectors of words whose products are the logarithms of how often two words occur together.

The weighted least squares of Pennington, Socher and Manning (2014), by Adagrad, a few cells at a time. The peer is the
same loop written by hand for Numba, cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, islice

import numpy as np
from beside import Trainer, read_words, show
from numpy.typing import NDArray

import wyrm as wy

LENGTH, WINDOW, MOST, POWER, RATE, EPOCHS, BATCH = 50, 10, 10.0, 0.75, 0.05, 15, 4
Floats = NDArray[np.floating]
Cells = tuple[NDArray[np.int64], NDArray[np.int64], Floats]


class Batch(wy.Dim): ...


def wyrm(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the model as a graph; its gradient is not written."""
    size, train, test = cells(part)
    batch, seeds = Batch(), count(1000 * seed)
    row, column = (wy.IndexInput(dims=(batch,), name=name) for name in ("row", "column"))
    together = wy.Input(dims=(batch,), name="together")
    tables = [wy.Parameter(table) for table in starts(size, seed)]
    biases = [wy.Parameter.zeros((size,)) for _ in range(2)]
    score = tables[0].index(row).vector_dot(tables[1].index(column)) + biases[0].index(row) + biases[1].index(column)
    weight = (together / MOST).minimum(1.0) ** POWER
    loss = 0.5 * (weight * (score - together.log()).square()).sum()
    program = wy.compile(loss, wy.optim.Adagrad([*tables, *biases], RATE, initial_accumulator=1.0))
    columns = dict(zip((row, column, together), train, strict=True))

    def epochs(number: int) -> None:
        for seed in islice(seeds, number):
            program.epoch(columns, batch_size=BATCH, shuffle=True, seed=seed, threads=threads)

    return Trainer(epochs, lambda: error([each.value for each in (*tables, *biases)], test))


def by_hand(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the peer: the gradient of each number is written out, and its steps."""
    from numba import njit

    size, train, test = cells(part)
    state = [*starts(size, seed), np.zeros(size, np.float32), np.zeros(size, np.float32)]
    totals = [np.ones_like(each) for each in state]
    random = np.random.default_rng(seed)

    @njit(fastmath=True, nogil=True)
    def epoch(order, rows, columns, values, p, q, b, c, tp, tq, tb, tc, rate):  # type: ignore[no-untyped-def]
        for cell in order:
            i, j, value = rows[cell], columns[cell], values[cell]
            score = b[i] + c[j]
            for k in range(p.shape[1]):
                score += p[i, k] * q[j, k]
            weight = min(value / np.float32(MOST), np.float32(1.0)) ** np.float32(POWER)
            slope = weight * (score - np.log(value))
            for k in range(p.shape[1]):
                left, right = slope * q[j, k], slope * p[i, k]
                tp[i, k] += left * left
                tq[j, k] += right * right
                p[i, k] -= rate * left / np.sqrt(tp[i, k])
                q[j, k] -= rate * right / np.sqrt(tq[j, k])
            tb[i] += slope * slope
            tc[j] += slope * slope
            b[i] -= rate * slope / np.sqrt(tb[i])
            c[j] -= rate * slope / np.sqrt(tc[j])

    def epochs(number: int) -> None:
        for _ in range(number):
            epoch(random.permutation(len(train[0])), *train, *state, *totals, np.float32(RATE))

    return Trainer(epochs, lambda: error(state, test))


def cells(part: float) -> tuple[int, Cells, Cells]:
    """Return the number of words, and the cells of their matrix to train on and for tests: rows, columns and values.

    Each pair of words in a window counts as much as the inverse of their distance.
    """
    text = read_words(part)
    size, tokens = len(text.words), text.sentences.values
    sentence = np.repeat(np.arange(len(text.sentences)), text.sentences.lengths)
    pairs, values = [], []
    for distance in range(1, WINDOW + 1):
        near = sentence[distance:] == sentence[:-distance]
        left, right = tokens[:-distance][near], tokens[distance:][near]
        pairs += [left * size + right, right * size + left]
        values += [np.full(2 * len(left), 1.0 / distance)]
    found, numbers = np.unique(np.concatenate(pairs), return_inverse=True)
    together = np.bincount(numbers, np.concatenate(values)).astype(np.float32)
    test = np.random.default_rng(0).random(len(found)) < 0.1
    train, held_out = ((found[rows] // size, found[rows] % size, together[rows]) for rows in (~test, test))
    return size, train, held_out


def starts(size: int, seed: int) -> list[Floats]:
    """Return the first vectors of words, and of words in the context of others."""
    random = np.random.default_rng(seed)
    return [((random.random((size, LENGTH)) - 0.5) / LENGTH).astype(np.float32) for _ in range(2)]


def error(state: Sequence[Floats], test: Cells) -> float:
    """Return the root of the weighted mean squared error of held-out logarithms."""
    (i, j, together), (p, q, b, c) = test, state
    wrong = (p[i] * q[j]).sum(axis=1) + b[i] + c[j] - np.log(together)
    return float(np.sqrt(np.average(wrong**2, weights=np.minimum(together / MOST, 1.0) ** POWER)))


if __name__ == "__main__":
    show("error of held-out logarithms", EPOCHS, wyrm, by_hand)
