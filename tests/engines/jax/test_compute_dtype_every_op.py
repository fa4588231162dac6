"""Every op in a program that computes in bfloat16: all products of its value and its gradients have narrow operands."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import wyrm as wy
from tests.engines.jax.test_compute_dtype import product_types
from tests.engines.jax.test_every_op import fits
from tests.ops.test_ops_every import projected, run
from tests.samples.grouped import grouped
from tests.samples.sample import Sample
from wyrm.engines.jax.lower import Lowerer
from wyrm.graph.schedule import Schedule


def computes_in_float32(sample: Sample) -> bool:
    """Return whether an op's products are float32: factorizations, and sums of one operand that a product takes."""
    return sample.op.__module__.startswith("wyrm.ops.linalg") or str(sample) == "Einsum-ij,k->j"


def is_special(node: Any) -> bool:
    """Return whether a node is a special function, or its gradient."""
    modules = {type(each).__module__.rpartition(".")[2] for each in Schedule([node]).nodes}
    return bool(modules & {"bessel", "gamma", "gamma_slope"})


@grouped(16, lambda sample: fits(sample) and "Cast-" not in str(sample) and not computes_in_float32(sample))
def test_all_products_have_narrow_operands_and_float32_sums(samples: list[Sample]) -> None:
    outputs = []
    for sample in samples:
        node = run(sample, sample.operands, np.float32)
        outputs.append(node)
        if sample.differentiable and node.dtype.kind == "f":
            outputs += [node for node in wy.grad(projected(node), node.parameters()) if node.dtype.kind == "f"]
    schedule = Schedule(outputs)
    lowerer = Lowerer(narrow=jnp.bfloat16)
    text = jax.jit(lambda: lowerer.run(schedule, {})).lower().as_text()
    # Special functions are of float32; each group of other ops has narrow values.
    assert "bf16" in text or all(node.dtype.kind != "f" or is_special(node) for node in outputs)
    assert set(product_types(text)) <= {("bf16", "bf16", "f32")}
