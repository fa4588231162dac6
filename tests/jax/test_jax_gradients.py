"""Derivatives by JAX of lowered graphs are those of wyrm, for every op, and to second order."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.ops.test_ops_every import differentiable, every, run
from tests.sampling import Sample


@every(differentiable)
def test_gradients_by_jax(sample: Sample) -> None:
    node = run(sample, sample.operands)
    total = (node * wy.Constant(np.cos(np.arange(node.size).reshape(node.shape)))).sum()
    wanted = node.parameters()
    if not wanted:
        pytest.skip("no parameter")
    expected = []
    for gradient in wy.grad(total, wanted):
        wy.random.set_step(0)
        expected.append(gradient.forward())
    with jax.enable_x64(True):
        function, parameters = wy.jax.lower(total)
        gradients: Any = jax.jit(jax.grad(function))(parameters)
    for parameter, reference in zip(wanted, expected, strict=True):
        np.testing.assert_allclose(gradients[function.names[parameter]], reference, rtol=1e-8, atol=1e-10)
