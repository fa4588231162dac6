"""Trains tables whose rows simulated devices own, and one device beside them; writes what it finds as JSON.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m tests.engines.jax.divided_tables
"""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import wyrm as wy
from wyrm.engines.jax.collectives import collectives


class Batch(wy.Dim): ...


class Users(wy.Dim): ...


class Items(wy.Dim): ...


class Factors(wy.Dim): ...


class Words(wy.Dim): ...


USERS, ITEMS, WIDTH, BATCH, STEPS = 101, 203, 8, 512, 3
ROWS = STEPS * BATCH
# The shape and the axes of a mesh, and the mesh axis of each axis.
SHARDINGS: dict[str, Any] = {
    "rows": ((8,), ("data",), {Users: "data", Items: "data", Batch: "data"}),
    "other axis": ((4, 2), ("data", "model"), {Users: "model", Items: "model", Batch: "data"}),
    "both axes": ((4, 2), ("data", "model"), {Users: "model", Items: ("data", "model"), Batch: "data"}),
    "columns": ((8,), ("data",), {Factors: "data"}),
    "columns too": ((4, 2), ("data", "model"), {Items: "data", Factors: "model", Batch: "data"}),
    "batch alone": ((8,), ("data",), {Batch: "data"}),
    "batch on all": ((8,), ("data",), {Items: "data"}),
}
OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda parameters: wy.optim.SGD(parameters, 0.5, momentum=0.9),
    "Adagrad": lambda parameters: wy.optim.Adagrad(parameters, 0.1),
    "Adam": lambda parameters: wy.optim.Adam(parameters, 0.01, max_norm=0.01),
}
# The optimizer, the items of the data, and the number of batches whose gradients are accumulated.
RUNS: dict[str, tuple[str, str, int]] = {
    "SGD": ("SGD", "uniform", 1),
    "Adagrad": ("Adagrad", "hot", 1),
    "Adam": ("Adam", "one owner", 1),
    "accumulated": ("Adagrad", "hot", 3),
}
# The items of the data: drawn uniformly, a few of them most of the time, and those of one device alone.
ITEMS_OF: dict[str, Callable[[np.random.Generator], Any]] = {
    "uniform": lambda random: random.integers(0, ITEMS, ROWS),
    "hot": lambda random: np.minimum(random.zipf(1.3, ROWS), ITEMS) - 1,
    "one owner": lambda random: random.integers(0, 26, ROWS),
}


class Model(NamedTuple):
    """Matrix factorization with negatives that the graph draws, and a bias for each item."""

    loss: Any
    optimizer: Any
    users: Any
    positives: Any


def recommender(optimizer: str = "Adagrad", users: int = USERS, items: int = ITEMS, width: int = WIDTH) -> Model:
    wy.nn.seed(0)
    of_users = wy.nn.Embedding(Users(users), Factors(width))
    of_items = wy.nn.Embedding(Items(items), Factors(width))
    biases = wy.Parameter(np.zeros(items, np.float32), (Items(items),), name="biases")
    user, positive = (wy.IndexInput(dims=(Batch(),), name=name) for name in ("users", "positives"))
    negative = wy.random.index(Items(items), (Batch(),), seed=1)

    def score(item: Any) -> Any:
        return of_users(user).vector_dot(of_items(item)) + biases.index(item)

    loss = -(score(positive) - score(negative)).sigmoid().mean()
    return Model(loss, OPTIMIZERS[optimizer]([of_users.weight, of_items.weight, biases]), user, positive)


def compiled(model: Model, where: Any) -> Any:
    if where is None:
        return wy.compile(model.loss, model.optimizer, engine="jax")
    shape, names, axes = where
    mesh = jax.make_mesh(shape, names, devices=jax.devices()[: math.prod(shape)])
    return wy.compile(model.loss, model.optimizer, engine="jax", mesh=mesh, sharding=axes)


def data(model: Model, items: str = "hot") -> dict[Any, Any]:
    random = np.random.default_rng(0)
    return {model.users: random.integers(0, USERS, ROWS), model.positives: ITEMS_OF[items](random)}


