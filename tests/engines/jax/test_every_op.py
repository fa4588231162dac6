"""Every op lowered to JAX, on its samples: values and gradients in float64, and values without 64-bit types.

Several samples share a jitted function, because compiling takes most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

import wyrm as wy
from tests.ops.test_ops_every import projected, run
from tests.samples.grouped import grouped
from tests.samples.sample import Sample
from wyrm.engines.jax.lower import Lowerer
from wyrm.graph.leaves import Constant
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import bound_array
from wyrm.ops.random.draws import LoopSteps
from wyrm.ops.random.philox import Counter


def lowered(outputs: Sequence[Any]) -> list[np.ndarray]:
    """Return the values of nodes as one jitted function computes them from the data of all leaves."""
    schedule = Schedule(outputs)
    data: dict[Any, Any] = {
        leaf: bound_array(leaf) for leaf in schedule.leaves if not isinstance(leaf, Constant | Counter)
    }

    def function(*arrays: Any) -> list[Any]:
        return Lowerer().run(schedule, dict(zip(data, arrays, strict=True)))

    values = map(np.asarray, jax.jit(function)(*data.values()))
    return [whole(value) if output.dtype.kind == "i" else value for output, value in zip(outputs, values, strict=True)]


def whole(value: np.ndarray) -> np.ndarray:
    """Return integers; steps are pairs of words, the lower one first."""
    return value if value.dtype != np.uint32 else (value[..., 1].astype(np.int64) << 32) | value[..., 0]


def computed(samples: Sequence[Sample], dtype: Any) -> dict[str, Any]:
    """Return the nodes of samples and, in float64, the gradients of a projection of each."""
    outputs: dict[str, Any] = {}
    for sample in samples:
        node = outputs[str(sample)] = run(sample, sample.operands, dtype)
        if dtype == np.float64 and sample.differentiable:
            total = projected(node)
            for i, gradient in enumerate(wy.grad(total, node.parameters())):
                outputs[f"{sample}, gradient {i}"] = gradient
    return outputs


def check(
    outputs: dict[str, Any], expected: Sequence[np.ndarray], found: Sequence[np.ndarray], relative: float
) -> None:
    for (name, node), want, have in zip(outputs.items(), expected, found, strict=True):
        assert have.dtype == want.dtype or node.dtype.kind != "f", name
        np.testing.assert_allclose(have, want, rtol=relative, atol=relative / 10, err_msg=name)


@grouped(16)
def test_values_and_gradients(samples: list[Sample]) -> None:
    outputs = computed(samples, np.float64)
    wy.random.set_step(0)
    expected = wy.run(list(outputs.values()))
    with jax.enable_x64(True):
        found = lowered(list(outputs.values()))
    check(outputs, expected, found, 1e-9)
    for (name, node), have in zip(outputs.items(), found, strict=True):
        assert have.dtype == node.dtype, name


def fits(sample: Sample) -> bool:
    """Return whether the integers of a sample are int32, which is what JAX computes with unless told otherwise."""
    arrays = (*sample.operands, np.asarray(sample.expected(*sample.operands)))
    return all(((x >= -(2**31)) & (x < 2**31)).all() for x in arrays if x.dtype.kind == "i")


@grouped(16, lambda sample: (fits(sample) or sample.op is LoopSteps) and "Cast-" not in str(sample))
def test_values_without_64_bit_types(samples: list[Sample]) -> None:
    outputs = computed(samples, np.float32)
    wy.random.set_step(0)
    expected = wy.run(list(outputs.values()))
    check(outputs, expected, lowered(list(outputs.values())), 1e-4)
