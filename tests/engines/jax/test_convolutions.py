"""Convolutions for which XLA ends the process or computes other numbers, in a process of their own."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import wyrm as wy
from tests.subprocesses import on_simulated_devices


def test_convolutions_that_xla_fails_for() -> None:
    wrong = on_simulated_devices("tests.engines.jax.convolutions")
    assert wrong and not any(wrong.values())


def test_other_convolutions_have_derivatives_in_forward_mode() -> None:
    x, layer = wy.Input(dims=(1, 1, 5)), wy.nn.Conv1d(1, 2, 2, stride=2)
    function, parameters = wy.jax.lower(layer(x).sum(), inputs=[x])
    value = jnp.arange(5.0).reshape(1, 1, 5)
    _, tangent = jax.jvp(lambda x: function(parameters, x), (value,), (value,))
    assert jnp.isclose(tangent, (jax.grad(function, argnums=1)(parameters, value) * value).sum())
