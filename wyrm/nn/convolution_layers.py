"""The layers of convolutions and transposed convolutions in one to three dimensions."""

from __future__ import annotations

from typing import Any, Generic, TypedDict, Unpack

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis
from wyrm.graph.base import describe
from wyrm.graph.node import Node, Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.typing import DTypeLike, Unnamed
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
    window_options,
)
from wyrm.nn.convolution import convolve, convolve_transposed
from wyrm.nn.initializers import Initializer, XavierUniform, Zeros, initialized
from wyrm.nn.seeding import generator
from wyrm.ops.elementwise.elementwise import operand
from wyrm.support.options import whole

B = TypeVar("B")
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

    def _begin(
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

    def _apply(self, x: Node) -> Any:
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
        result: Tensor[B, Out, Any] = self._apply(x)
        return result


class Convolution2d(_Convolution[In, Out]):
    rank = 2

    def __call__(self, x: Tensor[B, In, Any, Any]) -> Tensor[B, Out, Any, Any]:
        """Return the result for `x`, (batch, in_channels, height, width).

        Raise `ShapeError` for other channels and for options that do not fit the sizes, `DTypeError` for another dtype.
        """
        result: Tensor[B, Out, Any, Any] = self._apply(x)
        return result


class Convolution3d(_Convolution[In, Out]):
    rank = 3

    def __call__(self, x: Tensor[B, In, Any, Any, Any]) -> Tensor[B, Out, Any, Any, Any]:
        """Return the result for `x`, (batch, in_channels, depth, height, width).

        Raise `ShapeError` for other channels and for options that do not fit the sizes, `DTypeError` for another dtype.
        """
        result: Tensor[B, Out, Any, Any, Any] = self._apply(x)
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
        self._begin(in_channels, out_channels, kernel_size, stride, padding, **options)


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
        self._begin(in_channels, out_channels, kernel_size, stride, padding, **options)


class Conv3d(Convolution3d[In, Out]):
    """A convolution of (batch, in_channels, depth, height, width); see `Conv2d` for the parameters and options.

    >>> Conv3d(3, 16, kernel_size=3, padding=1)(wy.Input(dims=(5, 3, 4, 6, 8))).shape
    (5, 16, 4, 6, 8)
    """

    def __init__(
        self: Conv3d[M, N], in_channels: M | Unnamed[M], out_channels: N | Unnamed[N], kernel_size: PerAxis,
        stride: PerAxis = 1, padding: Padding = 0, **options: Unpack[ConvOptions],
    ) -> None:  # fmt: skip
        self._begin(in_channels, out_channels, kernel_size, stride, padding, **options)


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
        self._begin(in_channels, out_channels, kernel_size, stride, padding, **options)


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
        self._begin(in_channels, out_channels, kernel_size, stride, padding, **options)


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
        self._begin(in_channels, out_channels, kernel_size, stride, padding, **options)
