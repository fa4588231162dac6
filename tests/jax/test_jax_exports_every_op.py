"""Every op as a file, mapped over a batch of any size, run by a process without wyrm: the reference's numbers.

`python -m tests.jax.exports` prints what is left.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import wyrm as wy
from tests.jax.exports import KINDS, cases, faults
from tests.samples import SAMPLES
from wyrm.errors import OptionError

EIGENVALUES = "eigenvalues of matrices that are not symmetric need LAPACK"
BESSEL = "Bessel functions of any order are calls of SciPy"
# The samples that cannot be exported, and why.
LACKING: dict[str, dict[str, str]] = {
    "onnx": {
        **dict.fromkeys(["EigResiduals", "GeneralEigenvalues-(1, 1)"], EIGENVALUES),
    },
    "stablehlo": {},
}
BY_BESSEL = {f"Bessel{name}{shape}": BESSEL for name in ("J", "Y", "I", "Ie") for shape in ("", "-0d")}
PARTS = 2


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_any_batch_runs_without_wyrm(kind: str, part: int, tmp_path: Path) -> None:
    if kind == "onnx":
        pytest.importorskip("jax2onnx")
        pytest.importorskip("onnxruntime")
    size = -(-len(SAMPLES) // PARTS)
    found = cases(SAMPLES[part * size : (part + 1) * size])
    assert len(found) > 0.97 * size
    lacking = (LACKING[kind] | BY_BESSEL).keys() & {each.name for each in found}
    refused, wrong = faults(kind, found, tmp_path)
    assert {name: reason for name, reason in refused.items() if name not in lacking} == {}
    assert wrong == {}
    assert refused.keys() == lacking


def test_an_op_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    pytest.importorskip("jax2onnx")

    class Batch(wy.Dim): ...

    x = wy.Input(dims=(Batch(), 3), name="x")
    with pytest.raises(OptionError) as caught:
        wy.jax.to_onnx(wy.special.jv(2.5, x.exp()).sum(axis=1), tmp_path / "model.onnx")
    message = str(caught.value)
    assert "cannot write bessel_j" in message and "test_jax_exports_every_op.py" in message
    assert "sizes={Batch: 32}" in message and list(tmp_path.iterdir()) == []
