"""Convolutions and transposed convolutions as functions, with PyTorch's names and order of arguments."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import axis_size
from wyrm.graph.base import describe
from wyrm.graph.node import Node, Tensor
from wyrm.graph.quotients import scaled
from wyrm.graph.typing import Array
from wyrm.nn.axes import Padding, PerAxis, per_axis, spatial_axes, window_options
from wyrm.ops.convolution.convolution import Convolution, ConvolutionInputGradient
from wyrm.ops.elementwise.elementwise import operand
from wyrm.ops.indexing.keys import ALL
from wyrm.ops.indexing.slicing import PlaceSlice
from wyrm.ops.windows import Window
from wyrm.support.options import whole

# The axes of the batch, of channels and of outputs, and those of space and of windows.
B = TypeVar("B")
M = TypeVar("M")
N = TypeVar("N")
D = TypeVar("D")
H = TypeVar("H")
W = TypeVar("W")
P = TypeVar("P")
K = TypeVar("K")
L = TypeVar("L")
J = TypeVar("J")


def _kernel(name: str, x: Node, weight: Node, rank: int) -> tuple[int, ...]:
    """Return the sizes of the weight's windows; raise `ShapeError` unless both have `rank` spatial axes."""
    sizes = tuple(size for size in map(axis_size, weight.dims[2:]) if size is not None)
    if len(x.dims) != rank + 2 or len(weight.dims) != rank + 2 or len(sizes) != rank:
        raise ShapeError(
            f"{name} takes x, (batch, channels, *sizes), and a weight, (two axes of channels, *windows with sizes), of "
            f"{rank + 2} axes each, not {describe(x)} and {describe(weight)}"
        )
    return sizes


def convolve(
    name: str, rank: int, x: Node, weight: Node | Array, bias: Node | Array | None, stride: object, padding: object,
    dilation: object, groups: int,
) -> Node[Any, Any]:  # fmt: skip
    """Return the convolution of a function or layer called `name`, with `rank` spatial axes."""
    weight = operand(weight, x)
    kernel = _kernel(name, x, weight, rank)
    options = window_options(name, rank, kernel, stride, padding, dilation)
    return Convolution(
        x, weight, None if bias is None else operand(bias, x), stride=options.stride, padding=options.padding,
        dilation=options.dilation, groups=whole(f"{name}: groups", groups, 1, ShapeError),
    )  # fmt: skip


def convolve_transposed(
    name: str, rank: int, x: Node, weight: Node | Array, bias: Node | Array | None, stride: object, padding: object,
    output_padding: object, groups: int, dilation: object,
) -> Node[Any, Any]:  # fmt: skip
    """Return the transposed convolution of a function or layer called `name`, with `rank` spatial axes."""
    weight = operand(weight, x)
    kernel, axes = _kernel(name, x, weight, rank), spatial_axes(name, x, rank)
    kernel, strides, ends, dilations = window_options(name, rank, kernel, stride, padding, dilation)
    more = per_axis(name, "output_padding", output_padding, rank, 0)
    if any(extra >= max(step, spread) for extra, step, spread in zip(more, strides, dilations, strict=True)):
        raise ShapeError(
            f"{name}: output_padding {more} must be less than the stride {strides} or the dilation {dilations} of its "
            f"axis"
        )
    # With an `output_padding` of a whole stride, the op would expect one more element of x. So `padding` removes less
    # there, and where there is too little padding, zeros are appended.
    far = [extra if extra >= step else 0 for extra, step in zip(more, strides, strict=True)]
    zeros = [max(0, extra - after) for extra, (_, after) in zip(far, ends, strict=True)]
    ends = tuple((before, max(0, after - extra)) for extra, (before, after) in zip(far, ends, strict=True))
    more = tuple(0 if extra else near for extra, near in zip(far, more, strict=True))
    windows = [
        Window(size, step, *pair, spread)
        for size, step, pair, spread in zip(kernel, strides, ends, dilations, strict=True)
    ]
    outputs = tuple(
        scaled(axis, w.stride, w.extent - w.stride - w.before - w.after + extra)
        for axis, w, extra in zip(axes, windows, more, strict=True)
    )
    if any(size is not None and size < 1 for size in map(axis_size, outputs)):
        raise ShapeError(f"{name}: the result of {describe(x)} would have the sizes {outputs}")
    if any(axis_size(axis) is None for axis in outputs) and any(zeros):
        raise ShapeError(
            f"{name}: output_padding {more} of the stride or more needs spatial axes with sizes, or as much padding"
        )
    result: Node = ConvolutionInputGradient(
        x, weight, sizes=outputs, stride=strides, padding=ends, dilation=dilations,
        groups=whole(f"{name}: groups", groups, 1, ShapeError),
    )  # fmt: skip
    if any(zeros):
        wider: Any = tuple(int(size) + extra for size, extra in zip(outputs, zeros, strict=True))
        key: Any = (ALL, ALL, *((None, size, None) for size in outputs))
        result = PlaceSlice(result, key, (*result.dims[:2], *wider))
    column: Any = (-1, *[1] * rank)
    return result if bias is None else result + operand(bias, x).reshape(column)


