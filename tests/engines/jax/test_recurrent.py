"""Ops along time lowered to JAX: values and gradients of the reference engine, in code that does not grow with time."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.engines.jax.test_every_op import lowered
from wyrm.engines.jax.lower import Lowerer
from wyrm.graph.schedule import Schedule
from wyrm.ops.recurrence.gru import GRU
from wyrm.ops.recurrence.lstm import LSTM
from wyrm.ops.reducing.cumulative import Recurrence

random = np.random.default_rng(0)


def parameter(*shape: int) -> Any:
    return wy.Parameter(0.5 * random.normal(size=shape))


def layer(kind: str, time: int, resets: bool) -> tuple[Any, list[Any]]:
    """Return the states of a layer and its parameters."""
    batch, width = 3, 4
    gates = 4 if kind == "LSTM" else 3
    leaves = [parameter(batch, time, gates * width), parameter(width, gates * width)]
    leaves += [parameter(width) if kind == "GRU" else parameter(batch, width), parameter(batch, width)]
    masks = [wy.Constant(random.random((batch, time)) < 0.3)] if resets else []
    if kind == "GRU":
        return GRU(*leaves, *masks), leaves
    return LSTM(*leaves, *masks, coupled=kind == "coupled"), leaves


@pytest.mark.parametrize("resets", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "coupled", "GRU"])
def test_layers(kind: str, resets: bool) -> None:
    states, leaves = layer(kind, 9, resets)
    outputs = [states, *wy.grad((states * states.sin()).sum(), leaves)]
    with jax.enable_x64(True):
        found = lowered(outputs)
    for value, expected in zip(found, wy.run(outputs), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_code_does_not_grow_with_time(kind: str) -> None:
    def lines(time: int) -> int:
        states, leaves = layer(kind, time, True)
        schedule = Schedule(wy.grad((states * states).sum(), leaves))
        values = [leaf.value for leaf in leaves]
        with jax.enable_x64(True):
            lowering = jax.jit(lambda given: Lowerer().run(schedule, dict(zip(leaves, given, strict=True))))
            return str(lowering.lower(values).as_text()).count("\n")

    assert lines(5) == lines(500)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_recurrence_begins_without_a_factor(axis: int, reverse: bool) -> None:
    factor, term = random.normal(size=(2, 3, 4)), random.normal(size=(2, 3, 4))
    factor[(*[slice(None)] * axis, -1 if reverse else 0)] = np.inf
    node = Recurrence(wy.Constant(factor), wy.Constant(term), axis=axis, reverse=reverse)
    with jax.enable_x64(True):
        (found,) = lowered([node])
    np.testing.assert_allclose(found, node.forward(), rtol=1e-12)
