"""State whose first values are not zero is drawn when it is read: with the same numbers, wherever that is."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.graph.storage import Undrawn

ROWS, WIDTH = 20_000, 64  # so many that nothing is drawn before it is read


class Batch(wy.Dim): ...


def training(engine: Any = "native", **options: Any) -> tuple[Any, Any, Any]:
    """Return a table, its optimizer, whose state begins with other numbers than zero, and a program that trains it."""
    table = wy.nn.Embedding(ROWS, WIDTH, seed=1).weight
    small = wy.Parameter(np.ones(WIDTH, np.float32), name="small")
    items = wy.IndexInput(dims=(Batch(),), name="items")
    loss = (table.index(items) * small - 1.0).square().mean()
    parameters: Any = options.pop("parameters", lambda *each: list(each))(table, small)
    optimizer = wy.optim.Adagrad(parameters, 0.1, initial_accumulator=0.25, average=wy.optim.EMA(0.5, start=2))
    return table, optimizer, wy.compile(loss, optimizer, engine=engine, **options)


def after(optimizer: Any, program: Any, steps: int = 3) -> dict[str, np.ndarray]:
    for _ in range(steps):
        program({"items": np.arange(40) * 7})
    return {name: np.asarray(array) for name, array in optimizer.state_dict().items()}


class Reference:
    """A program that trains with the reference engine."""

    def __init__(self, optimizer: Any, program: Any) -> None:
        self.optimizer, self.loss, self.items = optimizer, program.outputs[0], program.inputs[0]

    def __call__(self, data: dict[str, np.ndarray]) -> None:
        """Do a step."""
        self.items.set(data["items"])
        for parameter in self.optimizer.parameters:
            parameter.clear_gradient()
        self.loss.backward()
        self.optimizer.step()


def groups(table: Any, small: Any) -> list[dict[str, Any]]:
    return [{"parameters": [table]}, {"parameters": [small], "learning_rate": 0.1}]


@pytest.mark.parametrize("parameters", [lambda *each: list(each), groups])
def test_engines_begin_with_the_same_state(parameters: Callable[..., Any]) -> None:
    pytest.importorskip("jax")
    _, optimizer, program = training(parameters=parameters)
    expected = after(optimizer, Reference(optimizer, program))
    for engine in ("native", "jax"):
        table, optimizer, program = training(engine, parameters=parameters)
        first = optimizer.first_state_of(table)
        assert [type(array) for array in first.values()] == [Undrawn, Undrawn]
        found = after(optimizer, program)
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-7)


def test_state_that_nobody_has_read_has_its_first_values() -> None:
    table, optimizer, _ = training()
    values = np.array(wy.nn.Embedding(ROWS, WIDTH, seed=1).weight.value)
    for each in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer)), optimizer):
        total, average = each.state_of(each.parameters[0]).values()
        assert (total == 0.25).all()
        np.testing.assert_array_equal(average, values)
        total += 1.0
        assert (each.state_of(each.parameters[0])["total"] == 1.25).all()
    assert table.value is not average


def test_a_program_on_devices_leaves_the_state_of_other_parameters() -> None:
    pytest.importorskip("jax")
    first, second = (wy.nn.Embedding(ROWS, WIDTH, seed=seed).weight for seed in (1, 2))
    optimizer = wy.optim.Adagrad([first, second], 0.1, initial_accumulator=0.25)
    programs: list[Any] = [wy.compile(each.square().sum(), optimizer, engine="jax") for each in (first, second)]
    start = first.value.copy()
    programs[0]()
    assert type(optimizer.first_state_of(second)["total"]) is np.ndarray
    np.testing.assert_allclose(optimizer.state_of(first)["total"], 0.25 + (2 * start) ** 2, rtol=1e-5)
    assert (optimizer.state_of(second)["total"] == 0.25).all()
    programs[1]()
    assert (optimizer.state_of(second)["total"] > 0.25).any()
