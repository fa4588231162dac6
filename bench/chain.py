"""Chains of up to 100,000 nodes: time of forward and backward, and peak memory, which should grow linearly."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.harness import Case, Measurement, in_new_process

_PROGRAM = """
import json, re, sys, time
import numpy as np
count = int(sys.argv[1])
{prepare}
start = time.perf_counter()
h = weight
for i in range(count):
    h = h * 0.999 if i % 2 else h + weight
loss = h.sum()
{run}
seconds = time.perf_counter() - start
# Not getrusage: after a fork its maximum includes the parent's.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
print(json.dumps({{"seconds": seconds / count, "peak_bytes": peak}}))
"""
_WYRM = _PROGRAM.format(
    prepare="import wyrm as wy\nweight = wy.Parameter(np.ones(16, np.float32))", run="loss.forward()\nloss.backward()"
)
_TORCH = _PROGRAM.format(
    prepare="import torch\ntorch.set_num_threads(1)\nweight = torch.ones(16, requires_grad=True)", run="loss.backward()"
)


def _once(code: str, count: int) -> Callable[[], Measurement]:
    return lambda: in_new_process(code, str(count))


def _torch(count: int) -> Callable[[], Measurement]:
    import torch  # noqa: F401  # an ImportError skips the contender

    return _once(_TORCH, count)


def cases() -> list[Case]:
    """Build, forward and backward of one chain in a fresh process, per node."""
    return [
        Case(
            "chain",
            f"build + forward + backward, per node of {count:,}",
            {"wyrm": partial(_once, _WYRM, count), "torch eager": partial(_torch, count)},
            goal="memory linear",
            rounds=5,
            most=20e-6,
            quick=count == 25_000,
            floors={"torch eager": 0.9},
        )
        for count in (25_000, 50_000, 100_000)
    ]
