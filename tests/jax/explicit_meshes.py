"""Lowered functions on four simulated devices: in `jax.shard_map`, and on meshes of explicit axes, as JSON.

XLA_FLAGS=--xla_force_host_platform_device_count=8 python -m tests.jax.explicit_meshes
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import wyrm as wy


class Batch(wy.Dim): ...


ROWS, WHOLE = PartitionSpec("data"), PartitionSpec()


def recurrent(layer: Any) -> tuple[Any, list[Any]]:
    x = wy.Input(dims=(Batch(), 3, 4), name="x")
    return layer(4, 5)(x).sequence.square().mean(), [x]


def gpt2() -> tuple[Any, list[Any]]:
    config = wy.nn.GPT2Config(vocab_size=16, n_positions=8, n_embd=8, n_layer=2, n_head=2)
    tokens, following = wy.IndexInput(dims=(Batch(), 8)), wy.IndexInput(dims=(Batch(), 8))
    return wy.nn.GPT2(config).eval().loss(tokens, following), [tokens, following]


def scanned() -> tuple[Any, list[Any]]:
    x = wy.Input(dims=(Batch(), 3), name="x")
    weight = wy.Parameter(np.eye(3, dtype=np.float32) * 0.5, name="weight")
    last, _ = wy.scan(lambda h, _: (h @ weight + x.sum(), None), wy.Constant(np.ones((2, 3), np.float32)), length=3)
    return last.square().mean(), [x]


MODELS: dict[str, Any] = {
    "gru": lambda: recurrent(wy.nn.GRU), "lstm": lambda: recurrent(wy.nn.LSTM), "gpt2": gpt2, "scan": scanned,
}  # fmt: skip


class Case:
    """A model as a function of JAX, its parameters and data, and the loss and the gradients on one device."""

    def __init__(self, name: str) -> None:
        loss, inputs = MODELS[name]()
        self.function, self.parameters = wy.jax.lower(loss, inputs)
        random = np.random.default_rng(0)
        data = [
            random.integers(0, 16, (8, 8))
            if leaf.dtype.kind == "i"
            else random.normal(size=(8, *map(int, leaf.dims[1:])))
            for leaf in inputs
        ]
        self.arrays = [jnp.asarray(x, jnp.int32 if x.dtype.kind == "i" else jnp.float32) for x in data]
        on_one = jax.jit(jax.value_and_grad(self.function))
        # As arrays of NumPy, whose functions are not compiled for each shape.
        self.expected = jax.device_get(on_one(self.parameters, *self.arrays))
        parts = [
            jax.device_get(on_one(self.parameters, *(np.asarray(array)[i : i + 2] for array in self.arrays)))
            for i in range(0, 8, 2)
        ]
        self.expected_by_parts = jax.tree.map(lambda *each: sum(each) / 4, *parts)

    def differences(self, axis_type: Any, mapped: bool) -> dict[str, float]:
        """Return the relative error of the loss and the gradients on a mesh, beside those on one device."""
        mesh = jax.make_mesh((4,), ("data",), axis_types=(axis_type,), devices=jax.devices()[:4])
        placed = jax.device_put(self.parameters, NamedSharding(mesh, WHOLE))
        rows = [jax.device_put(array, NamedSharding(mesh, ROWS)) for array in self.arrays]

        def averaged(values: Any, *given: Any) -> Any:
            specs = (WHOLE, *(ROWS for _ in given))
            local = lambda *each: jax.lax.pmean(self.function(*each), "data")  # noqa: E731
            return jax.shard_map(local, mesh=mesh, in_specs=specs, out_specs=WHOLE)(values, *given)

        wanted, slopes = self.expected_by_parts if mapped else self.expected
        value, gradients = jax.jit(jax.value_and_grad(averaged if mapped else self.function))(placed, *rows)
        worst = max(
            float(np.abs(np.asarray(gradients[key]) - slopes[key]).max() / np.abs(slopes[key]).max()) for key in slopes
        )
        return {"loss": abs(float(value) / float(wanted) - 1), "gradients": worst}


def result_sharding() -> str:
    """Return how the outputs of a layer are sharded on a mesh of explicit axes."""
    x = wy.Input(dims=(Batch(), 6), name="x")
    function, parameters = wy.jax.lower(wy.nn.Linear(6, 3)(x), [x])
    mesh = jax.make_mesh((4,), ("data",), devices=jax.devices()[:4])
    rows = jax.device_put(jnp.ones((8, 6)), NamedSharding(mesh, ROWS))
    with jax.set_mesh(mesh):
        return str(jax.jit(function)(parameters, rows).sharding.spec)


def main() -> None:
    wy.nn.seed(0)
    found: dict[str, Any] = {"sharding": result_sharding()}
    for name in MODELS:
        case = Case(name)
        found[f"{name} explicit"] = case.differences(AxisType.Explicit, mapped=False)
        found[f"{name} mapped"] = case.differences(AxisType.Auto, mapped=True)
        found[f"{name} mapped explicit"] = case.differences(AxisType.Explicit, mapped=True)
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
