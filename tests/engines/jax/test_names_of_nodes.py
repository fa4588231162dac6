"""The names of nodes in the code that XLA compiles, and in a trace of `jax.profiler`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy


class Batch(wy.Dim): ...


class Model(wy.nn.Module):
    def __init__(self) -> None:
        self.layers = [wy.nn.Linear(16, 16) for _ in range(3)]
        self.out = wy.nn.Linear(16, 5)

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x).tanh()
        return self.out(x)


@pytest.fixture(scope="module")
def trained() -> tuple[Any, Any]:
    """Return a program that has trained by a loop of XLA, and its data."""
    x, labels = wy.Input(dims=(Batch(), 16), name="x"), wy.IndexInput(dims=(Batch(),), name="labels")
    loss = Model()(x).cross_entropy(labels)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), 0.01), engine="jax")
    columns = {x: np.ones((96, 16), np.float32), labels: np.arange(96) % 5}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wyrm.engines.jax.epoch._STEPS_BEFORE_LOOPS", 0)
        program.epoch(columns, batch_size=32)
    return program, columns


def test_each_op_that_xla_compiles_has_the_name_of_its_node_with_its_number(trained: tuple[Any, Any]) -> None:
    stages = trained[0].stages()
    named = set(re.findall(r"/([\w.\[\]]+:)?(\w+)~n(\d+)/", stages["optimized"]))
    modules = {module for module, op, _ in named if op == "matmul"}
    assert modules == {"layers[0]:", "layers[1]:", "layers[2]:", "out:"}
    # The number is that of the node in the graph of the step.
    listed = dict(re.findall(r"^%(\d+) += (\w+)", stages["deduplicate"], re.MULTILINE))
    assert len(named) > 20 and all(listed[number] == op for _, op, number in named)
    lines = [line for line in stages["optimized"].splitlines() if " dot(" in line]
    assert lines and all(re.search(r"(layers\[\d\]|out):matmul~n\d+/dot_general", line) for line in lines)


def test_loading_checks_and_updates_have_names(trained: tuple[Any, Any]) -> None:
    code = trained[0].stages()["optimized"]
    for name in ("batch:load/", "gradients:check/", "weight:update~u0/", "bias:update~u1/"):
        assert f"/{name}" in code, name


def test_a_trace_of_the_profiler_has_the_names(trained: tuple[Any, Any], tmp_path: Path) -> None:
    program, columns = trained
    with jax.profiler.trace(tmp_path):
        program.epoch(columns, batch_size=32)
    (trace,) = tmp_path.rglob("*.xplane.pb")
    assert re.search(rb"out:matmul~n\d+/dot_general", trace.read_bytes())
