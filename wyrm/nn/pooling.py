"""Pooling as functions, with PyTorch's names and order of arguments; `x` has the axes (batch, channels, *sizes)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.base import describe
from wyrm.graph.node import Node, Tensor
from wyrm.nn.axes import Padding, PerAxis, per_axis, spatial_sizes, window_options
from wyrm.ops.convolution.tables import Window
from wyrm.ops.elementwise.activation import Relu
from wyrm.ops.pooling.pooling import MaxPool, Places
from wyrm.ops.pooling.resample import Resample, Taps

B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
H = TypeVar("H")
W = TypeVar("W")


class _AxisWindows(NamedTuple):
    """The windows along one axis of `size` elements; `outputs` is their number."""

    window: Window
    size: int
    outputs: int

    def places(self) -> Places:
        """Return the places inside of the axis that each window covers."""
        step, found = self.window.dilation, []
        for i in range(self.outputs):
            start = i * self.window.stride - self.window.before
            first = start if start >= 0 else start + -(start // step) * step
            found.append((first, min(start + self.window.extent, self.size), step))
        return tuple(found)

    def mean_taps(self, count_padding: bool) -> Taps:
        """Return the taps of the means; with `count_padding`, the zeros outside of the axis count as elements."""
        found: list[tuple[int, tuple[float, ...]]] = []
        for i, (first, end, _) in enumerate(self.places()):
            start = i * self.window.stride - self.window.before
            covered = min(start + self.window.size, self.size + self.window.after) - start
            found.append((first, _shares(end - first, covered if count_padding else end - first)))
        return tuple(found)


def _windows(
    name: str, x: Node, rank: int, kernel_size: object, stride: object, padding: object, dilation: object,
    ceil_mode: bool,
) -> list[_AxisWindows]:  # fmt: skip
    """Return the windows along each spatial axis; raise `ShapeError` if one covers no element of `x`."""
    sizes = spatial_sizes(name, x, rank)
    found = []
    options = window_options(name, rank, kernel_size, kernel_size if stride is None else stride, padding, dilation)
    for size, each, step, pair, spread in zip(sizes, *options, strict=True):
        window = Window(each, step, *pair, spread)
        outputs = window.count(size)
        # A last window may reach beyond the end, but not start there: it would have no element.
        if ceil_mode and (size + sum(pair) - window.extent) % step and outputs * step < size + window.before:
            outputs += 1
        along = _AxisWindows(window, size, outputs)
        if outputs < 1 or any(first >= end for first, end, _ in along.places()):
            raise ShapeError(
                f"{name}: a window of {each} elements with stride {step}, padding {pair} and dilation {spread} has no "
                f"element of an axis of size {size}, in {describe(x)}"
            )
        found.append(along)
    return found


def _max(x: Node, places: tuple[Places, ...], sizes: tuple[int, ...]) -> Node[Any, Any]:
    """Return the maxima; those of `relu(y)` are `relu` of the maxima of `y`, computed for fewer elements."""
    if isinstance(x, Relu):
        return Relu(MaxPool(x.parents[0], places=places, sizes=sizes))
    return MaxPool(x, places=places, sizes=sizes)


def max_pool(
    name: str, rank: int, x: Node, kernel_size: object, stride: object, padding: object, dilation: object,
    ceil_mode: bool,
) -> Node[Any, Any]:  # fmt: skip
    """Return the maximum of each window, for a function or layer called `name`."""
    windows = _windows(name, x, rank, kernel_size, stride, padding, dilation, ceil_mode)
    return _max(x, tuple(each.places() for each in windows), tuple(each.size for each in windows))


def average_pool(
    name: str, rank: int, x: Node, kernel_size: object, stride: object, padding: object, ceil_mode: bool,
    count_include_pad: bool,
) -> Node[Any, Any]:  # fmt: skip
    """Return the mean of each window, for a function or layer called `name`."""
    windows = _windows(name, x, rank, kernel_size, stride, padding, 1, ceil_mode)
    return resampled(x, [each.mean_taps(count_include_pad) for each in windows])


def adaptive_sizes(name: str, sizes: Sequence[int], output_size: object) -> tuple[int, ...]:
    """Return the checked number of outputs along each axis; None keeps its size."""
    if isinstance(output_size, tuple | list) and len(output_size) == len(sizes):
        output_size = [size if each is None else each for each, size in zip(output_size, sizes, strict=True)]
    return per_axis(name, "output_size", output_size, len(sizes))


def _adaptive_ranges(name: str, x: Node, rank: int, output_size: object) -> list[list[tuple[int, int]]]:
    """Return for each spatial axis the range of elements of each output: as even ranges as possible."""
    sizes = spatial_sizes(name, x, rank)
    outputs = adaptive_sizes(name, sizes, output_size)
    if 0 in sizes:
        raise ShapeError(f"{name}: {describe(x)} has no elements along a spatial axis")
    return [
        [(i * size // count, -(-(i + 1) * size // count)) for i in range(count)]
        for size, count in zip(sizes, outputs, strict=True)
    ]


def adaptive_max_pool(name: str, rank: int, x: Node, output_size: object) -> Node[Any, Any]:
    """Return the maximum of each of `output_size` even windows, for a function or layer called `name`."""
    ranges = _adaptive_ranges(name, x, rank, output_size)
    places = tuple(tuple((first, end, 1) for first, end in each) for each in ranges)
    return _max(x, places, spatial_sizes(name, x, rank))


def adaptive_average_pool(name: str, rank: int, x: Node, output_size: object) -> Node[Any, Any]:
    """Return the mean of each of `output_size` even windows, for a function or layer called `name`."""
    ranges = _adaptive_ranges(name, x, rank, output_size)
    return resampled(x, [tuple((first, _shares(end - first, end - first)) for first, end in each) for each in ranges])


def _shares(taps: int, count: int) -> tuple[float, ...]:
    return (1.0 / count,) * taps


def resampled(x: Node, taps: Sequence[Taps]) -> Node[Any, Any]:
    """Return `x` with each spatial axis resampled."""
    for axis, each in enumerate(taps, 2):
        x = Resample(x, axis=axis, taps=each, to=len(each))
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

    Raise `ShapeError` for other axes, for spatial axes without a size and for windows without elements, `DTypeError`
    for masks and for options of another kind.

    >>> max_pool2d(wy.Input(dims=(2, 3, 8, 9)), 2).shape
    (2, 3, 4, 4)
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

    Raise `ShapeError` for other axes, for spatial axes without a size and for windows without elements, `DTypeError`
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

    Raise `ShapeError` for other axes and for spatial axes without a size, `DTypeError` for masks and for an output
    size of another kind.

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
