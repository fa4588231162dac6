"""Training of equal layers, whose parameters the engine `jax` keeps stacked: what is read and changed between steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.jax.state import StackElement, Stacks
from wyrm.graph.node import Node

LAYERS = 5


class Rows(wy.Dim): ...


class Stack:
    """A stack of layers, of which one parameter is shared and one is in a group of its own, and its program."""

    def __init__(self, engine: str, **options: Any) -> None:
        random = np.random.default_rng(0)
        self.x = wy.Input(dims=(Rows(), 4), name="x", dtype=np.float64)
        self.weights = [wy.Parameter(random.normal(size=(4, 4)), name=f"weight {i}") for i in range(LAYERS)]
        self.biases = [wy.Parameter(random.normal(size=4), name=f"bias {i}") for i in range(LAYERS)]
        scale = wy.Parameter(random.normal(size=4), name="scale")
        value: Node = self.x
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            value = value + ((value @ weight + bias).tanh() * scale).dropout(0.2, stream=layer)
        self.loss = (value * value).mean()
        others = [parameter for parameter in self.loss.parameters() if parameter is not self.biases[2]]
        groups: list[Any] = [{"parameters": others}, {"parameters": [self.biases[2]], "learning_rate_factor": 0.5}]
        self.optimizer = wy.optim.Adam(groups, 1e-2, **options)
        self.program: Any = wy.compile(self.loss, self.optimizer, engine=engine)
        self.data = random.normal(size=(12, 4))

    def step(self) -> float:
        """Return the loss of a step."""
        return float(self.program({self.x: self.data}))

    def values(self) -> list[np.ndarray]:
        """Return copies of all parameters."""
        return [parameter.value.copy() for parameter in self.loss.parameters()]


def pair(**options: Any) -> tuple[Stack, Stack]:
    return Stack("native", **options), Stack("jax", **options)


def check(native: Stack, lowered: Stack) -> None:
    for value, reference in zip(lowered.values(), native.values(), strict=True):
        np.testing.assert_allclose(value, reference, rtol=1e-9)


def test_weights_are_stacked_and_a_group_of_its_own_is_not() -> None:
    stack = Stack("jax")
    units = stack.program._engine.functions.stacks.units
    assert sorted(map(len, units)) == [1] * (LAYERS + 1) + [LAYERS]


@pytest.mark.parametrize("options", [{}, {"max_norm": 0.1}], ids=str)
def test_parameters_that_are_read_and_set_between_steps(options: dict[str, Any]) -> None:
    native, lowered = pair(**options)
    for stack in (native, lowered):
        stack.step()
    check(native, lowered)
    for stack in (native, lowered):
        stack.weights[1].set(np.ones((4, 4)))
        stack.step()
        stack.step()
    check(native, lowered)


def test_states_of_the_optimizer_are_those_of_each_parameter() -> None:
    native, lowered = pair()
    for stack in (native, lowered):
        stack.step()
        stack.step()
    expected, found = native.optimizer.state_dict(), lowered.optimizer.state_dict()
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-14, err_msg=name)
    lowered.optimizer.load_state_dict(expected)
    assert lowered.step() == pytest.approx(native.step(), rel=1e-9)


def test_epochs_and_accumulated_gradients() -> None:
    native, lowered = pair()
    for stack in (native, lowered):
        stack.program.epoch({stack.x: stack.data}, batch_size=4, shuffle=False)
        stack.program.epoch({stack.x: stack.data}, batch_size=3, shuffle=False, accumulate=2)
    check(native, lowered)


def test_another_program_reads_the_parameters_of_a_stack() -> None:
    _, lowered = pair()
    lowered.step()
    forward: Any = wy.compile((lowered.x @ lowered.weights[3]).sum(), engine="jax")
    expected = float((lowered.data @ lowered.weights[3].value).sum())
    assert float(forward({lowered.x: lowered.data})) == pytest.approx(expected, rel=1e-9)


def test_parts_of_one_array_are_stacked_without_a_copy() -> None:
    stacks = Stacks(4, [[2, 1]])
    assert stacks.units == [[0], [2, 1], [3]]
    arrays = [np.array(0.0), np.array([2.0, 1.0]), np.array(3.0), "a buffer"]
    parts = stacks.parts(arrays)
    assert parts[1] == StackElement(arrays[1], 1)
    assert all(one is other for one, other in zip(stacks.stack(parts), arrays, strict=True))
