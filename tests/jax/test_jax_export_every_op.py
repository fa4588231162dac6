"""Every op, mapped over a batch of any size, as StableHLO, which runs without the graph: the reference's numbers."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import wyrm as wy
from tests.engines.jax.test_every_op import fits
from tests.samples.grouped import grouped
from tests.samples.sample import Sample
from wyrm.graph.schedule import Schedule


class Batch(wy.Dim): ...


def has_code(sample: Sample) -> bool:
    """Return whether an op is code of XLA with an operand to map: Bessel functions of any order are calls of SciPy."""
    name = sample.op.__name__
    drawn = "Random" in name or "Standard" in name or name in ("DropoutMask", "Updating", "CrossEntropyCount")
    return fits(sample) and not drawn and "Bessel" not in name and "Cast-" not in str(sample)


@grouped(16, has_code)
def test_any_batch(samples: list[Sample]) -> None:
    batch, nodes = Batch(), []
    data: dict[Any, np.ndarray] = {}
    for sample in samples:
        leaves: list[Any] = []
        for operand in sample.operands:
            array = np.asarray(operand)
            dims: Any = (batch, *array.shape)
            if array.dtype.kind in "iu":
                leaves.append(wy.IndexInput(dims=dims))
            else:
                leaves.append(wy.Input(dims=dims, dtype=np.bool_ if array.dtype == np.bool_ else np.float32))
            kind = np.int32 if array.dtype.kind in "iu" else leaves[-1].dtype
            data[leaves[-1]] = np.stack([array, array, array]).astype(kind)
        nodes.append(wy.vmap(sample.build)(*leaves))
    reached = set(Schedule(nodes).leaves)
    inputs = [leaf for leaf in data if leaf in reached]
    exported = jax.export.deserialize(wy.jax.export(nodes, inputs).serialize())
    found = exported.call(*(data[leaf] for leaf in inputs))
    for leaf in inputs:
        leaf.set(data[leaf])
    wy.random.set_step(0)
    expected = wy.run(nodes)
    for sample, have, want in zip(samples, found, expected, strict=True):
        assert have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5, err_msg=str(sample))
