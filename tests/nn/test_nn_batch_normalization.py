from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import CheckpointError, DTypeError, ShapeError
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


class Features(wy.Dim): ...


FEATURES = Features(5)
RANDOM = np.random.default_rng(0)
DATA = 2.0 * RANDOM.standard_normal((32, 5)) + 1.0


def eager(loss: Any, x: Any, optimizer: Any) -> Callable[[], object]:
    def step() -> None:
        x.set(DATA)
        loss.backward()
        optimizer.step()
        optimizer.zero_gradient()

    return step


def native(loss: Any, x: Any, optimizer: Any, step: Callable[[Any, Any, Any], object], **options: Any) -> Any:
    program = wy.compile(loss, optimizer, **options)
    return lambda: step(program, {x: DATA}, optimizer)


def by_gradients(program: Any, feed: Any, optimizer: Any) -> None:
    program.backward(feed)
    optimizer.step()
    optimizer.zero_gradient()


WAYS: dict[str, Callable[..., Callable[[], object]]] = {
    "eager": eager,
    "gradients": partial(native, step=by_gradients),
    "step": partial(native, step=lambda program, feed, _: program(feed)),
    "python": partial(native, step=lambda program, feed, _: program(feed), loop="python"),
    "epoch": partial(native, step=lambda program, feed, _: program.epoch(feed, batch_size=32)),
}


@pytest.mark.parametrize("way", WAYS)
def test_training_moves_weights_and_statistics_as_pytorch_does(way: str) -> None:
    layer = wy.nn.BatchNorm(FEATURES, dtype=np.float64)
    x = wy.Input(dims=(Batch(), FEATURES), name="x", dtype=np.float64)
    normalized = layer(x)
    assert_type(normalized, wy.Node[Any, tuple[Batch, Features]])
    loss = normalized.tanh().square().mean()
    step = WAYS[way](loss, x, wy.optim.SGD(layer.parameters(), 0.1))
    twin = torch.nn.BatchNorm1d(5, dtype=torch.float64)
    optimizer = torch.optim.SGD(twin.parameters(), 0.1)
    for _ in range(3):
        step()
        optimizer.zero_grad()
        torch.tanh(twin(torch.tensor(DATA))).square().mean().backward()
        optimizer.step()
    for leaf, tensor in (
        (layer.running_mean, twin.running_mean),
        (layer.running_var, twin.running_var),
        (layer.weight, twin.weight),
        (layer.bias, twin.bias),
    ):
        assert tensor is not None
        np.testing.assert_allclose(leaf.value, tensor.detach().numpy(), rtol=1e-12)
    layer.eval()
    twin.eval()
    expected = twin(torch.tensor(DATA)).detach().numpy()
    np.testing.assert_allclose(layer(wy.Constant(DATA)).forward(), expected, rtol=1e-12)


def test_gradients_are_right_to_second_order() -> None:
    layer = wy.nn.BatchNorm(5, axis=-1, dtype=np.float64)
    x = wy.Parameter(RANDOM.standard_normal((2, 3, 5)))
    check_grads(layer(x).tanh().square().sum(), order=2)


class Channels(wy.Dim): ...


class Height(wy.Dim): ...


IMAGES = RANDOM.standard_normal((6, 3, 4, 3)) * np.array([1.0, 2.0, 3.0]).reshape(3, 1, 1) + 0.5
IMAGE_WAYS: dict[str, tuple[Any, dict[str, Any]]] = {
    "eager": (eager, {}),
    "native": (native, {"step": lambda program, feed, _: program(feed)}),
    "epoch": (native, {"step": lambda program, feed, _: program.epoch(feed, batch_size=6)}),
    "jax": (native, {"step": lambda program, feed, _: program(feed), "engine": "jax"}),
}


