"""Convolutions and transposed convolutions: functions with PyTorch's names and order of arguments, and layers."""

from __future__ import annotations

from typing import Any, Generic, TypedDict, Unpack

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, axis_size
from wyrm.graph.base import describe
from wyrm.graph.node import Node, Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.quotients import scaled
from wyrm.graph.typing import Array, DTypeLike, Unnamed
from wyrm.module import Module
from wyrm.nn.axes import (
    CHANNELS_SECOND,
    In,
    M,
    N,
    Out,
    Padding,
    PerAxis,
    check_axis,
    per_axis,
    sized_axes,
    spatial_axes,
    window_options,
)
from wyrm.nn.initializers import Initializer, XavierUniform, Zeros, initialized
from wyrm.nn.seeding import generator
from wyrm.ops.convolution.convolution import Convolution, ConvolutionInputGradient
from wyrm.ops.elementwise.elementwise import operand
from wyrm.ops.indexing.keys import ALL
from wyrm.ops.indexing.slicing import PlaceSlice
from wyrm.ops.windows import Window
from wyrm.support.options import whole

# The axes of the batch, of channels and of outputs, and those of space and of windows.
B = TypeVar("B")
C = TypeVar("C")
F = TypeVar("F")
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
    x: Node[Any, tuple[B, C, W]],
    weight: Node[Any, tuple[F, K, L]] | Array,
    bias: Node[Any, tuple[F]] | Array | None = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor[B, F, Any]:
    """Return the convolution of `x`, (batch, channels, width), with a weight, (outputs, channels / groups, window).

    The result has the axes (batch, outputs, width); see `conv2d` for the options and errors.

    >>> x, weight = wy.Constant(np.ones((1, 1, 5))), wy.Constant(np.ones((1, 1, 3)))
    >>> conv1d(x, weight, padding="same").forward().tolist()
    [[[2.0, 3.0, 3.0, 3.0, 2.0]]]
    """
    return convolve("conv1d", 1, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Node[Any, tuple[B, C, H, W]],
    weight: Node[Any, tuple[F, K, L, J]] | Array,
    bias: Node[Any, tuple[F]] | Array | None = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor[B, F, Any, Any]:
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
    x: Node[Any, tuple[B, C, D, H, W]],
    weight: Node[Any, tuple[F, K, L, J, P]] | Array,
    bias: Node[Any, tuple[F]] | Array | None = None,
    stride: PerAxis = 1,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    groups: int = 1,
) -> Tensor[B, F, Any, Any, Any]:
    """Return the convolution of `x`, (batch, channels, depth, height, width); see `conv2d` for the options and errors.

    The weight has the axes (outputs, channels / groups, depth, height and width of the window).

    >>> x, weight = wy.Input(dims=(2, 1, 4, 5, 6)), wy.Input(dims=(3, 1, 3, 3, 3))
    >>> conv3d(x, weight).shape
    (2, 3, 2, 3, 4)
    """
    return convolve("conv3d", 3, x, weight, bias, stride, padding, dilation, groups)


