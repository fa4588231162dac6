"""Trains models on one device and on simulated ones under several shardings, and writes what it finds as JSON.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m tests.engines.jax.sharded_training
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import wyrm as wy
from tests.engines.jax.collectives import carried, collectives
from wyrm.engines.jax import step
from wyrm.nn.gpt2_axes import Embed, Heads, Inner, Vocabulary


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Features(wy.Dim): ...


class Hidden(wy.Dim): ...


class Users(wy.Dim): ...


# The number of batches whose gradients are accumulated.
ACCUMULATE = 4
TENSOR = {Heads: "model", Inner: "model", Vocabulary: "model"}
GPT2: dict[str, Any] = {
    "data": ((8,), ("data",), {Batch: "data"}),
    "fsdp": ((8,), ("data",), {Batch: "data", Embed: "data"}),
    "tensor": ((4,), ("model",), TENSOR),
    "mixed": ((2, 4), ("data", "model"), {Batch: "data", Embed: "data", **TENSOR}),
}
DENSE: dict[str, Any] = {
    "data": ((8,), ("data",), {Batch: "data"}),
    "fsdp": ((8,), ("data",), {Batch: "data", Hidden: "data"}),
    "mixed": ((4, 2), ("data", "model"), {Batch: "data", Hidden: "model"}),
}
SPARSE: dict[str, Any] = {
    "data": ((8,), ("data",), {Batch: "data"}),
    "rows": ((4, 2), ("data", "model"), {Batch: "data", Users: "model"}),
    "columns": ((8,), ("data",), {Batch: "data", Features: "data"}),
}
DRAWING: dict[str, Any] = {
    "data": ((8,), ("data",), {Batch: "data"}),
    "mixed": ((4, 2), ("data", "model"), {Batch: "data", Hidden: "model"}),
}


class Model(NamedTuple):
    """A loss, its optimizer and its data."""

    loss: Any
    optimizer: Callable[[], Any]
    data: dict[Any, Any]
    counts_reductions: bool = False


def gpt2(layers: int = 2) -> Model:
    config = wy.nn.GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=layers, n_head=4)
    model = wy.nn.GPT2(config, seed=3)
    tokens, following = wy.IndexInput(dims=(Batch(), Time(16))), wy.IndexInput(dims=(Batch(), Time(16)))
    random = np.random.default_rng(0)
    data = {leaf: random.integers(0, 64, (32, 16)) for leaf in (tokens, following)}
    return Model(model.loss(tokens, following), lambda: wy.optim.AdamW(model.parameters(), 1e-3), data, True)


def dense() -> Model:
    x, target = wy.Input(dims=(Batch(), Features(6)), name="x"), wy.Input(dims=(Batch(), 3), name="target")
    model = wy.nn.Linear(Features(6), Hidden(16)) >> wy.nn.tanh >> wy.nn.Linear(Hidden(16), 3)
    random = np.random.default_rng(1)
    data = {x: random.standard_normal((36, 6)), target: random.standard_normal((36, 3))}
    loss = (model(x) - target).square().mean()
    return Model(loss, lambda: wy.optim.Adafactor(model.parameters(), 1e-2), data)


def sparse() -> Model:
    users, items = wy.nn.Embedding(Users(240), Features(8)), wy.nn.Embedding(30, Features(8))
    user, item = wy.IndexInput(dims=(Batch(),)), wy.IndexInput(dims=(Batch(),))
    loss = ((users(user) * items(item)).sum(-1) - 1.0).square().mean()
    random = np.random.default_rng(2)
    data = {user: random.integers(0, 240, 36), item: random.integers(0, 30, 36)}
    return Model(loss, lambda: wy.optim.Adam([users.weight, items.weight], 1e-2, max_norm=1.0), data)


def drawing() -> Model:
    """Return a model of a recurrent layer, a loop and a checkpoint, with random nodes in each."""
    x, target = wy.Input(dims=(Batch(), 5, 4), name="x"), wy.Input(dims=(Batch(), 3), name="target")
    layer, last = wy.nn.LSTM(4, 6), wy.nn.Linear(Hidden(8), 3)
    weight = wy.Parameter(np.random.default_rng(3).normal(size=(6, 8)).astype(np.float32), (6, Hidden(8)))
    shrunk, _ = wy.scan(lambda w, _: ((w * 0.9).dropout(0.1), None), weight, length=3)
    states = layer(x).sequence.dropout(0.2)[:, -1] @ shrunk
    noisy = states + 0.1 * wy.random.normal((Batch(), Hidden(8)))
    loss = (last(wy.checkpoint(lambda h: h.tanh().dropout(0.3), noisy)) - target).square().mean()
    random = np.random.default_rng(4)
    data = {x: random.standard_normal((36, 5, 4)), target: random.standard_normal((36, 3))}
    return Model(loss, lambda: wy.optim.Adam(loss.parameters(), 1e-2), data)


def trained(model: Model, where: Any) -> dict[str, Any]:
    """Return the losses of two epochs, what the program shows and what its devices hold; the model stays as it was."""
    optimizer, options = model.optimizer(), {}
    start = [parameter.value.copy() for parameter in optimizer.parameters]
    if where is not None:
        shape, names, axes = where
        mesh = jax.make_mesh(shape, names, devices=jax.devices()[: math.prod(shape)])
        options = {"mesh": mesh, "sharding": axes}
    program: Any = wy.compile(model.loss, optimizer, engine="jax", **options)
    result: dict[str, Any] = {"losses": [program.epoch(model.data, batch_size=8, seed=epoch) for epoch in range(2)]}
    if where is not None:
        table, state = program.sharding, program._engine.state
        result |= {"table": str(table), "bytes_per_device": table.bytes_per_device, "held": on_first(state.values())}
        result |= {"state_bytes_per_device": table.state_bytes_per_device, "held_state": on_first(state.slots())}
        if model.counts_reductions and axes == {Batch: "data"}:  # over all devices, in a step
            result["reductions"] = program.stages()["optimized"].count(" all-reduce(")
    result["parameters"] = [float(np.abs(parameter.value).sum()) for parameter in optimizer.parameters]
    for parameter, value in zip(optimizer.parameters, start, strict=True):
        parameter.set(value)
    return result


def accumulated(model: Model, where: Any, parts_bytes: int = step.PARTS_BYTES) -> dict[str, Any]:
    """Return the losses of epochs with accumulated gradients, and what XLA compiled: reductions, and what loops carry.

    Devices keep parts of at most `parts_bytes` of gradients.
    """
    optimizer, options = model.optimizer(), {}
    start = [parameter.value.copy() for parameter in optimizer.parameters]
    if where is not None:
        shape, names, axes = where
        options = {"mesh": jax.make_mesh(shape, names), "sharding": axes}
    before, step.PARTS_BYTES = step.PARTS_BYTES, parts_bytes
    program: Any = wy.compile(model.loss, optimizer, engine="jax", **options)
    step.PARTS_BYTES = before
    losses = [program.epoch(model.data, batch_size=8, accumulate=ACCUMULATE) for _ in range(2)]
    sums = [float(np.abs(each.value).sum()) for each in optimizer.parameters]
    result: dict[str, Any] = {"losses": losses, "parameters": sums}
    if where is not None:
        # As many batches as a whole step of the epochs has, which XLA has compiled.
        lowered, code = step_of(program, model, ACCUMULATE)
        text = code.as_text()
        messages = collectives(text)
        reductions = [each for each in messages if each.kind in ("all-reduce", "reduce-scatter")]
        result |= {
            "messages": messages,
            "reductions": reductions,
            "carried": carried(text),
            "bytes": program.sharding.bytes_in_all,
        }
        if model.counts_reductions:
            memory = code.memory_analysis()
            result |= {"temporary": memory.temp_size_in_bytes, "placed": placed(program, lowered, code)}
            result["rewritten"] = memory.alias_size_in_bytes
    for parameter, value in zip(optimizer.parameters, start, strict=True):
        parameter.set(value)
    return result


def step_of(program: Any, model: Model, batches: int) -> tuple[Any, Any]:
    """Return an epoch of one step with so many batches, as JAX lowered and as XLA compiled it."""
    data = {leaf: rows[: 8 * batches] for leaf, rows in model.data.items()}
    program.epoch(data, batch_size=8, accumulate=batches)
    lowered = program._engine.compiled.lowered()
    return lowered, lowered.compile()


def placed(program: Any, lowered: Any, code: Any) -> dict[str, Any]:
    """Return the bytes that the table tells, and those that a device has of each input and output of a step."""
    table = program.sharding

    def on_device(avals: Any, shardings: Any) -> list[int]:
        pairs = zip(jax.tree.leaves(avals), jax.tree.leaves(shardings), strict=True)
        return [math.prod(each.shard_shape(aval.shape)) * aval.dtype.itemsize for aval, each in pairs]

    def of_state(avals: Any, shardings: Any) -> dict[str, Any]:
        slots = [on_device(*each) for each in zip(avals.slots, shardings.slots, strict=True)]
        return {"values": on_device(avals.values, shardings.values), "state": [sum(each) for each in slots]}

    (before, _, feeds, *others), (of_before, _, of_feeds, *of_others) = lowered.in_avals[0], code.input_shardings[0]
    (after, results), (of_after, of_results) = lowered.out_info, code.output_shardings
    return {
        "table": {
            "values": [row.bytes_per_device for row in table.rows],
            "state": [row.state_bytes_per_device for row in table.rows],
        },
        "before": of_state(before, of_before),
        "after": of_state(after, of_after),
        "data": on_device(feeds, of_feeds),
        "others": max(on_device([*others, results], [*of_others, of_results])),
    }


def temporary_of_one_batch(model: Model, where: Any) -> int:
    """Return the bytes of the temporary arrays of a step with one batch."""
    shape, names, axes = where
    options: dict[str, Any] = {"mesh": jax.make_mesh(shape, names), "sharding": axes}
    _, code = step_of(wy.compile(model.loss, model.optimizer(), engine="jax", **options), model, 1)
    found: int = code.memory_analysis().temp_size_in_bytes
    return found


def on_first(arrays: Any) -> int:
    """Return the bytes that the first device holds of arrays."""
    return sum(array.addressable_shards[0].data.nbytes for array in jax.tree.leaves(arrays))


def refused() -> str:
    """Return the error for a batch size that the devices do not divide."""
    model = dense()
    mesh = jax.make_mesh((8,), ("data",))
    program = wy.compile(model.loss, model.optimizer(), engine="jax", mesh=mesh, sharding={Batch: "data"})
    try:
        program.epoch(model.data, batch_size=6)
    except wy.errors.ShapeError as error:
        return str(error)
    return ""


def evaluated() -> list[float]:
    """Return the mean of a metric of nodes that lack a sharded axis, for a batch that the devices do not divide."""
    x, target = wy.Input(dims=(Batch(), Features(8)), name="x"), wy.Input(dims=(Batch(),), name="target")
    weight = wy.Parameter(np.ones(8, np.float32), (Features(8),), name="weight")
    loss, mesh = (x @ weight - target).square().mean(), jax.make_mesh((4, 2), ("data", "model"))
    data = {x: np.ones((6, 8), np.float32), target: np.arange(6.0)}
    program = wy.compile(loss, engine="jax", mesh=mesh, sharding={Batch: "data", Features: "model"})
    error = {"largest": (wy.metrics.MaxError(), target, target * 0.5)}
    found: Any = program.evaluate(data, batch_size=4, metrics=error)
    return [found["loss"], found["largest"]]


MODELS: dict[str, Callable[[], Model]] = {"gpt2": gpt2, "dense": dense, "sparse": sparse, "drawing": drawing}
ACCUMULATED = {
    "gpt2": {case: GPT2[case] for case in ("data", "fsdp")},
    "dense": {case: DENSE[case] for case in ("fsdp", "mixed")},
    "sparse": {case: SPARSE[case] for case in ("data", "rows", "columns")},
}
CASES = {"gpt2": GPT2, "dense": DENSE, "sparse": SPARSE, "drawing": DRAWING}


def main() -> None:
    found: dict[str, Any] = {}
    wy.nn.seed(0)
    for name, make in MODELS.items():
        model = make()
        found[name] = {case: trained(model, where) for case, where in {"one": None, **CASES[name]}.items()}
    for name, cases in ACCUMULATED.items():
        model = MODELS[name]() if name != "gpt2" else gpt2(layers=1)
        found[f"accumulated {name}"] = {
            case: accumulated(model, where) for case, where in {"one": None, **cases}.items()
        }
        if "fsdp" in cases:
            found[f"accumulated {name}"]["shards"] = accumulated(model, cases["fsdp"], parts_bytes=0)
        if name == "gpt2":
            found["temporary of one batch"] = temporary_of_one_batch(model, cases["fsdp"])
    found["error"] = refused()
    found["evaluation"] = evaluated()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
