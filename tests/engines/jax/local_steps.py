"""Trains with local steps on simulated devices, and writes what it finds as JSON.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m tests.engines.jax.local_steps
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import numpy as np

import wyrm as wy
from wyrm.engines.jax.compiled import collectives


class Batch(wy.Dim): ...


class Factors(wy.Dim): ...


DEVICES, STEPS, ROWS = 2, 3, 4
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(56, 3)).astype(np.float32), RANDOM.normal(size=56).astype(np.float32)
# Rows of a table: 0 and 1 are those of each device alone, 2 that of both.
TOUCHED = np.array([[0, 2, 2, 0], [1, 1, 2, 1]])


def compiled(loss: Any, optimizer: Any, steps: int = STEPS, **options: Any) -> Any:
    where = {"mesh": jax.make_mesh((DEVICES,), ("data",), devices=jax.devices()[:DEVICES]), "sharding": {Batch: "data"}}
    return wy.compile(loss, optimizer, engine="jax", **where, local_steps=steps, **options)


def dense() -> dict[str, Any]:
    """Return the mean loss, the parameter and what the devices send in an epoch of seven batches of eight rows."""
    x, y = wy.Input(dims=(Batch(), 3), name="x"), wy.Input(dims=(Batch(),), name="y")
    weight = wy.Parameter(np.zeros(3, np.float32), name="weight")
    program = compiled((x @ weight - y).square().mean(), wy.optim.SGD([weight], 0.1, momentum=0.5))
    loss = program.epoch({x: X, y: Y}, batch_size=DEVICES * ROWS)
    return {"loss": loss, "value": weight.value.tolist(), "sent": collectives(program.stages()["optimized"])}


def sparse() -> list[list[float]]:
    """Return a table after an epoch of one batch, of which the devices touch different rows."""
    table = wy.Parameter(np.ones((4, 1), np.float32), (4, Factors(1)), name="table")
    index = wy.IndexInput(dims=(Batch(),), name="index")
    program = compiled(table.index(index).sum(-1).mean(), wy.optim.SGD([table], 1.0))
    program.epoch({index: np.concatenate([TOUCHED.reshape(-1)] * 2)}, batch_size=DEVICES * ROWS)
    value: list[list[float]] = table.value.tolist()
    return value


def stopped(which: str) -> tuple[str, list[float]]:
    """Return the error of an epoch whose fifth step fails on the second device, and the parameter after it."""
    x, index = wy.Input(dims=(Batch(),), name="x", finite=False), wy.IndexInput(dims=(Batch(),), name="index")
    weight = wy.Parameter(np.zeros(5, np.float32), name="weight")
    program = compiled((weight.index(index + 1) * x).mean(), wy.optim.SGD([weight], 1.0))
    values, rows = np.ones(48, np.float32), np.zeros(48, np.int64)
    if which == "infinite":
        values[4 * 8 + 6] = np.inf
    else:
        rows[4 * 8 + 6] = 4
    try:
        program.epoch({x: values, index: rows}, batch_size=DEVICES * ROWS)
    except wy.WyrmError as error:
        return f"{type(error).__name__}: {error}", weight.value.tolist()
    return "", []


def drawn() -> list[list[float]]:
    """Return the means of draws of one step on the devices, as the change of a parameter for each half of a batch."""
    halves, scale = wy.Input(dims=(Batch(), 2), name="halves"), wy.Parameter(np.zeros(2, np.float32), name="scale")
    noise = wy.random.normal((Batch(), 2))
    program = compiled((noise * halves * scale).sum(-1).mean(), wy.optim.SGD([scale], 1.0), steps=2)
    data = np.repeat(np.eye(2, dtype=np.float32), ROWS, axis=0)  # rows of the first device, then of the second
    program.epoch({halves: np.concatenate([data, data])}, batch_size=DEVICES * ROWS)
    value: list[list[float]] = scale.value.tolist()
    return value


def refused() -> list[str]:
    """Return the errors of options that do not fit."""
    x, y = wy.Input(dims=(Batch(), 4), name="x"), wy.Input(dims=(Batch(),), name="y")
    weight = wy.Parameter(np.zeros(4, np.float32), (Factors(4),), name="weight")
    loss, found = (x @ weight - y).square().mean(), []
    mesh = jax.make_mesh((DEVICES,), ("data",), devices=jax.devices()[:DEVICES])
    on_mesh = [{Factors: "data", Batch: "data"}, {}]
    options: list[dict[str, Any]] = [{"mesh": mesh, "sharding": axes, "local_steps": 2} for axes in on_mesh]
    options += [{"local_steps": 2}, {"local_steps": 0}]
    for each in options:
        try:
            wy.compile(loss, wy.optim.SGD([weight], 0.1), engine="jax", **each)
        except wy.WyrmError as error:
            found.append(str(error))
    try:
        compiled(loss, wy.optim.SGD([weight], 0.1)).epoch({x: np.ones((8, 4)), y: np.ones(8)}, accumulate=2)
    except wy.WyrmError as error:
        found.append(str(error))
    return found


def main() -> None:
    found = {
        "dense": dense(), "sparse": sparse(), "drawn": drawn(), "refused": refused(),
        "stopped": {which: stopped(which) for which in ("infinite", "outside")},
    }  # fmt: skip
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
