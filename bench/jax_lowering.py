"""Seconds until JAX has a graph of 1,000 nodes: `python -m bench.jax_lowering`.

It times `wy.jax.lower`, JAX's tracing of the function, and the lowering to StableHLO; each is the best of 5.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import numpy as np

import wyrm as wy
from wyrm.graph.schedule import Schedule

LAYERS = 142


def graph() -> tuple[Any, Any]:
    """Return a loss of about 1,000 nodes, and its input."""
    x: Any = wy.Input(dims=(wy.Dim(), 8), name="x")
    y: Any = x
    for _ in range(LAYERS):
        weight = wy.Parameter(np.eye(8, dtype=np.float32) * 0.5)
        y = (y @ weight + 1.0).tanh() * 0.5 + y.relu()
    return y.sum(), x


def main() -> None:
    """Print the seconds of the three stages."""
    loss, x = graph()
    data = np.ones((2, 8), np.float32)
    best = [float("inf")] * 3
    for _ in range(5):
        start = time.perf_counter()
        function, parameters = wy.jax.lower(loss, inputs=[x])
        lowered = time.perf_counter()
        traced = jax.jit(function).trace(parameters, data)
        done = time.perf_counter()
        traced.lower()
        seconds = lowered - start, done - lowered, time.perf_counter() - done
        best = [min(pair) for pair in zip(best, seconds, strict=True)]
    print(
        f"{len(Schedule([loss]).nodes)} nodes: lower {best[0]:.3f} s, trace {best[1]:.3f} s, StableHLO {best[2]:.3f} s"
    )


if __name__ == "__main__":
    main()