def conv_transpose1d(
    x: Node[Any, tuple[B, C, W]],
    weight: Node[Any, tuple[C, F, L]] | Array,
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
    x: Node[Any, tuple[B, C, H, W]],
    weight: Node[Any, tuple[C, F, L, J]] | Array,
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
    x: Node[Any, tuple[B, C, D, H, W]],
    weight: Node[Any, tuple[C, F, L, J, P]] | Array,
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


_WEIGHT, _BIAS = XavierUniform(), Zeros()


class ConvOptions(TypedDict, total=False):
    """The options of all layers after the first ones, with the defaults of `_begin`."""

    dilation: PerAxis
    groups: int
    bias: bool
    initializer: Initializer
    bias_initializer: Initializer
    seed: int | None
    dtype: DTypeLike


class TransposedOptions(ConvOptions, total=False):
    """The options of transposed convolutions after the first ones."""

    output_padding: PerAxis


class _Convolution(Module, Generic[In, Out]):
    """Base class of the layers: their parameters, and the options of the functions that they call."""

    # The number of spatial axes, and whether the convolution is transposed.
    rank: int
    transposed = False
    in_channels: Axis
    out_channels: Axis
    weight: Parameter
    bias: Parameter[tuple[Out]] | None

    def _make_parameters(
        self,
        in_channels: object,
        out_channels: object,
        kernel_size: PerAxis,
        stride: PerAxis,
        padding: Padding,
        *,
        dilation: PerAxis = 1,
        groups: int = 1,
        bias: bool = True,
        initializer: Initializer = _WEIGHT,
        bias_initializer: Initializer = _BIAS,
        seed: int | None = None,
        dtype: DTypeLike = np.float32,
        output_padding: PerAxis = 0,
    ) -> None:
        """Check the options and draw the parameters."""
        name = type(self).__name__
        axes = sized_axes(name, in_channels=in_channels, out_channels=out_channels)
        self.kernel_size: tuple[int, ...] = window_options(
            name, self.rank, kernel_size, stride, padding, dilation
        ).kernel
        per_axis(name, "output_padding", output_padding, self.rank, 0)
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.output_padding = output_padding
        self.groups: int = whole(f"{name}: groups", groups, 1, ShapeError)
        for argument, axis in zip(("in_channels", "out_channels"), axes, strict=True):
            if int(axis) % groups:
                raise ShapeError(f"{name}: {argument}, {axis!r}, cannot be divided into {groups} equal groups")
        self.in_channels, self.out_channels = axes
        first, second = axes if self.transposed else reversed(axes)
        second = second if groups == 1 else int(second) // groups
        random = generator(seed)
        # Initializers draw weights of the axes (*windows, in, out).
        channels = (first, second) if self.transposed else (second, first)
        drawn = initialized(name, "initializer", initializer, (*self.kernel_size, *map(int, channels)), random, dtype)
        places = (-2, -1) if self.transposed else (-1, -2)
        values = np.ascontiguousarray(np.moveaxis(drawn, places, (0, 1)))
        self.weight = Parameter(values, (first, second, *self.kernel_size), name="weight", dtype=dtype)
        self.bias = None
        if bias:
            values = initialized(name, "bias_initializer", bias_initializer, (int(axes[1]),), random, dtype)
            self.bias = Parameter(values, axes[1:], name="bias", dtype=dtype)

    def _convolve(self, x: Node) -> Any:
        """Return the convolution of `x`; raise `ShapeError` unless it has the layer's channels."""
        x = operand(x, self.weight)
        name = type(self).__name__
        if x.ndim != self.rank + 2:
            raise ShapeError(
                f"{name} takes the axes (batch, channels, *sizes), {self.rank + 2} of them, not {describe(x)}"
            )
        check_axis(name, "in_channels", self.in_channels, x, 1, CHANNELS_SECOND)
        operands = name, self.rank, x, self.weight, self.bias, self.stride, self.padding
        if self.transposed:
            return convolve_transposed(*operands, self.output_padding, self.groups, self.dilation)
        return convolve(*operands, self.dilation, self.groups)

    def __repr__(self) -> str:
        more = [("stride", self.stride, 1), ("padding", self.padding, 0), ("dilation", self.dilation, 1)]
        more += [("groups", self.groups, 1), ("output_padding", self.output_padding, 0)]
        shown = [f"{name}={value!r}" for name, value, default in more if value != default]
        if self.bias is None:
            shown.append("bias=False")
        axes = f"{self.in_channels!r}, {self.out_channels!r}, kernel_size={self.kernel_size}"
        return f"{type(self).__name__}({', '.join([axes, *shown])})"


class Convolution1d(_Convolution[In, Out]):
    rank = 1

    def __call__(self, x: Tensor[B, In, Any]) -> Tensor[B, Out, Any]:
        """Return the result for `x`, (batch, in_channels, width).

        Raise `ShapeError` for other channels and for options that do not fit the sizes, `DTypeError` for another dtype.
        """
        result: Tensor[B, Out, Any] = self._convolve(x)
        return result


class Convolution2d(_Convolution[In, Out]):
    rank = 2

    def __call__(self, x: Tensor[B, In, Any, Any]) -> Tensor[B, Out, Any, Any]:
        """Return the result for `x`, (batch, in_channels, height, width).

        Raise `ShapeError` for other channels and for options that do not fit the sizes, `DTypeError` for another dtype.
        """
        result: Tensor[B, Out, Any, Any] = self._convolve(x)
        return result


class Convolution3d(_Convolution[In, Out]):
    rank = 3

    def __call__(self, x: Tensor[B, In, Any, Any, Any]) -> Tensor[B, Out, Any, Any, Any]:
        """Return the result for `x`, (batch, in_channels, depth, height, width).

        Raise `ShapeError` for other channels and for options that do not fit the sizes, `DTypeError` for another dtype.
        """
        result: Tensor[B, Out, Any, Any, Any] = self._convolve(x)
        return result


class Conv1d(Convolution1d[In, Out]):
    """A convolution of (batch, in_channels, width); see `Conv2d` for the parameters and options.

    >>> Conv1d(3, 16, kernel_size=3, padding=1)(wy.Input(dims=(5, 3, 8))).shape
    (5, 16, 8)
    """

    def __init__(
        self: Conv1d[M, N], in_channels: M | Unnamed[M], out_channels: N | Unnamed[N], kernel_size: PerAxis,
        stride: PerAxis = 1, padding: Padding = 0, **options: Unpack[ConvOptions],
    ) -> None:  # fmt: skip
        self._make_parameters(in_channels, out_channels, kernel_size, stride, padding, **options)


class Conv2d(Convolution2d[In, Out]):
    """A convolution of (batch, in_channels, height, width) to (batch, out_channels, height, width).

    `weight` has the axes (out_channels, in_channels / groups, height and width of the window), `bias` the axis
    (out_channels,); it is None with `bias=False`. A channel axis is a `Dim` with a size, which mypy checks, or an
    integer, which it does not. See `conv2d` for `stride`, `padding`, `dilation` and `groups`. `initializer` draws the
    weight with the axes (height and width of the window, in, out), `bias_initializer` the bias, from `seed`, or without
    one from the script's next seed (see `wyrm.nn.seed`). `dtype` is float32 or float64. Unlike in PyTorch, the weight
    starts by Glorot's rule and the bias with zeros; `initializer=wy.nn.initializers.KaimingUniform(gain=3**-0.5)` draws
    PyTorch's weight.

    Raise `ShapeError` for channels without a size, below 1 or not divisible by `groups`, `DTypeError` for an axis, an
    option or a dtype of another kind.

    >>> layer = Conv2d(3, 16, kernel_size=3, padding="same")
    >>> layer(wy.Input(dims=(5, 3, 8, 9))).shape
    (5, 16, 8, 9)
    """

    def __init__(
        self: Conv2d[M, N], in_channels: M | Unnamed[M], out_channels: N | Unnamed[N], kernel_size: PerAxis,
        stride: PerAxis = 1, padding: Padding = 0, **options: Unpack[ConvOptions],
    ) -> None:  # fmt: skip
        self._make_parameters(in_channels, out_channels, kernel_size, stride, padding, **options)


class Conv3d(Convolution3d[In, Out]):
    """A convolution of (batch, in_channels, depth, height, width); see `Conv2d` for the parameters and options.

    >>> Conv3d(3, 16, kernel_size=3, padding=1)(wy.Input(dims=(5, 3, 4, 6, 8))).shape
    (5, 16, 4, 6, 8)
    """

    def __init__(
        self: Conv3d[M, N], in_channels: M | Unnamed[M], out_channels: N | Unnamed[N], kernel_size: PerAxis,
        stride: PerAxis = 1, padding: Padding = 0, **options: Unpack[ConvOptions],
    ) -> None:  # fmt: skip
        self._make_parameters(in_channels, out_channels, kernel_size, stride, padding, **options)


class ConvTranspose1d(Convolution1d[In, Out]):
    """A transposed convolution of (batch, in_channels, width); see `ConvTranspose2d`.

    >>> ConvTranspose1d(3, 16, kernel_size=2, stride=2)(wy.Input(dims=(5, 3, 8))).shape
    (5, 16, 16)
    """

    transposed = True

    def __init__(
        self: ConvTranspose1d[M, N], in_channels: M | Unnamed[M], out_channels: N | Unnamed[N], kernel_size: PerAxis,
        stride: PerAxis = 1, padding: Padding = 0, **options: Unpack[TransposedOptions],
    ) -> None:  # fmt: skip
        self._make_parameters(in_channels, out_channels, kernel_size, stride, padding, **options)


class ConvTranspose2d(Convolution2d[In, Out]):
    """A transposed convolution of (batch, in_channels, height, width), which maps to larger heights and widths.

    `weight` has the axes (in_channels, out_channels / groups, height and width of the window); see `conv_transpose2d`
    for the sizes and for `output_padding`, and `Conv2d` for the other options and the errors.

    >>> layer = ConvTranspose2d(3, 16, kernel_size=2, stride=2)
    >>> layer(wy.Input(dims=(5, 3, 4, 6))).shape
    (5, 16, 8, 12)
    """

    transposed = True

    def __init__(
        self: ConvTranspose2d[M, N], in_channels: M | Unnamed[M], out_channels: N | Unnamed[N], kernel_size: PerAxis,
        stride: PerAxis = 1, padding: Padding = 0, **options: Unpack[TransposedOptions],
    ) -> None:  # fmt: skip
        self._make_parameters(in_channels, out_channels, kernel_size, stride, padding, **options)


class ConvTranspose3d(Convolution3d[In, Out]):
    """A transposed convolution of (batch, in_channels, depth, height, width); see `ConvTranspose2d`.

    >>> ConvTranspose3d(3, 16, kernel_size=2, stride=2)(wy.Input(dims=(5, 3, 4, 6, 8))).shape
    (5, 16, 8, 12, 16)
    """

    transposed = True

    def __init__(
        self: ConvTranspose3d[M, N], in_channels: M | Unnamed[M], out_channels: N | Unnamed[N], kernel_size: PerAxis,
        stride: PerAxis = 1, padding: Padding = 0, **options: Unpack[TransposedOptions],
    ) -> None:  # fmt: skip
        self._make_parameters(in_channels, out_channels, kernel_size, stride, padding, **options)
