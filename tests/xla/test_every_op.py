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
from wyrm.node.storage import bound_array
from wyrm.ops.drawing import LoopSteps
from wyrm.ops.philox import COUNTERS
from wyrm.schedule.schedule import Schedule


def lowered(outputs: Sequence[Any]) -> list[np.ndarray]:
    """Return the values of nodes as one jitted function computes them from the data of all leaves."""
    schedule = Schedule(outputs)
    data: dict[Any, Any] = {
        leaf: bound_array(leaf) for leaf in schedule.leaves if leaf not in COUNTERS and not isinstance(leaf, Constant)
    }

    def function(*arrays: Any) -> list[Any]:
        return Lowerer().run(schedule, dict(zip(data, arrays, strict=True)))

    values = map(np.asarray, jax.jit(function)(*data.values()))
    return [whole(value) if output.dtype.kind == "i" else value for output, value in zip(outputs, values, strict=True)]


def whole(value: np.ndarray) -> np.ndarray:
    """Return integers; steps are pairs of words, the lower one first."""
    return value if value.dtype != np.uint32 else (value[..., 1].astype(np.int64) << 32) | value[..., 0]


@every()
def test_values(sample: Sample) -> None:
    node = run(sample, sample.operands)
    expected = node.forward()
    with jax.enable_x64(True):
        (value,) = lowered([node])
    assert value.dtype == expected.dtype
    np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)


def fits(sample: Sample) -> bool:
    """Return whether the integers of a sample are int32, which is what JAX computes with unless told otherwise."""
    arrays = (*sample.operands, np.asarray(sample.expected(*sample.operands)))
    return all(((x >= -(2**31)) & (x < 2**31)).all() for x in arrays if x.dtype.kind == "i")


@every(lambda sample: not sample.name.startswith("Cast-"))
def test_values_without_64_bit_types(sample: Sample) -> None:
    if not fits(sample) and sample.op is not LoopSteps:
        pytest.skip("integers beyond int32")
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
