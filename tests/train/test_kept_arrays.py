"""The arrays that a program keeps for sizes of data that it has seen."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.native.run import runner


class Batch(wy.Dim): ...


def test_many_sizes_hold_few_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last sizes are kept, as many as take few bytes together, and at least two."""
    monkeypatch.setattr(runner, "KEPT_BYTES", 3_000_000)
    x: Any = wy.Input(dims=(Batch(),), name="x")
    predict = wy.compile(wy.sort(x.exp()))
    predict({x: np.ones(3)})
    tracemalloc.start()
    for i in range(12):
        predict({x: np.ones(20_000 + i)})  # each array takes 80 kB
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 1_800_000 < held < 4_000_000  # 11 MB without a limit: a size takes 0.9 MB
