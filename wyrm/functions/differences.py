"""Differences, cumulative sums, integrals and interpolation over sampled values, with NumPy's arguments."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.operands import Operand, S, as_node, as_nodes
from wyrm.functions.rearranging import pad
from wyrm.graph.axes import AxisLike, all_axes, axis_size, normalize_axis
from wyrm.graph.base import describe
from wyrm.graph.node import Node
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.index import Index
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.indexing.rearranging import sized_axis
from wyrm.ops.reducing.cumulative import CumProd, CumSum
from wyrm.ops.reducing.sorting import SearchSorted


def _along(axis: int, start: int | None, stop: int | None) -> tuple[slice, ...]:
    """Return the key that slices one axis and takes all of those before it."""
    return *(slice(None),) * axis, slice(start, stop)


def diff(a: Operand, n: int = 1, axis: int = -1, prepend: Operand | None = None, append: Operand | None = None) -> Node:
    """Return the differences of neighbours along `axis`, taken `n` times; `prepend` and `append` extend `a` first.

    Raise `ShapeError` for a scalar, and `ValueError` for a negative `n`.

    >>> wy.diff([1.0, 4.0, 9.0]).forward().tolist()
    [3.0, 5.0]
    """
    if operator.index(n) < 0:
        raise ValueError(f"diff: n must be at least 0, not {n}")
    if n == 0:
        return as_node(a)
    extra = [each for each in (prepend, append) if each is not None]
    x, *ends = as_nodes(a, *extra)
    if not x.ndim:
        raise ShapeError(f"diff: {describe(x)} has no axes")
    axis = normalize_axis(axis, x.ndim)
    dims: Any = x.dims
    one: Any = (*dims[:axis], 1, *dims[axis + 1 :])
    parts = [end if end.ndim else end.broadcast_to(one) for end in ends]
    if parts:
        position = 1 if prepend is not None else 0
        x = concatenate([*parts[:position], x, *parts[position:]], axis)
    size = axis_size(x.dims[axis])
    for _ in range(n if size is None else min(n, size)):
        x = x[_along(axis, 1, None)] - x[_along(axis, None, -1)]
    return x


def ediff1d(ary: Operand) -> Node:
    """Return the differences of neighbours among all elements in row-major order.

    >>> wy.ediff1d([[1.0, 4.0], [9.0, 16.0]]).forward().tolist()
    [3.0, 5.0, 7.0]
    """
    return diff(as_node(ary).ravel())


def gradient(f: Operand, *varargs: Operand, axis: AxisLike = None, edge_order: Literal[1, 2] = 1) -> Any:
    """Return the central differences of `f` along `axis`, one-sided at the ends, as `numpy.gradient`.

    `varargs` is the spacing: nothing for 1, one number for all axes, or for each axis a number or the coordinates.
    `axis` is an axis, several, or all by default. One axis gives a node, several a tuple. `edge_order` is the order of
    the differences at the ends. Raise `ShapeError` for an axis with too few elements, or spacings that do not fit, and
    `DTypeError` for a mask as a spacing.

    >>> wy.gradient([1.0, 2.0, 4.0, 7.0]).forward().tolist()
    [1.0, 1.5, 2.5, 3.0]
    """
    x = as_node(f)
    axes = all_axes(axis, x.ndim) if axis is None or isinstance(axis, int | np.integer) else _in_order(axis, x.ndim)
    spacings = varargs or (1.0,)
    if len(spacings) == 1 and (len(axes) == 1 or as_node(spacings[0]).ndim == 0):
        spacings = spacings * len(axes)
    if len(spacings) != len(axes):
        raise ShapeError(f"gradient: {describe(x)}: {len(spacings)} spacings for {len(axes)} axes")
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order must be 1 or 2, not {edge_order}")
    found = tuple(_slope(x, i, h, edge_order) for i, h in zip(axes, spacings, strict=True))
    return found[0] if len(found) == 1 else found


def _in_order(axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    return tuple(normalize_axis(axis, ndim) for axis in axes)


def _slope(x: Node, axis: int, spacing: Operand, edge_order: int) -> Node:
    """Return the derivative along one axis."""
    size = sized_axis("gradient", x, axis)
    if size < edge_order + 1:
        raise ShapeError(f"gradient: {describe(x)}: axis {axis} needs {edge_order + 1} elements or more, not {size}")
    _, h = as_nodes(x, spacing)
    if as_node(spacing).dtype.kind == "b":
        raise DTypeError(f"gradient: {describe(x)}: the spacing of axis {axis} must be numbers, not a mask")

    def part(start: int | None, stop: int | None) -> Node:
        elements: Node = x[_along(axis, start, stop)]
        return elements

    first: Node
    last: Node
    middle: Node
    if not h.ndim:
        middle = (part(2, None) - part(None, -2)) / (2.0 * h)
        near = far = h
    else:
        if h.shape != (size,):
            raise ShapeError(f"gradient: {describe(x)}: {h.shape} coordinates for axis {axis} of {size} elements")
        column: Any = (size - 1, *[1] * (x.ndim - axis - 1))
        steps = diff(h).reshape(column)
        before, after = steps[:-1], steps[1:]
        middle = (
            part(None, -2) * (-after / (before * (before + after)))
            + part(1, -1) * ((after - before) / (before * after))
            + part(2, None) * (before / (after * (before + after)))
        )
        near, far = steps[0], steps[1 if edge_order == 2 else 0]
    first = _end(part(0, 1), part(1, 2), part(2, 3), near, far, edge_order)
    if h.ndim:
        near, far = steps[-1], steps[-2 if edge_order == 2 else -1]
    last = -_end(part(-1, None), part(-2, -1), part(-3, -2), near, far, edge_order)
    return concatenate([first, middle, last], axis)


def _end(x: Node, second: Node, third: Node, near: Node, far: Node, edge_order: int) -> Node:
    """Return the derivative at the first element from the next one or two, at distances `near` and then `far`."""
    if edge_order == 1:
        return (second - x) / near
    slope: Node = (
        second * ((near + far) / (near * far))
        - x * ((2.0 * near + far) / (near * (near + far)))
        - third * (near / (far * (near + far)))
    )
    return slope


def trapezoid(y: Operand, x: Operand | None = None, dx: float = 1.0, axis: int = -1) -> Node:
    """Return the integral of `y` along `axis` by the trapezoidal rule, over coordinates `x` or at distances `dx`.

    `x` has one axis, or the shape of `y`. Raise `ShapeError` for another shape, or for a `y` without axes.

    >>> wy.trapezoid([1.0, 2.0, 3.0]).forward().item()
    4.0
    """
    values, *coordinates = as_nodes(y) if x is None else as_nodes(y, x)
    if not values.ndim:
        raise ShapeError(f"trapezoid: {describe(values)} has no axes")
    axis = normalize_axis(axis, values.ndim)
    heights = values[_along(axis, 1, None)] + values[_along(axis, None, -1)]
    if not coordinates:
        total: Node = (heights * (0.5 * dx)).sum(axis)
        return total
    (at,) = coordinates
    if at.ndim == 1:
        widths = diff(at)
        dims: Any = widths.dims
        column: Any = (*dims, *[1] * (values.ndim - axis - 1))
        widths = widths.reshape(column)
    else:
        widths = diff(at, axis=axis)
    total = (heights * widths * 0.5).sum(axis)
    return total


def interp(
    x: Operand[S],
    xp: Operand,
    fp: Operand,
    left: float | None = None,
    right: float | None = None,
    period: float | None = None,
) -> Node[Any, S]:
    """Return at `x` the piecewise linear function through the points `(xp, fp)`, whose `xp` must rise.

    Beyond the ends it is `left` and `right`, by default the first and last of `fp`. Differentiable by all three; at a
    point, the derivative is that of the piece to the right. With a `period` the function repeats, `xp` has any order,
    and `left` and `right` do not count. Raise `ShapeError` unless `xp` and `fp` have one axis of the same size, at
    least 1, and `ValueError` for a period of 0.

    >>> wy.interp([1.5, 9.0], [1.0, 2.0], [10.0, 20.0]).forward().tolist()
    [15.0, 20.0]
    >>> wy.interp([-10.0, 350.0], [10.0, 190.0], [1.0, 0.0], period=360.0).forward().round(4).tolist()
    [0.8889, 0.8889]
    """
    at, points, values = as_nodes(x, xp, fp)
    if points.ndim != 1 or points.dims != values.dims or sized_axis("interp", points, 0) == 0:
        raise ShapeError(f"interp: {describe(points)} and {describe(values)} must have one axis of the same size")
    if period is not None:
        if not period:
            raise ValueError("interp: the period must not be 0")
        length = abs(float(period))
        at, points = at % length, points % length
        order = points.argsort()
        points, values = points.take(order, 0), values.take(order, 0)
        points = concatenate([points[-1:] - length, points, points[:1] + length])
        values = concatenate([values[-1:], values, values[:1]])
    below, above = at < points[0], at > points[-1]
    inside: Node = values[0]
    if sized_axis("interp", points, 0) > 1:
        piece = SearchSorted(points[1:-1], at, "right")  # among the inner points, so it is never the last
        near, start = Index(points, piece), Index(values, piece)
        inside = start + (at - near) * ((Index(values[1:], piece) - start) / (Index(points[1:], piece) - near))
    ended = where(above, values[-1] if right is None else right, inside)
    return where(below, values[0] if left is None else left, ended)


def _cumulative(op: Any, start: float, x: Operand, axis: int | None, include_initial: bool) -> Node:
    node = as_node(x)
    if axis is None and node.ndim != 1:
        raise ShapeError(f"{op.op_name()}: {describe(node)} has {node.ndim} axes: pass the axis")
    axis = normalize_axis(0 if axis is None else axis, node.ndim)
    result: Node = op(node, axis=axis)
    widths = {axis: (1, 0)}
    return pad(result, widths, constant_values=start) if include_initial else result


def cumulative_sum(x: Operand, /, *, axis: int | None = None, include_initial: bool = False) -> Node:
    """Return the sums of the elements up to each one along `axis`, after a 0 with `include_initial`.

    `axis` may be left out if there is one. Raise `ShapeError` if there are more.

    >>> wy.cumulative_sum([1.0, 2.0, 3.0], include_initial=True).forward().tolist()
    [0.0, 1.0, 3.0, 6.0]
    """
    return _cumulative(CumSum, 0.0, x, axis, include_initial)


def cumulative_prod(x: Operand, /, *, axis: int | None = None, include_initial: bool = False) -> Node:
    """Return the products of the elements up to each one along `axis`, after a 1 with `include_initial`.

    `axis` may be left out if there is one. Raise `ShapeError` if there are more.

    >>> wy.cumulative_prod([1.0, 2.0, 3.0], include_initial=True).forward().tolist()
    [1.0, 1.0, 2.0, 6.0]
    """
    return _cumulative(CumProd, 1.0, x, axis, include_initial)
