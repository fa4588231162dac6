"""The first native step of a fresh process, including `import wyrm`, with an empty and with a warm cache."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial

from bench.harness import Case, Contender, Measurement, in_new_process

_PROGRAM = """
import json, os, sys, time
start = time.perf_counter()
os.environ["WYRM_CACHE_DIR"] = sys.argv[1]
import numpy as np
{step}
print(json.dumps({{"seconds": time.perf_counter() - start}}))
"""
_PEERS = {
    "jax": _PROGRAM.format(step="from bench.fizzbuzz import jax_epoch\njax_epoch()()"),
    "torch.compile": _PROGRAM.format(
        step="os.environ['TORCHINDUCTOR_CACHE_DIR'] = sys.argv[1]\n"
        "from bench.fizzbuzz import torch_compile_epoch\ntorch_compile_epoch()()"
    ),
}
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
    **{
        name: _PROGRAM.format(step=f"from bench.programs import PROGRAMS\nPROGRAMS['{name}']()()")
        for name in ("vae", "char_lstm", "cnn", "encoder", "gnn")
    },
    "gpt2, default": _PROGRAM.format(
        step="from bench.gpt2 import SIZES, wyrm_step\nwyrm_step(SIZES['default'], 0.0)()"
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


def empty_cache(code: str) -> Callable[[], Measurement]:
    """Return a round of `code` in a new process with an empty cache, whose folder is the first argument."""

    def once() -> Measurement:
        with tempfile.TemporaryDirectory(prefix="wyrm-cache-") as folder:
            return in_new_process(code, folder)

    return once


def warm_cache(code: str) -> Callable[[], Measurement]:
    """Return a round of `code` in a new process with the cache that an earlier process filled."""
    folder = tempfile.TemporaryDirectory(prefix="wyrm-cache-")
    in_new_process(code, folder.name)  # fill the cache

    def once(folder: tempfile.TemporaryDirectory[str] = folder) -> Measurement:  # keeps the directory alive
        return in_new_process(code, folder.name)

    return once


_GOALS = {
    "fizzbuzz": ("at most 1.2 s, ahead of JAX", "at most 0.5 s"), "bpr": ("at most 1.2 s", ""),
    "vae": ("at most 3 s", ""), "cnn": ("at most 3 s", ""), "gnn": ("at most 3 s", ""),
    "char_lstm": ("at most 5 s", ""), "encoder": ("at most 5 s", ""), "gpt2, default": ("at most 6 s", ""),
    "gpt2, 124M": ("at most 11 s", "at most 3 s"),
}  # fmt: skip
# A second program in the same process: the scores of the model that was just trained.
_SECOND = """
import json, os, sys, time
os.environ["WYRM_CACHE_DIR"] = sys.argv[1]
import numpy as np, wyrm as wy
from bench.models import FizzBuzz, fizzbuzz
from bench.fizzbuzz import HIDDEN
model = FizzBuzz(HIDDEN)
model.epoch(*(column[:32] for column in fizzbuzz()))
start = time.perf_counter()
wy.compile(model.scores)({model.bits: fizzbuzz()[0][:32]})
print(json.dumps({"seconds": time.perf_counter() - start}))
"""


def cases() -> list[Case]:
    """Programs with an empty and a warm cache; GPT-2 with four times the layers; a second program in one process."""
    found = []
    for name, code in _PROGRAMS.items():
        contenders: dict[str, Contender] = {"wyrm": partial(empty_cache, code)}
        if name == "fizzbuzz":
            contenders |= {peer: partial(empty_cache, code_of_peer) for peer, code_of_peer in _PEERS.items()}
        empty, warm = _GOALS[name]
        found.append(Case("first_step", f"{name}, empty cache", contenders, empty, rounds=5))
        found.append(Case("first_step", f"{name}, warm cache", {"wyrm": partial(warm_cache, code)}, warm, rounds=5))
    layers: dict[str, Contender] = {
        "wyrm" if count == 6 else f"wyrm, {count} layers": partial(empty_cache, code) for count, code in _LAYERS.items()
    }
    found.append(Case("first_step", "gpt2, 6 layers, empty cache", layers, "24 layers at most 1.1x", rounds=5))
    second: dict[str, Contender] = {"wyrm": partial(empty_cache, _SECOND)}
    return [*found, Case("first_step", "predict after training", second, "at most 0.3 s", rounds=5)]
