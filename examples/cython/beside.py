"""Shared by the examples of this folder: their data, and the lines that show a model beside its peer.

Each example is one model that is usually written in Cython. `python examples/cython/NAME.py` trains it, then its peer
if that is installed, and prints the accuracy of both on the same held-out data. The data, MovieLens 100K
(`ml-100k.csv`) and stories (`tinystories.txt`), lie in the folder that the variable WYRM_DATA names.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import wyrm as wy

DATA = Path(os.environ.get("WYRM_DATA", Path(__file__).parents[3] / "shared" / "data"))


class Trainer(NamedTuple):
    """A model: `train` passes so many times over the data, `accuracy` tells how good the model is by now."""

    train: Callable[[int], object]
    accuracy: Callable[[], float]


# Makes a model that trains in so many threads on this part of the data.
Maker = Callable[[int, float], Trainer]


class Text(NamedTuple):
    """Sentences of the numbers of words, the words, and how often each occurs."""

    sentences: wy.RaggedArray[NDArray[np.int64]]
    words: list[str]
    counts: NDArray[np.int64]


def read_films(part: float) -> tuple[wy.data.Interactions, wy.data.Interactions]:
    """Return the ratings of the first part of the users of MovieLens 100K, nine tenths to train on, a tenth to test."""
    data = wy.data.read_movielens(DATA / "ml-100k.csv")
    data = data[data.users < part * data.user_count]
    test = np.random.default_rng(0).random(len(data)) < 0.1
    return data[~test], data[test]


def read_words(part: float, fewest: int = 5) -> Text:
    """Return the sentences of the first part of the stories, without words that occur less than `fewest` times."""
    text = wy.data.read_text(DATA / "tinystories.txt").lower()
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


def show(what: str, epochs: int, *makers: Maker) -> None:
    """Train each model for so many epochs and print its accuracy, which is `what`, or which package is missing."""
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=int, default=epochs, help="passes over the data")
    parser.add_argument("--threads", type=int, default=1, help="threads that train")
    parser.add_argument("--part", type=float, default=1.0, help="part of the data to train on, at most 1")
    options = parser.parse_args()
    for maker in makers:
        name = maker.__name__.replace("_", "-")
        try:
            trainer = maker(options.threads, options.part)
        except ImportError as error:
            print(f"{name}: {error.name} is not installed")
            continue
        start = time.perf_counter()
        trainer.train(options.epochs)
        print(f"{name}: {what} {trainer.accuracy():.4f} after {time.perf_counter() - start:.2f} s")
