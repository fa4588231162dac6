"""Exported ops compute what the native engine computes, in memory between pages that must not be touched.

One sample of each family of ops, forward and backward; with WYRM_TEST_EXPORT=all every sample, in some minutes.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.engines.native.test_ops import TOLERANCE, _outputs
from tests.exporting.loaded import check_predictions, loaded
from tests.samples import SAMPLES
from tests.samples.sample import Sample
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.errors import WyrmError
from wyrm.exporting.plan import refuse

ALL = os.environ.get("WYRM_TEST_EXPORT") == "all"
# Ops that cannot leave: they have no native form.
REFUSED = frozenset(["BesselI", "BesselIe", "BesselJ", "BesselY", "BetaInc", "LogGammaSlope"])
# Ops whose vectors have any sign, or values any order: `test_linalg` compares what does not depend on these.
FREE = frozenset({
    "Eigenvectors", "GeneralEigenvalues", "GeneralEigenvectors", "LeftSingularVectors", "RightSingularVectors",
})  # fmt: skip


def leaves(sample: Sample) -> bool:
    return sample.op.__name__ not in REFUSED


def is_determined(sample: Sample) -> bool:
    return leaves(sample) and sample.op.__name__ not in FREE


def groups() -> list[list[Sample]]:
    """Return the samples that programs share: of an op's samples the last, and of a family a few, or all."""
    able = [sample for sample in SAMPLES if is_determined(sample)]
    if not ALL:
        by_op = {sample.op: sample for sample in able}
        able = list(by_op.values())[::8]
    rest = iter(able)
    return list(iter(lambda: list(islice(rest, 40)), []))


@pytest.mark.parametrize("samples", groups(), ids=lambda samples: f"from {samples[0]}")
def test_exported_ops_equal_native_ones(samples: list[Sample]) -> None:
    random = np.random.default_rng(0)
    outputs, names = list[Any](), list[str]()
    for sample in samples:
        made = _outputs(sample, np.float32, random)
        outputs += made
        names += [f"{sample}, output {i}" for i in range(len(made))]
    program: Any = wy.compile(outputs)
    tolerance = TOLERANCE[np.float32]
    check_predictions(loaded(predict=program), program, names, rtol=tolerance, atol=tolerance)


def test_the_ops_that_cannot_leave_are_those_that_are_listed() -> None:
    random, found = np.random.default_rng(0), set[str]()
    tried: list[Sample] = [sample for sample in SAMPLES if ALL or not leaves(sample)]
    for sample in {sample.op: sample for sample in tried}.values():
        try:
            refuse(NativeGraph(_outputs(sample, np.float32, random)[:1], None))
        except WyrmError:
            found.add(sample.op.__name__)
    assert found == REFUSED
    assert len(REFUSED) < 0.05 * len({sample.op for sample in SAMPLES})
