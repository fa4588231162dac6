"""Pooling, convolutions and upsampling of images whose heights and widths each run decides, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.nn.test_nn_convolution import normal
from tests.pytorch import functional, torch
from tests.runs import runner
from wyrm.errors import OptionError, ShapeError
from wyrm.graph.quotients import scaled


class Batch(wy.Dim): ...


class Height(wy.Dim): ...


class Width(wy.Dim): ...


NN: Any = wy.nn
H, W = Height(), Width()
WEIGHT, BACK = normal(3, 2, 3, 2), normal(2, 3, 3, 2)
# A function of `wyrm.nn` and `torch.nn.functional`, its arguments, its keywords, and the sizes of the result.
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[Any, Any]]] = [
    ("max_pool2d", (2,), {}, (scaled(H, over=2), scaled(W, over=2))),
    ("max_pool2d", (3, 2, 1), {}, (scaled(H, 1, 1, 2), scaled(W, 1, 1, 2))),
    ("max_pool2d", (2, 2, 0, 2, True), {}, (scaled(H, over=2), scaled(W, over=2))),
    ("max_pool2d", (3, 1, 1), {}, (H, W)),
    ("avg_pool2d", ((2, 3),), {}, (scaled(H, over=2), scaled(W, over=3))),
    ("avg_pool2d", (3, 2, 1, True, False), {}, (scaled(H, 1, 2, 2), scaled(W, 1, 2, 2))),
    ("adaptive_avg_pool2d", (2,), {}, (2, 2)),
    ("adaptive_avg_pool2d", (1,), {}, (1, 1)),
    ("adaptive_max_pool2d", ((3, None),), {}, (3, W)),
    ("conv2d", (WEIGHT,), {"stride": 2, "padding": 1}, (scaled(H, 1, 1, 2), scaled(W, 1, 2, 2))),
    ("conv2d", (WEIGHT,), {"dilation": (1, 2)}, (scaled(H, 1, -2), scaled(W, 1, -2))),
    ("conv_transpose2d", (BACK,), {"stride": 2, "padding": 1}, (scaled(H, 2, -1), scaled(W, 2, -2))),
    ("interpolate", (), {"scale_factor": 2}, (scaled(H, 2), scaled(W, 2))),
    ("interpolate", (), {"scale_factor": (1.5, 0.5), "mode": "bilinear"}, (scaled(H, 3, 0, 2), scaled(W, over=2))),
    ("interpolate", (), {"size": (5, 4), "mode": "bilinear", "align_corners": True}, (5, 4)),
]  # fmt: skip
SIZES = [(2, 7, 9), (1, 6, 4), (3, 12, 5), (2, 7, 9)]


def derived(values: Any, leaves: Any, grad: Callable[..., Any]) -> list[Any]:
    """Return the values, their gradients, and those of the squares of these."""
    found = []
    for value in values:
        first = grad((value * value * value).sum(), leaves)
        second = grad(sum((each * each).sum() for each in first), leaves)
        found += [value, *first, *second]
    return found


def torch_grad(value: Any, leaves: Any) -> Any:
    found = torch.autograd.grad(value, leaves, create_graph=True, allow_unused=True)
    return [torch.zeros_like(leaf) if each is None else each for leaf, each in zip(leaves, found, strict=True)]


def wyrm_grad(value: Any, leaves: Any) -> Any:
    return wy.grad(value, leaves, allow_unused=True)


def called(module: Any, name: str, x: Any, arrays: dict[int, Any], case: Any) -> Any:
    _, arguments, keywords, _ = case
    given = [arrays.get(id(each), each) for each in arguments]
    return getattr(module, name)(x, *given, **keywords)


@pytest.mark.parametrize(
    ("engine", "dtype"), [("numpy", np.float64), ("native", np.float32), ("native", np.float64), ("jax", np.float32)]
)
def test_values_and_gradients(engine: str, dtype: Any) -> None:
    """In the runs of one program, whose sizes differ."""
    if engine == "jax":
        pytest.importorskip("jax")
    x = wy.Input(dims=(Batch(), 2, H, W), dtype=dtype, name="x")
    weights = [wy.Parameter(each.astype(dtype)) for each in (WEIGHT, BACK)]
    ours = dict(zip(map(id, (WEIGHT, BACK)), weights, strict=True))
    nodes = [called(NN, case[0], x, ours, case) for case in CASES]
    for node, case in zip(nodes, CASES, strict=True):
        assert node.dims[2:] == case[3]
    outputs = derived(nodes, [x, *weights], wyrm_grad)
    run = runner(outputs, x, engine)
    tolerance = 1e-9 if dtype is np.float64 else 2e-3
    for sizes in SIZES if engine == "native" else SIZES[:2]:
        data = normal(sizes[0], 2, *sizes[1:]).astype(dtype)
        tensor = torch.tensor(data, requires_grad=True)
        tensors = [torch.tensor(each.value, requires_grad=True) for each in weights]
        theirs = dict(zip(map(id, (WEIGHT, BACK)), tensors, strict=True))
        expected = [called(functional, case[0], tensor, theirs, case) for case in CASES]
        found = run(data)
        for value, wanted in zip(found, derived(expected, [tensor, *tensors], torch_grad), strict=True):
            scale = max(1.0, float(wanted.detach().abs().max()))
            np.testing.assert_allclose(value / scale, wanted.detach().numpy() / scale, rtol=0, atol=tolerance)


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize(
    ("name", "arguments"), [("max_pool", (3, 2, 1)), ("avg_pool", (2,)), ("adaptive_avg_pool", (2,))]
)
def test_other_numbers_of_axes(rank: int, name: str, arguments: tuple[Any, ...]) -> None:
    class Depth(wy.Dim): ...

    dims: Any = (Batch(), 2, *(H, W, Depth())[:rank])
    x = wy.Input(dims=dims, dtype=np.float64)
    node = getattr(NN, f"{name}{rank}d")(x, *arguments)
    program = wy.compile(node)
    for sizes in ((5, 4, 6), (9, 3, 2)):
        data = normal(2, 2, *sizes[:rank])
        expected = getattr(functional, f"{name}{rank}d")(torch.tensor(data), *arguments).numpy()
        np.testing.assert_allclose(program({x: data}), expected, rtol=1e-12)
        x.set(data)
        np.testing.assert_allclose(node.forward(), expected, rtol=1e-12)


@pytest.mark.parametrize("arguments", [(2, 3, 0, 1, True), (1, 4, 0, 1, True), (3, 5, 1, 1, True)])
def test_a_last_window_cut_off(arguments: Any) -> None:
    """It does not count where it has no element, which some sizes have and others not."""
    x = wy.Input(dims=(1, 1, W), dtype=np.float64)
    program = wy.compile(wy.nn.max_pool1d(x, *arguments))
    for size in range(3, 12):
        data = normal(1, 1, size)
        expected = functional.max_pool1d(torch.tensor(data), *arguments)
        np.testing.assert_array_equal(program({x: data}), expected.numpy())


def network() -> Any:
    """Return layers with a residual block that halves the sizes on both ways."""

    class Block(wy.nn.Module):
        def __init__(self) -> None:
            self.first = wy.nn.Conv2d(4, 4, 3, stride=2, padding=1)
            self.short = wy.nn.Conv2d(4, 4, 1, stride=2)

        def __call__(self, x: Any) -> Any:
            return (self.first(x) + self.short(x)).relu()

    return wy.nn.Sequential(
        wy.nn.Conv2d(1, 4, 3, padding=1), wy.nn.relu, wy.nn.MaxPool2d(2), Block(), wy.nn.AdaptiveAvgPool2d(1),
        wy.nn.Flatten(), wy.nn.Linear(4, 2),
    )  # fmt: skip


def test_one_program_trains_with_images_of_several_sizes() -> None:
    wy.nn.seed(0)
    model = network()
    images, labels = wy.Input(dims=(Batch(), 1, H, W), name="images"), wy.IndexInput(dims=(Batch(),), name="labels")
    loss = model(images).cross_entropy(labels)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=1e-2))
    assert "max_pool" in program.stages()["plan memory"]  # before the first run has given sizes
    which, means = np.arange(32) % 2, []
    for epoch in range(40):
        sizes = [(8, 8), (9, 12), (13, 7)][epoch % 3]
        data = normal(32, 1, *sizes).astype(np.float32) * np.where(which == 0, 0.2, 2.0)[:, None, None, None]
        columns = {images: data.astype(np.float32), labels: which}
        means.append(program.epoch(columns, batch_size=8, threads=1 + epoch % 2, mode="synchronized"))
    assert np.mean(means[-3:]) < 0.5 * np.mean(means[:3])
    before = [each.value.copy() for each in loss.parameters()]
    with pytest.raises(ShapeError) as error:
        program.epoch({images: np.ones((32, 1, 1, 9), np.float32), labels: which}, batch_size=8)
    assert "max_pool" in str(error.value) and "has no element of Height of size 1 in this run" in str(error.value)
    assert "test_nn_open_sizes.py" in str(error.value)
    for parameter, value in zip(loss.parameters(), before, strict=True):
        np.testing.assert_array_equal(parameter.value, value)


@pytest.mark.parametrize("engine", ["numpy", "native", "jax"])
@pytest.mark.parametrize(
    ("build", "size", "message"),
    [
        (lambda x: wy.nn.max_pool1d(x, 3), 2, "no element of Width of size 2"),
        (lambda x: wy.nn.avg_pool1d(wy.nn.max_pool1d(x, 2), 2), 3, r"no element of Width\(\)//2 of size 1"),
        (lambda x: wy.nn.adaptive_avg_pool1d(x, 2), 0, "one of 2 even windows has no element of Width of size 0"),
        (lambda x: wy.nn.conv1d(x, normal(1, 1, 4), stride=2), 3, r"Width\(\), which has the size 3 in this run"),
        (lambda x: wy.nn.conv_transpose1d(x, normal(1, 1, 3), padding=2), 1, r"sizes \(-1,\) in this run"),
        (lambda x: wy.nn.interpolate(x, scale_factor=0.25), 3, r"Width\(\) of size 3 cannot be resampled to 0"),
        (
            lambda x: wy.scan(lambda c, _: (NN.max_pool1d(x * c, 2).sum(), None), x.sum(), length=2)[0],
            1,
            "size 1",
        ),
    ],
)
def test_sizes_that_are_too_small(engine: str, build: Any, size: int, message: str) -> None:
    x = wy.Input(dims=(1, 1, W), dtype=np.float64, name="x")
    node = build(x)
    data = np.zeros((1, 1, size))
    with pytest.raises(ShapeError, match=message) as error:
        if engine == "numpy":
            x.set(data)
            node.forward()
        else:
            wy.compile(node, engine=engine)({x: data})
    assert "test_nn_open_sizes.py" in str(error.value)


def test_axes_that_differ_in_some_runs() -> None:
    x = wy.Input(dims=(Batch(), 1, H, W))
    halves = wy.nn.max_pool2d(x, 2)
    with pytest.raises(ShapeError, match=r"\(Height\(\)\+1\)//2"):
        _ = halves + wy.nn.max_pool2d(x, 3, 2, 1)
    with pytest.raises(ShapeError, match=r"Times\[Height\(\)//2, 2\] against Height\(\)"):
        _ = wy.nn.interpolate(halves, scale_factor=2) + x
    resampled = wy.nn.interpolate(halves, size=x.shape[2:])
    assert (resampled + x).dims == x.dims
    program = wy.compile(resampled)
    for sizes in ((6, 9), (5, 4)):
        data = normal(2, 1, *sizes).astype(np.float32)
        tensor = torch.tensor(data)
        np.testing.assert_array_equal(
            program({x: data}), functional.interpolate(functional.max_pool2d(tensor, 2), size=sizes).numpy()
        )
    with pytest.raises(ShapeError, match="a half, a quarter or the like"):
        wy.nn.interpolate(x, scale_factor=1.7)
    with pytest.raises(ShapeError, match="output_padding"):
        wy.nn.conv_transpose2d(x, normal(1, 1, 2, 2), dilation=2, output_padding=1)
    with pytest.raises(OptionError):
        wy.nn.interpolate(wy.Input(dims=(1, 1, 0)), size=2)


def test_vmap() -> None:
    class Examples(wy.Dim): ...

    x = wy.Input(dims=(Examples(), wy.any_dim(2), wy.any_dim(1), H, W), dtype=np.float64)
    pooled = wy.vmap(lambda each: wy.nn.max_pool2d(wy.nn.avg_pool2d(each, 2, 1), 2, 1))(x)
    assert pooled.dims == (Examples(), 2, 1, scaled(H, 1, -2), scaled(W, 1, -2))
    data = normal(3, 2, 1, 5, 4)
    x.set(data)
    expected = functional.max_pool2d(functional.avg_pool2d(torch.tensor(data[:, :, 0]), 2, 1), 2, 1)
    np.testing.assert_allclose(pooled.forward()[:, :, 0], expected.numpy(), rtol=1e-12)


@pytest.mark.parametrize("engine", ["numpy", "native", "jax"])
def test_sizes_that_are_multiples(engine: str) -> None:
    """A U-Net of images whose sizes are multiples of 4: halves double back to the axes that were halved."""

    class High(wy.Dim): ...

    class Wide(wy.Dim): ...

    wy.nn.seed(0)
    x = wy.Input(dims=(Batch(), 1, High() * 4, Wide() * 4), name="x")
    first, second, third = wy.nn.Conv2d(1, 3, 3, padding=1), wy.nn.Conv2d(3, 4, 3, padding=1), wy.nn.Conv2d(4, 4, 1)
    up, last = wy.nn.ConvTranspose2d(4, 4, 2, stride=2), wy.nn.ConvTranspose2d(4, 3, 2, stride=2)
    skip: Any = first(x).relu()
    half: Any = second(wy.nn.max_pool2d(skip, 2)).relu()
    low: Any = third(wy.nn.avg_pool2d(half, 2))
    assert low.dims[2:] == (High(), Wide()) and half.dims[2:] == (High() * 2, Wide() * 2)
    result = last(up(low) + half) + skip
    assert result.dims[2:] == x.dims[2:]
    leaves = [each for layer in (first, second, third, up, last) for each in layer.parameters()]
    outputs = [result, *wy.grad(result.square().mean(), leaves), wy.grad(low.sum(), x)]
    run = runner(outputs, x, engine)
    for sizes in ((8, 4), (12, 16)):
        data = normal(2, 1, *sizes).astype(np.float32)
        tensor = torch.tensor(data, requires_grad=True)
        p = [torch.tensor(each.value, requires_grad=True) for each in leaves]
        kept = functional.conv2d(tensor, p[0], p[1], padding=1).relu()
        halved = functional.conv2d(functional.max_pool2d(kept, 2), p[2], p[3], padding=1).relu()
        lowest = functional.conv2d(functional.avg_pool2d(halved, 2), p[4], p[5])
        middle = functional.conv_transpose2d(lowest, p[6], p[7], stride=2) + halved
        total = functional.conv_transpose2d(middle, p[8], p[9], stride=2) + kept
        gradients = torch.autograd.grad((total**2).mean(), p, retain_graph=True)
        expected = [total, *gradients, *torch.autograd.grad(lowest.sum(), tensor)]
        found = run(data)
        for value, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(value, wanted.detach().numpy(), rtol=1e-3, atol=1e-5)
    with pytest.raises(ShapeError, match=r"axis Times\[Wide\(\), 4\] of x .* needs a size of 4 \* n, not 6"):
        run(np.ones((1, 1, 8, 6), np.float32))
