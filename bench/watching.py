"""The time that recording for `python -m wyrm watch` adds to a training.

    python bench/watching.py

Trains the recommender of MovieLens's size (BPR, 100,000 interactions, steps of 10), a small classifier in many short
epochs (1,000 of 20 steps) and a small GPT-2 (2 layers of width 128, batches of 8 sequences of 64 tokens), alternately
without and with `watch`, and prints the medians of the processor's time, which other programs disturb less. The GPT-2
is trained twice: by `fit`, and by a loop that calls `RunWriter`.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import wyrm as wy

ROUNDS = 11


class Batch(wy.Dim): ...


def bpr() -> Callable[[Path | None], None]:
    """Return a training of a recommender: 150 epochs of 10,000 small steps."""
    random, batch = np.random.default_rng(0), Batch()
    users, items = wy.nn.Embedding(943, 32), wy.nn.Embedding(1682, 32, seed=1)
    user, liked = wy.IndexInput(dims=(batch,), name="user"), wy.IndexInput(dims=(batch,), name="liked")
    other = wy.random.index(1682, (batch,))
    loss = wy.losses.bpr(users(user).vector_dot(items(liked)), users(user).vector_dot(items(other)))
    program = wy.compile(loss, wy.optim.Adagrad([users.weight, items.weight], learning_rate=0.05))
    data = {user: random.integers(0, 943, 100_000), liked: random.integers(0, 1682, 100_000)}

    def train(folder: Path | None) -> None:
        wy.train.fit(program, data, epochs=150, batch_size=10, shuffle=True, watch=folder or False)

    return train


def classifier() -> Callable[[Path | None], None]:
    """Return a training of a classifier: 1,000 epochs of 20 steps, each with a record of its own."""
    random, batch = np.random.default_rng(0), Batch()
    x, y = wy.Input(dims=(batch, 64), name="x"), wy.IndexInput(dims=(batch,), name="y")
    loss = (wy.nn.Linear(64, 128) >> wy.nn.relu >> wy.nn.Linear(128, 10))(x).cross_entropy(y)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=0.001))
    data = {x: random.normal(size=(640, 64)).astype(np.float32), y: random.integers(0, 10, 640)}

    def train(folder: Path | None) -> None:
        wy.train.fit(program, data, epochs=1_000, batch_size=32, watch=folder or False)

    return train


def gpt2() -> tuple[wy.Program, dict[Any, np.ndarray], wy.nn.GPT2, wy.optim.Optimizer]:
    """Return the program, the data, the model and the optimizer of a small GPT-2."""
    config = wy.nn.GPT2Config(
        vocab_size=1000, n_positions=64, n_embd=128, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0,
    )  # fmt: skip
    model = wy.nn.GPT2(config)
    tokens, targets = (wy.IndexInput(dims=(Batch(), 64), name=name) for name in ("tokens", "targets"))
    optimizer = wy.optim.AdamW(model.parameters(), 1e-4)
    program = wy.compile(model.loss(tokens, targets), optimizer)
    text = np.random.default_rng(0).integers(0, 1000, (1024, 65))
    return program, {tokens: text[:, :-1], targets: text[:, 1:]}, model, optimizer


def gpt2_fitted() -> Callable[[Path | None], None]:
    """Return a training of GPT-2 by `fit`: one epoch of 128 steps."""
    program, data, _, _ = gpt2()

    def train(folder: Path | None) -> None:
        wy.train.fit(program, data, epochs=1, batch_size=8, watch=folder or False)

    return train


def gpt2_by_hand() -> Callable[[Path | None], None]:
    """Return a training of GPT-2 by a loop: 128 steps."""
    program, data, model, optimizer = gpt2()

    def step(position: int) -> float:
        rows = slice(position % 128 * 8, position % 128 * 8 + 8)
        return program.backward({leaf: column[rows] for leaf, column in data.items()})

    def train(folder: Path | None) -> None:
        if folder is None:
            for position in range(128):
                step(position)
                optimizer.step()
                optimizer.zero_gradient()
            return
        with wy.watch.RunWriter(folder, model, steps=128) as run:
            for position in range(128):
                run.values(position + 1, {"loss": step(position)}, rows=8)
                with run.update():
                    optimizer.step()
                optimizer.zero_gradient()

    return train


def main() -> None:
    trainings = {"BPR": bpr, "classifier": classifier, "GPT-2 by fit": gpt2_fitted, "GPT-2 by a loop": gpt2_by_hand}
    for name, make in trainings.items():
        train = make()
        train(None)
        seconds: dict[bool, list[float]] = {False: [], True: []}
        with tempfile.TemporaryDirectory() as folder:
            for turn in range(ROUNDS):
                # The order changes, because the second of a pair may find a busier machine.
                for watched in (False, True) if turn % 2 else (True, False):
                    start = time.process_time()
                    train(Path(folder) / str(turn) if watched else None)
                    seconds[watched].append(time.process_time() - start)
        alone, watched_median = (statistics.median(seconds[watched]) for watched in (False, True))
        print(f"{name}: {alone:.3f} s, watched {watched_median:.3f} s: {100 * (watched_median / alone - 1):+.2f} %")


if __name__ == "__main__":
    main()