@pytest.mark.parametrize("way", IMAGE_WAYS)
def test_channels_of_images_are_normalized_as_pytorch_does(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`BatchNorm2d`, for channels on axis 1, in training and evaluation."""
    monkeypatch.setitem(globals(), "DATA", IMAGES)
    layer = wy.nn.BatchNorm(3, axis=1, momentum=0.3, dtype=np.float64)
    x = wy.Input(dims=(Batch(), 3, 4, 3), name="x", dtype=np.float64)
    loss = layer(x).tanh().square().mean()
    run, options = IMAGE_WAYS[way]
    step = run(loss, x, wy.optim.SGD(layer.parameters(), 0.1), **options)
    twin = torch.nn.BatchNorm2d(3, momentum=0.3, dtype=torch.float64)
    optimizer = torch.optim.SGD(twin.parameters(), 0.1)
    for _ in range(3):
        step()
        optimizer.zero_grad()
        torch.tanh(twin(torch.tensor(IMAGES))).square().mean().backward()
        optimizer.step()
    for name, tensor in twin.state_dict().items():
        if name != "num_batches_tracked":
            np.testing.assert_allclose(layer.state_dict()[name], tensor.numpy(), rtol=1e-12, err_msg=name)
    layer.eval()
    twin.eval()
    expected = twin(torch.tensor(IMAGES)).detach().numpy()
    program: Any = wy.compile(layer(x), engine="jax" if way == "jax" else "native")
    np.testing.assert_allclose(program({x: IMAGES}), expected, rtol=1e-12)
    np.testing.assert_allclose(layer(wy.Constant(IMAGES)).forward(), expected, rtol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_any_axis_is_that_axis_moved_to_the_end(axis: int) -> None:
    x = RANDOM.standard_normal((4, 4, 4))
    layers = wy.nn.BatchNorm(4, axis=axis, dtype=np.float64), wy.nn.BatchNorm(4, axis=-1, dtype=np.float64)
    for mode in (True, False):
        found, expected = (layer.train(mode)(wy.Constant(value)) for layer, value in zip(
            layers, (x, np.moveaxis(x, axis, -1)), strict=True
        ))  # fmt: skip
        np.testing.assert_allclose(np.moveaxis(found.forward(), axis, -1), expected.forward(), rtol=1e-12)


def test_a_named_axis_is_kept_and_checked_by_mypy() -> None:
    channels, height = Channels(3), Height(4)
    x = wy.Input(dims=(Batch(), channels, height), name="x")
    named = wy.nn.BatchNorm(channels, axis=1)(x)
    assert_type(named, wy.Node[Any, tuple[Batch, Channels, Height]])
    assert named.dims == x.dims
    last = wy.Input(dims=(Batch(), height, channels), name="x")
    assert wy.nn.BatchNorm(channels)(last).dims == last.dims
    # A number for the layer, a name in the operand, and the other way round.
    of_number: wy.nn.BatchNorm = wy.nn.BatchNorm(3, axis=1)
    for layer, axis in ((of_number, channels), (wy.nn.BatchNorm(channels, axis=1), 3)):
        layer(wy.Constant(IMAGES[..., 0], (6, axis, 4), dtype=np.float32)).square().sum().backward()
        assert (layer.running_mean.value != 0).all()


def test_an_axis_that_nothing_tells_is_an_error() -> None:
    class Width(wy.Dim): ...

    channels = Channels(8)
    untold = (
        r"BatchNorm: nothing says which axis of input \(Batch\(\), .*\) float32 .*; give axis=1 for \(batch, channels"
    )
    for dims in ((8, 8, 8), (Width(), 8, 8), (5, 8), (5, Width()), (5, Width(8))):
        for layer in (wy.nn.BatchNorm(8), wy.nn.BatchNorm(channels)):
            with pytest.raises(ShapeError, match=untold):
                layer(wy.Input(dims=(Batch(), *dims)))
    with pytest.raises(
        ShapeError, match=r"BatchNorm: features, 8, is axis 1 of input .*, not the last axis; give axis=1"
    ):
        wy.nn.BatchNorm(8)(wy.Input(dims=(Batch(), 8, 28, 28)))
    elsewhere = r"BatchNorm: features, Channels\(8\), is axis 1 of input .*, not the last axis; give axis=1"
    for rest in ((8, 8), (Width(8), 8), ()):
        with pytest.raises(ShapeError, match=elsewhere):
            wy.nn.BatchNorm(channels)(wy.Input(dims=(8, channels, *rest, 8)))
    with pytest.raises(ShapeError, match=r"features, Channels\(8\), is axis 1 of .*, not axis 2"):
        wy.nn.BatchNorm(channels, axis=2)(wy.Input(dims=(Batch(), channels, 8)))
    with pytest.raises(ShapeError, match=r"BatchNorm: axis 1 of input .* is not features: 5 against 8"):
        wy.nn.BatchNorm(8, axis=1)(wy.Input(dims=(Batch(), 5, 8)))
    with pytest.raises(ShapeError, match="axis 3 is out of range for 3 axes"):
        wy.nn.BatchNorm(8, axis=3)(wy.Input(dims=(Batch(), 5, 8)))
    with pytest.raises(DTypeError, match="BatchNorm: axis must be the number of an axis, not 'channels'"):
        wy.nn.BatchNorm(8, axis="channels")  # type: ignore[arg-type]  # the mistake


def test_nothing_moves_where_nothing_trains() -> None:
    layer = wy.nn.BatchNorm(5)
    x = wy.Constant(DATA, dtype=np.float32)
    loss = layer(x).square().sum()
    loss.forward()
    wy.grad(loss, [layer.weight])[0].forward()
    wy.compile(loss)({})
    assert (layer.running_mean.value == 0).all() and (layer.running_var.value == 1).all()


def test_the_rows_of_a_batch_are_normalized_together_by_any_number_of_threads() -> None:
    layer = wy.nn.BatchNorm(5, momentum=1.0, dtype=np.float64)
    x = wy.Input(dims=(Batch(), 5), name="x", dtype=np.float64)
    program = wy.compile(layer(x).square().mean(), wy.optim.SGD(layer.parameters(), 0.1))
    program.epoch({x: DATA}, batch_size=32, threads=2, mode="synchronized")
    np.testing.assert_allclose(layer.running_mean.value, DATA.mean(0), rtol=1e-12)
    np.testing.assert_allclose(layer.running_var.value, DATA.var(0, ddof=1), rtol=1e-12)


def test_statistics_are_as_they_were_where_training_diverges() -> None:
    layer = wy.nn.BatchNorm(5)
    x = wy.Input(dims=(Batch(), 5), name="x")
    loss = (layer(x).square().mean() - 100.0).sqrt()
    program = wy.compile(loss, wy.optim.SGD(layer.parameters(), 0.1))
    with pytest.raises(wy.errors.Diverged):
        program.epoch({x: DATA}, batch_size=8)
    assert (layer.running_mean.value == 0).all() and (layer.running_var.value == 1).all()


def test_statistics_are_saved_with_the_parameters(tmp_path: Path) -> None:
    layer, twin = wy.nn.BatchNorm(5), wy.nn.BatchNorm(5)
    layer.running_mean.set([1.0, 2.0, 3.0, 4.0, 5.0])
    layer.save(tmp_path / "layer.safetensors")
    twin.load(tmp_path / "layer.safetensors")
    assert (twin.running_mean.value == layer.running_mean.value).all()
    assert [name for name, _ in layer.named_buffers()] == ["running_mean", "running_var"]
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    checkpoints = wy.io.Checkpoints(tmp_path / "checkpoints")
    optimizer = wy.optim.SGD(layer.parameters(), 0.1)
    path = checkpoints.save(1, layer, optimizer, {})
    layer.running_mean.set(np.zeros(5))
    checkpoints.load(path, layer, optimizer)
    assert (layer.running_mean.value == twin.running_mean.value).all()
    with pytest.raises(CheckpointError, match="extra in the file: running_mean, running_var"):
        wy.nn.LayerNorm(5).load(tmp_path / "layer.safetensors")


def test_bad_input() -> None:
    layer = wy.nn.BatchNorm(5)
    with pytest.raises(ShapeError, match="takes two axes or more"):
        layer(wy.Constant(np.zeros(5, np.float32)))
    with pytest.raises(ShapeError):
        layer(wy.Constant(np.zeros((3, 4), np.float32)))
    with pytest.raises(ShapeError, match="two values or more for each channel, but there are 1"):
        layer(wy.Constant(np.zeros((1, 5), np.float32)))
    with pytest.raises(ValueError, match="momentum"):
        wy.nn.BatchNorm(5, momentum=1.5)
    with pytest.raises(ShapeError, match="cannot be updated with the axes"):
        wy.updating(layer.weight, {layer.running_mean: layer.weight.sum()})
    with pytest.raises(DTypeError, match=r"^updating: only a wy\.Buffer can be updated, not bias") as error:
        wy.updating(layer.weight, {layer.bias: layer.weight})  # type: ignore[dict-item]  # the mistake
    assert str(error.value).count("operand 0") == 1
    twice = layer(wy.Constant(DATA, dtype=np.float32)) + layer(wy.Constant(-DATA, dtype=np.float32))
    with pytest.raises(ShapeError, match="has two updates in one step"):
        twice.sum().backward()
    with pytest.raises(DTypeError, match="float32 or float64"):
        wy.Buffer(np.zeros(2, bool))
    with pytest.raises(wy.errors.NotFinite):
        layer.running_mean.set([np.nan] * 5)
