"""Convolutions in one to three dimensions, and their gradients, which are convolutions as well.

A convolution is linear in the input and in the weight, so the three ops here are each other's gradients to any order:
`Convolution`, `ConvolutionInputGradient`, which is the transposed convolution, and `ConvolutionWeightGradient`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, product, unify
from wyrm.graph.base import explain, format_dims, label
from wyrm.graph.jax_form import JAX, Lowering
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.batching import batch_axis, spread
from wyrm.ops.convolution.boxes import VECTOR
from wyrm.ops.convolution.kernels import correlation_kernel, weight_gradient_kernel
from wyrm.ops.convolution.tables import (
    Tables,
    forward_tables,
    input_gradient_tables,
    weight_gradient_tables,
)
from wyrm.ops.elementwise.elementwise import Axes, unmasked_dtype
from wyrm.ops.kernels.native import scratch
from wyrm.ops.products.product import ProductForm, sum_dtype
from wyrm.ops.windows import Window
from wyrm.reach.rules import KEPT, REACH, Windowed
from wyrm.support.imports import jnp, lax


def padded(xp: ArrayNamespace, x: FloatArray, pads: Sequence[tuple[int, int]]) -> FloatArray:
    """Return `x` with zeros before and after its last axes; a negative number removes elements."""
    first = x.ndim - len(pads)
    for axis, (before, after) in enumerate(pads, first):
        ends = [
            xp.zeros((*x.shape[:axis], max(0, size), *x.shape[axis + 1 :]), dtype=x.dtype) for size in (before, after)
        ]
        x = xp.concat([ends[0], x, ends[1]], axis=axis)
        # Zeros of one end may be removed from the other end.
        keep = slice(max(0, -before), x.shape[axis] - max(0, -after))
        x = x[(*[slice(None)] * axis, keep)]
    return x


def spaced(xp: ArrayNamespace, x: FloatArray, steps: Sequence[int]) -> FloatArray:
    """Return `x` with `step - 1` zeros between the elements along each of its last axes."""
    first = x.ndim - len(steps)
    for axis, step in enumerate(steps, first):
        zeros = xp.zeros((*x.shape[: axis + 1], step - 1, *x.shape[axis + 1 :]), dtype=x.dtype)
        wide = xp.concat([xp.stack([x], axis=axis + 1), zeros], axis=axis + 1)
        wide = xp.reshape(wide, (*x.shape[:axis], x.shape[axis] * step, *x.shape[axis + 1 :]))
        x = wide[(*[slice(None)] * axis, slice(max(0, (x.shape[axis] - 1) * step + 1)))]
    return x


def _inputs_by_tap(
    xp: ArrayNamespace, x: FloatArray, windows: Sequence[Window], sizes: Sequence[int], groups: int
) -> Iterator[tuple[tuple[int, ...], FloatArray]]:
    """Yield each tap and the inputs that it reads, of the axes (batch, groups, channels per group, outputs)."""
    x = padded(xp, x, [(window.before, window.after) for window in windows])
    batch, channels = x.shape[:2]
    for tap in itertools.product(*(range(window.size) for window in windows)):
        places = tuple(
            slice(k * w.dilation, k * w.dilation + max(0, (size - 1) * w.stride + 1), w.stride)
            for k, w, size in zip(tap, windows, sizes, strict=True)
        )
        part = x[(slice(None), slice(None), *places)]
        yield tap, xp.reshape(part, (batch, groups, channels // groups, math.prod(sizes)))


def convolution(
    xp: ArrayNamespace, x: FloatArray, weight: FloatArray, windows: Sequence[Window], groups: int
) -> FloatArray:
    """Return the convolution."""
    sizes = [window.count(size) for window, size in zip(windows, x.shape[2:], strict=True)]
    rows = weight.shape[0] // groups
    grouped: Any = xp.reshape(weight, (groups, rows, *weight.shape[1:]))
    total: Any = xp.zeros((x.shape[0], groups, rows, math.prod(sizes)), dtype=x.dtype)
    for tap, part in _inputs_by_tap(xp, x, windows, sizes, groups):
        total = total + xp.matmul(grouped[(..., *tap)], part)
    return xp.reshape(total, (x.shape[0], weight.shape[0], *sizes))


def input_gradient(
    xp: ArrayNamespace, gradient: FloatArray, weight: FloatArray, windows: Sequence[Window], groups: int,
    sizes: Sequence[int],
) -> FloatArray:  # fmt: skip
    """Return the gradient with respect to an input of these sizes: a convolution of the gradient, spaced by stride."""
    rows, channels = weight.shape[0] // groups, weight.shape[1]
    pads, own = [], []
    for window, size, count in zip(windows, sizes, gradient.shape[2:], strict=True):
        before = window.extent - 1 - window.before
        width = max(0, (count - 1) * window.stride + 1)
        pads.append((before, size + window.extent - 1 - before - width))
        own.append(Window(window.size, dilation=window.dilation))
    grouped = xp.reshape(weight, (groups, rows, *weight.shape[1:]))
    turned = xp.reshape(xp.moveaxis(grouped, 2, 1), (groups * channels, rows, *weight.shape[2:]))
    for axis in range(2, weight.ndim):
        turned = xp.flip(turned, axis=axis)
    spread = padded(xp, spaced(xp, gradient, [window.stride for window in windows]), pads)
    return convolution(xp, spread, turned, own, groups)


def weight_gradient(
    xp: ArrayNamespace, x: FloatArray, gradient: FloatArray, windows: Sequence[Window], groups: int
) -> FloatArray:
    """Return the gradient with respect to the weight."""
    batch, outputs, *sizes = gradient.shape
    grouped = xp.reshape(gradient, (batch, groups, outputs // groups, math.prod(sizes)))
    taps = [
        xp.sum(xp.matmul(grouped, xp.permute_dims(part, (0, 1, 3, 2))), axis=0)
        for _, part in _inputs_by_tap(xp, x, windows, sizes, groups)
    ]
    return xp.reshape(xp.stack(taps, axis=-1), (outputs, x.shape[1] // groups, *(window.size for window in windows)))


class ConvolutionOptions(TypedDict):
    """The static attributes that the ops share: one entry per spatial axis, and the number of groups of channels."""

    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int


class ConvolutionOp(Node[tuple[Node, ...], Axes], abstract=True):
    """Base class of the ops: x and gradient have the axes (batch, channels, *sizes)."""

    __slots__ = ("dilation", "groups", "padding", "stride")
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int

    def options(self) -> ConvolutionOptions:
        """Return the attributes that the ops share."""
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}

    def dtype_rule(self) -> np.dtype:
        return unmasked_dtype(self.parents)

    def windows(self, sizes: Sequence[int]) -> list[Window]:
        """Return the windows, of these sizes, along each spatial axis."""
        each = zip(sizes, self.stride, self.padding, self.dilation, strict=True)
        return [Window(size, stride, *padding, dilation) for size, stride, padding, dilation in each]

    def check_options(self, spatial: Sequence[Axis]) -> list[Window]:
        """Return the windows of a weight with these spatial axes; raise `ShapeError` if the attributes do not fit."""
        rank = len(spatial)
        if not 1 <= rank <= 3:
            raise ShapeError(
                f"the axes are (batch, channels, *sizes) with one to three sizes, but {label(self.parents[0])} has the "
                f"axes {format_dims(self.parents[0].dims)}"
            )
        if not len(self.stride) == len(self.padding) == len(self.dilation) == rank:
            raise ShapeError(
                f"stride {self.stride}, padding {self.padding} and dilation {self.dilation} must have {rank} entries, "
                f"one for each spatial axis"
            )
        sizes = [size for axis in spatial if (size := axis_size(axis)) is not None]
        if len(sizes) < rank or min(sizes) < 1:
            raise ShapeError(f"the windows have the axes {format_dims(tuple(spatial))}; each needs a size of 1 or more")
        if min(*self.stride, *self.dilation, self.groups) < 1 or min(map(min, self.padding)) < 0:
            raise ShapeError(
                f"stride {self.stride}, dilation {self.dilation} and groups {self.groups} must be at least 1, padding "
                f"{self.padding} at least 0"
            )
        return self.windows(sizes)

    def check_channels(self, channels: Axis, per_group: Axis, of: Node) -> None:
        """Raise `ShapeError` unless `channels`, of the node `of`, are `groups` times the channels per group."""
        if self.groups == 1:
            unify(channels, per_group)
            return
        sizes = axis_size(channels), axis_size(per_group)
        if None in sizes or sizes[0] != self.groups * (sizes[1] or 0):
            raise ShapeError(
                f"{label(of)} has {channels!r} channels, but {self.groups} groups of {per_group!r} channels each are "
                f"expected"
            )

    def check_groups(self, outputs: Axis) -> None:
        """Raise `ShapeError` unless the output channels divide into groups."""
        size = axis_size(outputs)
        if size is None or size % self.groups:
            raise ShapeError(f"{outputs!r} output channels cannot be divided into {self.groups} equal groups")

    def output_axes(self, spatial: Sequence[Axis], windows: Sequence[Window]) -> Dims:
        """Return the spatial axes of the outputs; an axis keeps its name where it keeps its size with stride 1."""
        return tuple(self._output_axis(axis, window) for axis, window in zip(spatial, windows, strict=True))

    def _output_axis(self, axis: Axis, window: Window) -> Axis:
        if window.keeps_sizes:
            return axis
        size = axis_size(axis)
        if size is not None:
            _check_fit(window, axis, size)
        return window.axis(axis)

    def check_run(self, spatial: Sequence[Axis], sizes: Sequence[int], windows: Sequence[int]) -> None:
        """Raise `ShapeError` if windows of these sizes do not fit in spatial axes that have these sizes in a run."""
        try:
            for window, axis, size in zip(self.windows(windows), spatial, sizes, strict=True):
                if not window.keeps_sizes:
                    _check_fit(window, axis, size)
        except ShapeError as error:
            raise ShapeError(explain(self, str(error))) from None

    def check_gradient(self, x_axes: Sequence[Axis], gradient: Node, windows: Sequence[Window]) -> None:
        """Raise `ShapeError` unless the spatial axes of the gradient are those of the outputs for `x_axes`."""
        for expected, axis in zip(self.output_axes(x_axes, windows), gradient.dims[2:], strict=True):
            unify(expected, axis)

    def check_ranks(self) -> None:
        """Raise `ShapeError` unless both parents have the same number of axes, at least three."""
        x, y = self.parents[:2]
        if len(x.dims) != len(y.dims) or len(x.dims) < 3:
            raise ShapeError(
                f"{label(x)} has the axes {format_dims(x.dims)}, {label(y)} {format_dims(y.dims)}; both need the same "
                f"number, three to five: (batch, channels, *sizes), or (output channels, channels per group, *windows) "
                f"of a weight"
            )


def _check_fit(window: Window, axis: Axis, size: int) -> None:
    """Raise `ShapeError` if no window fits in an axis of this size."""
    if window.count(size) < 1:
        known = "" if axis_size(axis) is not None else f", which has the size {size} in this run,"
        raise ShapeError(
            f"a window that extends over {window.extent} elements does not fit in {axis!r}{known} with padding "
            f"{(window.before, window.after)}"
        )


class _Axis(NamedTuple):
    """A spatial axis of a convolution of XLA, of an input of `size` elements with a kernel of `taps`.

    The input has `spacing - 1` zeros between its elements, `low` zeros before and `high` after them. A negative number
    removes elements.
    """

    size: int
    taps: int
    stride: int
    low: int
    high: int
    spacing: int
    dilation: int

    @property
    def spaced(self) -> int:
        """The number of elements with the zeros between them."""
        return (self.size - 1) * self.spacing + 1

    @property
    def extent(self) -> int:
        """The number of elements from the first to the last tap."""
        return (self.taps - 1) * self.dilation + 1

    @property
    def outputs(self) -> int:
        """The number of outputs."""
        return (self.spaced + self.low + self.high - self.extent) // self.stride + 1

    @property
    def ends_process(self) -> bool:
        """Whether XLA may end the process."""
        single = self.spacing == self.taps and self.stride == self.taps - 1 and self.dilation == 1
        return single and self.low == self.high == 0 and self.size != self.taps

    @property
    def fails(self) -> bool:
        """Whether XLA may compute other numbers or end the process."""
        return self.low < 0 or self.ends_process

    def derived(self) -> tuple[_Axis, _Axis]:
        """Return the axes of the gradients with respect to the input and to the kernel, as JAX derives them."""
        reach = (self.outputs - 1) * self.stride + 1
        low = self.extent - 1 - self.low
        of_input = _Axis(
            self.outputs, self.taps, self.spacing, low, self.spaced + self.extent - 1 - reach - low, self.stride,
            self.dilation,
        )  # fmt: skip
        high = reach + self.extent - 1 - self.spaced - self.low
        of_kernel = _Axis(self.size, self.outputs, self.dilation, self.low, high, self.spacing, self.stride)
        return of_input, of_kernel

    def kept(self) -> tuple[slice, _Axis]:
        """Return which elements are not removed, and the axis of an input of these alone."""
        before, after = -(min(self.low, 0) // self.spacing), -(min(self.high, 0) // self.spacing)
        size = max(0, self.size - before - after)
        low, high = self.low + before * self.spacing, self.high + after * self.spacing
        return slice(before, before + size), self._replace(size=size, low=low, high=high)


class _ConvolutionForm(ProductForm):
    """A convolution of XLA."""

    # Which of both operands and the result, from 0, has the axes of the weight.
    weight = 1

    def axes(self, node: Any, first: Sequence[int], second: Sequence[int], result: Sequence[int]) -> list[_Axis]:
        """Return the spatial axes, given the sizes of those of both operands and of the result."""
        raise NotImplementedError

    def own_gradient(self, node: Any) -> bool:
        sizes = [[axis_size(axis) for axis in x.dims[2:]] for x in (*node.parents[:2], node)]
        known: Any = sizes
        # XLA fails for some sizes. Where data decides the size, it may be one of them, unless windows keep the size.
        if any(size is None for each in sizes for size in each):
            return not all(window.keeps_sizes for window in node.windows(known[self.weight]))
        return any(axis.fails for each in self.axes(node, *known) for axis in each.derived())

    def convolved(
        self,
        node: Any,
        operands: tuple[Any, Any],
        kernel: Any,
        shape: tuple[int, ...],
        lowering: Lowering,
        exchanged: bool = False,
    ) -> Any:
        """Return the convolution of the first operand with a kernel made of the second one.

        With `exchanged`, batch and channels are exchanged in the operands and the result.
        """
        (x, second), dtype = operands, sum_dtype(*operands)
        pairs = [axis.kept() for axis in self.axes(node, x.shape[2:], second.shape[2:], shape[2:])]
        kept, axes = [slices for slices, _ in pairs], [axis for _, axis in pairs]
        if any(axis.size == 0 for axis in axes):
            return jnp.zeros(shape, dtype)
        x = x[(slice(None), slice(None), *kept)]
        order = (1, 0, *range(2, x.ndim)) if exchanged else tuple(range(x.ndim))
        options = {
            "window_strides": [axis.stride for axis in axes],
            "padding": [(axis.low, axis.high + axis.ends_process) for axis in axes],
            "lhs_dilation": [axis.spacing for axis in axes],
            "rhs_dilation": [axis.dilation for axis in axes],
            "batch_group_count" if exchanged else "feature_group_count": node.groups,
        }

        numbers = lax.ConvDimensionNumbers(order, order, order)
        result = lax.conv_general_dilated(x, kernel, dimension_numbers=numbers, preferred_element_type=dtype, **options)
        return result[tuple(map(slice, shape))]


class ConvolutionForm(_ConvolutionForm):
    """One convolution of XLA, and the bias."""

    def axes(self, node: Any, first: Sequence[int], second: Sequence[int], result: Sequence[int]) -> list[_Axis]:
        return [
            _Axis(size, window.size, window.stride, window.before, window.after, 1, window.dilation)
            for size, window in zip(first, node.windows(second), strict=True)
        ]

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, weight, *biases = operands
        result = self.convolved(node, (x, weight), weight, shape, lowering)
        return result + biases[0].reshape(-1, *[1] * len(node.stride)) if biases else result


class InputGradientForm(_ConvolutionForm):
    """A convolution of the gradient, spaced by the stride, with the flipped weight."""

    def axes(self, node: Any, first: Sequence[int], second: Sequence[int], result: Sequence[int]) -> list[_Axis]:
        return [
            _Axis(
                count, window.size, 1, window.extent - 1 - window.before,
                size - 1 + window.before - (count - 1) * window.stride, window.stride, window.dilation,
            )
            for window, size, count in zip(node.windows(second), result, first, strict=True)
        ]  # fmt: skip

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        gradient, weight = operands
        outputs, channels, *sizes = weight.shape
        grouped = weight.reshape(node.groups, outputs // node.groups, channels, *sizes).swapaxes(1, 2)
        exchanged = grouped.reshape(node.groups * channels, outputs // node.groups, *sizes)
        flipped = lax.rev(exchanged, range(2, exchanged.ndim))
        return self.convolved(node, (gradient, weight), flipped, shape, lowering)


class WeightGradientForm(_ConvolutionForm):
    """A convolution that sums over the batch: x and the gradient exchange batch and channels, stride and dilation."""

    weight = 2

    def axes(self, node: Any, first: Sequence[int], second: Sequence[int], result: Sequence[int]) -> list[_Axis]:
        return [
            _Axis(
                size, count, window.dilation, window.before,
                (count - 1) * window.stride + window.extent - size - window.before, 1, window.stride,
            )
            for window, size, count in zip(node.windows(result), first, second, strict=True)
        ]  # fmt: skip

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        x, gradient = operands
        return self.convolved(node, (x, gradient), gradient, shape, lowering, exchanged=True)


class _ConvolutionLoops(ByKernel):
    def space(self, array: Array) -> tuple[int, int, int]:
        """Return the sizes of the array's three spatial axes."""
        first, second, third = _in_space(array.shape[2:], 1)
        return first, second, third

    def source(self, array: Array) -> Array:
        """Return a view of the array with the axes (batch, channels, depth, height and width in one)."""
        depth, height, width = self.space(array)
        return array.reshape(*array.shape[:2], depth, height * width)

    def windows(self, node: ConvolutionOp, sizes: Sequence[int]) -> tuple[Window, Window, Window]:
        """Return the windows along three axes."""
        first, second, third = _in_space(node.windows(sizes), Window(1))
        return first, second, third

    def correlation(
        self, node: ConvolutionOp, tables: Tables, operands: Sequence[Array], out: Array, steps: tuple[int, int]
    ) -> tuple[KernelArgument, ...]:
        """Return the arguments of `correlation_kernel`."""
        source, weight, *biases = operands
        channels, rows = source.shape[1] // node.groups, out.shape[1] // node.groups
        boxes = channels * len(tables.source_shifts)
        # Runs are side by side in the result unless phases are between them.
        apart = tables.out_step != (1, 1, 1)
        return (
            self.source(source),
            weight.reshape(-1),
            biases[0] if biases else np.zeros(0, node.dtype),
            out.reshape(*out.shape[:2], math.prod(out.shape[2:])),
            node.groups,
            self.space(source),
            self.space(out),
            tables.tile,
            tables.span,
            tables.halo,
            tables.source_step,
            tables.out_step,
            steps,
            tables.source_shifts,
            tables.out_shifts,
            tables.starts,
            tables.positions,
            tables.steps,
            tables.ends,
            tables.direct_steps,
            tables.direct_ends,
            tables.masks,
            scratch(2 * rows * (len(tables.positions) + len(tables.out_shifts)), node.dtype),
            scratch((boxes + 1 + VECTOR // tables.volume, tables.volume), node.dtype),
            scratch((rows, tables.run) if apart else (0, 0), node.dtype),
        )


def _in_space(values: Sequence[Any], filler: Any) -> tuple[Any, Any, Any]:
    """Return one value per axis of space: those of one or two axes after fillers."""
    first, second, third = [filler] * (3 - len(values)) + list(values)
    return first, second, third


class Convolution(ConvolutionOp[Axes]):
    """The convolution (cross-correlation) of `x`, (batch, channels, *sizes), with a weight, plus an optional bias.

    The weight has the axes (output channels, channels per group, *windows), the result (batch, output channels,
    *outputs): `sum_{c, k} weight[o, c, k] * x[b, c, i * stride + k * dilation - padding]`, with zeros outside of `x`.
    Group g of the output channels reads group g of the channels. The bias has the axis (output channels,).

    Raise `ShapeError` for axes or options that do not fit, `DTypeError` for masks and for operands of two dtypes.

    >>> x, weight = wy.Constant(np.arange(5.0).reshape(1, 1, 5)), wy.Constant(np.ones((1, 1, 3)))
    >>> options = {"stride": (1,), "padding": ((0, 0),), "dilation": (1,), "groups": 1}
    >>> wy.ops.convolution.convolution.Convolution(x, weight, **options).forward().tolist()
    [[[3.0, 6.0, 9.0]]]
    """

    __slots__ = ()

    def __init__(self, x: Node, weight: Node, bias: Node | None = None, **options: Unpack[ConvolutionOptions]) -> None:
        self._construct((x, weight) if bias is None else (x, weight, bias), **options)

    def shape_rule(self) -> Dims:
        self.check_ranks()
        x, weight, *biases = self.parents
        windows = self.check_options(weight.dims[2:])
        self.check_channels(x.dims[1], weight.dims[1], x)
        self.check_groups(weight.dims[0])
        for bias in biases:
            if len(bias.dims) != 1:
                raise ShapeError(f"{label(bias)} must have one axis, {weight.dims[0]!r}, not {format_dims(bias.dims)}")
            unify(weight.dims[0], bias.dims[0])
        return x.dims[0], weight.dims[0], *self.output_axes(x.dims[2:], windows)

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        self.check_run(self.parents[0].dims[2:], shapes[0][2:], shapes[1][2:])

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        x, weight, *biases = operands
        result = convolution(xp, x, weight, self.windows(weight.shape[2:]), self.groups)
        return result + xp.reshape(biases[0], (-1, *[1] * (len(shape) - 2))) if biases else result

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Node | None:
        product = _batched_over_weight(self, operands[:2], mapped[:2], {}) if any(mapped[:2]) else None
        if product is None or len(operands) == 2:
            return product
        bias = operands[2]
        sums: Node = product + bias.reshape((*bias.dims[:-1], *[1] * mapped[2], bias.dims[-1], *[1] * len(self.stride)))
        return sums

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, weight, *biases = self.parents
        return (
            ConvolutionInputGradient(gradient, weight, sizes=x.dims[2:], **self.options()),
            ConvolutionWeightGradient(x, gradient, sizes=weight.dims[2:], **self.options()),
            *(gradient.sum((0, *range(2, len(gradient.dims)))) for _ in biases),
        )


@REACH.register(Convolution)
class _ConvolutionReach(Windowed):
    """Windows along the axes of space; all channels reach each other."""

    def windows(self, node: Convolution) -> Sequence[Any]:
        sizes = [axis_size(axis) for axis in node.parents[1].dims[2:]]
        spatial = [None] * len(sizes) if None in sizes else node.windows([size or 0 for size in sizes])
        return KEPT, None, *spatial


JAX.register(Convolution)(ConvolutionForm)


@LOOPS.register(Convolution)
class _ForwardLoops(_ConvolutionLoops):
    kernel = staticmethod(correlation_kernel)

    def kernel_arguments(self, node: Convolution, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        x, weight = operands[:2]
        windows = self.windows(node, weight.shape[2:])
        rows, taps = weight.shape[0] // node.groups, math.prod(weight.shape[1:])
        tables = forward_tables(windows, weight.shape[1], rows, self.space(x), self.space(out), x.itemsize)
        return self.correlation(node, tables, operands, out, (rows * taps, taps))


class ConvolutionInputGradient(ConvolutionOp[Axes]):
    """The gradient of a convolution with respect to an input with the spatial axes `sizes`; a transposed convolution.

    `gradient` has the axes (batch, output channels, *outputs), the weight those of `Convolution`.
    """

    __slots__ = ("sizes",)
    sizes: Dims

    def __init__(self, gradient: Node, weight: Node, *, sizes: Dims, **options: Unpack[ConvolutionOptions]) -> None:
        self._construct((gradient, weight), sizes=sizes, **options)

    def shape_rule(self) -> Dims:
        self.check_ranks()
        gradient, weight = self.parents
        windows = self.check_options(weight.dims[2:])
        unify(gradient.dims[1], weight.dims[0])
        self.check_groups(weight.dims[0])
        self.check_gradient(self.sizes, gradient, windows)
        channels = weight.dims[1]
        if self.groups > 1:
            channels = self.groups * int(channels)
        return gradient.dims[0], channels, *self.sizes

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        self.check_run(self.sizes, shape[2:], shapes[1][2:])
        if min(shape[2:]) < 1 <= min(shapes[0][2:]):
            raise ShapeError(explain(self, f"the result would have the sizes {shape[2:]} in this run"))

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        gradient, weight = operands
        windows = self.windows(weight.shape[2:])
        return input_gradient(xp, gradient, weight, windows, self.groups, shape[2:])

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Node | None:
        return _batched_over_weight(self, operands, mapped, {"sizes": self.sizes})

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        of_outputs, weight = self.parents
        return (
            Convolution(gradient, weight, **self.options()),
            ConvolutionWeightGradient(gradient, of_outputs, sizes=weight.dims[2:], **self.options()),
        )


JAX.register(ConvolutionInputGradient)(InputGradientForm)


@LOOPS.register(ConvolutionInputGradient)
class _InputGradientLoops(_ConvolutionLoops):
    kernel = staticmethod(correlation_kernel)

    def kernel_arguments(
        self, node: ConvolutionInputGradient, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        gradient, weight = operands
        windows = self.windows(node, weight.shape[2:])
        channels, inputs, taps = weight.shape[0] // node.groups, weight.shape[1], math.prod(weight.shape[2:])
        sizes = self.space(gradient), self.space(out)
        tables = input_gradient_tables(windows, channels, inputs, *sizes, gradient.itemsize)
        return self.correlation(node, tables, operands, out, (channels * inputs * taps, taps))


class ConvolutionWeightGradient(ConvolutionOp[Axes]):
    """The gradient of a convolution with respect to a weight whose windows have the axes `sizes`.

    The parents are x, (batch, channels, *sizes), and the gradient with respect to the outputs.
    """

    __slots__ = ("sizes",)
    sizes: Dims

    def __init__(self, x: Node, gradient: Node, *, sizes: Dims, **options: Unpack[ConvolutionOptions]) -> None:
        self._construct((x, gradient), sizes=sizes, **options)

    def shape_rule(self) -> Dims:
        self.check_ranks()
        x, gradient = self.parents
        windows = self.check_options(self.sizes)
        unify(x.dims[0], gradient.dims[0])
        self.check_gradient(x.dims[2:], gradient, windows)
        self.check_groups(gradient.dims[1])
        channels = x.dims[1]
        if self.groups > 1:
            size = axis_size(channels)
            if size is None or size % self.groups:
                raise ShapeError(f"{channels!r} channels cannot be divided into {self.groups} equal groups")
            channels = size // self.groups
        return gradient.dims[1], channels, *self.sizes

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        self.check_run(self.parents[0].dims[2:], shapes[0][2:], shape[2:])

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        x, gradient = operands
        return weight_gradient(xp, x, gradient, self.windows(shape[2:]), self.groups)

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Node | None:
        return _batched_by_groups(self, spread(operands, mapped), {"sizes": self.sizes})

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, of_outputs = self.parents
        return (
            ConvolutionInputGradient(of_outputs, gradient, sizes=x.dims[2:], **self.options()),
            Convolution(x, gradient, **self.options()),
        )


JAX.register(ConvolutionWeightGradient)(WeightGradientForm)


@LOOPS.register(ConvolutionWeightGradient)
class _WeightGradientLoops(_ConvolutionLoops):
    kernel = staticmethod(weight_gradient_kernel)

    def kernel_arguments(
        self, node: ConvolutionWeightGradient, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        x, gradient = operands
        windows = self.windows(node, out.shape[2:])
        channels, rows = out.shape[1], out.shape[0] // node.groups
        sizes = self.space(x), self.space(gradient)
        tables = weight_gradient_tables(windows, channels, rows, *sizes, x.itemsize)
        return (
            self.source(x),
            gradient.reshape(*gradient.shape[:2], math.prod(gradient.shape[2:])),
            out.reshape(out.shape[0], math.prod(out.shape[1:])),
            node.groups,
            self.space(x),
            tables.tile,
            tables.span,
            tables.halo,
            tables.source_step,
            tables.source_shifts,
            tables.jobs,
            tables.positions,
            scratch((channels * len(tables.source_shifts), tables.volume), node.dtype),
            scratch((len(tables.positions), rows), node.dtype),
        )


# --- batching ---------------------------------------------------------------------------------------------------------


def _batched_over_weight(
    node: Convolution | ConvolutionInputGradient, operands: Sequence[Any], mapped: Sequence[bool], more: dict[str, Any]
) -> Node | None:
    """Return the op for operands with a new first axis: part of the batch if the weight has none, else of groups."""
    x, weight = operands
    if mapped[1]:
        return _batched_by_groups(node, spread(operands, mapped), more)
    batch, inner = x.dims[:2]
    one = type(node)(x.reshape((product((batch, inner)), *x.dims[2:])), weight, **more, **node.options())
    result: Node = one.reshape((batch, inner, *one.dims[1:]))
    return result


def _batched_by_groups(node: ConvolutionOp, operands: Sequence[Any], more: dict[str, Any]) -> Node | None:
    """Return the op for operands that all have a new first axis, as one op with more groups; None for an open axis."""
    size = axis_size(batch_axis(operands, (True, True)))
    if size is None or any(axis_size(axis) is None for x in operands for axis in x.dims[1:3]):
        return None
    over_images = isinstance(node, Convolution | ConvolutionInputGradient)
    # A weight has its output channels first; other operands have them after the batch.
    joined = [_with_joined_axes(x, 0 if over_images and place == 1 else 1, size) for place, x in enumerate(operands)]
    options: Any = {**node.options(), "groups": node.groups * size, **more}
    result: Any = type(node)(*joined, **options)
    axis = 1 if over_images else 0
    dims = list(result.dims)
    dims[axis : axis + 1] = [operands[0].dims[0], int(dims[axis]) // size]
    apart: Node = result.reshape(tuple(dims))
    return apart.transpose(1, 0, *range(2, len(dims))) if axis == 1 else apart


def _with_joined_axes(x: Any, axis: int, size: int) -> Any:
    """Return `x` with its first axis joined to the axis that was `axis` before it was added."""
    moved = x.transpose(*range(1, axis + 1), 0, *range(axis + 1, x.ndim)) if axis else x
    dims = list(moved.dims)
    dims[axis : axis + 2] = [size * int(dims[axis + 1])]
    return moved.reshape(tuple(dims))
