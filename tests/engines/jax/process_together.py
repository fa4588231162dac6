"""What several processes decide together, and what one of them does alone; `process_worker` runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import jax
import numpy as np

import wyrm as wy
from tests.engines.test_ragged_epochs import Batch as Bags
from tests.engines.test_ragged_epochs import Problem
from wyrm.engines.jax.processes import _processes
from wyrm.errors import IndexOutOfRange, OptionError, WyrmError
from wyrm.io import Checkpoints
from wyrm.train import Checkpoint, EarlyStopping, fit

ITEMS, WIDTH, ROWS, BATCH = 8, 4, 16, 4


class Batch(wy.Dim): ...


class Items(wy.Dim): ...


def training(mesh: Any = None) -> tuple[Any, Any, Any]:
    """Return a table whose rows the processes divide, the program that trains it, and its input of rows."""
    start = np.random.default_rng(0).normal(size=(ITEMS, WIDTH)).astype(np.float32)
    table = wy.Parameter(start, (Items(ITEMS), WIDTH), name="table")
    items, wanted = wy.IndexInput(dims=(Batch(),), name="items"), wy.Input(dims=(Batch(),), name="wanted")
    loss = (table.index(items).sum(axis=1) - wanted).square().mean()
    mesh = mesh or jax.make_mesh((len(jax.devices()),), ("data",))
    sharding: dict[type[wy.Dim], str] = {Batch: "data", Items: "data"}
    return table, wy.compile(loss, wy.optim.Adam([table], 0.1), engine="jax", mesh=mesh, sharding=sharding), items


def columns() -> dict[str, np.ndarray]:
    return {"items": np.arange(ROWS) % ITEMS, "wanted": np.ones(ROWS, np.float32)}


def of_an_index(folder: str) -> dict[str, Any]:
    """Return what is raised where only the last process has an index out of range, and whether anything moved."""
    table, program, items = training()
    wy.jax.gather(program)
    before, errors, data = table.value.copy(), list[str](), columns()
    part = wy.jax.part_of_process(program, items)
    if part.index == part.count - 1:
        data["items"][[BATCH - 1, ROWS - 1]] = 99

    def batches() -> Iterator[dict[str, np.ndarray]]:
        for start in range(0, ROWS, BATCH):
            rows = slice(start, start + BATCH)
            yield {name: column[rows][part.rows(BATCH)] for name, column in data.items()}

    for given, options in ((batches(), {}), (data, {"batch_size": BATCH})):
        try:
            program.epoch(given, **options)
        except IndexOutOfRange as error:
            errors.append(str(error))
    wy.jax.gather(program)
    return {"errors": errors, "moved": bool((table.value != before).any())}


def of_loaders(folder: str) -> dict[str, Any]:
    """Return what loaders find on a mesh whose devices alternate between the processes, and what short ones raise."""
    data = columns() | {"wanted": np.arange(ROWS, dtype=np.float32)}
    devices = np.array(jax.devices()).reshape(jax.process_count(), -1).T.reshape(-1)
    mesh = jax.sharding.Mesh(devices, ("data",))
    _, program, items = training(mesh)
    part = wy.jax.part_of_process(program, items)

    def batches(rows: int, part_rows: Any) -> Iterator[dict[str, np.ndarray]]:
        for start in range(0, rows, BATCH):
            yield {name: column[start : start + BATCH][part_rows] for name, column in data.items()}

    found: dict[str, Any] = {"of a loader": [program.epoch(batches(ROWS, part.rows(BATCH))) for _ in range(2)]}
    _, program, _ = training(mesh)
    found["of columns"] = [program.epoch(data, batch_size=BATCH) for _ in range(2)]
    # Batches of another size begin another chunk.
    more = [{name: column[:BATCH] for name, column in data.items()}] * (jax.process_index() == 0)
    for name, given in (
        ("other lengths", chain(batches(ROWS, part.rows(BATCH)), more)),
        ("other numbers of rows", batches(ROWS, slice(0, 2 + 2 * (jax.process_index() == 1)))),
        ("rows that devices do not divide", batches(ROWS, slice(0, 1))),
    ):
        try:
            program.epoch(given)
        except WyrmError as error:
            found[name] = f"{type(error).__name__}: {error}"
    own = np.arange(BATCH)[part.rows(BATCH)].tolist()
    (Path(folder) / f"rows-{jax.process_index()}.txt").write_text(str(own), encoding="utf-8")
    return found


def of_fit(folder: str) -> dict[str, Any]:
    """Return the history of a training that stops early, is saved, and goes on; and how often this process wrote."""
    written, write = [0], Checkpoints._write

    def counted(*arguments: Any) -> None:
        written[0] += 1
        write(*arguments)

    setattr(Checkpoints, "_write", counted)  # noqa: B010  # no other method counts
    if jax.process_index():  # others may see the files late
        setattr(Checkpoints, "latest", lambda self: None)  # noqa: B010
    found: list[Any] = []
    for epochs in (3, 12):
        table, program, _ = training()
        callbacks = [EarlyStopping(patience=1), Checkpoint(folder, every_seconds=0.0, resume=True, keep_last=100)]
        history = fit(program, columns(), epochs=epochs, batch_size=BATCH, callbacks=callbacks)
        wy.jax.gather(program)
        found.append([history.stopped, dict(history), table.value.tolist()])
    process = jax.process_index()
    (Path(folder) / f"written-{process}.txt").write_text(str(written[0]), encoding="utf-8")
    return {"trainings": found}


def of_watched_fit(folder: str) -> dict[str, Any]:
    """Return the history of a training that is watched and shows bars; of which bars and runs, each process tells."""
    _, program, _ = training()
    run = Path(folder) / f"run-{jax.process_index()}"
    history = fit(program, columns(), epochs=3, batch_size=BATCH, progress=True, watch=run)
    mean = program.epoch(columns(), batch_size=BATCH, progress=True)
    means = [mean, program.epoch([columns_of_process(program)], progress=True)]
    return {"stopped": history.stopped, "history": dict(history), "means": means}


def columns_of_process(program: Any) -> dict[str, np.ndarray]:
    """Return the part of this process of all rows."""
    rows = wy.jax.part_of_process(program).rows(ROWS)
    return {name: column[rows] for name, column in columns().items()}


def of_one_left(folder: str) -> dict[str, Any]:
    """Return what the first process computes once all others have left."""
    _, program, _ = training()
    program.epoch(columns(), batch_size=BATCH)
    x = wy.Input(dims=(3,), name="x")
    alone = wy.compile((x * 2.0).sum(), engine="jax")
    while jax.process_index() == 0 and not _processes._left:
        time.sleep(0.05)
    return {"sum": float(alone({x: np.ones(3)})), "jax": float(jax.numpy.ones(3).sum())}


def of_ragged_rows(folder: str) -> dict[str, Any]:
    """Return the parameters after epochs on rows of different lengths, and what loaders and other lengths raise."""
    problem = Problem()
    mesh = jax.make_mesh((len(jax.devices()),), ("data",))
    program: Any = wy.compile(problem.loss, problem.optimizer, engine="jax", mesh=mesh, sharding={Bags: "data"})
    program.epoch(problem.data, batch_size=8)
    program.epoch(problem.data, batch_size=8, accumulate=3)
    wy.jax.gather(program)
    found: dict[str, Any] = {"values": [value.tolist() for value in problem.values]}
    mine = {leaf: column[jax.process_index() :: jax.process_count()] for leaf, column in problem.data.items()}
    given: dict[str, Any] = {
        "a loader": [{leaf: column[:4] for leaf, column in mine.items()}],
        "other lengths": problem.data | {leaf: mine[leaf] * 2 for leaf in (problem.ids, problem.weights)},
    }
    given["other lengths"][problem.labels] = np.zeros(len(given["other lengths"][problem.ids]), np.int64)
    for name, data in given.items():
        try:
            program.epoch(data, **({} if isinstance(data, list) else {"batch_size": 8}))
        except OptionError as error:
            found[name] = str(error)
    return found


def of_an_index_in_a_loop(folder: str) -> dict[str, Any]:
    """Return what a call and an epoch raise where a loop has an index out of range."""
    table = wy.Parameter(np.ones((ITEMS, WIDTH), np.float32), name="table")
    items = wy.IndexInput(dims=(Batch(), 3), name="items")
    first: Any = table.index(items[:, 0])
    last, _ = wy.scan(lambda h, i: (h + table.index(i + 2), None), first, items.T)
    mesh = jax.make_mesh((len(jax.devices()),), ("data",))
    program: Any = wy.compile(
        last.square().mean(), wy.optim.SGD([table], 0.01), engine="jax", mesh=mesh, sharding={Batch: "data"}
    )
    errors, data = [], np.zeros((ROWS, 3), int)
    data[-1, 1] = ITEMS - 1
    steps: list[Callable[[], Any]] = [
        lambda: program({items: data}), lambda: program.epoch({items: data}, batch_size=BATCH)
    ]  # fmt: skip
    for train in steps:
        try:
            train()
        except WyrmError as error:
            errors.append(f"{type(error).__name__}: {str(error).removeprefix('on process 0: ')}")
    return {"errors": errors}


def of_other_data(folder: str) -> dict[str, Any]:
    """Return what calls, evaluations and backward passes raise on data that the last process alone has."""
    _, program, _ = training()
    forward = wy.compile(
        program.outputs[0], engine="jax", mesh=jax.make_mesh((len(jax.devices()),), ("data",)), sharding={Batch: "data"}
    )
    errors, data = [], columns()
    wrong = columns()
    if jax.process_index() == jax.process_count() - 1:
        data["wanted"][3] = 2.0
        wrong["items"][3] = ITEMS
    for given in (data, wrong):
        for use in (program, forward, program.evaluate, program.backward):
            try:
                use(given)
                errors.append("")
            except WyrmError as error:
                errors.append(f"{type(error).__name__}: {str(error).removeprefix('on process 1: ')}")
    forward(columns())
    return {"errors": errors}


FOUND = {
    "an index": of_an_index, "loaders": of_loaders,
    "an index in a loop": of_an_index_in_a_loop, "other data": of_other_data, "fit": of_fit,
    "watched fit": of_watched_fit, "one left": of_one_left, "ragged rows": of_ragged_rows,
}  # fmt: skip
