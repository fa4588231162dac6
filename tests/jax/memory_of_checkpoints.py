"""Makes, saves and restores a table and its state on eight simulated devices; writes the host's memory as JSON.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m tests.jax.memory_of_checkpoints

The devices' memory is the host's, so that the table itself is part of every number.
"""

from __future__ import annotations

import gc
import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import wyrm as wy

WIDTH, DEVICES = 64, 8
# Shards that the allocator of C gives back to the system at once.
SHARD_BYTES = 40_960_000
ROWS = DEVICES * SHARD_BYTES // (4 * WIDTH)


class Batch(wy.Dim): ...


class Items(wy.Dim): ...


def training(seed: int, rows: int = ROWS) -> Any:
    """Return a program with a table whose rows the devices divide, and two states that do not begin with zeros."""
    table = wy.nn.Embedding(Items(rows), WIDTH, seed=seed).weight
    items = wy.IndexInput(dims=(Batch(),), name="items")
    loss = (table.index(items) - 1.0).square().mean()
    options: dict[str, Any] = {"mesh": jax.make_mesh((DEVICES,), ("data",)), "sharding": {Batch: "data", Items: "data"}}
    optimizer = wy.optim.Adagrad([table], 0.1, initial_accumulator=0.1, average=wy.optim.EMA(0.9))
    return wy.compile(loss, optimizer, engine="jax", **options)


def memory(what: str) -> int:
    """Return a number of bytes of this process: `VmRSS` of its memory, `VmHWM` of the most since `peak` began."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) * 1024


def peak(work: Callable[[], object]) -> tuple[int, int]:
    """Return the bytes before some work, and the most while it ran."""
    gc.collect()
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    work()
    return before, memory("VmHWM")


def trained(folder: str, data: dict[str, np.ndarray]) -> tuple[dict[str, tuple[int, int]], list[float]]:
    """Return the memory while a table is made and saved between two steps, and the losses of these."""
    program = training(2)
    found = {"creation": peak(lambda: jax.block_until_ready(program._engine.state.state()))}
    losses = [float(program(data))]
    found["save"] = peak(lambda: wy.jax.save(program, folder))
    return found, [*losses, float(program(data))]


def main() -> None:
    data = {"items": np.arange(64)}
    with tempfile.TemporaryDirectory() as folder:
        small = training(1, 80_000)
        small(data)
        wy.jax.save(small, f"{folder}/small")
        wy.jax.restore(small, f"{folder}/small")
        found, losses = trained(f"{folder}/large", data)
        program = training(3)
        found["restore"] = peak(lambda: wy.jax.restore(program, f"{folder}/large"))
        equal = float(program(data)) == losses[1] != losses[0]
    json.dump({**found, "equal": equal}, sys.stdout)


if __name__ == "__main__":
    main()
