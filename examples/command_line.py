"""Shared by the examples: command line options, progress bar, and training loop."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import wyrm as wy

Column = NDArray[Any]


def parser(description: str, *, epochs: int, data: str | None) -> argparse.ArgumentParser:
    """Return a parser with the common options; `data` describes the file, None for an example that generates data."""
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    result.add_argument("--epochs", type=positive, default=epochs, help="passes over the training data")
    result.add_argument(
        "--seed", type=not_negative, default=0, help="seed of the initial weights and the order of the data"
    )
    result.add_argument(
        "--engine", choices=["native", "reference"], default="native", help="engine that computes the steps"
    )
    help_text = data if data is not None else "unused, since this example generates its data"
    result.add_argument("--data", type=Path, default=None, help=help_text)
    return result


def positive(text: str) -> int:
    """Parse a number of at least 1, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1, not {number}")
    return number


def not_negative(text: str) -> int:
    """Parse a number of at least 0, for argparse."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"at least 0, not {number}")
    return number


class Progress:
    """A progress bar over the epochs that shows the latest figures.

    for epoch in Progress(10): ...; progress.show(loss=0.5)
    """

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        self._bar = tqdm(total=epochs, unit="epoch", mininterval=0.5)

    def __iter__(self) -> Iterator[int]:
        with self._bar:
            for epoch in range(self._epochs):
                yield epoch
                self._bar.update()

    def show(self, **figures: float) -> None:
        """Show figures beside the bar."""
        self._bar.set_postfix({name: f"{value:.4f}" for name, value in figures.items()}, refresh=False)


def train(
    loss: wy.Tensor[()],
    optimizer: wy.optim.Optimizer,
    columns: Mapping[Any, Column],
    options: argparse.Namespace,
    batch_size: int = 1,
    threads: int = 1,
) -> None:
    """Train for --epochs epochs in random order, with a progress bar that shows the mean loss."""
    program = wy.compile(loss, optimizer) if options.engine == "native" else None
    random = np.random.default_rng(options.seed)
    progress = Progress(options.epochs)
    for _ in progress:
        if program is not None:
            mean_loss = program.epoch(columns, batch_size=batch_size, shuffle=True, seed=options.seed, threads=threads)
        else:
            mean_loss = _eager_epoch(loss, optimizer, columns, batch_size, random)
        progress.show(loss=mean_loss)


def _eager_epoch(
    loss: wy.Tensor[()],
    optimizer: wy.optim.Optimizer,
    columns: Mapping[Any, Column],
    batch_size: int,
    random: np.random.Generator,
) -> float:
    """Train one epoch step by step with the reference engine; return the mean loss."""
    order = random.permutation(len(next(iter(columns.values()))))
    total = 0.0
    for start in range(0, len(order), batch_size):
        rows = order[start : start + batch_size]
        for leaf, column in columns.items():
            leaf.set(column[rows] if leaf.ndim == column.ndim else column[rows[0]])
        total += float(loss.forward()) * len(rows)
        loss.backward()
        optimizer.step()
        loss.zero_gradient()
    return total / len(order)
