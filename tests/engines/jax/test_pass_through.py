"""Ops that JAX must differentiate otherwise than their value tells: custom gradients, constants, checkpoints."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.jax.lower import Lowerer
from wyrm.errors import NotDifferentiable
from wyrm.graph.schedule import Schedule


def gradients_by_jax(loss: Any, leaves: list[Any]) -> list[np.ndarray]:
    """Return the gradients of a lowered loss, differentiated by JAX."""
    schedule = Schedule([loss])

    def value(arrays: list[Any]) -> Any:
        return Lowerer().run(schedule, dict(zip(leaves, arrays, strict=True)))[0]

    with jax.enable_x64(True):
        return [np.asarray(x) for x in jax.grad(value)([leaf.value for leaf in leaves])]


@wy.custom_vjp
def rounded(x: Any, slope: Any) -> Any:
    return x.round() * slope.stop_gradient()


rounded.define(lambda x, slope: (x.round(), (x, slope)), lambda kept, g: (g * kept[1] * kept[0].cos(), g.sum() * 0.5))


def test_jax_differentiates_custom_gradients_by_their_rule() -> None:
    x, slope = wy.Parameter(np.linspace(-2.0, 2.0, 7)), wy.Parameter(np.array(3.0))
    y = rounded(x * x, slope)
    loss = (y * y).sum()
    for found, expected in zip(gradients_by_jax(loss, [x, slope]), wy.grad(loss, [x, slope]), strict=True):
        np.testing.assert_allclose(found, expected.forward(), rtol=1e-12)


def test_jax_does_not_differentiate_what_a_custom_rule_leaves_out() -> None:
    x, weight = wy.Parameter(np.ones(3)), wy.Parameter(np.array(2.0))

    @wy.custom_vjp
    def scaled(x: Any) -> Any:
        return x * weight

    scaled.define(lambda x: (x * weight, None), lambda _, g: (g,))
    loss = scaled(x).sum()
    with pytest.raises(NotDifferentiable, match="closes over parameter"):
        gradients_by_jax(loss, [x, weight])


def test_stop_gradient() -> None:
    x = wy.Parameter(np.array([3.0, 4.0]))
    (found,) = gradients_by_jax((x * x.stop_gradient()).sum(), [x])
    np.testing.assert_array_equal(found, [3.0, 4.0])


def test_a_checkpoint_saves_memory() -> None:
    def temporary(wrap: Any) -> int:
        x = wy.Parameter(np.full((500, 8), 0.5))
        y = x
        for _ in range(8):
            y = wrap(lambda y: ((((y @ up).tanh() @ across).sin() @ across).exp() @ down).tanh(), y)
        schedule = Schedule(wy.grad(y.sum(), [x]))
        with jax.enable_x64(True):
            compiled = jax.jit(lambda value: Lowerer().run(schedule, {x: value})).lower(x.value).compile()
        memory: Any = compiled.memory_analysis()
        return int(memory.temp_size_in_bytes)

    up, across, down = (wy.Constant(np.full(shape, 0.01)) for shape in ((8, 64), (64, 64), (64, 8)))
    plain, saving = temporary(lambda f, y: f(y)), temporary(wy.checkpoint)
    assert saving < 0.6 * plain
