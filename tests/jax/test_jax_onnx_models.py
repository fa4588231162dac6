"""Files of ONNX of common models compute what the models do, of any batch: ONNX Runtime runs them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wyrm as wy
from tests.jax.exported_models import MODELS

pytest.importorskip("jax2onnx")
onnxruntime = pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("name", MODELS)
def test_onnx_computes_what_a_model_does_for_any_batch(name: str, tmp_path: Path) -> None:
    model = MODELS[name]()
    wy.jax.to_onnx(model.outputs, tmp_path / "model.onnx", model.inputs)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == [leaf.name for leaf in model.inputs]
    for rows in (1, 5):
        data = model.data(rows)
        for leaf, array in data.items():
            leaf.set(array)
        wy.random.set_step(0)  # that of a file
        found = session.run(None, {leaf.name: array for leaf, array in data.items()})
        for each, expected in zip(found, wy.run(model.outputs), strict=True):
            assert each.shape == expected.shape
            np.testing.assert_allclose(each, expected, rtol=1e-4, atol=1e-5)
