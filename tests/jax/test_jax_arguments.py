"""Wrong arguments of programs on a mesh and of the functions of `wy.jax`: errors in our words, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, OptionError, ShapeError


class Batch(wy.Dim): ...


X = wy.Input(dims=(Batch(), 2), name="x")
WEIGHT = wy.Parameter(np.ones(2, np.float32), name="weight")
LOSS = (X @ WEIGHT).square().sum()
MESH = jax.make_mesh((1,), ("data",))


def compiled(**options: Any) -> Any:
    return wy.compile(LOSS, wy.optim.SGD([WEIGHT], 0.1), engine="jax", **options)


PROGRAM: Any = compiled()
J: Any = wy.jax
CASES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: compiled(mesh=MESH, sharding=[Batch]), DTypeError, "sharding must map classes of axes"),
    (lambda: compiled(mesh=MESH, sharding="fsdp"), DTypeError, "sharding must map classes of axes .* not 'fsdp'"),
    (lambda: compiled(mesh="data", sharding={Batch: "data"}), DTypeError, "mesh must be a jax.sharding.Mesh"),
    (lambda: compiled(mesh=(4, 2)), DTypeError, r"jax.make_mesh\(\(4, 2\), \('data', 'model'\)\), not \(4, 2\)"),
    (lambda: compiled(mesh=(4, 2), sharding={Batch: "data"}), DTypeError, r"mesh must be a .* not \(4, 2\)"),
    (lambda: J.save(None, "f"), DTypeError, "wy.jax.save takes a program, .* not None"),
    (lambda: J.save(LOSS, "f"), DTypeError, "wy.jax.save takes a program, .* not sum"),
    (lambda: J.save(wy.compile(LOSS), "f"), OptionError, "wy.jax.save: .* does not train with JAX"),
    (lambda: J.save(PROGRAM, None), DTypeError, "wy.jax.save: folder must be a path, not None"),
    (lambda: J.save(PROGRAM, "f", state=3), DTypeError, "state must be a dict of JSON values, not 3"),
    (lambda: J.restore(None, "f"), DTypeError, "wy.jax.restore takes a program"),
    (lambda: J.restore(PROGRAM, 3), DTypeError, "wy.jax.restore: folder must be a path, not 3"),
    (lambda: J.latest_step(None), DTypeError, "wy.jax.latest_step: folder must be a path"),
    (lambda: J.gather(None), DTypeError, "wy.jax.gather takes a program"),
    (lambda: J.part_of_process(None), DTypeError, "wy.jax.part_of_process takes a program"),
    (lambda: J.part_of_process(wy.compile(LOSS)), OptionError, "does not run with JAX: compile it with engine='jax'"),
    (lambda: J.part_of_process(PROGRAM, WEIGHT), OptionError, "weight .* is no input of the program"),
    (lambda: J.initialize(3, processes=2, process=0), DTypeError, "coordinator must be 'HOST:PORT'"),
    (lambda: J.export(None), DTypeError, "wy.jax.export takes a node or a list of nodes, not NoneType"),
    (lambda: J.export(LOSS, X), DTypeError, r"wy.jax.export: inputs must be a list of leaves, .* not x"),
    (lambda: J.export(LOSS, sizes={"Batch": 2}), DTypeError, "sizes must map classes of axes to sizes"),
    (lambda: J.export(LOSS, sizes={Batch: -2}), OptionError, "the size of Batch must be an integer of at least 0"),
    (lambda: J.export(LOSS, platforms="cpu"), DTypeError, "platforms must be a list of names"),
    (lambda: J.lower(3), DTypeError, "wy.jax.lower takes a node or a list of nodes, not int"),
    (lambda: J.lower(LOSS, inputs=None), DTypeError, "wy.jax.lower: inputs must be a list of leaves"),
    (lambda: J.lower(LOSS, inputs=[X], model=3), DTypeError, "model must be a module"),
    (lambda: J.lower(LOSS, [X])[0](None, np.ones((1, 2))), DTypeError, "takes a dict of its parameters by name"),
    (lambda: J.lower(LOSS, [X])[0]({"weight": WEIGHT.value}, [[1], [1, 2]]), ShapeError, "x .* was given no array"),
    (lambda: J.lower(LOSS, [X])[0]({"weight": WEIGHT.value}, np.ones((1, 2)), step="a"), DTypeError, "step must be"),
    (lambda: J.to_onnx(None, "a.onnx"), DTypeError, "wy.jax.to_onnx takes a node or a list of nodes"),
    (lambda: J.to_onnx(LOSS, "a.onnx", check=None), DTypeError, "wy.jax.to_onnx: check must be True or False"),
    (lambda: J.to_onnx(LOSS, None), DTypeError, "wy.jax.to_onnx: path must be a path, not None"),
    (lambda: J.to_onnx(LOSS, "missing/a.onnx"), OptionError, "there is no folder .*missing' for the file 'a.onnx'"),
]


@pytest.mark.parametrize(("call", "kind", "message"), CASES)
def test_wrong_arguments(call: Callable[[], object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
