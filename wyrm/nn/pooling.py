"""Pooling over windows and to given sizes: functions with PyTorch's names and order of arguments, and layers.

`x` has the axes (batch, channels, *sizes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, axis_size
from wyrm.graph.base import describe
from wyrm.graph.node import Node, Tensor
from wyrm.module import Module
from wyrm.nn.axes import Padding, PerAxis, per_axis, spatial_axes, window_options
from wyrm.ops.elementwise.activation import Relu
from wyrm.ops.pooling.pooling import MaxPool
from wyrm.ops.pooling.resample import Resample, Weighting
from wyrm.ops.pooling.windows import Even, Means, Sliding, Windows
from wyrm.ops.windows import Window

B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
H = TypeVar("H")
W = TypeVar("W")


def _sliding(
    name: str, x: Node, rank: int, kernel_size: object, stride: object, padding: object, dilation: object,
    ceil_mode: bool,
) -> tuple[Windows, ...]:  # fmt: skip
    """Return the windows along each spatial axis; raise `ShapeError` if one covers no element of `x`."""
    options = window_options(name, rank, kernel_size, kernel_size if stride is None else stride, padding, dilation)
    windows = [
        Sliding(Window(size, step, *pair, spread), ceil_mode)
        for size, step, pair, spread in zip(*options, strict=True)
    ]  # fmt: skip
    return _fitting(name, x, windows)


def _even(name: str, x: Node, rank: int, output_size: object) -> tuple[Windows, ...]:
    """Return `output_size` even windows along each spatial axis; None has a window for each element."""
    counts = adaptive_sizes(name, rank, output_size)
    return _fitting(name, x, [Sliding(Window(1)) if count is None else Even(count) for count in counts])


def _fitting(name: str, x: Node, windows: Sequence[Windows]) -> tuple[Windows, ...]:
    """Return the windows; raise `ShapeError` if one covers no element of `x`."""
    for axis, each in zip(spatial_axes(name, x, len(windows)), windows, strict=True):
        size = axis_size(axis)
        if size is not None and (reason := each.misfit(axis, size)):
            raise ShapeError(f"{name}: {reason}, in {describe(x)}")
    return tuple(windows)


def _max(x: Node, windows: tuple[Windows, ...]) -> Node[Any, Any]:
    """Return the maxima. `relu` and the maximum commute, so `relu` is computed of the maxima, which are fewer."""
    return Relu(MaxPool(x.parents[0], windows=windows)) if isinstance(x, Relu) else MaxPool(x, windows=windows)


def _means(x: Node, windows: Sequence[Windows], padding: bool = False) -> Node[Any, Any]:
    """Return the means over windows along each spatial axis; `padding` counts."""
    axes = [each.axis(axis) for each, axis in zip(windows, x.dims[2:], strict=True)]
    return resampled(x, [Means(each, padding) for each in windows], axes)


def max_pool(
    name: str, rank: int, x: Node, kernel_size: object, stride: object, padding: object, dilation: object,
    ceil_mode: bool,
) -> Node[Any, Any]:  # fmt: skip
    """Return the maximum of each window, for a function or layer called `name`."""
    return _max(x, _sliding(name, x, rank, kernel_size, stride, padding, dilation, ceil_mode))


def average_pool(
    name: str, rank: int, x: Node, kernel_size: object, stride: object, padding: object, ceil_mode: bool,
    count_include_pad: bool,
) -> Node[Any, Any]:  # fmt: skip
    """Return the mean of each window, for a function or layer called `name`."""
    return _means(x, _sliding(name, x, rank, kernel_size, stride, padding, 1, ceil_mode), count_include_pad)


def adaptive_sizes(name: str, rank: int, output_size: object) -> list[int | None]:
    """Return the checked number of outputs along each axis; None keeps its size."""
    if isinstance(output_size, tuple | list) and len(output_size) == rank:
        known = iter(per_axis(name, "output_size", [1 if each is None else each for each in output_size], rank))
        return [None if each is None else count for each, count in zip(output_size, known, strict=True)]
    return list(per_axis(name, "output_size", output_size, rank))


def adaptive_max_pool(name: str, rank: int, x: Node, output_size: object) -> Node[Any, Any]:
    """Return the maximum of each of `output_size` even windows, for a function or layer called `name`."""
    return _max(x, _even(name, x, rank, output_size))


def adaptive_average_pool(name: str, rank: int, x: Node, output_size: object) -> Node[Any, Any]:
    """Return the mean of each of `output_size` even windows, for a function or layer called `name`."""
    return _means(x, _even(name, x, rank, output_size))


def resampled(x: Node, by: Sequence[Weighting], to: Sequence[Axis]) -> Node[Any, Any]:
    """Return `x` with each spatial axis resampled to another axis."""
    for axis, (each, new) in enumerate(zip(by, to, strict=True), 2):
        x = Resample(x, axis=axis, by=each, to=new)
    return x


def max_pool1d(
    x: Node[Any, tuple[B, C, W]],
    kernel_size: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> Tensor[B, C, Any]:
    """Return the maximum of each window of `x`, (batch, channels, width); see `max_pool2d`.

    >>> max_pool1d(wy.Input(dims=(2, 3, 8)), 2).shape
    (2, 3, 4)
    """
    return max_pool("max_pool1d", 1, x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    x: Node[Any, tuple[B, C, H, W]],
    kernel_size: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> Tensor[B, C, Any, Any]:
    """Return the maximum of each window of `x`, (batch, channels, height, width).

    Windows have `kernel_size` elements at a distance of `dilation`; `stride`, which is `kernel_size` by default, is the
    distance between them. `padding` widens `x` by elements that are never the maximum; see `conv2d` for its forms. With
    `ceil_mode` a last window may be cut off at the end. A NaN counts as the largest number; the gradient goes to the
    first maximum of each window.

    The windows along an axis that gets its size from the data of each run have an axis that follows from it, as
    `(Height()+1)//2`; other layers that take the same steps, as convolutions with this stride, have the same axis.

    Raise `ShapeError` for other axes and for windows without elements, in a run if its data decides that, `DTypeError`
    for masks and for options of another kind.

    >>> max_pool2d(wy.Input(dims=(2, 3, 8, 9)), 2).shape
    (2, 3, 4, 4)
    >>> class Height(wy.Dim): ...
    >>> max_pool2d(wy.Input(dims=(2, 3, Height(), 9)), 3, stride=2, padding=1).shape
    (2, 3, (Height()+1)//2, 5)
    """
    return max_pool("max_pool2d", 2, x, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    x: Node[Any, tuple[B, C, D, H, W]],
    kernel_size: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    dilation: PerAxis = 1,
    ceil_mode: bool = False,
) -> Tensor[B, C, Any, Any, Any]:
    """Return the maximum of each window of `x`, (batch, channels, depth, height, width); see `max_pool2d`.

    >>> max_pool3d(wy.Input(dims=(2, 3, 4, 8, 9)), 2).shape
    (2, 3, 2, 4, 4)
    """
    return max_pool("max_pool3d", 3, x, kernel_size, stride, padding, dilation, ceil_mode)


def avg_pool1d(
    x: Node[Any, tuple[B, C, W]],
    kernel_size: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor[B, C, Any]:
    """Return the mean of each window of `x`, (batch, channels, width); see `avg_pool2d`.

    >>> avg_pool1d(wy.Input(dims=(2, 3, 8)), 2).shape
    (2, 3, 4)
    """
    return average_pool("avg_pool1d", 1, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    x: Node[Any, tuple[B, C, H, W]],
    kernel_size: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor[B, C, Any, Any]:
    """Return the mean of each window of `x`, (batch, channels, height, width).

    The options are those of `max_pool2d`, except that `padding` adds zeros, which count as elements unless
    `count_include_pad` is false.

    Raise `ShapeError` for other axes and for windows without elements, in a run if its data decides that, `DTypeError`
    for masks and for options of another kind.

    >>> avg_pool2d(wy.Input(dims=(2, 3, 8, 9)), 2).shape
    (2, 3, 4, 4)
    """
    return average_pool("avg_pool2d", 2, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool3d(
    x: Node[Any, tuple[B, C, D, H, W]],
    kernel_size: PerAxis,
    stride: PerAxis | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor[B, C, Any, Any, Any]:
    """Return the mean of each window of `x`, (batch, channels, depth, height, width); see `avg_pool2d`.

    >>> avg_pool3d(wy.Input(dims=(2, 3, 4, 8, 9)), 2).shape
    (2, 3, 2, 4, 4)
    """
    return average_pool("avg_pool3d", 3, x, kernel_size, stride, padding, ceil_mode, count_include_pad)


def adaptive_max_pool1d(x: Node[Any, tuple[B, C, W]], output_size: PerAxis) -> Tensor[B, C, Any]:
    """Return the maximum of each of `output_size` windows; see `adaptive_max_pool2d`.

    >>> adaptive_max_pool1d(wy.Input(dims=(2, 3, 8)), 2).shape
    (2, 3, 2)
    """
    return adaptive_max_pool("adaptive_max_pool1d", 1, x, output_size)


def adaptive_max_pool2d(
    x: Node[Any, tuple[B, C, H, W]], output_size: PerAxis | Sequence[int | None]
) -> Tensor[B, C, Any, Any]:
    """Return the maximum of each of `output_size` windows of `x`.

    `output_size` is the number of windows along each spatial axis, an integer or one for each axis; None keeps the
    size. Window i of o along an axis of n elements goes from `i * n // o` to `ceil((i + 1) * n / o)`.

    Raise `ShapeError` for other axes and for axes without elements, `DTypeError` for masks and for an output size of
    another kind.

    >>> adaptive_max_pool2d(wy.Input(dims=(2, 3, 8, 9)), 2).shape
    (2, 3, 2, 2)
    """
    return adaptive_max_pool("adaptive_max_pool2d", 2, x, output_size)


def adaptive_max_pool3d(
    x: Node[Any, tuple[B, C, D, H, W]], output_size: PerAxis | Sequence[int | None]
) -> Tensor[B, C, Any, Any, Any]:
    """Return the maximum of each of `output_size` windows; see `adaptive_max_pool2d`.

    >>> adaptive_max_pool3d(wy.Input(dims=(2, 3, 4, 8, 9)), 2).shape
    (2, 3, 2, 2, 2)
    """
    return adaptive_max_pool("adaptive_max_pool3d", 3, x, output_size)


def adaptive_avg_pool1d(x: Node[Any, tuple[B, C, W]], output_size: PerAxis) -> Tensor[B, C, Any]:
    """Return the mean of each of `output_size` windows; see `adaptive_avg_pool2d`.

    >>> adaptive_avg_pool1d(wy.Input(dims=(2, 3, 8)), 2).shape
    (2, 3, 2)
    """
    return adaptive_average_pool("adaptive_avg_pool1d", 1, x, output_size)


def adaptive_avg_pool2d(
    x: Node[Any, tuple[B, C, H, W]], output_size: PerAxis | Sequence[int | None]
) -> Tensor[B, C, Any, Any]:
    """Return the mean of each of `output_size` windows of `x`; see `adaptive_max_pool2d` for them and the errors.

    >>> adaptive_avg_pool2d(wy.Input(dims=(2, 3, 8, 9)), 2).shape
    (2, 3, 2, 2)
    """
    return adaptive_average_pool("adaptive_avg_pool2d", 2, x, output_size)


def adaptive_avg_pool3d(
    x: Node[Any, tuple[B, C, D, H, W]], output_size: PerAxis | Sequence[int | None]
) -> Tensor[B, C, Any, Any, Any]:
    """Return the mean of each of `output_size` windows; see `adaptive_avg_pool2d`.

    >>> adaptive_avg_pool3d(wy.Input(dims=(2, 3, 4, 8, 9)), 2).shape
    (2, 3, 2, 2, 2)
    """
    return adaptive_average_pool("adaptive_avg_pool3d", 3, x, output_size)


class _Pooling(Module):
    """Base class of the layers: `options` are the arguments of the function `pool` after `x`."""

    options: dict[str, Any]
    pool: ClassVar[Callable[..., Node[Any, Any]]]
    # The number of spatial axes.
    rank: int

    def _check_options(self, kernel_size: PerAxis, stride: PerAxis | None, padding: Padding, dilation: PerAxis) -> None:
        step = kernel_size if stride is None else stride
        window_options(type(self).__name__, self.rank, kernel_size, step, padding, dilation)

    def _pool(self, x: Node) -> Node[Any, Any]:
        return type(self).pool(type(self).__name__, self.rank, x, **self.options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"


class Pooling1d(_Pooling):
    rank = 1

    def __call__(self, x: Tensor[B, C, W]) -> Tensor[B, C, Any]:
        """Return the pooled `x`, (batch, channels, width)."""
        return self._pool(x)


class Pooling2d(_Pooling):
    rank = 2

    def __call__(self, x: Tensor[B, C, H, W]) -> Tensor[B, C, Any, Any]:
        """Return the pooled `x`, (batch, channels, height, width)."""
        return self._pool(x)


class Pooling3d(_Pooling):
    rank = 3

    def __call__(self, x: Tensor[B, C, D, H, W]) -> Tensor[B, C, Any, Any, Any]:
        """Return the pooled `x`, (batch, channels, depth, height, width)."""
        return self._pool(x)


class _MaxPool(_Pooling):
    pool: ClassVar[Callable[..., Node[Any, Any]]] = staticmethod(max_pool)

    def __init__(
        self,
        kernel_size: PerAxis,
        stride: PerAxis | None = None,
        padding: Padding = 0,
        dilation: PerAxis = 1,
        ceil_mode: bool = False,
    ) -> None:
        self._check_options(kernel_size, stride, padding, dilation)
        self.options: dict[str, Any] = {
            "kernel_size": kernel_size, "stride": stride, "padding": padding, "dilation": dilation,
            "ceil_mode": ceil_mode,
        }  # fmt: skip


class _AvgPool(_Pooling):
    pool: ClassVar[Callable[..., Node[Any, Any]]] = staticmethod(average_pool)

    def __init__(
        self,
        kernel_size: PerAxis,
        stride: PerAxis | None = None,
        padding: Padding = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self._check_options(kernel_size, stride, padding, 1)
        self.options: dict[str, Any] = {
            "kernel_size": kernel_size, "stride": stride, "padding": padding, "ceil_mode": ceil_mode,
            "count_include_pad": count_include_pad,
        }  # fmt: skip


class _AdaptivePool(_Pooling):
    def __init__(self, output_size: PerAxis | Sequence[int | None]) -> None:
        adaptive_sizes(type(self).__name__, self.rank, output_size)
        self.options: dict[str, Any] = {"output_size": output_size}


class _AdaptiveMaxPool(_AdaptivePool):
    pool: ClassVar[Callable[..., Node[Any, Any]]] = staticmethod(adaptive_max_pool)


class _AdaptiveAvgPool(_AdaptivePool):
    pool: ClassVar[Callable[..., Node[Any, Any]]] = staticmethod(adaptive_average_pool)


class MaxPool1d(_MaxPool, Pooling1d):
    """The maximum of each window along 1 spatial axis; see `max_pool1d` for the options and errors.

    >>> MaxPool1d(2)(wy.Input(dims=(2, 3, 8))).shape
    (2, 3, 4)
    """


class MaxPool2d(_MaxPool, Pooling2d):
    """The maximum of each window along 2 spatial axes; see `max_pool2d` for the options and errors.

    >>> MaxPool2d(2)(wy.Input(dims=(2, 3, 8, 9))).shape
    (2, 3, 4, 4)
    """


class MaxPool3d(_MaxPool, Pooling3d):
    """The maximum of each window along 3 spatial axes; see `max_pool3d` for the options and errors.

    >>> MaxPool3d(2)(wy.Input(dims=(2, 3, 4, 8, 9))).shape
    (2, 3, 2, 4, 4)
    """


class AvgPool1d(_AvgPool, Pooling1d):
    """The mean of each window along 1 spatial axis; see `avg_pool1d` for the options and errors.

    >>> AvgPool1d(2)(wy.Input(dims=(2, 3, 8))).shape
    (2, 3, 4)
    """


class AvgPool2d(_AvgPool, Pooling2d):
    """The mean of each window along 2 spatial axes; see `avg_pool2d` for the options and errors.

    >>> AvgPool2d(2)(wy.Input(dims=(2, 3, 8, 9))).shape
    (2, 3, 4, 4)
    """


class AvgPool3d(_AvgPool, Pooling3d):
    """The mean of each window along 3 spatial axes; see `avg_pool3d` for the options and errors.

    >>> AvgPool3d(2)(wy.Input(dims=(2, 3, 4, 8, 9))).shape
    (2, 3, 2, 4, 4)
    """


class AdaptiveMaxPool1d(_AdaptiveMaxPool, Pooling1d):
    """The maximum of each of `output_size` windows; see `adaptive_max_pool1d` for the options and errors.

    >>> AdaptiveMaxPool1d(2)(wy.Input(dims=(2, 3, 8))).shape
    (2, 3, 2)
    """


class AdaptiveMaxPool2d(_AdaptiveMaxPool, Pooling2d):
    """The maximum of each of `output_size` windows; see `adaptive_max_pool2d` for the options and errors.

    >>> AdaptiveMaxPool2d(2)(wy.Input(dims=(2, 3, 8, 9))).shape
    (2, 3, 2, 2)
    """


class AdaptiveMaxPool3d(_AdaptiveMaxPool, Pooling3d):
    """The maximum of each of `output_size` windows; see `adaptive_max_pool3d` for the options and errors.

    >>> AdaptiveMaxPool3d(2)(wy.Input(dims=(2, 3, 4, 8, 9))).shape
    (2, 3, 2, 2, 2)
    """


class AdaptiveAvgPool1d(_AdaptiveAvgPool, Pooling1d):
    """The mean of each of `output_size` windows; see `adaptive_avg_pool1d` for the options and errors.

    >>> AdaptiveAvgPool1d(2)(wy.Input(dims=(2, 3, 8))).shape
    (2, 3, 2)
    """


class AdaptiveAvgPool2d(_AdaptiveAvgPool, Pooling2d):
    """The mean of each of `output_size` windows; see `adaptive_avg_pool2d` for the options and errors.

    >>> AdaptiveAvgPool2d(2)(wy.Input(dims=(2, 3, 8, 9))).shape
    (2, 3, 2, 2)
    """


class AdaptiveAvgPool3d(_AdaptiveAvgPool, Pooling3d):
    """The mean of each of `output_size` windows; see `adaptive_avg_pool3d` for the options and errors.

    >>> AdaptiveAvgPool3d(2)(wy.Input(dims=(2, 3, 4, 8, 9))).shape
    (2, 3, 2, 2, 2)
    """
