"""The time that `fit` adds to the same epochs called one by one.

    python bench/fit_overhead.py

Trains a linear classifier on epochs of about 0.1 s, alternately by `program.epoch` and by `fit` with early stopping,
and prints the medians.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

import wyrm as wy

ROWS, EPOCHS, ROUNDS = 60_000, 10, 9


class Batch(wy.Dim): ...


def main() -> None:
    batch = Batch()
    x, y = wy.Input(dims=(batch, 256), name="x"), wy.IndexInput(dims=(batch,), name="y")
    model = wy.nn.Linear(256, 128) >> wy.nn.relu >> wy.nn.Linear(128, 10)
    loss = model(x).cross_entropy(y)
    train = wy.compile(loss, wy.optim.SGD(loss.parameters(), learning_rate=0.01))
    generator = np.random.default_rng(0)
    data = {x: generator.normal(size=(ROWS, 256)).astype(np.float32), y: generator.integers(0, 10, ROWS)}
    train.epoch(data, batch_size=64)
    alone, fitted = list[float](), list[float]()
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(EPOCHS):
            train.epoch(data, batch_size=64)
        middle = time.perf_counter()
        wy.train.fit(train, data, epochs=EPOCHS, batch_size=64, callbacks=[wy.train.EarlyStopping(EPOCHS)])
        alone.append((middle - start) / EPOCHS)
        fitted.append((time.perf_counter() - middle) / EPOCHS)
    first, second = statistics.median(alone), statistics.median(fitted)
    print(f"epoch {1e3 * first:.2f} ms, in fit {1e3 * second:.2f} ms: {100 * (second / first - 1):+.2f} %")


if __name__ == "__main__":
    main()
