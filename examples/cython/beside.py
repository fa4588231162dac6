"""Shared by the examples of this folder: their data, and the lines that show a model beside its peer.

Each example is one model that is usually written in Cython. `python examples/cython/NAME.py` trains it, then its peer
if that is installed, and prints the accuracy of both on the same held-out data. The data, MovieLens 100K
(`ml-100k.csv`) and stories (`tinystories.txt`), lie in the folder that the variable WYRM_DATA names.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import wyrm as wy


class Trainer(NamedTuple):
    """A model: `train` passes so many times over the data, `accuracy` tells how good the model is by now."""

    train: Callable[[int], object]
    accuracy: Callable[[], float]


# Makes a model that trains in so many threads on this part of the data; another seed draws other numbers.
Maker = Callable[..., Trainer]  # of (threads, part, seed) and the choices of `show`


class Text(NamedTuple):
    """Sentences of the numbers of words, the words, and how often each occurs."""

    sentences: wy.RaggedArray[NDArray[np.int64]]
    words: list[str]
    counts: NDArray[np.int64]


def data_file(name: str) -> Path:
    """Return the path of a file of data; raise `DataError` if there is none."""
    folder = Path(os.environ.get("WYRM_DATA") or Path(__file__).parents[2] / ".." / "shared" / "data").resolve()
    if not (folder / name).is_file():
        raise wy.errors.DataError(
            f"no {name} in the folder {folder}: set the variable WYRM_DATA to the one that has it"
        )
    return folder / name


def read_films(part: float) -> tuple[wy.data.Interactions, wy.data.Interactions]:
    """Return the ratings of the first part of the users of MovieLens 100K, nine tenths to train on, a tenth to test."""
    data = wy.data.read_movielens(data_file("ml-100k.csv"))
    data = data[data.users < part * data.user_count]
    test = np.random.default_rng(0).random(len(data)) < 0.1
    return data[~test], data[test]


def read_words(part: float, fewest: int = 5) -> Text:
    """Return the sentences of the first part of the stories, without words that occur less than `fewest` times."""
    text = wy.data.read_text(data_file("tinystories.txt")).lower()
    sentences = [re.findall("[a-z']+", each) for each in re.split(r"[.!?\n]+", text[: int(part * len(text))])]
    words, numbers, counts = np.unique([w for s in sentences for w in s], return_inverse=True, return_counts=True)
    kept = counts >= fewest
    stays = kept[numbers]
    ends = np.concatenate(([0], np.cumsum(stays)))[np.cumsum([0, *map(len, sentences)])]
    tokens = (np.cumsum(kept) - 1)[numbers[stays]]
    return Text(wy.RaggedArray(tokens, ends), words[kept].tolist(), counts[kept])


def ranking_auc(scores: NDArray[Any], train: wy.data.Interactions, test: wy.data.Interactions) -> float:
    """Return how many of the films that a user did not rate stand below a held-out one, the mean over users."""
    relevant = np.zeros(scores.shape, np.bool_)
    relevant[test.users, test.items] = True
    return float(wy.metrics.mean_ranking_auc(scores, relevant, exclude=train.seen().mask()))


def show(what: str, epochs: int, *makers: Maker, **choices: Sequence[str]) -> None:
    """Train each model for so many epochs and print its accuracy, which is `what`, or which package is missing.

    The `choices` are options of the makers, each with the names that it may have, of which the first is the default.
    """
    about = (sys.modules[makers[0].__module__].__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=int, default=epochs, help="passes over the data")
    parser.add_argument("--threads", type=int, default=1, help="threads that train")
    parser.add_argument("--part", type=float, default=1.0, help="part of the data to train on, at most 1")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each model, whose mean and spread are shown")
    for name, names in choices.items():
        parser.add_argument(f"--{name}", choices=names, default=names[0], help=f"{name} of all models")
    options = parser.parse_args()
    if min(options.epochs, options.threads, options.seeds) < 1 or not 0.0 < options.part <= 1.0:
        parser.error("--epochs, --threads and --seeds must be at least 1, and --part above 0 and at most 1")
    chosen = {name: getattr(options, name) for name in choices}
    for maker in makers:
        name, found, seconds = maker.__name__.replace("_", "-"), list[float](), 0.0
        try:
            for seed in range(options.seeds):
                trainer = maker(options.threads, options.part, seed, **chosen)
                start = time.perf_counter()
                trainer.train(options.epochs)
                seconds += time.perf_counter() - start
                found.append(trainer.accuracy())
        except ImportError as error:
            print(f"{name}: {error.name} is not installed")
            continue
        spread = f" +- {np.std(found, ddof=1):.4f}" if len(found) > 1 else ""
        print(f"{name}: {what} {np.mean(found):.4f}{spread} after {seconds / len(found):.2f} s")