def trained(where: Any, optimizer: str = "Adagrad", items: str = "hot", accumulate: int = 1) -> dict[str, Any]:
    """Return the losses of three steps, or of one, and the parameters and the sum of the padding after them."""
    model = recommender(optimizer)
    program, columns = compiled(model, where), data(model, items)
    if accumulate > 1:
        losses = [program.epoch(columns, batch_size=BATCH, accumulate=accumulate)]
    else:
        # The devices do not divide the last batch.
        last = 20 if items == "uniform" else BATCH
        batches = [slice(0, BATCH), slice(BATCH, 2 * BATCH), slice(2 * BATCH, 2 * BATCH + last)]
        losses = [float(program({leaf: column[rows] for leaf, column in columns.items()})) for rows in batches]
    padding = 0.0
    if where is not None:
        state = program._engine.state
        for parameter, value, slots in zip(model.optimizer.parameters, state.values(), state.slots(), strict=True):
            rows = [np.asarray(array)[parameter.shape[0] :] for array in (value, *slots.values())]
            padding += sum(float(np.abs(each).sum()) for each in rows)
    values = [parameter.value for parameter in model.optimizer.parameters]
    shapes = [value.shape for value in values]
    return {"losses": losses, "values": [value.tolist() for value in values], "shapes": shapes, "padding": padding}


def text_of_step(items: int, batch: int, sharding: str = "rows", optimizer: str = "Adagrad") -> tuple[str, int]:
    """Return the code of a step, and the bytes of its temporary arrays."""
    model = recommender(optimizer, items=items, users=items, width=16)
    program = compiled(model, SHARDINGS[sharding])
    program({model.users: np.zeros(batch, np.int64), model.positives: np.zeros(batch, np.int64)})
    code = program._engine.compiled.lowered().compile()
    return code.as_text(), code.memory_analysis().temp_size_in_bytes


def step(items: int, batch: int, optimizer: str = "Adagrad") -> dict[str, Any]:
    """Return the kinds and the bytes of a step's collectives, its temporary bytes, and ops as large as the table."""
    text, temporary = text_of_step(items, batch, optimizer=optimizer)
    found = collectives(text)
    return {
        "kinds": sorted({each.kind for each in found if each.size > 64}),
        "bytes": sum(each.size for each in found),
        "temporary": temporary,
        "whole": as_large_as_tables(text, items),
    }


def as_large_as_tables(text: str, items: int) -> list[str]:
    """Return the ops that compute an array as large as a device's part of a table."""
    found = set(re.findall(rf" = [^=\n]*\w+\[{items // 8}(?:,16)?\][^=\n]*? ([\w-]+)\(", text))
    return sorted(found - {"parameter", "get-tuple-element", "tuple", "while", "bitcast"})


def accumulated_step(items: int = 8000) -> dict[str, Any]:
    """Return what steps of four batches each send, and their ops as large as the table."""
    model = recommender(items=items, users=items, width=16)
    program = compiled(model, SHARDINGS["rows"])
    program.epoch({leaf: np.arange(2048) for leaf in (model.users, model.positives)}, batch_size=256, accumulate=4)
    text = program.stages()["optimized"]
    return {"sent": collectives(text), "whole": as_large_as_tables(text, items)}


def resumed(before: int, after: int) -> list[float]:
    """Return the loss of a second step on `before` devices, and on `after` devices from a checkpoint between them."""
    losses: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for devices in (before, after):
            model = recommender()
            where = ((devices,), ("data",), SHARDINGS["rows"][2]) if devices else None
            program = compiled(model, where)
            batch = {leaf: column[:24] for leaf, column in data(model).items()}
            if not losses:
                program(batch)
                wy.jax.save(program, folder)
            else:
                wy.jax.restore(program, folder)
            losses.append(float(program(batch)))
    return losses


def served(where: Any) -> list[list[float]]:
    """Return the scores of all items for some users, of tables with padding."""
    model = recommender()
    users, items, _ = model.optimizer.parameters
    scores = users.index(model.users) @ items.T
    shape, names, axes = where
    program: Any = wy.compile(scores, engine="jax", mesh=jax.make_mesh(shape, names), sharding=axes)
    found: Any = program({model.users: np.arange(16)})
    expected = users.value[:16] @ items.value.T
    return [found.tolist(), expected.tolist()]


def ranked(where: Any) -> dict[str, Any]:
    """Return the best items of some users, more than a device has and many of equal scores, and what devices send."""
    random = np.random.default_rng(0)
    users = wy.Parameter(random.integers(-1, 2, (USERS, WIDTH)).astype(np.float32), (Users(USERS), Factors(WIDTH)))
    items = wy.Parameter(random.integers(-1, 2, (ITEMS, WIDTH)).astype(np.float32), (Items(ITEMS), Factors(WIDTH)))
    user = wy.IndexInput(dims=(Batch(),), name="user")
    scores = users.index(user) @ items.T
    best, by_column = wy.top_k(scores, 30), wy.top_k(scores.T, 3, axis=0)
    shape, names, axes = where
    options: dict[str, Any] = {"mesh": jax.make_mesh(shape, names), "sharding": axes}
    program: Any = wy.compile([*best, by_column[1]], engine="jax", **options)
    found = program({user: np.arange(64)})
    expected = users.value[:64] @ items.value.T
    order = np.argsort(-expected, axis=1, kind="stable")
    # Recall at 20 without the items that users have seen.
    seen, wanted = random.random((64, ITEMS)) < 0.5, random.integers(0, ITEMS, 64)
    hidden = wy.Input(dims=(user.dims[0], ITEMS), dtype=np.bool_, name="hidden")
    rank: Any = wy.compile(wy.top_k(wy.where(hidden, -np.inf, scores), 20)[1], engine="jax", **options)
    on_devices = rank({user: np.arange(64), hidden: seen})
    on_host = np.argsort(np.where(seen, np.inf, -expected), axis=1, kind="stable")[:, :20]
    return {
        "recall": [wy.metrics.recall_at_k(best, wanted, 20, ranked=True) for best in (on_devices, on_host)],
        "values": bool((found[0] == np.take_along_axis(expected, order[:, :30], 1)).all()),
        "indices": bool((found[1] == order[:, :30]).all()),
        "columns": bool((found[2] == order[:, :3].T).all()),
        "largest message": max(each.size for each in collectives(program.stages()["optimized"])),
    }


