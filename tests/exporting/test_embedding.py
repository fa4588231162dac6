"""Weights in the code: predictions need no file, and fewer bytes lose the accuracy that is printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.exporting.loaded import loaded
from tests.exporting.models import classifier
from wyrm.errors import OptionError
from wyrm.exporting.kernels import expand_float16


@pytest.mark.parametrize(("kind", "tolerance"), [("float32", 1e-6), ("float16", 2e-3), ("int8", 2e-2)])
def test_predictions_need_no_file(kind: str, tolerance: float) -> None:
    wy.nn.seed(0)
    x = wy.Input(dims=(4, 20), name="x")
    layer = wy.nn.Linear(20, 30)
    program = wy.compile(layer(x))
    export = loaded(predict=program, embed=kind)
    assert export.interface.tensors == []
    assert export.start() == 0
    data = np.random.default_rng(0).normal(size=(4, 20)).astype(np.float32)
    code, found = export.call("predict", x=data)
    assert code == 0
    (have,) = found.values()
    wanted: Any = program({x: data})
    assert np.abs(have - wanted).max() < tolerance * np.abs(wanted).max()
    if kind != "float32":
        assert export.built.embedding is not None
        assert 0.0 < export.built.embedding.loss_of_accuracy < tolerance


def test_weights_that_are_all_zero() -> None:
    x, bias = wy.Input(dims=(70,), name="x"), wy.Parameter(np.zeros(70, np.float32), name="bias")
    export = loaded(predict=wy.compile((x + bias) * wy.Parameter(np.arange(70, dtype=np.float32))), embed="float32")
    assert export.start() == 0
    code, found = export.call("predict", x=np.ones(70, np.float32))
    assert code == 0
    (have,) = found.values()
    np.testing.assert_array_equal(have, np.arange(70))


def test_halves_are_exact() -> None:
    bits = np.array([each for each in range(2**16) if (each >> 10) & 31 != 31], np.uint16)
    out = np.zeros(len(bits), np.float32)
    expand_float16(bits, out)
    np.testing.assert_array_equal(out, bits.view(np.float16).astype(np.float32))


def test_the_loss_is_told_and_trainings_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = classifier()
    with pytest.raises(OptionError, match="programs that predict alone"):
        wy.export(tmp_path, train=model.train, embed=True)
    x, weight = wy.Input(dims=(70,), name="x"), wy.Parameter(np.linspace(0.1, 1.0, 70, dtype=np.float32), name="w")
    wy.compile(x * weight).export(tmp_path, embed="int8")
    assert "the weights as int8 differ by 0." in capsys.readouterr().err
    weight.set(weight.value * np.float32(1e6))
    with pytest.raises(OptionError, match="w has a number beyond the range of float16"):
        wy.compile(x * weight).export(tmp_path, embed="float16")
