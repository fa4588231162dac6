"""Trains on eight simulated devices that exchange rows and sums, and writes JSON.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m tests.engines.jax.exchanging
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import jax
import numpy as np

import wyrm as wy
from wyrm.engines.jax.compiled import collectives


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


def ready() -> list[int]:
    """Return, for the sum of each gradient of a deep network over the devices, how many products it waits for."""
    wy.nn.seed(0)
    x = wy.Input(dims=(Batch(), 6), name="x")
    layers = [wy.nn.Linear(6, 6, bias=False) for _ in range(3)]
    y: Any = x
    for layer in layers:
        y = layer(y).tanh()
    sharding: dict[type[wy.Dim], str] = {Batch: "data"}
    loss, mesh = y.square().mean(), jax.make_mesh((8,), ("data",))
    program: Any = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1), engine="jax", mesh=mesh, sharding=sharding)
    program({x: np.ones((24, 6), np.float32)})
    # What each value of the main computation is computed from, and by which operation, before XLA changes anything.
    text = program._engine.compiled.lowered().as_text(dialect="hlo").partition("ENTRY ")[2]
    lines = re.findall(r"^ *(?:ROOT )?(\S+) = \S+ ([\w-]+)\((.*)$", text, re.MULTILINE)
    before = {name: (kind, re.findall(r"[\w.-]+", rest.partition(")")[0])) for name, kind, rest in lines}

    def products(name: str, seen: set[str]) -> int:
        if name in seen or name not in before:
            return 0
        seen.add(name)
        kind, operands = before[name]
        return (kind == "dot") + sum(products(operand, seen) for operand in operands)

    summed = [name for name, kind, rest in lines if kind == "reduce" and "dimensions={0}" in rest]
    return sorted(products(name, set()) for name in summed)


def main() -> None:
    found: dict[str, Any] = {"ready": ready()}
    found |= {f"{kind} {devices}": trained(kind, devices) for kind in DIVIDED for devices in (1, 2, 4, 8)}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
