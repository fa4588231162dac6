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
    "gpt2, 124M": _PROGRAM.format(step="from bench.gpt2 import SIZES, wyrm_step\nwyrm_step(SIZES['124M'], 0.0)()"),
}
_LAYERS = {
    layers: _PROGRAM.format(
        step="from dataclasses import replace\nfrom bench.gpt2 import SIZES, wyrm_step\n"
        f"wyrm_step(replace(SIZES['default'], layers={layers}, batch=2), 0.0, threads=1)()"
    )
    for layers in (6, 24)
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
    """Three programs, twice each, and one of them with four times the layers."""
    kinds: dict[str, tuple[Callable[[str], Callable[[], Measurement]], str, str]] = {
        "empty": (_empty, "at most 8 s", "at most 20 s"), "warm": (_warm, "at most 1.5 s", "at most 3 s")
    }  # fmt: skip
    found = [
        Case(
            "first_step", f"{name}, {kind} cache", {"wyrm": partial(prepare, code)},
            large if name.startswith("gpt2") else small, rounds=3,
        )
        for name, code in _PROGRAMS.items()
        for kind, (prepare, small, large) in kinds.items()
    ]  # fmt: skip
    layers = {
        "wyrm" if count == 6 else f"wyrm, {count} layers": partial(_empty, code) for count, code in _LAYERS.items()
    }
    return [*found, Case("first_step", "gpt2, 6 layers, empty cache", layers, "24 layers at most 1.3x", rounds=3)]
