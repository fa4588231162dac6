"""The first native step of a fresh process, including `import wyrm`, with an empty and with a warm cache."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial

from bench.harness import Case, Contender, Measurement, in_new_process

# The time is that from the start of the process, with that of Python itself.
_PROGRAM = """
import json, os, sys, time
os.environ["WYRM_CACHE_DIR"] = sys.argv[1]
import numpy as np
{step}
print(json.dumps({{"seconds": time.monotonic() - float(os.environ["BENCH_STARTED"])}}))
"""
_TORCH = "os.environ['TORCHINDUCTOR_CACHE_DIR'] = sys.argv[1]\nfrom bench.fizzbuzz import torch_compile_epoch\n"
# Peers do what wyrm does: one step, or a whole epoch.
_PEERS = {
    "fizzbuzz": {
        "jax": _PROGRAM.format(step="from bench.fizzbuzz import jax_step\njax_step()()"),
        "torch.compile": _PROGRAM.format(step=f"{_TORCH}torch_compile_epoch(32)()"),
    },
    "fizzbuzz, an epoch": {
        "jax": _PROGRAM.format(step="from bench.fizzbuzz import jax_epoch\njax_epoch()()"),
        "torch.compile": _PROGRAM.format(step=f"{_TORCH}torch_compile_epoch()()"),
    },
}
_PROGRAMS = {
    "fizzbuzz": _PROGRAM.format(
        step="from bench.models import FizzBuzz, fizzbuzz\n"
        "from bench.fizzbuzz import HIDDEN\n"
        "FizzBuzz(HIDDEN).epoch(*(column[:32] for column in fizzbuzz()))"
    ),
    "fizzbuzz, an epoch": _PROGRAM.format(
        step="from bench.models import FizzBuzz, fizzbuzz\nfrom bench.fizzbuzz import HIDDEN\n"
        "FizzBuzz(HIDDEN).epoch(*fizzbuzz())"
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


# The most seconds with an empty and with a warm cache.
_MOST = {
    "fizzbuzz": (0.5, 0.2), "bpr": (1.2, None), "vae": (3.0, None), "cnn": (3.0, None), "gnn": (3.0, None),
    "char_lstm": (5.0, None), "encoder": (5.0, None), "gpt2, default": (6.0, None), "gpt2, 124M": (3.0, 1.5),
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
        ours, peers = {"wyrm": partial(empty_cache, code)}, _PEERS.get(name, {})
        theirs: dict[str, Contender] = {peer: partial(empty_cache, each) for peer, each in peers.items()}
        empty, warm = _MOST.get(name, (None, None))
        found.append(
            Case("first_step", f"{name}, empty cache", ours | theirs, rounds=5, most=empty,
                 slow=("torch.compile",) if peers else ())
        )  # fmt: skip
        warmed: dict[str, Contender] = {"wyrm": partial(warm_cache, code)}
        found.append(Case("first_step", f"{name}, warm cache", warmed, rounds=5, most=warm))
    deep: dict[str, Contender] = {
        "wyrm" if count == 24 else f"wyrm, {count} layers": partial(empty_cache, _LAYERS[count]) for count in (24, 6)
    }
    found.append(Case("first_step", "gpt2, 24 layers, empty cache", deep, rounds=5, floors={"wyrm, 6 layers": 0.91}))
    second: dict[str, Contender] = {"wyrm": partial(empty_cache, _SECOND)}
    return [*found, Case("first_step", "predict after training", second, rounds=5, most=0.3)]