def conv1d(
    x: Node[Any, tuple[B, M, W]],
    weight: Node[Any, tuple[N, K, L]] | Array,
    bias: Node[Any, tuple[N]] | Array | None = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor[B, N, Any]:
    """Return the convolution of `x`, (batch, channels, width), with a weight, (outputs, channels / groups, window).

    The result has the axes (batch, outputs, width); see `conv2d` for the options and errors.

    >>> x, weight = wy.Constant(np.ones((1, 1, 5))), wy.Constant(np.ones((1, 1, 3)))
    >>> conv1d(x, weight, padding="same").forward().tolist()
    [[[2.0, 3.0, 3.0, 3.0, 2.0]]]
    """
    return convolve("conv1d", 1, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Node[Any, tuple[B, M, H, W]],
    weight: Node[Any, tuple[N, K, L, J]] | Array,
    bias: Node[Any, tuple[N]] | Array | None = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor[B, N, Any, Any]:
    """Return the convolution of `x`, (batch, channels, height, width), with a weight, as PyTorch computes it.

    The weight has the axes (outputs, channels / groups, height and width of the window), the optional bias (outputs,);
    the result is `sum_{c, k, l} weight[o, c, k, l] * x[b, c, i * stride + k * dilation - padding, ...] + bias[o]`, of
    the axes (batch, outputs, height, width). `stride` and `dilation` are integers, or sequences of one for each spatial
    axis. `padding` adds zeros: an integer for both ends of all axes, a sequence of an integer or a pair (before, after)
    for each axis, "valid" for none, or "same" for as many as keep the sizes with stride 1. An axis that keeps its size
    with stride 1 keeps its name; an axis that gets its size from the data of each run and does not keep it becomes one
    that follows from it, as `(Height()+1)//2`. Each of `groups` groups of outputs reads its own group of channels.

    Raise `ShapeError` for axes that do not match or windows that do not fit, in a run if its data decides that,
    `DTypeError` for masks, for operands of two dtypes, and for options of another kind.

    >>> x, weight = wy.Input(dims=(4, 3, 8, 9)), wy.Input(dims=(16, 3, 3, 3))
    >>> conv2d(x, weight, stride=2, padding=1).shape
    (4, 16, 4, 5)
    """
    return convolve("conv2d", 2, x, weight, bias, stride, padding, dilation, groups)


def conv3d(
    x: Node[Any, tuple[B, M, D, H, W]],
    weight: Node[Any, tuple[N, K, L, J, P]] | Array,
    bias: Node[Any, tuple[N]] | Array | None = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor[B, N, Any, Any, Any]:
    """Return the convolution of `x`, (batch, channels, depth, height, width); see `conv2d` for the options and errors.

    The weight has the axes (outputs, channels / groups, depth, height and width of the window).

    >>> x, weight = wy.Input(dims=(2, 1, 4, 5, 6)), wy.Input(dims=(3, 1, 3, 3, 3))
    >>> conv3d(x, weight).shape
    (2, 3, 2, 3, 4)
    """
    return convolve("conv3d", 3, x, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    x: Node[Any, tuple[B, M, W]],
    weight: Node[Any, tuple[M, N, L]] | Array,
    bias: Node | Array | None = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    output_padding: PerAxis = 0,
    groups: int = 1,
    dilation: PerAxis = 1,
) -> Tensor[B, Any, Any]:
    """Return the transposed convolution of `x`, (batch, channels, width); see `conv_transpose2d`.

    >>> x, weight = wy.Constant([[[1.0, 2.0]]]), wy.Constant([[[1.0, 1.0]]])
    >>> conv_transpose1d(x, weight, stride=2).forward().tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    return convolve_transposed(
        "conv_transpose1d", 1, x, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    x: Node[Any, tuple[B, M, H, W]],
    weight: Node[Any, tuple[M, N, L, J]] | Array,
    bias: Node | Array | None = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    output_padding: PerAxis = 0,
    groups: int = 1,
    dilation: PerAxis = 1,
) -> Tensor[B, Any, Any, Any]:
    """Return the transposed convolution of `x`: the gradient of a convolution with respect to its input.

    `x` has the axes (batch, channels, height, width), the weight (channels, outputs / groups, height and width of the
    window), and the result (batch, outputs, height, width). A size n becomes
    `(n - 1) * stride - before - after + dilation * (window - 1) + 1 + output_padding`. The options are those of
    `conv2d`; `padding` removes elements at the ends of the result, and `output_padding`, less than the stride or
    the dilation of its axis, adds some at its ends.

    Raise `ShapeError` for axes that do not match and options that do not fit, in a run if its data decides that,
    `DTypeError` for masks, for operands of two dtypes, and for options of another kind.

    >>> x, weight = wy.Input(dims=(4, 16, 4, 5)), wy.Input(dims=(16, 3, 3, 3))
    >>> conv_transpose2d(x, weight, stride=2, padding=1, output_padding=1).shape
    (4, 3, 8, 10)
    """
    return convolve_transposed(
        "conv_transpose2d", 2, x, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    x: Node[Any, tuple[B, M, D, H, W]],
    weight: Node[Any, tuple[M, N, L, J, P]] | Array,
    bias: Node | Array | None = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    output_padding: PerAxis = 0,
    groups: int = 1,
    dilation: PerAxis = 1,
) -> Tensor[B, Any, Any, Any, Any]:
    """Return the transposed convolution of `x`, (batch, channels, depth, height, width); see `conv_transpose2d`.

    >>> x, weight = wy.Input(dims=(1, 2, 2, 2, 2)), wy.Input(dims=(2, 1, 2, 2, 2))
    >>> conv_transpose3d(x, weight, stride=2).shape
    (1, 1, 4, 4, 4)
    """
    return convolve_transposed(
        "conv_transpose3d", 3, x, weight, bias, stride, padding, output_padding, groups, dilation
    )
