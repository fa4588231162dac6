"""Ops mapped over a batch of any size as ONNX, run by a process without wyrm; a tenth of the samples."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.jax.test_jax_export_every_op import Batch, has_code
from tests.samples import SAMPLES
from tests.samples.sample import Sample
from wyrm.graph.schedule import Schedule

pytest.importorskip("jax2onnx")
pytest.importorskip("onnxruntime")

# Ops with samples that do not leave, or that onnxruntime does not load: 88 of 774 samples. Convolutions are among them
# for batches of kernels alone.
LACKING = frozenset([
    "AddDropout", "Attention", "AttentionGradient", "AttentionMask", "Beta", "CTC", "CTCGradient",
    "CachedAttention", "Cofactors", "CofactorsSlope", "Convolution", "ConvolutionInputGradient",
    "ConvolutionWeightGradient", "Dropout", "EigResiduals", "Gamma", "GeneralEigenvalues", "GeneralEigenvectors",
    "JoinRows", "LogNdtr", "MatrixExponential", "OptimizationBarrier", "Place", "PlaceInResiduals", "PlaceSlice",
    "ProductOfOthers", "ReciprocalGaps", "Recurrence", "Replaced", "RowGradient", "RunningArg", "Scan",
    "ScatterAdd", "SearchSorted", "SegmentMax", "Solve",
])  # fmt: skip
# Their vectors have any sign.
SIGNS = ("Vectors", "SVDResiduals", "EighResiduals")
PROGRAM = """
import os, sys
import numpy as np, onnxruntime
onnxruntime.set_default_logger_severity(4)
names = sys.argv[1:]
for name in names:
    session = onnxruntime.InferenceSession(name + ".onnx", providers=["CPUExecutionProvider"])
    data = np.load(name + ".npz")
    for count in (3, 1):
        (found,) = session.run(None, {x.name: data[x.name][:count] for x in session.get_inputs()})
        wanted = data["wanted"][:count]
        assert found.shape == wanted.shape, (name, found.shape)
        if data["any_sign"]:
            found, wanted = np.abs(found), np.abs(wanted)
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=2e-5, err_msg=name)
assert "wyrm" not in sys.modules and "jax" not in sys.modules
print(len(names))
"""


def write(sample: Sample, path: Path) -> None:
    """Write an op mapped over a batch, data for three rows, and what the graph computes for them."""
    batch, data = Batch(), dict[Any, np.ndarray]()
    for operand in sample.operands:
        array, name = np.asarray(operand), f"x{len(data)}"
        dims: Any = (batch, *array.shape)
        if array.dtype.kind in "iu":
            leaf: Any = wy.IndexInput(dims=dims, name=name)
        else:
            leaf = wy.Input(dims=dims, dtype=np.bool_ if array.dtype == np.bool_ else np.float32, name=name)
        data[leaf] = np.stack([array] * 3).astype(np.int32 if array.dtype.kind in "iu" else leaf.dtype)
    node = wy.vmap(sample.build)(*data)
    inputs = [leaf for leaf in Schedule([node]).leaves if leaf in data]
    wy.jax.to_onnx(node, path.with_suffix(".onnx"), inputs=inputs)
    wanted = wy.compile(node, engine="jax")({leaf: data[leaf] for leaf in inputs})
    arrays = {str(leaf.name): data[leaf] for leaf in inputs}
    any_sign = np.array(any(text in str(sample) for text in SIGNS))
    np.savez(path.with_suffix(".npz"), wanted=wanted, any_sign=any_sign, **arrays)  # type: ignore[arg-type]  # by name


@pytest.mark.parametrize("first", range(2))
def test_any_batch_runs_without_wyrm(first: int, tmp_path: Path) -> None:
    leaving = [sample for sample in SAMPLES if has_code(sample) and sample.op.__name__ not in LACKING]
    chosen = leaving[first * 5 :: 20]
    for i, sample in enumerate(chosen):
        write(sample, tmp_path / str(i))
    names = [str(i) for i in range(len(chosen))]
    done = subprocess.run([sys.executable, "-I", "-c", PROGRAM, *names], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(chosen) > 25
