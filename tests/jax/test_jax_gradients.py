"""Derivatives by JAX of lowered graphs are those of wyrm, for every op, and to second order."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.ops.test_ops_every import differentiable, every, run
from tests.sampling import Sample
from wyrm.backends.xla.differentiable import _is_piecewise


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


def own(sample: Sample) -> bool:
    """Return whether functions for JAX have a derivative of the op's own."""
    op = sample.op
    piecewise = op.formula is not None and _is_piecewise(op.formula)
    return sample.differentiable and (piecewise or op.__name__ in ("Attention", "CTC", "LinearCrossEntropy", "Scan"))


@every(own)
def test_second_derivatives_of_ops_with_a_derivative_of_their_own(sample: Sample) -> None:
    node = run(sample, sample.operands)
    weights = wy.Constant(np.cos(np.arange(node.size).reshape(node.shape)))
    total = (node * weights).sum()
    wanted = node.parameters()
    sums = [(gradient * gradient).sum() for gradient in wy.grad(total, wanted)]
    wy.random.set_step(0)
    expected = wy.grad(sum(sums[1:], sums[0]), wanted, allow_unused=True)
    with jax.enable_x64(True):
        function, parameters = wy.jax.lower(total)

        def squares(values: Any) -> Any:
            gradients = jax.grad(function)(values)
            return sum((gradient**2).sum() for gradient in gradients.values())

        found: Any = jax.jit(jax.grad(squares))(parameters)
    for parameter, reference in zip(wanted, expected, strict=True):
        wy.random.set_step(0)
        np.testing.assert_allclose(found[function.names[parameter]], reference.forward(), rtol=1e-7, atol=1e-9)
