"""Dates as people write them to digits: a decoder with attention, forced in training, that runs freely afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np

import wyrm as wy
from bench.pairs.data import CHARACTERS, Labels, dates

START = 10
NORMAL = wy.nn.initializers.Normal()  # as PyTorch's tables start


class Writer(wy.nn.Module):
    """One step: the state and the digit before to the next state and the logits of the next digit."""

    def __init__(self, width: int) -> None:
        self.digits = wy.nn.Embedding(START + 1, 16, initializer=NORMAL)
        self.cell = wy.nn.GRUCell(16 + width, width)
        self.output = wy.nn.Linear(2 * width, 10)

    def __call__(self, state: wy.Node, digit: wy.IndexNode, text: wy.Node) -> tuple[wy.Node, wy.Node]:
        weights = (text @ state.expand_dims(2)).softmax(axis=1)
        read = (weights * text).sum(axis=1)
        state = self.cell(wy.concatenate([self.digits(digit), read], axis=1), state)
        return state, self.output(wy.concatenate([state, read], axis=1))


class Translator(wy.nn.Module):
    def __init__(self, width: int = 64) -> None:
        self.characters = wy.nn.Embedding(len(CHARACTERS), 16, initializer=NORMAL)
        self.reader = wy.nn.StackedGRU(16, width // 2, bidirectional=True)
        self.start = wy.nn.Linear(width, width)
        self.writer = wy.nn.Recurrent(Writer(width), feedback=lambda logits: logits.argmax(axis=1))

    def read(self, text: wy.IndexNode) -> tuple[wy.Node, wy.Node]:
        read = self.reader(self.characters(text)).sequence
        return read, self.start(read.mean(axis=1)).tanh()

    def __call__(self, text: wy.IndexNode, before: wy.IndexNode) -> wy.Node:
        read, state = self.read(text)
        logits: wy.Node = self.writer(before, state, context=read).sequence
        return logits

    def run(self, text: wy.IndexNode) -> wy.IndexNode:
        read, state = self.read(text)
        first = wy.arange(state.shape[0]) * 0 + START
        logits: wy.Node = self.writer.run(first, 8, state, context=read).sequence
        return logits.argmax(axis=-1)


def fit(texts: Labels, digits: Labels, epochs: int, seed: int = 0) -> tuple[Translator, float]:
    """Return the model after some epochs, and the mean loss of the last."""
    wy.nn.seed(seed)
    model, batch = Translator(), wy.Dim()
    text, before = wy.IndexInput(dims=(batch, 28)), wy.IndexInput(dims=(batch, 8))
    wanted = wy.IndexInput(dims=(batch, 8))
    loss = model(text, before).cross_entropy(wanted)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=3e-3))
    shifted = np.insert(digits[:, :-1], 0, START, axis=1)
    columns: dict[Any, Any] = {text: texts, before: shifted, wanted: digits}
    history = wy.train.fit(program, columns, epochs=epochs, batch_size=64, shuffle=True, seed=seed)
    return model, history["loss"][-1]


def accuracy(model: Translator, texts: Labels, digits: Labels) -> float:
    """Return the share of dates whose digits are all right, when the model runs freely."""
    text = wy.IndexInput(dims=(wy.Dim(), 28))
    return float((wy.compile(model.run(text))({text: texts}) == digits).all(axis=1).mean())


def train(epochs: int = 5) -> float:
    return fit(*dates(), epochs)[1]
