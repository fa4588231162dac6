"""Ten million interactions: time per interaction as with a hundred thousand, and memory that grows linearly."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

import wyrm as wy
from bench.harness import Case, Contender, Measurement, in_new_process, timed
from bench.models import MOVIELENS, Recommender, has_movielens
from bench.workers import peak_bytes

INTERACTIONS, USERS, ITEMS, DIMENSIONS = 10_000_000, 100_000, 50_000, 32
BLOCK = 1 << 20  # interactions generated at once, so that training determines the peak memory

_CODE = "import sys; from bench.scale import report; report(int(sys.argv[1]))"


def interactions(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return users, drawn uniformly, and items, drawn by popularity rank r with probability proportional to 1 / r."""
    random = np.random.default_rng(0)
    item_of_rank = random.permutation(ITEMS)
    users, items = np.empty(count, np.int64), np.empty(count, np.int64)
    for start in range(0, count, BLOCK):
        block = slice(start, min(start + BLOCK, count))
        size = block.stop - start
        users[block] = random.integers(0, USERS, size)
        rank = ((ITEMS + 1) ** random.random(size)).astype(np.int64)
        items[block] = item_of_rank[np.clip(rank, 1, ITEMS) - 1]
    return users, items


def report(count: int) -> None:
    """Train an epoch in this process; print the seconds per interaction and the peak memory as JSON."""
    users, items = interactions(count)
    model = Recommender(USERS, ITEMS, DIMENSIONS)
    model.epoch(users[:BLOCK], items[:BLOCK])  # compile
    start = time.perf_counter()
    model.epoch(users, items)
    seconds = (time.perf_counter() - start) / count
    print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes()}))


def _generated() -> Callable[[], Measurement]:
    users, items = interactions(INTERACTIONS)
    model = Recommender(USERS, ITEMS, DIMENSIONS)
    return timed(lambda: model.epoch(users, items), INTERACTIONS)


def _movielens() -> Callable[[], Measurement]:
    data = wy.data.read_movielens(MOVIELENS)
    model = Recommender(data.user_count, data.item_count, DIMENSIONS)
    return timed(lambda: model.epoch(data.users, data.items), len(data), least=0.2)


def _fresh(count: int) -> Callable[[], Measurement]:
    return lambda: in_new_process(_CODE, str(count))


def cases() -> list[Case]:
    """The time per interaction at ten million and at a hundred thousand, and the memory at three sizes."""
    contenders: dict[str, Contender] = {"wyrm": _generated}
    if has_movielens("scale"):
        contenders["wyrm, MovieLens 100K"] = _movielens
    floors = {name: 0.67 for name in contenders if name != "wyrm"}
    return [
        Case(
            "scale",
            f"per interaction of {INTERACTIONS:,}, {DIMENSIONS} dimensions",
            contenders,
            rounds=5,
            floors=floors,
            quick=False,
        ),
        *(
            Case(
                "scale", f"memory, {count:,}", {"wyrm": partial(_fresh, count)}, "memory linear", rounds=3, quick=False
            )
            for count in (INTERACTIONS // 4, INTERACTIONS // 2, INTERACTIONS)
        ),
    ]
