"""Every op lowered to JAX, on its samples: values in float64, in float32 without 64-bit types, and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.ops.test_ops_every import differentiable, every, run
from tests.sampling import Sample
from wyrm.backends.xla.lower import Lowerer
from wyrm.node.leaves import Constant
from wyrm.ops.philox import COUNTERS
from wyrm.schedule.schedule import Schedule


def lowered(outputs: Sequence[Any]) -> list[np.ndarray]:
    """Return the values of nodes as one jitted function computes them from the data of all leaves."""
    schedule = Schedule(outputs)
    data = {leaf: leaf.value for leaf in schedule.leaves if leaf not in COUNTERS and not isinstance(leaf, Constant)}

    def function(*arrays: Any) -> list[Any]:
        return Lowerer().run(schedule, dict(zip(data, arrays, strict=True)))

    return [np.asarray(value) for value in jax.jit(function)(*data.values())]


@every()
def test_values(sample: Sample) -> None:
    node = run(sample, sample.operands)
    expected = node.forward()
    with jax.enable_x64(True):
        (value,) = lowered([node])
    assert value.dtype == expected.dtype
    np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)


@every(lambda sample: not sample.name.startswith("Cast-"))
def test_values_without_64_bit_types(sample: Sample) -> None:
    node = run(sample, sample.operands, np.float32)
    expected = node.forward()
    (value,) = lowered([node])
    if expected.dtype.kind == "f":
        assert value.dtype == expected.dtype
    np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


@every(differentiable)
def test_gradients(sample: Sample) -> None:
    node = run(sample, sample.operands)
    node.forward()
    total = (node * wy.Constant(np.cos(np.arange(node.size).reshape(node.shape)))).sum()
    gradients = wy.grad(total, node.parameters())
    if not gradients:
        pytest.skip("no parameter")
    expected = [gradient.forward() for gradient in gradients]
    with jax.enable_x64(True):
        values = lowered(gradients)
    for value, reference in zip(values, expected, strict=True):
        np.testing.assert_allclose(value, reference, rtol=1e-8, atol=1e-10)
