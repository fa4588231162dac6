"""Dates as people write them to digits: a decoder with attention, forced in training, that runs freely afterwards."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from bench.pairs.data import CHARACTERS, Labels, dates

START = 10


class Writer(nn.Module):  # type: ignore[misc]  # torch is not followed by mypy
    """One step: the state and the digit before to the next state and the logits of the next digit."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.digits = nn.Embedding(START + 1, 16)
        self.cell = nn.GRUCell(16 + width, width)
        self.output = nn.Linear(2 * width, 10)

    def forward(
        self, state: torch.Tensor, digit: torch.Tensor, text: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        weights = (text @ state.unsqueeze(2)).softmax(dim=1)
        read = (weights * text).sum(dim=1)
        state = self.cell(torch.cat([self.digits(digit), read], dim=1), state)
        return state, self.output(torch.cat([state, read], dim=1))


class Translator(nn.Module):  # type: ignore[misc]  # torch is not followed by mypy
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.characters = nn.Embedding(len(CHARACTERS), 16)
        self.reader = nn.GRU(16, width // 2, bidirectional=True, batch_first=True)
        self.start = nn.Linear(width, width)
        self.writer = Writer(width)

    def read(self, text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        read, _ = self.reader(self.characters(text))
        return read, self.start(read.mean(dim=1)).tanh()

    def forward(self, text: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        read, state = self.read(text)
        made = []
        for digit in before.unbind(1):
            state, logits = self.writer(state, digit, read)
            made.append(logits)
        return torch.stack(made, dim=1)

    def run(self, text: torch.Tensor) -> torch.Tensor:
        read, state = self.read(text)
        digit = torch.full((len(text),), START)
        made = []
        for _ in range(8):
            state, logits = self.writer(state, digit, read)
            digit = logits.argmax(dim=1)
            made.append(digit)
        return torch.stack(made, dim=1)


def fit(texts: Labels, digits: Labels, epochs: int, seed: int = 0) -> tuple[Translator, float]:
    """Return the model after some epochs, and the mean loss of the last."""
    torch.manual_seed(seed)
    model = Translator()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
    shifted = np.insert(digits[:, :-1], 0, START, axis=1)
    text, before, wanted = map(torch.from_numpy, (texts, shifted, digits))
    for _ in range(epochs):
        total, steps = 0.0, len(text) // 64
        order = torch.randperm(len(text))
        for step in range(steps):
            rows = order[64 * step : 64 * (step + 1)]
            optimizer.zero_grad()
            logits = model(text[rows], before[rows])
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), wanted[rows].flatten())
            loss.backward()
            optimizer.step()
            total += loss.item()
    return model, total / steps


def accuracy(model: Translator, texts: Labels, digits: Labels) -> float:
    """Return the share of dates whose digits are all right, when the model runs freely."""
    with torch.no_grad():
        return float((model.run(torch.from_numpy(texts)).numpy() == digits).all(axis=1).mean())


def train(epochs: int = 5) -> float:
    return fit(*dates(), epochs)[1]
