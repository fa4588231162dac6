"""Programs in new processes, each beside the same program in PyTorch or JAX: training, compilation included."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial

from bench.first_step import empty_cache, warm_cache
from bench.harness import Case, Contender, Measurement

# Those that `--quick` takes: one beside each peer.
QUICK = ("autoencoder", "pendulum")
# Each program of `bench/pairs` with the library of its peer.
PEERS = {
    "autoencoder": "torch",
    "bandit": "jax",
    "convolutions": "torch",
    "dates": "torch",
    "gaussian_process": "jax",
    "graph_network": "torch",
    "pendulum": "jax",
    "resnet": "torch",
    "two_towers": "torch",
}
_TRAINING = """
import json, os, sys, time
os.environ["WYRM_CACHE_DIR"] = sys.argv[1]
from bench.pairs.{module} import train
start = time.perf_counter()
train()
print(json.dumps({{"seconds": time.perf_counter() - start}}))
"""


def _peer(library: str, code: str) -> Callable[[], Measurement]:
    if importlib.util.find_spec(library) is None:
        raise ImportError(name=library)
    return empty_cache(code)


def cases() -> list[Case]:
    """Each program with an empty cache, with a warm cache, and in its peer."""
    found = []
    for program, library in PEERS.items():
        ours, theirs = (_TRAINING.format(module=f"{program}_{each}") for each in ("wyrm", library))
        contenders: dict[str, Contender] = {
            "wyrm": partial(empty_cache, ours),
            "wyrm, warm cache": partial(warm_cache, ours),
            library: partial(_peer, library, theirs),
        }
        found.append(Case("programs_beside", program.replace("_", " "), contenders, rounds=3, quick=program in QUICK))
    return found
