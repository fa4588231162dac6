"""`BatchNorm1d` to `BatchNorm3d`, `InstanceNorm1d` to `3d` and norms over several axes, beside PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import CheckpointError, ShapeError
from wyrm.testing import check_grads

RANDOM = np.random.default_rng(0)
SHAPES: dict[str, tuple[int, ...]] = {
    "BatchNorm1d": (8, 4),
    "BatchNorm1d, sequences": (4, 4, 20),
    "BatchNorm2d": (4, 4, 5, 3),
    "BatchNorm3d": (3, 4, 2, 3, 2),
}
OPTIONS: list[dict[str, Any]] = [{}, {"momentum": 0.3, "affine": False}, {"momentum": None}]
NN: Any = wy.nn


class Batch(wy.Dim): ...


class Channels(wy.Dim): ...


class Height(wy.Dim): ...


class Width(wy.Dim): ...


def numbers(*shape: int) -> Any:
    return 2.0 * RANDOM.standard_normal(shape) + np.arange(shape[1]).reshape(-1, *[1] * (len(shape) - 2))


@pytest.mark.parametrize("engine", ["numpy", "native", "jax"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_three_steps_and_evaluation_are_those_of_pytorch(name: str, options: dict[str, Any], engine: str) -> None:
    shape = SHAPES[name]
    kind, dtype = name.split(",")[0], np.float32 if engine == "jax" else np.float64
    layer, twin = getattr(NN, kind)(4, dtype=dtype, **options), getattr(torch.nn, kind)(4, **options).double()
    start = wy.Parameter(numbers(*shape)[0].astype(dtype))
    tensor = torch.tensor(start.value.astype(np.float64), requires_grad=True)
    dims: Any = (Batch(), *shape[1:])
    x: Any = wy.Input(dims=dims, name="x", dtype=dtype)
    feeds = [numbers(*shape).astype(dtype) for _ in range(3)]
    loss = (layer(x * start).tanh() * (0.1 * np.arange(shape[-1]))).square().mean()
    parameters = [start, *layer.parameters()]
    optimizer = wy.optim.SGD(parameters, 0.5)
    program = None if engine == "numpy" else wy.compile(loss, optimizer, engine=engine)
    torch_optimizer = torch.optim.SGD([tensor, *twin.parameters()], 0.5)
    for feed in feeds:
        if program is None:
            x.set(feed)
            loss.backward()
            optimizer.step()
            optimizer.zero_gradient()
        else:
            program({x: feed})
        torch_optimizer.zero_grad()
        each = twin(torch.tensor(feed.astype(np.float64)) * tensor)
        (each.tanh() * torch.tensor(0.1 * np.arange(shape[-1]))).square().mean().backward()
        torch_optimizer.step()
    close: dict[str, Any] = {"rtol": 2e-4, "atol": 2e-5} if engine == "jax" else {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(start.value, tensor.detach().numpy(), **close)
    for each_name, value in layer.state_dict().items():
        np.testing.assert_allclose(value, twin.state_dict()[each_name].numpy(), **close, err_msg=each_name)
    layer.eval()
    twin.eval()
    data = feeds[0]
    expected = twin(torch.tensor(data.astype(np.float64))).detach().numpy()
    x.set(data)
    found = layer(x).forward() if engine == "numpy" else wy.compile(layer(x), engine=engine)({x: data})
    np.testing.assert_allclose(found, expected, **close)


def test_gradients_to_second_order_in_training_and_evaluation() -> None:
    for affine in (True, False):
        layer = wy.nn.BatchNorm2d(3, affine=affine, dtype=np.float64)
        x: Any = wy.Parameter(numbers(3, 3, 2, 2))
        for mode in (True, False):
            check_grads(layer.train(mode)(x).tanh().square().sum(), order=2)


def test_constant_channels_become_the_bias() -> None:
    """The mean of equal numbers is that number, so that nothing is divided by the root of epsilon."""
    x = np.full((64, 3, 9, 9), 0.1, np.float32)
    layer = wy.nn.BatchNorm2d(3)
    assert layer.bias is not None
    layer.bias.set(np.arange(3.0))
    for found in (layer(wy.Constant(x)).forward(), wy.compile(layer(wy.Constant(x)))()):
        np.testing.assert_allclose(found[0, :, 0, 0], np.arange(3.0), atol=1e-4)


def test_numbers_far_from_0_keep_their_deviation() -> None:
    """In float32, the mean of squares minus the square of the mean has no correct digit here."""
    for shape in ((256, 2), (16, 2, 9, 9)):
        x = (1000.0 + RANDOM.standard_normal(shape)).astype(np.float32)
        node: Any = wy.nn.BatchNorm(2, axis=1)(wy.Constant(x))
        axes = tuple(i for i in range(x.ndim) if i != 1)
        wide = x.astype(np.float64)
        expected = (wide - wide.mean(axes, keepdims=True)) / wide.std(axes, keepdims=True)
        for found in (node.forward(), wy.compile(node)()):
            np.testing.assert_allclose(found, expected, atol=2e-4)


def test_axes_and_names_are_checked() -> None:
    channels = Channels(4)
    x = wy.Input(dims=(Batch(), channels, Height(8), Width()), name="x")
    normalized = wy.nn.BatchNorm2d(channels)(x)
    assert_type(normalized, wy.Tensor[Batch, Channels, Height, Width])
    assert normalized.dims == x.dims
    flat = wy.Input(dims=(Batch(), channels), name="x")
    assert_type(wy.nn.BatchNorm1d(channels)(flat), wy.Tensor[Batch, Channels])
    assert_type(wy.nn.InstanceNorm2d(channels)(x), wy.Tensor[Batch, Channels, Height, Width])
    with pytest.raises(ShapeError, match=r"BatchNorm2d takes the axes \(batch, num_features, height, width\), not x"):
        NN.BatchNorm2d(4)(flat)
    with pytest.raises(ShapeError, match=r"BatchNorm1d: axis 1 of x .* is not num_features: .* against 5"):
        NN.BatchNorm1d(5)(flat)
    with pytest.raises(
        ShapeError, match="two values or more for each channel, but there are 1; leave out a last batch"
    ):
        wy.nn.BatchNorm2d(4)(wy.Input(dims=(1, 4, 1, 1)))
    # An open batch of one row is found when data comes.
    open_batch = wy.Input(dims=(Batch(), 4), name="x")
    normal = wy.nn.BatchNorm1d(4)(open_batch)
    with pytest.raises(ShapeError, match="but there are 1; leave out"):
        wy.compile(normal)({open_batch: np.ones((1, 4), np.float32)})
    open_batch.set(np.ones((1, 4), np.float32))
    with pytest.raises(ShapeError, match="but there are 1; leave out"):
        normal.forward()
    with pytest.raises(ShapeError, match=r"InstanceNorm1d takes the axes \(batch, channels, \*sizes\) with 1 sizes"):
        NN.InstanceNorm1d(4)(x)
    assert repr(wy.nn.BatchNorm2d(3, momentum=None)) == "BatchNorm2d(3, momentum=None)"
    assert repr(wy.nn.BatchNorm3d(3, 1e-3, affine=False)) == "BatchNorm3d(3, epsilon=0.001, affine=False)"
    assert repr(wy.nn.InstanceNorm3d(3)) == "InstanceNorm3d(3)"
    assert repr(wy.nn.LayerNorm((3, 4))) == "LayerNorm((3, 4))"


class Convolved(wy.nn.Module):
    def __init__(self, momentum: float | None = 0.1) -> None:
        self.layers = wy.nn.Conv2d(1, 3, 3, bias=False), wy.nn.BatchNorm2d(3, momentum=momentum)


@pytest.mark.parametrize("momentum", [0.1, None])
def test_arrays_of_a_pytorch_model_load(momentum: float | None, tmp_path: Path) -> None:
    twin: Any = torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3, bias=False), torch.nn.BatchNorm2d(3))
    twin(torch.randn(8, 1, 6, 6))
    arrays: dict[str, Any] = {f"layers.{name}": tensor.numpy() for name, tensor in twin.state_dict().items()}
    assert arrays["layers.1.num_batches_tracked"].dtype == np.int64
    wy.io.save_arrays(tmp_path / "model.safetensors", arrays)
    of_file, of_state = Convolved(momentum), Convolved(momentum)
    of_file.load(tmp_path / "model.safetensors")
    of_state.load_state_dict(arrays)
    for model in (of_file, of_state):
        assert all((value == arrays[name]).all() for name, value in model.state_dict().items())
        counted = model.layers[1].num_batches_tracked
        assert counted is None if momentum is not None else counted is not None and float(counted.value) == 1.0
    with pytest.raises(CheckpointError, match=r"extra in the state: layers\.1\.other"):
        of_state.load_state_dict({**arrays, "layers.1.other": np.zeros(3)})


@pytest.mark.parametrize("kind", ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "GroupNorm"])
@pytest.mark.parametrize("affine", [False, True])
def test_norms_of_each_row_are_those_of_pytorch(kind: str, affine: bool) -> None:
    rank = int(kind[-2]) if kind[-1] == "d" else 0
    # Two numbers of a group that are almost equal have lost digits.
    channels = 8 if rank == 0 else 4
    arguments = (2, channels) if rank == 0 else (channels,)
    layer, twin = getattr(NN, kind)(*arguments, affine=affine), getattr(torch.nn, kind)(*arguments, affine=affine)
    dims: Any = (Batch(), channels, *[Width()] * rank)
    x = wy.Input(dims=dims, name="x")
    data = numbers(3, channels, *[5] * rank).astype(np.float32)
    expected = twin(torch.tensor(data)).detach().numpy()
    for engine in ("native", "jax"):
        found = wy.compile(layer(x), engine=engine)({x: data})
        np.testing.assert_allclose(found, expected, atol=2e-6)
    x.set(data)
    np.testing.assert_allclose(layer(x).forward(), expected, atol=2e-6)


@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm_over_several_axes(bias: bool) -> None:
    layer = wy.nn.LayerNorm((3, 4), bias=bias, dtype=np.float64)
    twin: Any = torch.nn.LayerNorm([3, 4], bias=bias, dtype=torch.float64)
    values = RANDOM.standard_normal((5, 3, 4))
    layer.weight.set(values[0])
    twin.weight.data = torch.tensor(values[0])
    x: Any = wy.Parameter(values)
    tensor: Any = torch.tensor(values, requires_grad=True)
    (layer(x).tanh().square().sum()).backward()
    twin(tensor).tanh().square().sum().backward()
    np.testing.assert_allclose(x.gradient, tensor.grad, rtol=1e-9)
    np.testing.assert_allclose(layer.weight.gradient, twin.weight.grad, rtol=1e-9)
    check_grads(layer(x).tanh().square().sum(), order=2)
    with pytest.raises(ShapeError, match=r"LayerNorm: axis 2 of .* is not features: 5 against 4"):
        layer(wy.Input(dims=(2, 3, 5), dtype=np.float64))
    with pytest.raises(ShapeError, match=r"LayerNorm normalizes over the axes \(3, 4\), but x is"):
        layer(wy.Input(dims=(4,), dtype=np.float64))


@pytest.mark.parametrize("kind", ["BatchNorm2d", "GroupNorm", "InstanceNorm2d"])
def test_threads_divide_a_batch_only_where_its_rows_are_normalized_apart(kind: str) -> None:
    data = numbers(32, 4, 5, 3).astype(np.float32)
    found = []
    for threads in (1, 2):
        wy.nn.seed(0)
        layer = wy.nn.GroupNorm(2, 4) if kind == "GroupNorm" else getattr(NN, kind)(4, affine=True)
        x = wy.Input(dims=(Batch(), 4, 5, 3), name="x")
        loss = (layer(x).tanh() * np.arange(3.0)).square().mean()
        program = wy.compile(loss, wy.optim.SGD(layer.parameters(), 0.5))
        program.epoch({x: data}, batch_size=16, threads=threads, mode="synchronized")
        found.append(layer.state_dict())
    for name, value in found[0].items():
        np.testing.assert_allclose(value, found[1][name], rtol=1e-5, atol=1e-6, err_msg=name)
