"""Pooling, upsampling, normalization of groups, and dropout of channels, against PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.nn.test_nn_convolution import normal, same_to_second_order
from tests.pytorch import functional, torch
from wyrm.errors import OptionError, ShapeError
from wyrm.ops.elementwise.activation import Relu
from wyrm.ops.pooling.pooling import MaxPool
from wyrm.ops.pooling.windows import Even, Sliding, Windows
from wyrm.ops.windows import Window

X = normal(2, 3, 7, 9)
WINDOWS = list(itertools.product((2, 3, (3, 2)), (None, 1, 2, 3), (0, 1), (False, True)))


@pytest.mark.parametrize(("size", "stride", "padding", "ceil_mode"), WINDOWS)
def test_max_pool2d(size: Any, stride: Any, padding: int, ceil_mode: bool) -> None:
    arguments = size, stride, padding, 1, ceil_mode
    same_to_second_order(
        lambda x: wy.nn.max_pool2d(x * x, *arguments), lambda x: functional.max_pool2d(x * x, *arguments), X
    )


@pytest.mark.parametrize("counts", [True, False])
@pytest.mark.parametrize(("size", "stride", "padding", "ceil_mode"), WINDOWS)
def test_avg_pool2d(size: Any, stride: Any, padding: int, ceil_mode: bool, counts: bool) -> None:
    arguments = size, stride, padding, ceil_mode, counts
    same_to_second_order(
        lambda x: wy.nn.avg_pool2d(x, *arguments).square(), lambda x: functional.avg_pool2d(x, *arguments) ** 2, X
    )


@pytest.mark.parametrize("name", ["max_pool", "avg_pool"])
@pytest.mark.parametrize("rank", [1, 3])
def test_other_numbers_of_axes(name: str, rank: int) -> None:
    x, name = normal(2, 3, *(7, 5, 4)[:rank]), f"{name}{rank}d"
    same_to_second_order(lambda x: getattr(wy.nn, name)(x, 3, 2, 1), lambda x: getattr(functional, name)(x, 3, 2, 1), x)


def test_dilated_windows() -> None:
    same_to_second_order(
        lambda x: wy.nn.max_pool2d(x, 3, 2, 1, (2, 1)), lambda x: functional.max_pool2d(x, 3, 2, 1, (2, 1)), X
    )


@pytest.mark.parametrize("size", [1, 2, 5, (4, 9), (None, 3)])
@pytest.mark.parametrize("name", ["adaptive_max_pool2d", "adaptive_avg_pool2d"])
def test_adaptive_windows(name: str, size: Any) -> None:
    same_to_second_order(lambda x: getattr(wy.nn, name)(x, size), lambda x: getattr(functional, name)(x, size), X)


def test_ties_and_nan() -> None:
    values = np.array([[[[1.0, 1.0, 0.0, 0.0], [1.0, 0.0, np.nan, 5.0], [2.0, 3.0, 3.0, 3.0], [3.0, 2.0, 3.0, 3.0]]]])
    windows: list[Any] = [(2,), (2, 2, 1), (3, 1)]
    for arguments in windows:
        x, tensor = wy.Input(values, finite=False), torch.tensor(values, requires_grad=True)
        node, expected = wy.nn.max_pool2d(x, *arguments), functional.max_pool2d(tensor, *arguments)
        expected.sum().backward()
        for found in (node.forward(), wy.compile(node)()):
            np.testing.assert_array_equal(found, expected.detach().numpy())
        gradient = wy.grad(node.sum(), x)
        for found in (gradient.forward(), wy.compile(gradient)()):
            np.testing.assert_array_equal(found, tensor.grad.numpy())


@pytest.mark.parametrize(
    "windows", [Sliding(Window(5)), Sliding(Window(1, 1, 1)), Sliding(Window(1, 3, 0, 4)), Even(0)], ids=str
)
def test_windows_without_elements(windows: Windows) -> None:
    with pytest.raises(ShapeError, match="has no element of an axis of size 4"):
        MaxPool(wy.Input(dims=(1, 1, 4)), windows=(windows,))


def test_maxima_of_relu() -> None:
    """They are computed as `relu` of the maxima, with the same gradient, also where all elements are negative."""
    x = np.where(normal(2, 3, 8, 8) > 0.7, normal(2, 3, 8, 8), -1.0)
    node = wy.nn.max_pool2d(wy.Input(dims=x.shape).relu(), 2)
    assert isinstance(node, Relu)
    same_to_second_order(lambda x: wy.nn.max_pool2d(x.relu(), 2), lambda x: functional.max_pool2d(x.relu(), 2), x)


@pytest.mark.parametrize("by", [{"size": (5, 13)}, {"scale_factor": 2}, {"scale_factor": 1.7}, {"size": 1}], ids=str)
@pytest.mark.parametrize("corners", [None, False, True])
def test_interpolate(by: Any, corners: bool | None) -> None:
    if corners is None:
        same_to_second_order(lambda x: wy.nn.interpolate(x, **by), lambda x: functional.interpolate(x, **by), X)
    else:
        options = {"mode": "bilinear", "align_corners": corners, **by}
        same_to_second_order(
            lambda x: wy.nn.interpolate(x, **options), lambda x: functional.interpolate(x, **options), X
        )


@pytest.mark.parametrize(("mode", "rank"), [("linear", 1), ("trilinear", 3)])
def test_interpolate_other_numbers_of_axes(mode: Any, rank: int) -> None:
    x = normal(2, 3, *(4, 3, 5)[:rank])
    same_to_second_order(
        lambda x: wy.nn.interpolate(x, scale_factor=2, mode=mode),
        lambda x: functional.interpolate(x, scale_factor=2, mode=mode),
        x,
    )
    with pytest.raises(ShapeError):
        wy.nn.interpolate(wy.Input(dims=X.shape), 2, mode=mode)


def matrix_of(node: Any) -> np.ndarray:
    """Return the matrix by which a node resamples rows."""
    if isinstance(node, wy.Input):  # nothing is left to do
        return np.eye(node.shape[-1])
    found = np.zeros((node.parents[0].shape[-1], node.shape[-1]))
    for i, (first, weights) in enumerate(node.by.taps(*found.shape)):
        found[first : first + len(weights), i] = weights
    return found


# Some sizes alone answer soon: small ones, a prime, and those beside powers of two.
SOON = {1, 2, 3, 5, 16, 17, 47, 63}
SIZES = [pytest.param(size, marks=[pytest.mark.exhaustive] * (size not in SOON)) for size in range(1, 65)]


@pytest.mark.parametrize("old", SIZES)
def test_every_pair_of_sizes_is_resampled_as_torch_does(old: int) -> None:
    x, rows = wy.Input(dims=(1, 1, old)), torch.eye(old, dtype=torch.float64)[:, None]
    for new in range(1, 65):
        pairs = [
            (wy.nn.interpolate(x, new), functional.interpolate(rows, new)),
            (wy.nn.adaptive_avg_pool1d(x, new), functional.adaptive_avg_pool1d(rows, new)),
        ]
        for corners in (False, True):
            expected = functional.interpolate(rows, new, mode="linear", align_corners=corners)
            pairs.append((wy.nn.interpolate(x, new, mode="linear", align_corners=corners), expected))
        for node, want in pairs:
            np.testing.assert_allclose(matrix_of(node), want[:, 0].numpy(), rtol=0, atol=1e-13)


@pytest.mark.parametrize("factor", [0.1, 0.3, 1 / 3, 0.7, 15 / 16, 1.0625, 1.1, 9 / 7, 1.7, 7 / 3, 2.3, 3.0])
def test_every_size_is_multiplied_as_torch_does(factor: float) -> None:
    for old in range(10, 65):
        rows = torch.eye(old, dtype=torch.float64)[:, None]
        for mode in ("nearest", "linear"):
            node = wy.nn.interpolate(wy.Input(dims=(1, 1, old)), scale_factor=factor, mode=mode)
            want = functional.interpolate(rows, scale_factor=factor, mode=mode)
            np.testing.assert_allclose(matrix_of(node), want[:, 0].numpy(), rtol=0, atol=1e-13)


@pytest.mark.parametrize("engine", ["numpy", "native", "jax"])
def test_the_nearest_element_is_found_in_every_engine(engine: str) -> None:
    x = wy.Constant(np.arange(30.0).reshape(1, 1, 30))
    node = wy.nn.interpolate(x, 22)
    found = node.forward() if engine == "numpy" else wy.compile(node, engine=engine)()
    np.testing.assert_array_equal(found[0, 0], [i * 30 // 22 for i in range(22)])


@pytest.mark.parametrize(
    "options", [{}, {"size": 3, "scale_factor": 2}, {"size": 3, "mode": "cubic"}, {"size": 3, "align_corners": True}]
)
def test_interpolate_refuses(options: Any) -> None:
    with pytest.raises(OptionError):
        wy.nn.interpolate(wy.Input(dims=X.shape), **options)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_group_norm(groups: int) -> None:
    same_to_second_order(
        lambda x, w, b: wy.nn.group_norm(x, groups, w, b),
        lambda x, w, b: functional.group_norm(x, groups, w, b),
        normal(2, 4, 3, 5), normal(4), normal(4),
    )  # fmt: skip


def test_instance_norm() -> None:
    same_to_second_order(
        lambda x, w, b: wy.nn.instance_norm(x, w, b),
        lambda x, w, b: functional.instance_norm(x, None, None, w, b),
        normal(2, 4, 3, 5), normal(4), normal(4),
    )  # fmt: skip


def test_normalization_layers() -> None:
    class Channels(wy.Dim): ...

    x = wy.Constant(normal(2, 4, 3, 5), dims=(2, Channels(4), 3, 5))
    layer = wy.nn.GroupNorm(2, Channels(4), dtype=np.float64)
    np.testing.assert_array_equal(layer(x).forward(), wy.nn.group_norm(x, 2).forward())
    assert layer(x).dims == x.dims
    each = wy.nn.InstanceNorm(4, affine=True, dtype=np.float64)
    np.testing.assert_array_equal(each(x).forward(), wy.nn.instance_norm(x).forward())
    assert repr(layer) == "GroupNorm(2, Channels(4))" and repr(each) == "InstanceNorm(4, affine=True)"
    with pytest.raises(ShapeError, match="3 equal groups"):
        wy.nn.GroupNorm(3, 4)


@pytest.mark.parametrize("native", [False, True])
def test_dropout_of_channels(native: bool) -> None:
    class Batch(wy.Dim): ...

    x = wy.Input(dims=(Batch(), 8, 3, 4))
    layer = wy.nn.Dropout2d(0.25, seed=1)
    node = layer(x)
    data = np.ones((50, 8, 3, 4), np.float32)
    wy.random.set_step(0)
    if native:
        found = wy.compile(node)({x: data})
    else:
        x.set(data)
        found = node.forward()
    assert set(np.unique(found)) == {np.float32(0.0), np.float32(1 / 0.75)}
    assert (found == found[:, :, :1, :1]).all()
    assert 0.2 < (found == 0.0).mean() < 0.3
    assert layer.eval()(x) is x
    with pytest.raises(ShapeError, match="Dropout1d"):
        wy.nn.Dropout1d(0.5)(x)


def test_layers_are_their_functions() -> None:
    x = wy.Constant(X)
    for layer, expected in (
        (wy.nn.MaxPool2d(3, 2, 1), wy.nn.max_pool2d(x, 3, 2, 1)),
        (wy.nn.AvgPool2d(3, 2, 1, count_include_pad=False), wy.nn.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
        (wy.nn.AdaptiveAvgPool2d(2), wy.nn.adaptive_avg_pool2d(x, 2)),
        (wy.nn.AdaptiveMaxPool2d((2, 3)), wy.nn.adaptive_max_pool2d(x, (2, 3))),
        (wy.nn.Upsample(scale_factor=2), wy.nn.interpolate(x, scale_factor=2)),
        (wy.nn.Flatten(), x.flatten(1)),
    ):
        np.testing.assert_array_equal(layer(x).forward(), expected.forward())
    assert repr(wy.nn.Upsample(4, mode="bilinear")) == "Upsample(size=4, mode='bilinear')"


def test_a_network_of_layers_trains_and_saves() -> None:
    wy.nn.seed(0)
    model = wy.nn.Sequential(
        wy.nn.Conv2d(1, 4, 3, padding="same"), wy.nn.relu, wy.nn.MaxPool2d(2), wy.nn.Flatten(), wy.nn.Linear(64, 2)
    )

    class Batch(wy.Dim): ...

    images, labels = wy.Input(dims=(Batch(), 1, 8, 8)), wy.IndexInput(dims=(Batch(),))
    scores: Any = model(images)
    loss = scores.cross_entropy(labels)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=1e-2))
    directions = np.arange(64) % 2
    pictures = np.where(directions[:, None, None] == 0, np.eye(8), np.ones((8, 8)) / 8).astype(np.float32)[:, None]
    columns = {images: pictures, labels: directions}
    for threads in (1, 2):
        first = program.epoch(columns, batch_size=16, threads=threads, mode="synchronized")
        assert program.epoch(columns, batch_size=16, threads=threads, mode="synchronized") < first
