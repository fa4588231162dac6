"""A run takes the memory that its plan says."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import wyrm as wy


class Batch(wy.Dim): ...


def peaks(threads: int, checkpoint: bool) -> tuple[int, int]:
    """Return the bytes of a first run at its peak, as measured and as planned."""
    config = wy.nn.GPT2Config(vocab_size=300, n_positions=64, n_embd=32, n_layer=3, n_head=2)
    model = wy.nn.GPT2(config, checkpoint=checkpoint)
    tokens, targets = (wy.IndexInput(dims=(Batch(), 64), name=name) for name in ("tokens", "targets"))
    program = wy.compile(model.loss(tokens, targets), wy.optim.Adam(model.parameters()), loop="python")
    text = np.random.default_rng(0).integers(0, 300, (32, 65))

    def run(rows: int) -> None:
        feed: dict[Any, Any] = {tokens: text[:rows, :-1], targets: text[:rows, 1:]}
        if threads:
            program.backward(feed, threads=threads)
        else:
            program(feed)

    run(2)  # compiles
    before = program.plan.peak_bytes
    tracemalloc.start()
    try:
        run(32)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak, program.plan.peak_bytes - before


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("threads", [0, 2])
def test_the_measured_peak_is_near_the_planned_one(threads: int, checkpoint: bool) -> None:
    # Two threads may have temporary arrays of NumPy at the same time, or may not.
    measured, planned = min(peaks(threads, checkpoint) for _ in range(4 if threads else 1))
    assert measured == pytest.approx(planned, rel=0.15)
