"""What the examples share: their command line and their progress bar."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm


def parser(description: str, *, epochs: int, data: str | None) -> argparse.ArgumentParser:
    """The options that every example has; `data` says what the file is, None for an example that makes its own."""
    result = argparse.ArgumentParser(description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    result.add_argument("--epochs", type=positive, default=epochs, help="passes over the training data")
    result.add_argument("--seed", type=int, default=0, help="of the initial weights and the order of the data")
    help_text = data if data is not None else "not used: this example generates its data"
    result.add_argument("--data", type=Path, default=None, help=help_text)
    return result


def positive(text: str) -> int:
    """A number of at least 1, for argparse."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"at least 1, not {number}")
    return number


class Progress:
    """A bar over the epochs that shows the latest figures.

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
        """Figures to stand beside the bar."""
        self._bar.set_postfix({name: f"{value:.4f}" for name, value in figures.items()}, refresh=False)
