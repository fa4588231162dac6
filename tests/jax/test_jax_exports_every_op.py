"""Every op is written as StableHLO, mapped over a batch of any size, without a call of NumPy; or it is refused."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.each import each
from tests.samples import SAMPLES
from tests.samples.sample import Sample
from wyrm.errors import OptionError, ShapeError
from wyrm.graph.schedule import Schedule
from wyrm.ops.elementwise.bessel import BesselI, BesselIe, BesselJ, BesselY

# One sample of each op that a file can hold.
FIRST: dict[type[Any], Sample] = {}
OF_SCIPY = (BesselI, BesselIe, BesselJ, BesselY)
for sample in SAMPLES:
    if sample.op not in OF_SCIPY:
        FIRST.setdefault(sample.op, sample)


class Batch(wy.Dim): ...


def is_wide(sample: Sample) -> bool:
    """Return whether a sample has numbers of 64 bits, which JAX does not have unless told otherwise."""
    arrays = (*sample.operands, np.asarray(sample.expected(*sample.operands)))
    return any(x.dtype.kind == "i" and bool(((x < -(2**31)) | (x >= 2**31)).any()) for x in arrays)


def on_inputs(sample: Sample, axes: tuple[Any, ...]) -> Any:
    """Return the node of a sample on inputs with these axes first."""
    leaves: list[Any] = []
    for i, operand in enumerate(sample.operands):
        dims: Any = (*axes, *np.shape(operand))
        if operand.dtype.kind in "iu":
            leaves.append(wy.IndexInput(dims=dims, name=f"x{i}"))
        else:
            dtype = np.bool_ if operand.dtype == np.bool_ else np.float32
            leaves.append(wy.Input(dims=dims, dtype=dtype, name=f"x{i}"))
    node = wy.vmap(sample.build)(*leaves) if axes else sample.build(*leaves)
    # A random node without operands has no batch.
    return node if not axes or set(leaves) & set(Schedule([node]).leaves) else on_inputs(sample, ())


@each(FIRST.values(), size=32)
def test_any_batch(sample: Sample) -> None:
    try:
        node = on_inputs(sample, (Batch(),))
    except ShapeError:  # of an op without operands, or of a buffer, which belongs to no row
        node = on_inputs(sample, ())
    with jax.enable_x64(True) if is_wide(sample) or node.dtype == np.float64 else nullcontext():
        exported = wy.jax.export(node)
    assert "callback" not in exported.mlir_module()


@pytest.mark.parametrize("op", OF_SCIPY)
def test_a_function_of_scipy_is_refused(op: Any) -> None:
    x = wy.Input(dims=(3,), name="x")
    with pytest.raises(OptionError, match=r"calls SciPy, which a file cannot: .*scipy\.special\.\w+\(1\.5, x\)"):
        wy.jax.export(op(x, 1.5))
