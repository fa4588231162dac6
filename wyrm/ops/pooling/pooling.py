"""Max pooling in one to three dimensions, with uniform or adaptive windows.

`MaxPool` keeps no positions: its gradient finds the maxima again, a row at a time, which costs less than reading them.
Both gradients of `MaxPoolGradient` and `MaxPoolTake` are linear, so higher orders use the same three ops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dims, axis_size, product, unify
from wyrm.graph.base import ZERO, Gradient, explain, format_dims, label
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray, IntegerArray
from wyrm.ops.batching import batch_axis, spread
from wyrm.ops.elementwise.elementwise import Axes, unmasked_dtype
from wyrm.ops.kernels.native import scratch
from wyrm.ops.pooling.windows import Places, Sliding, Windows
from wyrm.ops.shaping.shape import Integers, MovingForm, taken
from wyrm.reach.rules import KEPT, REACH, Windowed


def find_maxima(
    image: FloatArray, depths: IntegerArray, heights: IntegerArray, columns: IntegerArray, d: int, h: int,
    best: FloatArray, places: IntegerArray,
) -> None:  # fmt: skip
    """Write the maxima of one row of outputs into `best`, their flat positions in the image into `places`.

    The first of equal maxima counts, and a NaN is larger than any number.
    """
    height, width = image.shape[1], image.shape[2]
    z, y = depths[0, d], heights[0, h]
    for i in range(best.size):
        best[i] = image[z, y, columns[0, i]]
        places[i] = (z * height + y) * width + columns[0, i]
    for a in range(depths.shape[0]):
        for b in range(heights.shape[0]):
            row = image[depths[a, d], heights[b, h]]
            start = (depths[a, d] * height + heights[b, h]) * width
            for c in range(columns.shape[0]):
                take_larger(row, columns[c], start, best, places)


def take_larger(row: FloatArray, columns: IntegerArray, start: int, best: FloatArray, places: IntegerArray) -> None:
    """Replace the elements of `best` that are smaller than those of the row at `columns`."""
    for i in range(best.size):
        value, before = row[columns[i]], best[i]
        larger = value > before or (value != value and before == before)
        best[i] = value if larger else before
        places[i] = start + columns[i] if larger else places[i]


def pair_maxima(upper: FloatArray, lower: FloatArray, out: FloatArray) -> None:
    """Write the maxima of windows of 2 x 2 elements, side by side in two rows, into `out`."""
    for i in range(out.size):
        a, b, c, d = upper[2 * i], upper[2 * i + 1], lower[2 * i], lower[2 * i + 1]
        first = a if a >= b or a != a else b
        second = c if c >= d or c != c else d
        out[i] = first if first >= second or first != first else second


def pair_gradients(
    upper: FloatArray, lower: FloatArray, gradient: FloatArray, to_upper: FloatArray, to_lower: FloatArray
) -> None:
    """Write the gradients of windows of 2 x 2 elements, side by side in two rows, to the first maximum of each."""
    for i in range(gradient.size):
        a, b, c, d = upper[2 * i], upper[2 * i + 1], lower[2 * i], lower[2 * i + 1]
        left, under = a >= b or a != a, c >= d or c != c
        first = a if left else b
        second = c if under else d
        above = first >= second or first != first
        g, zero = gradient[i], gradient.dtype.type(0)
        high = g if above else zero
        low = zero if above else g
        to_upper[2 * i] = high if left else zero
        to_upper[2 * i + 1] = zero if left else high
        to_lower[2 * i] = low if under else zero
        to_lower[2 * i + 1] = zero if under else low


def clear(out: FloatArray) -> None:
    """`out[:] = 0`."""
    for i in range(out.size):
        out[i] = 0


def max_pool_kernel(
    x: FloatArray, out: FloatArray, pairs: bool, depths: IntegerArray, heights: IntegerArray, columns: IntegerArray,
    best: FloatArray, places: IntegerArray,
) -> None:  # fmt: skip
    """Fill `out` with the maxima; `pairs` tells that all windows are 2 x 2 elements, side by side."""
    for n in range(out.shape[0]):
        for d in range(out.shape[1]):
            for h in range(out.shape[2]):
                if pairs:
                    pair_maxima(x[n, d, 2 * h], x[n, d, 2 * h + 1], out[n, d, h])
                else:
                    find_maxima(x[n], depths, heights, columns, d, h, out[n, d, h], places)


def max_pool_take_kernel(
    x: FloatArray, values: FloatArray, out: FloatArray, pairs: bool, depths: IntegerArray, heights: IntegerArray,
    columns: IntegerArray, best: FloatArray, places: IntegerArray,
) -> None:  # fmt: skip
    """Fill `out` with the elements of `values`, (images, elements), at the maxima of `x`."""
    for n in range(out.shape[0]):
        for d in range(out.shape[1]):
            for h in range(out.shape[2]):
                find_maxima(x[n], depths, heights, columns, d, h, best, places)
                for i in range(places.size):
                    out[n, d, h, i] = values[n, places[i]]


def max_pool_gradient_kernel(
    x: FloatArray, gradient: FloatArray, out: FloatArray, pairs: bool, depths: IntegerArray, heights: IntegerArray,
    columns: IntegerArray, best: FloatArray, places: IntegerArray,
) -> None:  # fmt: skip
    """Fill `out`, (images, elements), with the gradients, added up at the maxima of `x`.

    Unlike the gradient derived from `max_pool_kernel`, it writes elements of windows side by side once, without adding,
    and at equal elements it takes the first.
    """
    height, width = x.shape[2], x.shape[3]
    for n in range(gradient.shape[0]):
        if pairs:
            for d in range(gradient.shape[1]):
                for h in range(gradient.shape[2]):
                    start = (d * height + 2 * h) * width
                    upper, lower = out[n, start : start + width], out[n, start + width : start + 2 * width]
                    pair_gradients(x[n, d, 2 * h], x[n, d, 2 * h + 1], gradient[n, d, h], upper, lower)
                    clear(upper[2 * gradient.shape[3] :])
                    clear(lower[2 * gradient.shape[3] :])
                clear(out[n, (d * height + 2 * gradient.shape[2]) * width : (d + 1) * height * width])
            clear(out[n, gradient.shape[1] * height * width :])
        else:
            clear(out[n])
            for d in range(gradient.shape[1]):
                for h in range(gradient.shape[2]):
                    find_maxima(x[n], depths, heights, columns, d, h, best, places)
                    for i in range(places.size):
                        out[n, places[i]] += gradient[n, d, h, i]


# The most taps along an axis that are compared one by one.
_FEW_TAPS = 8


def _first_maximum(
    xp: Any, values: Any, positions: Any, table: Integers, axis: int, stride: int
) -> tuple[FloatArray, IntegerArray]:
    """Return the first maximum of each window along an axis, and its position; `table` is of (taps, outputs).

    The position is that in `positions`, which broadcast to the values, plus `stride` times the place along the axis.
    NaN is the largest.
    """
    places = (table * stride).astype(np.int32).reshape(*table.shape, *[1] * (values.ndim - axis - 1))
    if len(table) > _FEW_TAPS:
        outputs = (*values.shape[:axis], *table.shape, *values.shape[axis + 1 :])
        each, at = (
            taken(xp, xp.broadcast_to(x, values.shape), table.ravel(), axis).reshape(outputs)
            for x in (values, positions)
        )
        first = xp.expand_dims(xp.argmax(each, axis=axis), axis)
        best, found = (xp.take_along_axis(x, first, axis=axis).squeeze(axis) for x in (each, at + places))
        return best, found
    best, found = taken(xp, values, table[0], axis), taken(xp, positions, table[0], axis) + places[0]
    for k in range(1, len(table)):
        value, position = taken(xp, values, table[k], axis), taken(xp, positions, table[k], axis) + places[k]
        larger = (value > best) | ((value != value) & (best == best))
        best, found = xp.where(larger, value, best), xp.where(larger, position, found)
    return best, found


def _windows_of_elements(places: Places, size: int) -> Integers | None:
    """Return the window of each element along an axis, any for elements of none; None if windows share an element."""
    owner: Integers = np.full(size, -1)
    for number, (first, end, distance) in enumerate(places):
        if (owner[first:end:distance] >= 0).any():
            return None
        owner[first:end:distance] = number
    owner[owner < 0] = 0
    return owner


class _MaxPool(Node[tuple[Node, ...], Axes], abstract=True):
    """Base class of the ops; the first parent is x, (batch, channels, *sizes), whose maxima the ops find."""

    __slots__ = ("windows",)
    # The windows along each spatial axis.
    windows: tuple[Windows, ...]

    def __init__(self, x: Node, *others: Node, windows: tuple[Windows, ...]) -> None:
        self._construct((x, *others), windows=windows)

    def places(self, sizes: Sequence[int]) -> list[Places]:
        """Return the windows along spatial axes of these sizes."""
        return [windows.places(size) for windows, size in zip(self.windows, sizes, strict=True)]

    def dtype_rule(self) -> np.dtype:
        return unmasked_dtype(self.parents)

    def output_dims(self) -> Dims:
        """Return the axes of the outputs; raise `ShapeError` if `x` has other axes, or windows do not fit in them."""
        x = self.parents[0]
        rank = len(self.windows)
        if len(x.dims) != rank + 2:
            raise ShapeError(
                f"the windows are for (batch, channels, *sizes) with {rank} sizes, but {label(x)} has the axes "
                f"{format_dims(x.dims)}"
            )
        self._check_windows([axis_size(axis) for axis in x.dims[2:]])
        return (*x.dims[:2], *(each.axis(axis) for each, axis in zip(self.windows, x.dims[2:], strict=True)))

    def _check_windows(self, sizes: Sequence[int | None]) -> None:
        """Raise `ShapeError` if windows do not fit in an axis whose size is known."""
        for windows, axis, size in zip(self.windows, self.parents[0].dims[2:], sizes, strict=True):
            reason = "" if size is None else windows.misfit(axis, size)
            if reason:
                raise ShapeError(reason)

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        try:
            self._check_windows(shapes[0][2:])
        except ShapeError as error:
            raise ShapeError(explain(self, f"{error} in this run")) from None

    def maxima(self, xp: ArrayNamespace, x: FloatArray) -> tuple[FloatArray, IntegerArray]:
        """Return the first maximum of each window, and its flat position among the spatial axes.

        The first one in row-major order is in the first row with the largest maximum.
        """
        sizes = x.shape[2:]
        found: Any = xp.zeros((1, 1, *sizes), np.int32)
        for axis, places in reversed([*enumerate(self.places(sizes))]):
            x, found = _first_maximum(xp, x, found, _tap_places(places), axis + 2, math.prod(sizes[axis + 1 :]))
        return x, xp.broadcast_to(found, x.shape)

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Node | None:
        batch = batch_axis(operands, mapped)
        joined = [x.reshape((product((batch, x.dims[1])), *x.dims[2:])) for x in spread(operands, mapped)]
        one: Any = self.rebuild(joined)
        apart: Node = one.reshape((batch, self.parents[0].dims[0], *one.dims[1:]))
        return apart


JAX.register(_MaxPool)(MovingForm)


class _MaxPoolLoops(ByKernel):
    def images(self, array: Array) -> Array:
        """Return a view of the array with the axes (images, depth, height, width)."""
        spatial = array.shape[2:]
        return array.reshape(math.prod(array.shape[:2]), *[1] * (3 - len(spatial)), *spatial)

    def flat(self, array: Array) -> Array:
        """Return a view of the array with the axes (images, elements)."""
        return array.reshape(math.prod(array.shape[:2]), math.prod(array.shape[2:]))

    def numbers(self, node: _MaxPool, x: Array) -> tuple[KernelArgument, ...]:
        """Return the arguments after the arrays: whether windows are pairs, the tables, and scratch memory."""
        once: Places = ((0, 1, 1),)
        places = (*[once] * (3 - len(node.windows)), *node.places(x.shape[2:]))
        depths, heights, columns = map(_tap_places, places)
        pairs = all(
            each == tuple((2 * i, 2 * i + 2, 1) for i in range(len(each))) for each in places[1:]
        ) and depths.shape == (1, depths.shape[1])
        pairs = pairs and bool((depths[0] == np.arange(depths.shape[1])).all())
        width = columns.shape[1]
        return pairs, depths, heights, columns, scratch(width, node.dtype), scratch(width, np.int64)


@lru_cache(maxsize=256)
def _tap_places(places: Places) -> NDArray[np.int64]:
    """Return the places of taps, (taps, outputs); windows with fewer taps repeat their last one."""
    most = max(len(range(*each)) for each in places)
    return np.array([[range(*each)[min(k, len(range(*each)) - 1)] for each in places] for k in range(most)], np.int64)


class MaxPool(_MaxPool[Axes]):
    """The maximum of each window; `x` has the axes (batch, channels, *sizes), the result (batch, channels, *outputs).

    `windows` has the windows along each spatial axis. A NaN counts as the largest number. The gradient goes to the
    first maximum of a window.

    Raise `ShapeError` if `x` has another number of axes or a window covers no element, `DTypeError` for masks.

    >>> from wyrm.ops.pooling.windows import Even
    >>> x = wy.Constant([[[1.0, 3.0, 2.0, 0.0]]])
    >>> wy.ops.pooling.pooling.MaxPool(x, windows=(Even(2),)).forward().tolist()
    [[[3.0, 2.0]]]
    """

    __slots__ = ()

    def shape_rule(self) -> Dims:
        return self.output_dims()

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return self.maxima(xp, operands[0])[0]

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (MaxPoolGradient(self.parents[0], gradient, windows=self.windows),)


@REACH.register(MaxPool)
class _MaxPoolReach(Windowed):
    """Windows along the axes of space."""

    def windows(self, node: MaxPool) -> Sequence[Any]:
        return KEPT, KEPT, *(each.window if isinstance(each, Sliding) else None for each in node.windows)


@LOOPS.register(MaxPool)
class _ForwardLoops(_MaxPoolLoops):
    kernel = staticmethod(max_pool_kernel)

    def kernel_arguments(self, node: MaxPool, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return self.images(operands[0]), self.images(out), *self.numbers(node, operands[0])


class MaxPoolTake(_MaxPool[Axes]):
    """The elements of `values` at the places of the maxima of `x`; both have the same axes."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        x, values = self.parents
        _check_same(x.dims, values)
        return self.output_dims()

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        x, values = operands
        images, count = math.prod(shape[:2]), math.prod(shape[2:])
        flat = xp.reshape(values, (images, math.prod(values.shape[2:])))
        found = xp.take_along_axis(flat, xp.reshape(self.maxima(xp, x)[1], (images, count)), axis=1)
        return xp.reshape(found, shape)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return ZERO, MaxPoolGradient(self.parents[0], gradient, windows=self.windows)


