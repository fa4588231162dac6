"""What several benchmarks of native training share: the data, and the models compiled to programs."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import wyrm as wy

DATA = Path(os.environ.get("WYRM_DATA", Path(__file__).parents[2] / "shared" / "data"))
MOVIELENS = DATA / "ml-100k.csv"
THREADS = 2

BPR_BATCH, BPR_RATE, BPR_DEVIATION = 10, 0.1, 0.1
FIZZBUZZ_BATCH, FIZZBUZZ_RATE, FIZZBUZZ_DECAY = 32, 0.003, 0.2
BITS, WORDS = 10, 4


class Batch(wy.Dim): ...


def has_movielens(left_out: str) -> bool:
    """Whether MovieLens 100K is there; says what is left out where it is not."""
    if not MOVIELENS.is_file():
        print(f"left out of {left_out}: there is no {MOVIELENS}; set WYRM_DATA to the folder of it", file=sys.stderr)
    return MOVIELENS.is_file()


class Recommender:
    """The model of `examples/bpr_movielens.py`, its negative samples drawn in the graph."""

    def __init__(self, user_count: int, item_count: int, dimensions: int) -> None:
        wy.nn.seed(0)
        batch = Batch()
        self.users = wy.IndexInput(dims=(batch,), name="users")
        self.items = wy.IndexInput(dims=(batch,), name="items")
        vectors = wy.nn.initializers.Normal(BPR_DEVIATION)
        self.user_vectors = wy.nn.Embedding(user_count, dimensions, initializer=vectors)
        self.item_vectors = wy.nn.Embedding(item_count, dimensions, initializer=vectors)
        self.biases = wy.Parameter.zeros((item_count,), name="biases")
        negatives = wy.random.index(item_count, (batch,), seed=0)
        loss = -(self._score(self.items) - self._score(negatives)).sigmoid().mean()
        self.program = wy.compile(loss, wy.optim.Adagrad(loss.parameters(), BPR_RATE))
        self._seeds = itertools.count()

    def _score(self, items: wy.IndexTensor[Batch]) -> wy.Tensor[Batch]:
        return self.user_vectors(self.users).vector_dot(self.item_vectors(items)) + self.biases.index(items)

    def epoch(self, users: NDArray[np.int64], items: NDArray[np.int64], threads: int = THREADS) -> float:
        """One pass in a new order; the mean loss."""
        loss: float = self.program.epoch(
            {self.users: users, self.items: items},
            batch_size=BPR_BATCH, shuffle=True, seed=next(self._seeds), threads=threads, mode="hogwild",
        )  # fmt: skip
        return loss

    def scores(self) -> NDArray[Any]:
        """Of all items for all users, shape (users, items)."""
        scores: NDArray[Any] = self.user_vectors.weight.value @ self.item_vectors.weight.value.T + self.biases.value
        return scores


def fizzbuzz() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The bits of the numbers from 101 to 1023 as -1 and 1, and the class of each."""
    numbers = np.arange(101, 1024)
    bits = 2.0 * ((numbers[:, None] >> np.arange(BITS)) & 1) - 1.0
    return bits.astype(np.float32), np.where(numbers % 3 == 0, 1, 0) + np.where(numbers % 5 == 0, 2, 0)


class FizzBuzz:
    """The model of `examples/fizzbuzz.py`, at the learning rate that the example begins with."""

    def __init__(self, hidden: int) -> None:
        wy.nn.seed(0)
        batch = Batch()
        self.bits = wy.Input(dims=(batch, BITS), name="bits")
        self.words = wy.IndexInput(dims=(batch,), name="words")
        self.scores = wy.nn.Linear(hidden, WORDS)(wy.nn.Linear(BITS, hidden)(self.bits).relu())
        loss = self.scores.cross_entropy(self.words)
        optimizer = wy.optim.AdamW(loss.parameters(), FIZZBUZZ_RATE, weight_decay=FIZZBUZZ_DECAY)
        self.program = wy.compile(loss, optimizer)
        self._seeds = itertools.count()

    def epoch(self, bits: NDArray[np.float32], words: NDArray[np.int64]) -> float:
        """One pass in a new order; the mean loss."""
        loss: float = self.program.epoch(
            {self.bits: bits, self.words: words}, batch_size=FIZZBUZZ_BATCH, shuffle=True, seed=next(self._seeds)
        )
        return loss
