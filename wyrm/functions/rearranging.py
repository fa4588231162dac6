"""Functions that rearrange, repeat or pad the elements of an array, with NumPy's names and arguments."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.operands import Operand, S, as_node
from wyrm.graph.axes import AxisLike, Dims, all_axes, normalize_axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import Node
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.indexing.rearranging import sized_axis, taken
from wyrm.support.options import choice, is_integer


def flip(m: Operand[S], axis: AxisLike = None) -> Node[Any, S]:
    """Return `m` with the order of its elements along `axis` reversed: an axis, several, or all by default.

    >>> wy.flip([1.0, 2.0, 3.0]).forward().tolist()
    [3.0, 2.0, 1.0]
    """
    x = as_node(m)
    reversed_axes = all_axes(axis, x.ndim)
    result: Node = x[tuple(slice(None, None, -1 if i in reversed_axes else None) for i in range(x.ndim))]
    return result


def _with_axes(name: str, m: Operand, count: int) -> Node:
    x = as_node(m)
    if x.ndim < count:
        raise ShapeError(f"{name}: {describe(x)} has fewer than {count} axes")
    return x


def flipud(m: Operand[S]) -> Node[Any, S]:
    """Return `m` with its rows, along the first axis, in reverse order.

    >>> wy.flipud([[1.0, 2.0], [3.0, 4.0]]).forward().tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    return flip(_with_axes("flipud", m, 1), 0)


def fliplr(m: Operand[S]) -> Node[Any, S]:
    """Return `m` with its columns, along the second axis, in reverse order.

    >>> wy.fliplr([[1.0, 2.0], [3.0, 4.0]]).forward().tolist()
    [[2.0, 1.0], [4.0, 3.0]]
    """
    return flip(_with_axes("fliplr", m, 2), 1)


def rot90(m: Operand, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Node:
    """Return `m` rotated `k` times by 90 degrees in the plane of two axes, from the first towards the second.

    >>> wy.rot90([[1.0, 2.0], [3.0, 4.0]]).forward().tolist()
    [[2.0, 4.0], [1.0, 3.0]]
    """
    x = _with_axes("rot90", m, 2)
    if len(axes) != 2 or len(set(positions := [normalize_axis(axis, x.ndim) for axis in axes])) != 2:
        raise ShapeError(f"rot90: {describe(x)}: axes must name two axes, not {axes}")
    first, second = positions
    turns = operator.index(k) % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, positions)
    if turns == 1:
        return flip(x, second).swapaxes(first, second)
    return flip(x.swapaxes(first, second), second)


