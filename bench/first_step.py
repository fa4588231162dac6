"""The first native step of a fresh process, `import wyrm` included, with an empty cache and with a warm one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial

from bench.harness import Case, Measurement, in_new_process

_PROGRAM = """
import json, os, sys, time
start = time.perf_counter()
os.environ["WYRM_CACHE_DIR"] = sys.argv[1]
import numpy as np
{step}
print(json.dumps({{"seconds": time.perf_counter() - start}}))
"""
_PROGRAMS = {
    "fizzbuzz": _PROGRAM.format(
        step="from bench.models import FizzBuzz, fizzbuzz\n"
        "from bench.fizzbuzz import HIDDEN\n"
        "FizzBuzz(HIDDEN).epoch(*(column[:32] for column in fizzbuzz()))"
    ),
    # The sizes of MovieLens 100K.
    "bpr": _PROGRAM.format(
        step="from bench.models import Recommender\nRecommender(943, 1682, 16).epoch(np.arange(10), np.arange(10))"
    ),
}


def _empty(code: str) -> Callable[[], Measurement]:
    def once() -> Measurement:
        with tempfile.TemporaryDirectory(prefix="wyrm-cache-") as folder:
            return in_new_process(code, folder)

    return once


def _warm(code: str) -> Callable[[], Measurement]:
    folder = tempfile.TemporaryDirectory(prefix="wyrm-cache-")
    in_new_process(code, folder.name)  # fills it

    def once(folder: tempfile.TemporaryDirectory[str] = folder) -> Measurement:  # which lives as long as this does
        return in_new_process(code, folder.name)

    return once


def cases() -> list[Case]:
    """Two programs, twice each."""
    kinds = {"empty": (_empty, "at most 8 s"), "warm": (_warm, "at most 1.5 s")}
    return [
        Case("first_step", f"{name}, {kind} cache", {"wyrm": partial(prepare, code)}, goal, rounds=3)
        for name, code in _PROGRAMS.items()
        for kind, (prepare, goal) in kinds.items()
    ]
