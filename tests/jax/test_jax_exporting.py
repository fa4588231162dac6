"""Exported StableHLO and ONNX compute what the graph computes, for any size of the batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.jax.exported_models import MODELS
from tests.subprocesses import error_without
from wyrm.engines.jax.namespace import namespace
from wyrm.errors import OptionError
from wyrm.jax.exporting import _traced


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


@pytest.mark.parametrize("name", ["perceptron", "lstm", "gpt2", "matrix_factorization"])
def test_stablehlo_computes_the_outputs_for_any_batch(name: str) -> None:
    model = MODELS[name]()
    exported = jax.export.deserialize(wy.jax.export(model.outputs, model.inputs).serialize())
    for rows in (1, 5):
        data = model.data(rows)
        for leaf, array in data.items():
            leaf.set(array)
        found = exported.call(*data.values())
        values = found if len(model.outputs) > 1 else [found]
        for value, expected in zip(values, wy.run(model.outputs), strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-5)


def test_sizes_fix_open_axes() -> None:
    x = wy.Input(dims=(Batch(), 6), name="x")
    exported = wy.jax.export(wy.nn.Linear(6, 3)(x), sizes={Batch: 4})
    assert exported.in_avals[0].shape == (4, 6)


def test_several_outputs_and_derived_axes() -> None:
    x, y = wy.Input(dims=(Batch(), Time()), name="x"), wy.Input(dims=(wy.Times((Batch(), Time())), 2), name="y")
    exported = wy.jax.export([x.reshape(-1) @ y, x.sum()], inputs=[x, y])
    assert str(exported.in_avals[1]) == "float32[batch*time,2]"
    product, total = exported.call(np.ones((3, 4), np.float32), np.ones((12, 2), np.float32))
    assert (product.tolist(), float(total)) == ([12.0, 12.0], 12.0)


def test_a_graph_in_training_is_refused_with_a_warning() -> None:
    x = wy.Input(dims=(Batch(), 3), name="x")
    dropout = wy.nn.Dropout(0.5)
    output = dropout(x)
    dropout.eval()
    with pytest.warns(RuntimeWarning, match="built in training"):
        wy.jax.export(output)


def test_an_input_without_data_is_named() -> None:
    x, y = wy.Input(dims=(Batch(), 3), name="x"), wy.Input(dims=(Batch(), 3), name="y")
    with pytest.raises(wy.errors.NotSet, match=r"y .*list it among inputs"):
        wy.jax.export(x + y, inputs=[x])
    with pytest.raises(OptionError, match="no input of the graph"):
        wy.jax.export(x * 2.0, inputs=[y])


def test_without_jax2onnx_the_error_says_what_to_install() -> None:
    error = error_without("jax2onnx", "wy.jax.to_onnx(wy.Parameter([1.0]).sum(), 'file.onnx')")
    assert 'wy.jax.to_onnx needs jax2onnx: pip install "wyrm-autodiff[onnx]"' in error


def test_a_graph_that_needs_sizes_says_which() -> None:
    def build() -> None:
        raise TypeError("needs a number")

    with pytest.raises(OptionError, match=r"open axes: needs a number\n.* give sizes=\{Batch: 32, Time: 32\}"):
        _traced(build, [Batch, Time])
    with pytest.raises(TypeError, match="needs a number"):
        _traced(build, [])


def test_programs_work_after_an_export_to_onnx(tmp_path: Path) -> None:
    x = wy.Input(dims=(2, 3), name="x")
    node = x.tanh().softmax()
    namespace.cache_clear()
    wy.jax.to_onnx(node, tmp_path / "first.onnx")
    array = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    expected = wy.compile(node)({x: array})
    program = wy.compile(node, engine="jax")
    np.testing.assert_allclose(program({x: array}), expected, rtol=1e-6)
    np.testing.assert_allclose(wy.jax.export(node).call(array), expected, rtol=1e-6)
    function, parameters = wy.jax.lower(node, inputs=[x])
    np.testing.assert_allclose(jax.jit(function)(parameters, array), expected, rtol=1e-6)
    wy.jax.to_onnx(node, tmp_path / "second.onnx")
    assert (tmp_path / "second.onnx").read_bytes() == (tmp_path / "first.onnx").read_bytes()


def test_training_goes_on_after_an_export_and_an_export_has_what_was_trained(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    x, y = wy.Input(dims=(Batch(), 3), name="x"), wy.Input(dims=(Batch(), 1), name="y")
    data = np.random.default_rng(0).normal(size=(16, 4)).astype(np.float32)

    def epochs(exports: bool) -> tuple[Any, list[float]]:
        wy.nn.seed(0)
        namespace.cache_clear()
        output = (wy.nn.Linear(3, 8) >> wy.nn.relu >> wy.nn.Linear(8, 1))(x)
        loss = wy.losses.mse(output, y)
        if exports:
            wy.jax.to_onnx(output, tmp_path / "before.onnx", inputs=[x])
        train = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=0.01), engine="jax")
        losses = []
        for _ in range(3):
            losses.append(float(train.epoch({x: data[:, :3], y: data[:, 3:]}, batch_size=4)))
            if exports:
                wy.jax.to_onnx(output, tmp_path / "after.onnx", inputs=[x])
        return output, losses

    assert epochs(exports=True)[1] == epochs(exports=False)[1]
    output, _ = epochs(exports=True)
    (found,) = onnxruntime.InferenceSession(tmp_path / "after.onnx").run(None, {"x": data[:, :3]})
    np.testing.assert_allclose(found, wy.compile(output)({x: data[:, :3]}), rtol=1e-5, atol=1e-6)
