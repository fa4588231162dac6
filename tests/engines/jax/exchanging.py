"""Trains on eight simulated devices that exchange by pairs, as processes on CPUs do, and writes JSON.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m tests.engines.jax.exchanging
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import numpy as np

import wyrm as wy
from wyrm.engines.jax import divided_tables, exchanges, partial_sums
from wyrm.engines.jax.collectives import collectives


class Batch(wy.Dim): ...


class Items(wy.Dim): ...


class Factors(wy.Dim): ...


# What the devices divide.
DIVIDED: dict[str, Any] = {"rows": Batch, "dense": Batch, "columns": Factors}


def model(kind: str) -> tuple[Any, dict[Any, np.ndarray]]:
    """Return a loss whose gradients are rows of a table, or dense, or columns of a table that devices own; and data."""
    wy.nn.seed(0)
    draw = np.random.default_rng(0)
    batch = Batch()
    if kind != "dense":
        table = wy.nn.Embedding(Items(50), Factors(8))
        first, second = wy.IndexInput(dims=(batch,), name="first"), wy.IndexInput(dims=(batch,), name="second")
        columns: dict[Any, np.ndarray] = {leaf: draw.integers(0, 50, 96) for leaf in (first, second)}
        negative = wy.random.index(Items(50), (batch,), seed=1)
        difference = table(first).vector_dot(table(second)) - table(first).vector_dot(table(negative))
        return -difference.sigmoid().mean(), columns
    x = wy.Input(dims=(batch, 6), name="x")
    return wy.nn.Linear(6, 5)(x).tanh().square().mean(), {x: draw.normal(size=(96, 6)).astype(np.float32)}


def trained(kind: str, devices: int) -> dict[str, Any]:
    """Return the losses of two epochs, the parameters on the first and the last device, and the collectives."""
    loss, columns = model(kind)
    options: dict[str, Any] = {}
    if devices > 1:
        options = {"mesh": jax.make_mesh((devices,), ("data",)), "sharding": {DIVIDED[kind]: "data"}}
    program: Any = wy.compile(loss, wy.optim.Adagrad(loss.parameters(), 0.1), engine="jax", **options)
    losses = [float(program.epoch(columns, batch_size=24)) for _ in range(2)]
    arrays = program._engine.state.state().values
    shards = [[np.asarray(shard.data) for shard in array.addressable_shards] for array in arrays]
    own_columns = kind == "columns"
    assert own_columns or all(np.array_equal(shard, each[0]) for each in shards for shard in each), "devices differ"
    code = program.stages()["optimized"] if devices > 1 else ""
    return {
        "losses": losses,
        "parameters": [leaf.value.tolist() for leaf in program.trained],
        "collectives": [each.kind for each in collectives(code)] if code else [],
        "summing": [line.split(" = ")[0].strip() for line in code.splitlines() if "/gradients:sum/" in line],
    }


def main() -> None:
    found = {}
    for pairs in (False, True):
        for module in (divided_tables, partial_sums) if pairs else ():
            module.exchanges = _as_processes  # type: ignore[attr-defined]  # simulated devices are one process
        for kind in DIVIDED:
            for devices in (2, 4, 8) if pairs else (1, 2, 4, 8):
                found[f"{kind} {devices} {'pairs' if pairs else 'XLA'}"] = trained(kind, devices)
    json.dump(found, sys.stdout)


def _as_processes(sharding: Any, mesh_axes: Any, *, sums: bool = False) -> bool:
    exchanges.on_processes_of_cpus = lambda mesh: True  # type: ignore[assignment]  # for the rest of the decision
    return exchanges.exchanges(sharding, mesh_axes, sums=sums)


if __name__ == "__main__":
    main()
