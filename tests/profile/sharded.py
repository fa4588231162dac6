"""Profiles a training on eight simulated devices, and writes what it finds as JSON.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m tests.profile.sharded
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import jax
import numpy as np

import wyrm as wy


class Batch(wy.Dim): ...


class Model(wy.nn.Module):
    def __init__(self) -> None:
        self.first, self.out = wy.nn.Linear(16, 32), wy.nn.Linear(32, 5)

    def __call__(self, x: Any) -> Any:
        return self.out(self.first(x).tanh())


def main() -> None:
    batch, draw = Batch(), np.random.default_rng(0)
    x, labels = wy.Input(dims=(batch, 16), name="x"), wy.IndexInput(dims=(batch,), name="labels")
    loss = Model()(x).cross_entropy(labels)
    mesh = jax.make_mesh((8,), ("data",))
    optimizer = wy.optim.SGD(loss.parameters(), 0.1)
    program = wy.compile(loss, optimizer, engine="jax", mesh=mesh, sharding={Batch: "data"})
    columns: dict[Any, Any] = {x: draw.normal(size=(192, 16)).astype(np.float32), labels: draw.integers(0, 5, 192)}
    peaks = wy.profile.Peaks((1e11, 2e11), (5e10, 1e11), (1e10, 1.5e10), threads=2)
    profile = program.profile(columns, batch_size=64, steps=3, peaks=peaks)
    found = {
        "devices": profile.threads,
        "text": str(profile),
        "collectives": [asdict(stage) for stage in profile.stages if stage.kind == "collective"],
        "products": [asdict(stage) for stage in profile.stages if stage.kind == "product"],
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