@LOOPS.register(MaxPoolTake)
class _TakeLoops(_MaxPoolLoops):
    kernel = staticmethod(max_pool_take_kernel)

    def kernel_arguments(self, node: MaxPoolTake, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        x, values = operands
        return self.images(x), self.flat(values), self.images(out), *self.numbers(node, operands[0])


class MaxPoolGradient(_MaxPool[Axes]):
    """The gradient of `MaxPool` with respect to x: the elements of `gradient`, added up at the maxima of `x`."""

    __slots__ = ()

    def shape_rule(self) -> Dims:
        x, gradient = self.parents
        _check_same(self.output_dims(), gradient)
        dims: Dims = x.dims
        return dims

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        x, gradient = operands
        found, sizes = self.maxima(xp, x)[1], shape[2:]
        owners = [_windows_of_elements(each, own) for each, own in zip(self.places(sizes), sizes, strict=True)]
        images, size = math.prod(shape[:2]), math.prod(sizes)
        if xp is np or any(owner is None for owner in owners):
            rows = xp.arange(images)[:, None] * size
            places = xp.reshape(xp.reshape(found, (images, math.prod(found.shape[2:]))) + rows, (-1,))
            flat: Any = xp.zeros(images * size, gradient.dtype)
            values = xp.reshape(gradient, (-1,))
            if xp is np:
                np.add.at(flat, places, values)
            else:
                flat = flat.at[places].add(values)
            return xp.reshape(flat, shape)
        # Windows that share no element need no scatter.
        for axis, owner in enumerate(owners, 2):
            assert owner is not None
            at = owner.astype(np.int32)
            found, gradient = xp.take(found, at, axis=axis), xp.take(gradient, at, axis=axis)
        here = np.arange(size, dtype=np.int32).reshape(sizes)
        return xp.where(found == here, gradient, np.zeros((), gradient.dtype))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return ZERO, MaxPoolTake(self.parents[0], gradient, windows=self.windows)


@LOOPS.register(MaxPoolGradient)
class _GradientLoops(_MaxPoolLoops):
    kernel = staticmethod(max_pool_gradient_kernel)

    def kernel_arguments(
        self, node: MaxPoolGradient, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        x, gradient = operands
        return self.images(x), self.images(gradient), self.flat(out), *self.numbers(node, x)


def _check_same(expected: Sequence[Axis], node: Node) -> None:
    """Raise `ShapeError` unless the node has the expected axes."""
    if len(expected) != len(node.dims):
        raise ShapeError(f"{label(node)} has the axes {format_dims(node.dims)}, not {format_dims(tuple(expected))}")
    for axis, other in zip(expected, node.dims, strict=True):
        unify(axis, other)
