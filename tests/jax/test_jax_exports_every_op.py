"""Every op as a file, mapped over a batch of any size, run by a process without wyrm: the reference's numbers.

`python -m tests.jax.exports` prints what is left, of all samples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import wyrm as wy
from tests.jax.exports import KINDS, cases, faults, is_large
from tests.samples import SAMPLES
from tests.samples.sample import Sample
from wyrm.errors import OptionError

# The samples that cannot be exported, by the reason.
BESSEL = {f"Bessel{name}{shape}": "a call of SciPy" for name in ("J", "Y", "I", "Ie") for shape in ("", "-0d")}
EIGENVALUES = {
    f"GeneralEigen{name}-{shape}": "ONNX Runtime has no LAPACK, and no code of ours stands for it"
    for name in ("values", "vectors")
    for shape in ((1, 1), (3, 3), (2, 3, 3))
}
LACKING = {
    "onnx": BESSEL | EIGENVALUES | {"EigResiduals": EIGENVALUES["GeneralEigenvalues-(1, 1)"]},
    "stablehlo": BESSEL,
}
PARTS = 2


def samples() -> list[Sample]:
    """Return all samples but further ones of operations whose code is large, which take seconds each."""
    first: dict[type[Any], Sample] = {}
    return [sample for sample in SAMPLES if not is_large(sample) or first.setdefault(sample.op, sample) is sample]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_any_batch_runs_without_wyrm(kind: str, part: int, tmp_path: Path) -> None:
    if kind == "onnx":
        pytest.importorskip("jax2onnx")
        pytest.importorskip("onnxruntime")
    chosen = samples()[part::PARTS]
    found = cases(chosen)
    assert len(found) >= 0.98 * len(chosen)
    lacking = LACKING[kind].keys() & {each.name for each in found}
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
