"""Two tables that several processes train, in each way that they can divide them; `process_worker` runs it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

import wyrm as wy


class Batch(wy.Dim): ...


class Users(wy.Dim): ...


class Items(wy.Dim): ...


class Factors(wy.Dim): ...


USERS, ITEMS, WIDTH = 21, 35, 4
BATCH, BATCHES, LOCAL_STEPS = 16, 8, 4
RATE, START = 0.1, 0.1


class Way(NamedTuple):
    """The axes that processes divide, the steps between averages, and the batches of a step."""

    axes: tuple[type[wy.Dim], ...] = ()
    local_steps: int = 1
    accumulate: int = 1


WAYS = {
    "batch": Way((Batch,)),
    "columns": Way((Factors,)),
    "rows": Way((Items, Batch)),
    "local steps": Way((Batch,), local_steps=LOCAL_STEPS),
    "accumulated": Way((Batch,), accumulate=2),
    "accumulated rows": Way((Items, Batch), accumulate=2),
}


def columns() -> dict[str, np.ndarray]:
    """Return pairs of users and items, of which a few are frequent, and their ratings."""
    random, rows = np.random.default_rng(0), BATCH * BATCHES
    users, items = (np.minimum(random.zipf(1.3, rows), count) - 1 for count in (USERS, ITEMS))
    return {"users": users, "items": items, "ratings": random.normal(size=rows).astype(np.float32)}


def tables() -> list[np.ndarray]:
    """Return the tables before training."""
    random = np.random.default_rng(1)
    return [random.normal(size=(count, WIDTH)).astype(np.float32) for count in (USERS, ITEMS)]


def compiled(way: Way) -> Any:
    """Return a program that trains the tables; on a mesh of all devices if the way divides something."""
    batch, width = Batch(), Factors(WIDTH)
    of_users, of_items = (
        wy.Parameter(values, (axis, width), name=name)
        for values, axis, name in zip(tables(), (Users(USERS), Items(ITEMS)), ("of_users", "of_items"), strict=True)
    )
    user, item = (wy.IndexInput(dims=(batch,), name=name) for name in ("users", "items"))
    rating = wy.Input(dims=(batch,), name="ratings")
    loss = (of_users.index(user).vector_dot(of_items.index(item)) - rating).square().mean()
    optimizer = wy.optim.Adagrad([of_users, of_items], RATE, initial_accumulator=START)
    where: dict[str, Any] = {}
    if way.axes:
        mesh = jax.make_mesh((len(jax.devices()),), ("data",))
        where = {"mesh": mesh, "sharding": dict.fromkeys(way.axes, "data"), "local_steps": way.local_steps}
    return wy.compile(loss, optimizer, engine="jax", **where)


def values(program: Any) -> list[Any]:
    """Return the tables of a program, which all processes have afterwards."""
    wy.jax.gather(program)
    return [parameter.value.tolist() for parameter in program.trained]


def trained(way: Way) -> tuple[Any, dict[str, Any]]:
    """Return a program after an epoch, the mean loss and the tables."""
    program = compiled(way)
    loss = program.epoch(columns(), batch_size=BATCH, accumulate=way.accumulate)
    return program, {"loss": loss, "values": values(program)}


def found(folder: str) -> dict[str, Any]:
    """Return what each way finds; of tables by rows also a checkpoint in `folder` that later steps overtake."""
    result: dict[str, Any] = {}
    for name, way in WAYS.items():
        program, result[name] = trained(way)
        if name == "rows":
            result["suggestion"] = program.sharding.suggestion
            wy.jax.save(program, folder, wait=False)
            program.epoch(columns(), batch_size=BATCH)
            result["later"] = values(program)
            wy.jax.restore(program, folder)
            result["restored"] = values(program)
    return result


def of_local_steps(processes: int) -> dict[str, Any]:
    """Return the mean loss and the tables of local steps, by NumPy."""
    data, start, losses = columns(), tables(), []
    copies = [[table.copy() for table in start] for _ in range(processes)]
    totals = [[np.full_like(table, START) for table in start] for _ in range(processes)]
    last = [[table.copy() for table in copies[0]], [table.copy() for table in totals[0]]]
    for step in range(BATCHES):
        for process, (own, own_totals) in enumerate(zip(copies, totals, strict=True)):
            share = BATCH // processes
            rows = slice(step * BATCH + process * share, step * BATCH + (process + 1) * share)
            user, item, rating = (data[name][rows] for name in ("users", "items", "ratings"))
            error = (own[0][user] * own[1][item]).sum(1) - rating
            losses.append((error**2).mean())
            slopes = 2.0 * error[:, None] * own[1][item] / share, 2.0 * error[:, None] * own[0][user] / share
            for table, total, index, slope in zip(own, own_totals, (user, item), slopes, strict=True):
                gradient = np.zeros_like(table)
                np.add.at(gradient, index, slope)
                total += gradient**2
                table -= RATE * gradient / np.sqrt(total)
        if step % LOCAL_STEPS == LOCAL_STEPS - 1:
            for before, now in zip(last, (copies, totals), strict=True):
                for i, table in enumerate(before):
                    changes = np.stack([each[i] - table for each in now])
                    moved = (changes != 0).any(axis=2).sum(axis=0)
                    table += changes.sum(axis=0) / np.maximum(moved, 1)[:, None]
                    for each in now:
                        each[i][:] = table
    return {"loss": np.mean(losses), "values": [table.tolist() for table in copies[0]]}
