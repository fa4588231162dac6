"""Trains a table whose rows eight simulated devices draw, saves and restores it, and writes what the host had as JSON.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m tests.engines.jax.first_values
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

import jax
import numpy as np

import wyrm as wy
from wyrm.graph.storage import FirstValues, Undrawn

ROWS, WIDTH = 40_003, 24


class Batch(wy.Dim): ...


class Items(wy.Dim): ...


def training(seed: int) -> Any:
    """Return a program with a table whose rows the devices divide, and its table."""
    table = wy.nn.Embedding(Items(ROWS), WIDTH, seed=seed).weight
    items = wy.IndexInput(dims=(Batch(),), name="items")
    loss = (table.index(items) - 1.0).square().mean()
    options: dict[str, Any] = {"mesh": jax.make_mesh((8,), ("data",)), "sharding": {Batch: "data", Items: "data"}}
    return table, wy.compile(loss, wy.optim.Adam([table], 0.1), engine="jax", **options)


def main() -> None:
    wholes, drawn = [0], list[int]()
    whole, rows = FirstValues.__call__, Undrawn.rows

    def counted(self: FirstValues) -> None:
        wholes[0] += 1
        whole(self)

    def recorded(self: Undrawn, low: int, high: int) -> np.ndarray:
        drawn.append(high - low)
        return rows(self, low, high)

    setattr(FirstValues, "__call__", counted)  # noqa: B010
    setattr(Undrawn, "rows", recorded)  # noqa: B010
    table, program = training(5)
    shards = [np.asarray(each.data) for each in program._engine.state.values()[0].addressable_shards]
    data = {"items": np.arange(64) * 600}
    losses = [float(program(data)) for _ in range(2)]
    other, restored = training(6)
    with tempfile.TemporaryDirectory() as folder:
        wy.jax.save(program, folder)
        before = len(drawn)
        wy.jax.restore(restored, folder)
    found = {"wholes": wholes[0], "drawn": drawn, "drawn by restore": len(drawn) - before}
    first = training(5)[0].value
    found["equal"] = bool(np.array_equal(np.concatenate(shards)[:ROWS], first))
    found["padding"] = float(np.abs(np.concatenate(shards)[ROWS:]).sum())
    found["losses"] = [losses, [float(restored(data)), float(program(data))]]
    found["trained"] = bool(np.array_equal(table.value, other.value)) and bool((table.value != first).any())
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
