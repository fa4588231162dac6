"""What XLA compiles for the first steps of a program, and the order of copies and steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.jax.compiled import CompiledFunctions
from wyrm.engines.jax.state import DeviceState, Placement
from wyrm.engines.jax.step import StepFunctions
from wyrm.errors import Diverged, IndexOutOfRange

LOOPS = "wyrm.engines.jax.epoch._STEPS_BEFORE_LOOPS"
USERS, ITEMS = 30, 70


class Batch(wy.Dim): ...


def training(optimizer: Any = wy.optim.Adam, rate: float = 0.01) -> tuple[list[Any], Any, dict[str, Any]]:
    """Return the parameters and the program of two towers over small tables, and 52 rows of data."""
    wy.nn.seed(0)
    batch = Batch()
    users, items = wy.IndexInput(dims=(batch,), name="users"), wy.IndexInput(dims=(batch,), name="items")
    towers = [wy.nn.Embedding(count, 4) >> wy.nn.Linear(4, 4) for count in (USERS, ITEMS)]
    loss = (towers[0](users) * towers[1](items)).sum(axis=1).sigmoid().mean()
    parameters = loss.parameters()
    draw = np.random.default_rng(0)
    data = {"users": draw.integers(0, USERS, 52), "items": draw.integers(0, ITEMS, 52)}
    return parameters, wy.compile(loss, optimizer(parameters, rate), engine="jax"), data


def test_a_call_and_an_epoch_compile_a_step_once_for_each_size_of_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[Any] = []
    for name in ("train", "loop"):
        function = getattr(StepFunctions, name)

        def recorded(self: Any, *given: Any, function: Any = function, name: str = name, **options: Any) -> Any:
            traced.append(name)
            return function(self, *given, **options)

        monkeypatch.setattr(StepFunctions, name, recorded)
    _, program, data = training()
    program({name: column[:8] for name, column in data.items()})
    program.epoch(data, batch_size=8)
    assert traced == ["train", "train"]  # of 8 rows, and of the 4 that are left over


@pytest.mark.parametrize("accumulate", [1, 3])
def test_loops_do_what_single_steps_do(accumulate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for steps in (1000, 13, 0):  # loops never, from the second epoch on, and always
        monkeypatch.setattr(LOOPS, steps)
        parameters, program, data = training()
        losses = [program.epoch(data, batch_size=5, accumulate=accumulate) for _ in range(3)]
        found.append((losses, [parameter.value.copy() for parameter in parameters]))
        assert ("stablehlo.while" in program.source) == (accumulate > 1) or not steps
    for losses, values in found[1:]:
        np.testing.assert_allclose(losses, found[0][0], rtol=1e-6)
        for value, expected in zip(values, found[0][1], strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("steps", [0, 1000])
def test_errors_of_loops_and_of_single_steps_name_the_batch(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LOOPS, steps)
    x, index = wy.Input(dims=(Batch(),), name="x", finite=False), wy.IndexInput(dims=(Batch(),), name="index")
    weight, table = wy.Parameter(1.0, name="weight"), wy.Parameter(np.zeros(4, np.float32), name="table")
    loss = (weight * x + table.index(index + 1)).square().mean()
    program: Any = wy.compile(loss, wy.optim.SGD([weight, table], 0.1), engine="jax")
    data: dict[str, Any] = {"x": np.full(32, 0.5), "index": np.zeros(32, int)}
    data["x"][17] = np.nan
    with pytest.raises(Diverged, match=r"in epoch 1, batch 5 .*as they were after batch 4"):
        program.epoch(data, batch_size=4)
    value = float(weight)
    data["x"][17], data["index"][30] = 0.0, 3
    with pytest.raises(IndexOutOfRange, match=r"in epoch 1, batch 8, but .*as they were after batch 7"):
        program.epoch(data, batch_size=4)
    assert np.isfinite(value) and np.isfinite(float(weight)) and float(weight) != value


def test_a_check_of_a_step_is_one_reduction_for_each_parameter() -> None:
    parameters, program, data = training()
    program(data)
    # Beside it, that of the loss.
    assert program.source.count("stablehlo.is_finite") == len(parameters) + 1


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_next_batch_is_copied_while_a_step_computes(accumulate: int, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    for kind, name, event in (
        (Placement, "batch", "copy"),
        (CompiledFunctions, "execute", "step"),
        (DeviceState, "replace_stacked", "done"),
    ):
        function = getattr(kind, name)

        def recorded(self: Any, *given: Any, function: Any = function, event: str = event) -> Any:
            events.append(event)
            return function(self, *given)

        monkeypatch.setattr(kind, name, recorded)
    monkeypatch.setattr("wyrm.engines.jax.epoch._CHUNK_BYTES", 1)  # as for batches of many bytes
    monkeypatch.setattr(LOOPS, 0)
    _, program, data = training()
    program.epoch(
        {name: column[:48] for name, column in data.items()}, batch_size=16 // accumulate, accumulate=accumulate
    )
    of_batch = ["copy"] * 2
    assert events == [*of_batch, *["step", *of_batch, "done"] * 2, "step", "done"]
