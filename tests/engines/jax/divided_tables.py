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
from wyrm.engines.jax.compiled import collectives


class Batch(wy.Dim): ...


class Users(wy.Dim): ...


class Items(wy.Dim): ...


class Factors(wy.Dim): ...


class Words(wy.Dim): ...


# Devices do not divide the rows. The two tables are ranked whole in `FEW`.
USERS, ITEMS, WIDTH, BATCH, STEPS = 8001, 8081, 8, 512, 3
FEW = 101, 203
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
    # Far above the rounding of sums that cancel, which would otherwise make full steps.
    "Adagrad": lambda parameters: wy.optim.Adagrad(parameters, 0.1, epsilon=1e-4),
    "Adam": lambda parameters: wy.optim.Adam(parameters, 0.01, max_norm=0.01),
}


class Run(NamedTuple):
    """The optimizer, the items of the data, the rows of a batch, and the batches whose gradients are accumulated."""

    optimizer: str = "Adagrad"
    items: str = "hot"
    batch: int = BATCH
    accumulate: int = 1


RUNS = {
    "SGD": Run("SGD", "uniform", BATCH - 12),  # which devices do not divide
    "Adagrad": Run(),
    "Adam": Run("Adam", "one owner"),
    "accumulated": Run(accumulate=3),
}
# The items of the data: a few of all owners, a few of them most of the time, and those of one device alone.
ITEMS_OF: dict[str, Callable[[np.random.Generator], Any]] = {
    "uniform": lambda random: 40 * random.integers(0, 203, ROWS),
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
    return {model.users: 80 * random.integers(0, 101, ROWS), model.positives: ITEMS_OF[items](random)}


class Trained(NamedTuple):
    """A program, its losses, and its parameters and the sum of the padding after them."""

    program: Any
    losses: list[float]
    values: list[Any]
    padding: float


def trained(where: Any, run: Run, before_last: Callable[[Any], object] | None = None) -> Trained:
    """Train three batches, in one step if gradients are accumulated; call `before_last` with the program between."""
    model = recommender(run.optimizer)
    program, columns = compiled(model, where), data(model, run.items)
    if run.accumulate > 1:
        losses = [program.epoch(columns, batch_size=run.batch, accumulate=run.accumulate)]
    else:
        losses = []
        for step in range(STEPS):
            if before_last is not None and step == STEPS - 1:
                before_last(program)
            rows = slice(step * run.batch, (step + 1) * run.batch)
            losses.append(float(program({leaf: column[rows] for leaf, column in columns.items()})))
    padding = 0.0
    if where is not None:
        state = program._engine.state
        for parameter, value, slots in zip(model.optimizer.parameters, state.values(), state.slots(), strict=True):
            rows_after = [np.asarray(array)[parameter.shape[0] :] for array in (value, *slots.values())]
            padding += sum(float(np.abs(each).sum()) for each in rows_after)
    return Trained(program, losses, [parameter.value for parameter in model.optimizer.parameters], padding)


def beside(one: Trained, many: Trained) -> dict[str, Any]:
    """Return the shapes and the padding of tables of many devices, and how far losses and tables are from another's."""
    pairs = zip(one.values, many.values, strict=True)
    return {
        "shapes": [value.shape for value in many.values],
        "padding": many.padding,
        "losses": [abs(a - b) for a, b in zip(one.losses, many.losses, strict=True)],
        "values": [float(np.abs(a - b).max()) for a, b in pairs],
    }


def code_of(program: Any) -> dict[str, Any]:
    """Return the collectives of a step, its temporary bytes, and the ops that compute as much as a device's tables."""
    code = program._engine.compiled.lowered().compile()
    text = code.as_text()
    parts = "|".join({str(-(-parameter.shape[0] // 8)) for parameter in program.trained})
    found = set(re.findall(rf" = [^=\n]*\w+\[(?:{parts})(?:,{WIDTH})?\][^=\n]*? ([\w-]+)\(", text))
    return {
        "sent": collectives(text),
        "temporary": code.memory_analysis().temp_size_in_bytes,
        "whole": sorted(found - {"parameter", "get-tuple-element", "tuple", "while", "bitcast"}),
    }


def code_of_step(times_items: int, batch: int) -> dict[str, Any]:
    """Return what is in the code of a step of so many times as large tables."""
    model = recommender(items=times_items * ITEMS, users=times_items * USERS)
    program = compiled(model, SHARDINGS["rows"])
    program({model.users: np.zeros(batch, np.int64), model.positives: np.zeros(batch, np.int64)})
    return code_of(program)


def resumed(program: Any, folder: str) -> Trained:
    """Return the last step from a checkpoint before it."""
    wy.jax.restore(program, folder)
    columns = dict(zip(("users", "positives"), data(recommender()).values(), strict=True))
    losses = [float(program({name: column[(STEPS - 1) * BATCH :] for name, column in columns.items()}))]
    return Trained(program, losses, [parameter.value for parameter in program.trained], 0.0)


def served(where: Any) -> list[list[float]]:
    """Return the scores of all items for some users, of tables with padding."""
    model = recommender(users=FEW[0], items=FEW[1])
    users, items, _ = model.optimizer.parameters
    scores = users.index(model.users) @ items.T
    shape, names, axes = where
    program: Any = wy.compile(scores, engine="jax", mesh=jax.make_mesh(shape, names), sharding=axes)
    found: Any = program({model.users: np.arange(16)})
    expected = users.value[:16] @ items.value.T
    return [found.tolist(), expected.tolist()]


def ranked(where: Any) -> dict[str, Any]:
    """Return the best items of some users, more than a device has and many of equal scores, and what devices send."""
    random, (count, many) = np.random.default_rng(0), FEW
    users = wy.Parameter(random.integers(-1, 2, (count, WIDTH)).astype(np.float32), (Users(count), Factors(WIDTH)))
    items = wy.Parameter(random.integers(-1, 2, (many, WIDTH)).astype(np.float32), (Items(many), Factors(WIDTH)))
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
    seen, wanted = random.random((64, many)) < 0.5, random.integers(0, many, 64)
    hidden = wy.Input(dims=(user.dims[0], many), dtype=np.bool_, name="hidden")
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
    count, many = FEW
    vectors, classes = wy.nn.Embedding(Items(many), Factors(WIDTH)), wy.nn.Embedding(Users(count), Factors(WIDTH))
    tokens = wy.IndexInput(dims=(Words(5), Batch()), name="tokens")
    label = wy.IndexInput(dims=(Batch(),), name="label")
    loss = (vectors(tokens).mean(0) @ classes.weight.T).cross_entropy(label) + 0.1 * classes(label).square().mean()
    model = Model(loss, wy.optim.Adagrad([vectors.weight, classes.weight], 0.1), tokens, label)
    program, random = compiled(model, where), np.random.default_rng(0)
    batch = {tokens: random.integers(0, many, (5, 64)), label: random.integers(0, count, 64)}
    return [float(program(batch)) for _ in range(3)]


def gradients(where: Any) -> list[Any]:
    """Return the gradients that a program adds to those of the parameters."""
    model = recommender()
    program = compiled(model, where)
    program.backward({leaf: column[:128] for leaf, column in data(model).items()})
    return [np.asarray(parameter.gradient) for parameter in model.optimizer.parameters]


def stopped() -> list[Any]:
    """Return whether parameters stay as they are after a loss that is not finite and a computed index out of range."""
    found, rows = [], FEW[1]
    for where in (None, ((8,), ("data",), {Items: "data", Batch: "data"})):
        wy.nn.seed(0)
        table = wy.nn.Embedding(Items(rows), Factors(WIDTH))
        index, scale = (
            wy.IndexInput(dims=(Batch(),), name="index"),
            wy.Input(dims=(Batch(),), name="scale", finite=False),
        )
        loss = (table(index + 1).sum(-1) * scale).mean()
        program: Any = compiled(Model(loss, wy.optim.Adagrad([table.weight], 0.1), index, scale), where)
        before, errors = table.weight.value.copy(), []
        for indices, factor in ((np.arange(16), np.inf), (np.full(16, rows - 1), 1.0)):
            try:
                program({index: indices, scale: np.full(16, factor)})
            except wy.WyrmError as error:
                errors.append(f"{type(error).__name__}: {error}".partition(" (at ")[0])
        found.append([errors, bool((table.weight.value == before).all())])
    return found


def main() -> None:
    found: dict[str, Any] = {"rows": {}, "shardings": {}, "code": {}}
    one, rows = {}, {}
    with tempfile.TemporaryDirectory() as from_one, tempfile.TemporaryDirectory() as from_eight:
        for name, run in RUNS.items():
            saved = name == "Adagrad"
            one[name] = trained(None, run, (lambda program: wy.jax.save(program, from_one)) if saved else None)
            rows[name] = trained(
                SHARDINGS["rows"], run, (lambda program: wy.jax.save(program, from_eight)) if saved else None
            )
            found["rows"][name] = beside(one[name], rows[name])
            found["code"][name] = code_of(rows[name].program)
        last = one["Adagrad"]._replace(losses=one["Adagrad"].losses[-1:])
        on_six = compiled(recommender(), ((6,), ("data",), SHARDINGS["rows"][2]))
        ways = (on_six, from_eight), (rows["Adagrad"].program, from_one)
        found["resumed"] = [beside(last, resumed(*way)) for way in ways]
    for name, where in SHARDINGS.items():
        if name != "rows":
            many = trained(where, RUNS["Adagrad"])
            found["shardings"][name] = beside(one["Adagrad"], many)
            if name in ("batch alone", "columns"):
                found["code"][name] = code_of(many.program)
    found["code"]["larger tables"] = code_of_step(10, BATCH)
    found["code"]["larger batch"] = code_of_step(1, 4 * BATCH)
    found["served"] = served(SHARDINGS["rows"])
    found["ranked"] = [ranked(SHARDINGS[name]) for name in ("rows", "other axis")]
    found["words"] = [words(where) for where in (None, SHARDINGS["rows"], SHARDINGS["other axis"])]
    pairs = zip(gradients(None), gradients(SHARDINGS["rows"]), strict=True)
    found["gradients"] = [float(np.abs(a - b).max()) for a, b in pairs]
    found["stopped"] = stopped()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
