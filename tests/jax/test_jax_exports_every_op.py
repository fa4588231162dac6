"""Every op as a file, mapped over a batch of any size, run by a process without wyrm: the reference's numbers.

`python -m tests.jax.exports` prints what is left, of all samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import wyrm as wy
from tests.jax.exports import KINDS, Batch, cases, faults, is_large
from tests.samples import SAMPLES
from tests.samples.sample import Sample
from wyrm.errors import OptionError

# The samples that cannot be exported, or not with the numbers of the reference, by the reason.
EIGENVALUES = {
    f"GeneralEigen{name}-{shape}": "ONNX Runtime has no LAPACK, and no code of ours stands for it"
    for name in ("values", "vectors")
    for shape in ((1, 1), (3, 3), (2, 3, 3))
}
STEPS = {"LoopSteps": "JAX has a step of 64 bits as two words, which random nodes in loops read, never a user"}
LACKING: dict[str, dict[str, str]] = {
    "onnx": EIGENVALUES | {"EigResiduals": EIGENVALUES["GeneralEigenvalues-(1, 1)"]} | STEPS,
    "stablehlo": STEPS,
}
PARTS = 2


def samples(kind: str) -> list[Sample]:
    """Return all samples; for ONNX, one of each op whose code is large, which takes seconds."""
    if kind == "stablehlo":
        return SAMPLES
    first: dict[type[Any], Sample] = {}
    return [sample for sample in SAMPLES if not is_large(sample) or first.setdefault(sample.op, sample) is sample]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_any_batch_runs_without_wyrm(kind: str, part: int, tmp_path: Path) -> None:
    if kind == "onnx":
        pytest.importorskip("jax2onnx")
        pytest.importorskip("onnxruntime")
    chosen = samples(kind)[part::PARTS]
    found = cases(chosen)
    assert len(found) == len(chosen)
    lacking = LACKING[kind].keys() & {each.name for each in found}
    refused, wrong = faults(kind, found, tmp_path)
    faulty = refused | wrong
    assert {name: reason for name, reason in faulty.items() if name not in lacking} == {}
    assert faulty.keys() == lacking


def test_an_op_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    pytest.importorskip("jax2onnx")

    x = wy.Input(dims=(Batch(), 3, 3), name="x")
    with pytest.raises(OptionError) as caught:
        wy.jax.to_onnx(wy.linalg.eigvals(x.exp()).sum(axis=1), tmp_path / "model.onnx")
    message = str(caught.value)
    assert "cannot write eig (Batch(), 4, 3) float32 (at test_jax_exports_every_op.py" in message
    assert "sizes={Batch: 32}" in message and list(tmp_path.iterdir()) == []


def write_two_rows(*_: object, output_path: Path, input_names: list[str], **__: object) -> None:
    """Write a file whose output always has two rows, in place of jax2onnx."""
    import onnx
    from onnx import TensorProto, helper

    shape: list[str | int | None] = ["batch", 3]
    (name,) = input_names
    graph = helper.make_graph(
        [helper.make_node("Expand", [name, "shape"], ["output_0"])], "wrong",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output_0", TensorProto.FLOAT, shape)],
        [helper.make_tensor("shape", TensorProto.INT64, [2], [2, 3])],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), output_path)


def test_a_file_with_wrong_shapes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jax2onnx = pytest.importorskip("jax2onnx")
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(jax2onnx, "to_onnx", write_two_rows)
    x = wy.Input(dims=(Batch(), 3), name="x")
    with pytest.raises(OptionError, match=r"cannot write tanh .* computes the shape \(2, 3\), JAX \(1, 3\)"):
        wy.jax.to_onnx(x.tanh(), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []
    wy.jax.to_onnx(x.tanh(), tmp_path / "model.onnx", check=False)
    assert (tmp_path / "model.onnx").exists()
