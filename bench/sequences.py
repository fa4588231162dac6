"""A step on 32 sequences of 64 characters: an LSTM predicts every next character, an encoder the last."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

import wyrm as wy
from bench.harness import Case, Measurement, timed
from bench.models import THREADS
from wyrm.engines.native.products import pool

CHARACTERS, STEPS, WIDTH = 100, 64, 128
BATCH, BATCHES = 32, 8
LAYERS, HEADS = 2, 4
RATE = 1e-3


def _characters(encoder: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return sequences (count, steps), and targets: the next characters, or for the encoder one per sequence."""
    drawn = np.random.default_rng(0).integers(0, CHARACTERS, (BATCHES * BATCH, STEPS + 1))
    return drawn[:, :-1].copy(), drawn[:, -1 if encoder else slice(1, None)].copy()


def _wyrm_scores(read: Any, encoder: bool) -> Any:
    nn = wy.nn
    x: Any = nn.Embedding(CHARACTERS, WIDTH)(read)
    if encoder:
        x = nn.LearnedPositionalEncoding(STEPS, WIDTH)(x)
        for _ in range(LAYERS):
            x = nn.TransformerBlock(WIDTH, 4 * WIDTH, HEADS, causal=False)(x)
        x = nn.LayerNorm(WIDTH)(x).mean(1)
    else:
        x, _ = nn.LSTM(WIDTH, WIDTH)(x)
    return nn.Linear(WIDTH, CHARACTERS)(x)


def _wyrm(encoder: bool, threads: int) -> Callable[[], Measurement]:
    pool.limit(threads)
    wy.nn.seed(0)
    batch = wy.Dim()
    read = wy.IndexInput(dims=(batch, STEPS), name="read")
    scores = _wyrm_scores(read, encoder)
    targets = wy.IndexInput(dims=scores.dims[:-1], name="targets")
    loss = scores.cross_entropy(targets)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), RATE))
    columns = dict(zip((read, targets), _characters(encoder), strict=True))
    return timed(lambda: program.epoch(columns, batch_size=BATCH), BATCHES)


def _torch_model(torch: Any, encoder: bool) -> Any:
    nn = torch.nn

    class Model(nn.Module):  # type: ignore[misc, name-defined]  # the module is Any
        def __init__(self) -> None:
            super().__init__()
            self.table, self.output = nn.Embedding(CHARACTERS, WIDTH), nn.Linear(WIDTH, CHARACTERS)
            if encoder:
                self.positions = nn.Parameter(0.02 * torch.randn(STEPS, WIDTH))
                layer = nn.TransformerEncoderLayer(
                    WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation=partial(nn.functional.gelu, approximate="tanh"),
                    batch_first=True, norm_first=True,
                )  # fmt: skip
                self.inner = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
            else:
                self.inner = nn.LSTM(WIDTH, WIDTH, batch_first=True)

        def forward(self, read: Any) -> Any:
            x = self.table(read)
            return self.output(self.inner(x + self.positions).mean(1) if encoder else self.inner(x)[0])

    return Model()


def _torch(encoder: bool, threads: int, compiled: bool = False) -> Callable[[], Measurement]:
    """PyTorch with fused Adam."""
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    model = _torch_model(torch, encoder)
    optimizer = torch.optim.Adam(model.parameters(), RATE, fused=True)
    batches = list(zip(*(torch.from_numpy(column).split(BATCH) for column in _characters(encoder)), strict=True))
    run = torch.compile(model) if compiled else model

    def epoch() -> float:
        total = 0.0
        for read, targets in batches:
            optimizer.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(run(read).flatten(0, -2), targets.flatten())
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total

    return timed(epoch, BATCHES)


def cases() -> list[Case]:
    """Forward, backward and Adam; PyTorch's `nn.LSTM` is not compiled."""
    return [case for threads in (1, THREADS) for case in _cases(threads)]


def _cases(threads: int) -> list[Case]:
    suffix = f"{threads} thread{'s' if threads > 1 else ''}"
    lstm = {"wyrm": partial(_wyrm, False, threads), "torch eager": partial(_torch, False, threads)}
    encoder = {
        "wyrm": partial(_wyrm, True, threads),
        "torch eager": partial(_torch, True, threads),
        "torch.compile": partial(_torch, True, threads, True),
    }
    return [
        Case("sequences", f"LSTM, hidden 128, {suffix}", lstm, rounds=15, floors={"torch eager": 1.8}),
        Case(
            "sequences", f"transformer encoder, width 128, 2 layers, {suffix}", encoder, rounds=15,
            floors={"torch eager": 1.8, "torch.compile": 1.6}, slow=("torch.compile",),
        ),
    ]  # fmt: skip
