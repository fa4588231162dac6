"""An LSTM learns digits of pi by heart: each from the four before it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import wyrm as wy
from bench.lstm import READ, SYMBOLS, digits_of_pi

WINDOWS = 200


class Batch(wy.Dim): ...


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("loop", ["compiled", "python"])
def test_digits_are_learnt_in_both_loops(loop: Literal["compiled", "python"], coupled: bool) -> None:
    wy.nn.seed(0)
    rows = np.lib.stride_tricks.sliding_window_view(digits_of_pi(WINDOWS + READ), READ + 1)
    read, following = rows[:, :READ].copy(), rows[:, READ].copy()
    batch = Batch()
    digits = wy.IndexInput(dims=(batch, READ), name="digits")
    wanted = wy.IndexInput(dims=(batch,), name="wanted")
    memory: Any = wy.nn.LSTM(16, 32, coupled=coupled)
    _, state = memory(wy.nn.Embedding(SYMBOLS, 16)(digits))
    scores = wy.nn.Linear(32, SYMBOLS)(state.hidden)
    loss = scores.cross_entropy(wanted)
    train = wy.compile(loss, wy.optim.Adam(loss.parameters(), 0.01), loop=loop)
    losses = [train.epoch({digits: read, wanted: following}, batch_size=10, shuffle=True, seed=0) for _ in range(60)]
    digits.set(read)
    accuracy = (scores.forward().argmax(axis=1) == following).mean()
    assert accuracy > 0.75
    assert losses[0] > 2.0 > 1.0 > losses[-1]
