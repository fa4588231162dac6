"""Convolutions and pooling against PyTorch: values, gradients and second-order gradients at odd shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import wyrm as wy
from tests.pytorch import functional, torch
from wyrm.errors import DTypeError, ShapeError

# For arguments that type checkers reject.
NN: Any = wy.nn
RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> NDArray[np.float64]:
    return RANDOM.standard_normal(shape)


def same_to_second_order(ours: Callable[..., Any], theirs: Callable[..., Any], *arrays: NDArray[np.float64]) -> None:
    """Check the value, the gradients of a random projection, and the gradients of the sum of squares of those."""
    leaves, tensors = [wy.Parameter(x) for x in arrays], [torch.tensor(x, requires_grad=True) for x in arrays]
    node, tensor = ours(*leaves), theirs(*tensors)
    close: Any = lambda x, y: np.testing.assert_allclose(x, y.detach().numpy(), rtol=1e-9, atol=1e-10)  # noqa: E731
    close(node.forward(), tensor)
    projection = normal(*tensor.shape)
    gradients = wy.grad((node * wy.Constant(projection)).sum(), leaves)
    expected = torch.autograd.grad((tensor * torch.tensor(projection)).sum(), tensors, create_graph=True)
    for found, wanted in zip(gradients, expected, strict=True):
        close(found.forward(), wanted)
    total: Any = sum(g.square().sum() for g in gradients)
    used = {id(leaf) for leaf in total.parameters()}
    expected_total: Any = sum((g**2).sum() for g in expected)
    second = torch.autograd.grad(expected_total, tensors, allow_unused=True) if expected_total.requires_grad else ()
    for leaf, wanted in zip(leaves, second, strict=False):
        if id(leaf) in used:
            close(wy.grad(total, leaf).forward(), wanted)
        else:
            assert wanted is None or not wanted.any()


OPTIONS = [
    {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    for stride in (1, 2, 3)
    for padding in (0, (2, 1))
    for dilation in (1, (2, 1))
    for groups in (1, 2)
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_conv2d(options: dict[str, Any]) -> None:
    operands = normal(2, 4, 7, 9), normal(6, 4 // options["groups"], 3, 2), normal(6)
    same_to_second_order(lambda *x: wy.nn.conv2d(*x, **options), lambda *x: functional.conv2d(*x, **options), *operands)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_conv_transpose2d(options: dict[str, Any]) -> None:
    more = {**options, "output_padding": options["stride"] - 1}
    operands = normal(2, 4, 3, 5), normal(4, 3, 3, 2), normal(3 * options["groups"])
    if options["padding"] == (2, 1) and options["dilation"] == 1 and options["stride"] == 1:
        operands = normal(2, 4, 5, 5), *operands[1:]
    same_to_second_order(
        lambda *x: wy.nn.conv_transpose2d(*x, **more), lambda *x: functional.conv_transpose2d(*x, **more), *operands
    )


@pytest.mark.parametrize("padding", [0, (0, 2), (1, 1)])
@pytest.mark.parametrize(("stride", "dilation", "extra"), [(1, 3, 2), ((1, 2), (4, 3), (3, 2)), ((3, 1), (1, 2), 1)])
def test_output_padding_from_the_stride_to_the_dilation(padding: Any, stride: Any, dilation: Any, extra: Any) -> None:
    options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": extra}
    same_to_second_order(
        lambda *x: wy.nn.conv_transpose2d(*x, **options), lambda *x: functional.conv_transpose2d(*x, **options),
        normal(2, 2, 3, 4), normal(2, 3, 3, 2), normal(3),
    )  # fmt: skip
    x: Any = wy.Constant(normal(2, 2, 3, 4))
    layer = wy.nn.ConvTranspose2d(2, 3, (3, 2), **options)
    node = layer(x.astype(np.float32))
    np.testing.assert_allclose(wy.compile(node)(), node.forward(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 3])
def test_other_numbers_of_axes(rank: int) -> None:
    x, window = normal(2, 2, *(6, 5, 4)[:rank]), (3, 2, 2)[:rank]
    convolution, transposed = f"conv{rank}d", f"conv_transpose{rank}d"
    options: dict[str, Any] = {"stride": 2, "padding": 1}
    same_to_second_order(
        lambda *x: getattr(wy.nn, convolution)(*x, **options),
        lambda *x: getattr(functional, convolution)(*x, **options),
        x, normal(3, 2, *window), normal(3),
    )  # fmt: skip
    same_to_second_order(
        lambda *x: getattr(wy.nn, transposed)(*x, **options, output_padding=1),
        lambda *x: getattr(functional, transposed)(*x, **options, output_padding=1),
        x, normal(2, 3, *window), normal(3),
    )  # fmt: skip


def test_padding() -> None:
    x, weight = normal(2, 3, 6, 7), normal(4, 3, 4, 3)
    same_to_second_order(
        lambda x, w: wy.nn.conv2d(x, w, padding="same"),
        lambda x, w: functional.conv2d(functional.pad(x, (1, 1, 1, 2)), w),
        x, weight,
    )  # fmt: skip
    same_to_second_order(
        lambda x, w: wy.nn.conv2d(x, w, padding=((2, 0), 1), stride=2),
        lambda x, w: functional.conv2d(functional.pad(x, (1, 1, 2, 0)), w, stride=2),
        x, weight,
    )  # fmt: skip
    same_to_second_order(  # windows of padding alone
        lambda x, w: wy.nn.conv1d(x, w, padding=((2, 0),), stride=3),
        lambda x, w: functional.conv1d(functional.pad(x, (2, 0)), w, stride=3),
        normal(2, 3, 1), normal(4, 3, 1),
    )  # fmt: skip
    assert wy.nn.conv2d(wy.Input(dims=x.shape), weight, padding="valid").shape == (2, 4, 3, 5)


@pytest.mark.parametrize("native", [False, True])
def test_an_open_batch_and_open_sizes(native: bool) -> None:
    class Batch(wy.Dim): ...

    class Height(wy.Dim): ...

    layer = wy.nn.Conv2d(2, 3, kernel_size=3, padding="same")
    x = wy.Input(dims=(Batch(), 2, Height(), 5), name="x")
    loss = layer(x).square().sum()
    outputs = [layer(x), *wy.grad(loss, [layer.weight, x])]
    program = wy.compile(outputs) if native else None
    for batch, height in ((2, 4), (5, 7), (0, 3), (3, 40)):
        data = normal(batch, 2, height, 5).astype(np.float32)
        tensor = torch.tensor(data, requires_grad=True)
        weight, bias = (torch.tensor(each.value, requires_grad=True) for each in layer.parameters())
        expected = functional.conv2d(tensor, weight, bias, padding="same")
        (expected**2).sum().backward()
        if program is None:
            x.set(data)
            found = wy.run(outputs)
        else:
            found = program({x: data})
        for ours, theirs in zip(found, (expected, weight.grad, tensor.grad), strict=True):
            np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-4, atol=1e-3)


# Sizes that take several tiles along each axis, and the kernel's remainders: channels and windows not divisible by 4.
LARGE: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((3, 5, 70, 61), (7, 5, 3, 3), {"padding": 1}),
    ((2, 3, 41, 50), (6, 3, 5, 4), {"stride": 2, "padding": (3, 1)}),
    ((2, 4, 2100), (3, 4, 6), {"stride": 3, "padding": 2, "dilation": 2}),
    ((9, 6, 5, 4), (4, 3, 3, 3), {"padding": 1, "groups": 2}),
    ((2, 2, 13, 20, 19), (5, 2, 3, 3, 2), {"padding": 1, "stride": (1, 2, 1)}),
    ((2, 70, 40, 44), (3, 70, 3, 3), {"padding": 1}),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_native_tiles(dtype: Any) -> None:
    outputs, expected = [], []
    for shape, window, options in LARGE:
        name = f"conv{len(shape) - 2}d"
        arrays = [normal(*shape).astype(dtype), normal(*window).astype(dtype)]
        nodes, tensors = map(wy.Input, arrays), [torch.tensor(x, requires_grad=True) for x in arrays]
        x, weight = nodes
        node, tensor = getattr(wy.nn, name)(x, weight, **options), getattr(functional, name)(*tensors, **options)
        projection = normal(*tensor.shape).astype(dtype)
        outputs += [node, *wy.vjp(node, [x, weight], wy.Constant(projection))]
        tensor.backward(torch.tensor(projection))
        expected += [tensor.detach(), *(each.grad for each in tensors)]
    tolerance = {np.float32: 2e-4, np.float64: 1e-10}[dtype]
    for found, wanted in zip(wy.compile(outputs)(), expected, strict=True):
        scale = max(1.0, float(wanted.abs().max()))
        np.testing.assert_allclose(found / scale, wanted.numpy() / scale, rtol=tolerance, atol=tolerance)


def test_names_of_axes_stay_where_sizes_stay() -> None:
    class Channels(wy.Dim): ...

    class Features(wy.Dim): ...

    class Height(wy.Dim): ...

    x = wy.Input(dims=(wy.Dim(), Channels(3), Height(8), 9))
    layer = wy.nn.Conv2d(Channels(3), Features(4), kernel_size=3, padding="same")
    assert layer(x).dims[1:] == (Features(4), Height(8), 9)
    assert layer.weight.dims == (Features(4), Channels(3), 3, 3)
    smaller = wy.nn.Conv2d(Channels(3), Features(4), kernel_size=3, stride=2, padding=1)
    assert smaller(x).dims[1:] == (Features(4), 4, 5)
    other: Any = wy.nn.Conv2d(Features(3), Channels(4), kernel_size=3)
    with pytest.raises(ShapeError, match="in_channels"):
        other(x)
    assert wy.nn.Conv2d(Features(4), Channels(4), 3, groups=2)(layer(x)).dims[1] == Channels(4)


def test_layers_are_their_functions() -> None:
    x = wy.Constant(normal(2, 4, 5, 6).astype(np.float32))
    layer = wy.nn.Conv2d(4, 6, 3, 2, 1, groups=2, dilation=2)
    expected = wy.nn.conv2d(x, layer.weight, layer.bias, 2, 1, 2, 2)
    np.testing.assert_array_equal(layer(x).forward(), expected.forward())
    back = wy.nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1, groups=2, bias=False)
    assert back.weight.shape == (4, 3, 3, 3) and back.bias is None
    assert back(x).shape == (2, 6, 10, 12)
    assert repr(layer) == "Conv2d(4, 6, kernel_size=(3, 3), stride=2, padding=1, dilation=2, groups=2)"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: wy.nn.conv2d(x, normal(3, 2, 3, 3)), "2"),
        (lambda x: wy.nn.conv2d(x, normal(3, 4, 9, 3)), "does not fit"),
        (lambda x: wy.nn.conv2d(x, normal(3, 4, 3)), "4 axes each"),
        (lambda x: wy.nn.conv1d(x, normal(3, 4, 3)), "3 axes each"),
        (lambda x: wy.nn.conv2d(x, normal(3, 2, 3, 3), groups=2), "3 output channels"),
        (lambda x: wy.nn.conv2d(x, normal(3, 4, 3, 3), stride=2, padding="same"), "stride of 1"),
        (lambda x: wy.nn.conv_transpose2d(x, normal(4, 3, 3, 3), output_padding=1), "less than the stride"),
        (lambda x: wy.nn.conv_transpose2d(x, normal(4, 3, 3, 3), dilation=(3, 1), output_padding=1), "or the dilation"),
        (lambda x: wy.nn.max_pool2d(x, 6), "no element"),
        (lambda x: wy.nn.avg_pool1d(x, 2), "batch, channels"),
        (lambda x: wy.nn.Conv2d(3, 2, 3)(x), "in_channels"),
        (lambda x: wy.nn.Conv2d(wy.Dim(), 2, 3)(x), "needs a size"),
    ],
)
def test_shapes_that_do_not_fit(build: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        build(wy.Input(dims=(2, 4, 5, 6), dtype=np.float64))


@pytest.mark.parametrize(
    "build",
    [
        lambda x: wy.nn.conv2d(x, normal(3, 4, 3, 3), stride=(1, 2, 3)),
        lambda x: NN.conv2d(x, normal(3, 4, 3, 3), padding="full"),
        lambda x: NN.conv2d(x, normal(3, 4, 3, 3), dilation=1.5),
        lambda x: NN.max_pool2d(x, 2.0),
        lambda x: wy.nn.conv2d(x > 0.0, wy.Constant(normal(3, 4, 3, 3))),
        lambda x: wy.nn.max_pool2d(x > 0.0, 2),
    ],
)
def test_options_of_another_kind(build: Any) -> None:
    with pytest.raises(DTypeError):
        build(wy.Input(dims=(2, 4, 5, 6), dtype=np.float64))


def test_scan_over_convolutions() -> None:
    weight = wy.Parameter(normal(2, 2, 3) * 0.3)
    x = wy.Parameter(normal(1, 2, 6))
    last, _ = wy.scan(lambda h, _: (wy.nn.conv1d(h, weight, padding="same").tanh(), None), x, length=3)
    h, w = (torch.tensor(each.value, requires_grad=True) for each in (x, weight))
    state = h
    for _ in range(3):
        state = functional.conv1d(state, w, padding="same").tanh()
    (state**2).sum().backward()
    for leaf, tensor in zip(wy.grad(last.square().sum(), [x, weight]), (h, w), strict=True):
        np.testing.assert_allclose(leaf.forward(), tensor.grad.numpy(), rtol=1e-10)
