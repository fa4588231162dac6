"""fastText's classifier: whether a sentence begins or ends its paragraph, by the mean vector of the parts of its words.

The model of Joulin et al. (2017) and the parts of words of Bojanowski et al. (2017): each word is itself and its
n-grams of characters, which are hashed into one table. A sentence has as many of both as it has, and the word `END`.
The order of the sentences is the text's, as in fastText, where labels alternate.
"""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from beside import Trainer, data_file, show
from numpy.typing import NDArray

import wyrm as wy

LENGTH, BUCKETS, RATE, EPOCHS, BATCH, END = 100, 100_000, 0.1, 10, 16, "</s>"
Labelled = tuple[list[str], NDArray[np.int64]]


class Batch(wy.Dim): ...


class Parts(wy.Ragged): ...


def wyrm(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the model as a graph; the rate falls to 0 over the first `epochs`."""
    train, test = sentences(part)
    words = sorted({END, *(word for sentence in train[0] for word in sentence.split())})
    number = {word: place for place, word in enumerate(words)}
    ids, label = wy.IndexInput(dims=(Batch(), Parts()), name="ids"), wy.IndexInput(dims=(Batch(),), name="label")
    start = np.zeros((len(words) + BUCKETS, LENGTH), np.float32)
    start[: len(words)] = np.random.default_rng(seed).uniform(-1.0, 1.0, (len(words), LENGTH)) / LENGTH
    table = wy.Parameter(start, name="table")
    output = wy.Parameter.zeros((LENGTH, 2), name="output")
    logits = table.index(ids).mean(axis=1) @ output
    optimizer = wy.optim.SGD([table, output], RATE * BATCH)
    program = wy.compile(logits.cross_entropy(label), optimizer)
    data = {ids: parts_of(train[0], number), label: train[1]}

    def epochs(number: int) -> None:
        if not optimizer.steps:
            optimizer.learning_rate = wy.optim.Polynomial(RATE * BATCH, number * len(train[0]) // BATCH, 0.0)
        for _ in range(number):
            program.epoch(data, batch_size=BATCH, threads=threads)

    best, of_test = wy.compile(logits.argmax(axis=-1)), parts_of(test[0], number)
    return Trainer(epochs, lambda: float((best({ids: of_test}) == test[1]).mean()))


def fasttext(threads: int = 1, part: float = 1.0, seed: int = 0) -> Trainer:
    """Return the peer, which is written in C++; it trains anew for all epochs.

    With one thread it leaves nine tenths of its table as the memory was. That is zero for tables of over 32 MB, which
    get fresh memory; smaller ones may end it with "Encountered NaN".
    """
    from fasttext import train_supervised

    train, test = sentences(part)
    found: list[Any] = []

    def epochs(number: int) -> None:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "train.txt"
            file.write_text("\n".join(f"__label__{y} {x}" for x, y in zip(*train, strict=True)), encoding="utf-8")
            found[:] = [
                train_supervised(
                    str(file), dim=LENGTH, lr=RATE, epoch=number, minn=3, maxn=6, bucket=BUCKETS, minCount=1,
                    thread=threads, seed=seed, verbose=0,
                )
            ]  # fmt: skip

    def accuracy() -> float:
        labels = [each[0] for each in found[0].predict(test[0])[0]]
        return float(np.mean([label == f"__label__{y}" for label, y in zip(labels, test[1], strict=True)]))

    return Trainer(epochs, accuracy)


def parts_of(given: list[str], number: dict[str, int]) -> wy.RaggedArray[NDArray[np.int64]]:
    """Return the numbers of the words of each sentence, and behind those of all words the buckets of their n-grams."""
    every = sorted({word for sentence in given for word in sentence.split()})
    buckets = wy.data.ngram_buckets(every, BUCKETS, minn=3, maxn=6)
    own = {word: np.r_[[number[word]] if word in number else [], len(number) + parts].astype(np.int64)
           for word, parts in zip(every, buckets, strict=True)}  # fmt: skip
    rows = [np.concatenate([*(own[word] for word in each.split()), [number[END]]]) for each in given]
    return wy.RaggedArray.of_rows(rows)


def sentences(part: float) -> tuple[Labelled, Labelled]:
    """Return the first and the last sentence of each paragraph of the first part of the text, with 0 and 1 for these.

    The last tenth is for tests.
    """
    text = wy.data.read_text(data_file("tinystories.txt")).lower()
    texts: list[str] = []
    for paragraph in text[: int(part * len(text))].split("\n\n"):
        words = [" ".join(re.findall("[a-z']+", sentence)) for sentence in re.split(r"[.!?]+", paragraph)]
        long = [sentence for sentence in words if sentence.count(" ") > 1]
        texts += [long[0], long[-1]] if len(long) > 2 else []
    labels, at = np.tile([0, 1], len(texts) // 2), 9 * len(texts) // 20 * 2
    return (texts[:at], labels[:at]), (texts[at:], labels[at:])


if __name__ == "__main__":
    show("accuracy of held-out sentences", EPOCHS, wyrm, fasttext)