def roll(a: Operand[S], shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Node[Any, S]:
    """Return `a` with its elements moved by `shift` positions along `axis`; those beyond the end come in at the start.

    Without an axis, all elements move in row-major order. Several shifts go with several axes. Raise `ShapeError` if
    the data of each run decides the size of the axis.

    >>> wy.roll([1.0, 2.0, 3.0], 1).forward().tolist()
    [3.0, 1.0, 2.0]
    """
    x = as_node(a)
    dims: Dims = x.dims
    if axis is None:
        result: Any = _rolled(x.ravel(), int(np.sum(shift)), 0)
    else:
        result = x
        for amount, along in np.broadcast(np.asarray(shift), np.asarray(axis)):
            result = _rolled(result, operator.index(amount), normalize_axis(operator.index(along), x.ndim))
    return result if result is x else result.reshape(dims)  # which restores the names of axes


def _rolled(x: Node, shift: int, axis: int) -> Node:
    size = sized_axis("roll", x, axis)
    start = -shift % size if size else 0
    if start == 0:
        return x
    before = (slice(None),) * axis
    return concatenate([x[(*before, slice(start, None))], x[(*before, slice(start))]], axis)


def moveaxis(a: Operand, source: int | Sequence[int], destination: int | Sequence[int]) -> Node:
    """Return `a` with the axes `source` moved to the positions `destination`; the other axes keep their order.

    Raise `ShapeError` for an axis that `a` lacks, a repeated one, or different numbers of axes.

    >>> wy.moveaxis(np.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = as_node(a)
    sources, destinations = (
        [normalize_axis(each, x.ndim) for each in _several(given)] for given in (source, destination)
    )
    if len(sources) != len(destinations) or len(set(sources)) != len(sources) or len(set(destinations)) != len(sources):
        raise ShapeError(f"moveaxis: {describe(x)}: {source} and {destination} must be as many different axes")
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for position, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(position, axis)
    return x.transpose(order)


def _several(axes: int | Sequence[int]) -> Sequence[int]:
    return (axes,) if is_integer(axes) else axes


def rollaxis(a: Operand, axis: int, start: int = 0) -> Node:
    """Return `a` with `axis` moved before the axis `start`; `moveaxis` is easier to read.

    >>> wy.rollaxis(np.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    x = as_node(a)
    axis = normalize_axis(axis, x.ndim)
    if not -x.ndim <= start <= x.ndim:
        raise ShapeError(f"rollaxis: {describe(x)}: start must be from {-x.ndim} to {x.ndim}, not {start}")
    start = start + x.ndim if start < 0 else start
    return moveaxis(x, axis, start - 1 if axis < start else start)


def permute_dims(a: Operand, axes: Sequence[int] | None = None) -> Node:
    """Return `a` with its axes in the order `axes`, reversed by default, as `Node.transpose`.

    >>> wy.permute_dims(np.zeros((2, 3, 4)), (1, 2, 0)).shape
    (3, 4, 2)
    """
    x = as_node(a)
    return x.transpose() if axes is None else x.transpose(axes)


def tile(A: Operand, reps: int | Sequence[int]) -> Node:  # NumPy's name
    """Return `A` repeated as a whole `reps` times along each axis; missing axes of either are added in front.

    Raise `ShapeError` if the data of each run decides the size of a repeated axis.

    >>> wy.tile([1.0, 2.0], (2, 2)).forward().tolist()
    [[1.0, 2.0, 1.0, 2.0], [1.0, 2.0, 1.0, 2.0]]
    """
    x = as_node(A)
    given = [operator.index(each) for each in _several(reps)]
    if any(each < 0 for each in given):
        raise ShapeError(f"tile: {describe(x)}: reps must be at least 0, not {reps}")
    missing = len(given) - x.ndim
    counts, dims = [1] * -missing + given, [1] * missing + list(x.dims)
    split: list[Any] = []
    wide: list[Any] = []
    joined: list[Any] = []
    for axis, (dim, count) in enumerate(zip(dims, counts, strict=True), -max(missing, 0)):
        if count == 1:
            split, wide, joined = [*split, dim], [*wide, dim], [*joined, dim]
        else:
            size = sized_axis("tile", x, axis) if axis >= 0 else 1
            split, wide, joined = [*split, 1, size], [*wide, count, size], [*joined, count * size]
    return x.reshape(tuple(split)).broadcast_to(tuple(wide)).reshape(tuple(joined))


def _known_condition(name: str, condition: object) -> np.ndarray:
    """Return a condition as an array of bools; raise `TypeError` for a node, whose elements are not known yet."""
    if isinstance(condition, BaseNode):
        raise TypeError(
            f"{name}: the shape would depend on the data of {describe(condition)}; pass an array of bools, or use "
            f"wy.where(mask, node, 0.0)"
        )
    return np.asarray(condition, bool)


def compress(condition: ArrayLike, a: Operand, axis: int | None = None) -> Node:
    """Return the parts of `a` along `axis` where `condition`, of one axis, is true; without `axis`, of all elements.

    Positions beyond the end of `condition` are left out. Raise `ShapeError` for a condition longer than the axis, and
    `TypeError` for a node: the data would decide the shape.

    >>> wy.compress([True, False, True], [1.0, 2.0, 3.0]).forward().tolist()
    [1.0, 3.0]
    """
    mask = _known_condition("compress", condition)
    x = as_node(a)
    x, position = (x.ravel(), 0) if axis is None else (x, normalize_axis(axis, x.ndim))
    size = sized_axis("compress", x, position)
    if mask.ndim != 1 or mask.size > size:
        raise ShapeError(
            f"compress: {describe(x)}: a condition of {mask.size} elements for {size} along axis {position}"
        )
    return taken(x, np.flatnonzero(mask), position)


def extract(condition: ArrayLike, arr: Operand) -> Node:
    """Return the elements of `arr` for which `condition`, of the same shape, is true, along one axis.

    Raise `ShapeError` for another shape, and `TypeError` for a node: the data would decide the shape.

    >>> wy.extract([[True, False], [False, True]], [[1.0, 2.0], [3.0, 4.0]]).forward().tolist()
    [1.0, 4.0]
    """
    mask = _known_condition("extract", condition)
    x = as_node(arr)
    if mask.size != x.size:
        raise ShapeError(f"extract: {describe(x)}: a condition of shape {mask.shape} for {x.size} elements")
    return taken(x.ravel(), np.flatnonzero(mask), 0)


# One number for all ends, one for each end of every axis, or a pair for each axis.
Widths = int | Sequence[int] | Sequence[Sequence[int]] | Mapping[int, int | tuple[int, int]] | np.ndarray
PadMode = Literal["constant", "edge", "reflect", "symmetric", "wrap"]


def _widths(x: Node, pad_width: Widths) -> np.ndarray:
    """Return the widths before and after each axis, of shape (axes, 2)."""
    if isinstance(pad_width, Mapping):
        widths = np.zeros((x.ndim, 2), np.int64)
        for axis, width in pad_width.items():
            widths[normalize_axis(axis, x.ndim)] = width
    else:
        given = np.asarray(pad_width)
        try:
            widths = np.broadcast_to(given, (x.ndim, 2))
        except ValueError:
            raise ShapeError(f"pad: {describe(x)}: widths of shape {given.shape} for {x.ndim} axes") from None
    if widths.dtype.kind not in "iu" or (widths < 0).any():
        raise ShapeError(f"pad: {describe(x)}: widths must be integers of at least 0, not {pad_width}")
    return widths


def pad(array: Operand, pad_width: Widths, mode: PadMode = "constant", constant_values: Any = 0) -> Node:
    """Return `array` with elements added before and after each axis, as `numpy.pad`.

    `pad_width` is one width for all ends, a pair (before, after) for all axes, a pair for each axis, or a dict of
    widths by axis. The new elements are, by `mode`: "constant", `constant_values`, given as the widths are; "edge", the
    last element; "reflect", a mirror image around the last element; "symmetric", one that repeats the last element;
    "wrap", those of the other end. Raise `ShapeError` for widths that do not fit, or for a mode other than "constant"
    along an axis whose size the data of each run decides, or of size 0.

    >>> wy.pad([1.0, 2.0, 3.0], (2, 1), "reflect").forward().tolist()
    [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]
    """
    x = as_node(array)
    choice("pad: mode", mode, ("constant", "edge", "reflect", "symmetric", "wrap"), DTypeError)
    values = np.broadcast_to(np.asarray(constant_values), (x.ndim, 2))
    result = x
    for axis, (before, after) in enumerate(_widths(x, pad_width).tolist()):
        if not before and not after:
            continue
        if mode == "constant":
            result = _with_constants(result, axis, (before, after), values[axis])
            continue
        size = sized_axis("pad", x, axis)
        if not size:
            raise ShapeError(f"pad: {describe(x)}: axis {axis} has no elements to repeat")
        result = taken(result, np.pad(np.arange(size), (before, after), mode), axis)
    return result


def _with_constants(x: Node, axis: int, widths: tuple[int, int], values: np.ndarray) -> Node:
    dims: Any = x.dims
    before, after = [
        [as_constant(value, x.dtype).broadcast_to((*dims[:axis], width, *dims[axis + 1 :]))] if width else []
        for width, value in zip(widths, values, strict=True)
    ]
    return concatenate([*before, x, *after], axis)