def words(where: Any) -> list[float]:
    """Return the losses of tables that are looked up by indices with a second axis, and used whole as well."""
    wy.nn.seed(0)
    vectors, classes = wy.nn.Embedding(Items(ITEMS), Factors(WIDTH)), wy.nn.Embedding(Users(USERS), Factors(WIDTH))
    tokens = wy.IndexInput(dims=(Words(5), Batch()), name="tokens")
    label = wy.IndexInput(dims=(Batch(),), name="label")
    loss = (vectors(tokens).mean(0) @ classes.weight.T).cross_entropy(label) + 0.1 * classes(label).square().mean()
    model = Model(loss, wy.optim.Adagrad([vectors.weight, classes.weight], 0.1), tokens, label)
    program, random = compiled(model, where), np.random.default_rng(0)
    batch = {tokens: random.integers(0, ITEMS, (5, 64)), label: random.integers(0, USERS, 64)}
    return [float(program(batch)) for _ in range(3)]


def gradients(where: Any) -> list[Any]:
    """Return the gradients that a program adds to those of the parameters."""
    model = recommender()
    program = compiled(model, where)
    program.backward({leaf: column[:128] for leaf, column in data(model).items()})
    return [np.asarray(parameter.gradient).tolist() for parameter in model.optimizer.parameters]


def stopped() -> list[Any]:
    """Return whether parameters stay as they are after a loss that is not finite and a computed index out of range."""
    found = []
    for where in (None, ((8,), ("data",), {Items: "data", Batch: "data"})):
        wy.nn.seed(0)
        table = wy.nn.Embedding(Items(ITEMS), Factors(WIDTH))
        index, scale = (
            wy.IndexInput(dims=(Batch(),), name="index"),
            wy.Input(dims=(Batch(),), name="scale", finite=False),
        )
        loss = (table(index + 1).sum(-1) * scale).mean()
        program: Any = compiled(Model(loss, wy.optim.Adagrad([table.weight], 0.1), index, scale), where)
        before, errors = table.weight.value.copy(), []
        for rows, factor in ((np.arange(16), np.inf), (np.full(16, ITEMS - 1), 1.0)):
            try:
                program({index: rows, scale: np.full(16, factor)})
            except wy.WyrmError as error:
                errors.append(f"{type(error).__name__}: {error}".partition(" (at ")[0])
        found.append([errors, bool((table.weight.value == before).all())])
    return found


def main() -> None:
    found: dict[str, Any] = {"one": {}, "rows": {}}
    for name, options in RUNS.items():
        found["one"][name] = trained(None, *options)
        found["rows"][name] = trained(SHARDINGS["rows"], *options)
    found["shardings"] = {name: trained(where) for name, where in SHARDINGS.items() if name != "rows"}
    found["steps"] = [step(items, batch) for items, batch in ((8000, 256), (80000, 256), (8000, 1024))]
    found["optimizers"] = [step(8000, 256, optimizer) for optimizer in ("SGD", "Adam")]
    found["by batch"] = collectives(text_of_step(ITEMS, 256, "batch alone")[0])
    found["by columns"] = collectives(text_of_step(ITEMS, 256, "columns")[0])
    found["accumulated step"] = accumulated_step()
    found["resumed"] = [resumed(*devices) for devices in ((8, 6), (0, 4))]
    found["served"] = served(SHARDINGS["rows"])
    found["ranked"] = [ranked(SHARDINGS[name]) for name in ("rows", "other axis")]
    found["words"] = [words(where) for where in (None, SHARDINGS["rows"], SHARDINGS["other axis"])]
    found["gradients"] = [gradients(where) for where in (None, SHARDINGS["rows"])]
    found["stopped"] = stopped()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
