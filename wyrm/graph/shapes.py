"""Comparisons and sizes of whole shapes, some of whose axes get their sizes from data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, Plus, Times, axis_size, known_size
from wyrm.graph.base import BaseNode, describe


def same_sizes(left: Dims, right: Dims) -> bool:
    """Return whether two shapes are the same in every run; an axis that gets its size from data equals only itself.

    >>> same_sizes((Dim(2), 3), (2, 3)), same_sizes((Dim(), 3), (2, 3))
    (True, False)
    """
    return len(left) == len(right) and all(
        a == b if None in (sizes := (axis_size(a), axis_size(b))) else sizes[0] == sizes[1]
        for a, b in zip(left, right, strict=True)
    )


def number_of_elements(dims: Dims) -> Axis:
    """Return the number of elements of an array: a number if all sizes are known, else a `Times` axis.

    >>> number_of_elements((Dim(2), 3)), number_of_elements((Dim(), 3))
    (6, Times[Dim(), 3])
    """
    count = known_size(dims)
    return Times(dims) if count is None else count


def total_size(shapes: Sequence[Dims]) -> Axis:
    """Return the number of elements of several arrays: a number if all sizes are known, else a `Plus` axis.

    >>> total_size([(Dim(2), 3), (4,)]), total_size([(Dim(), 3), (4,)])
    (10, Plus[Times[Dim(), 3], 4])
    """
    sizes = [number_of_elements(dims) for dims in shapes]
    return Plus(sizes) if any(isinstance(size, Dim) for size in sizes) else sum(map(int, sizes))


def remedy(dims: Dims, shape: tuple[int, ...], integers: bool = False) -> str:
    """Return the end of an error for data `x` of a shape that does not fit `dims`: how to make it fit, if known.

    `integers`: the leaf takes integers, such as numbers of classes.

    >>> remedy((Dim(), 1, 28, 28), (512, 28, 28)), remedy((Dim(),), (512, 10), integers=True)
    ('; add the axis of size 1, as in x[:, None]', '; for one-hot rows use x.argmax(axis=-1)')
    """
    sizes, rank = [axis_size(axis) for axis in dims], len(dims)

    def fit(some: Iterable[int | None], given: Sequence[int]) -> bool:
        wanted = list(some)
        return len(wanted) == len(given) and all(s in (None, n) for s, n in zip(wanted, given, strict=True))

    if len(shape) == rank + 1 and fit(sizes, shape[:-1]):
        if shape[-1] == 1:
            return "; drop the last axis, as in x[..., 0]"
        return "; for one-hot rows use x.argmax(axis=-1)" if integers else ""
    if len(shape) == rank - 1:
        if sizes[0] in (None, 1) and fit(sizes[1:], shape):
            return "; one row is x[None]"
        for place in range(1, rank):
            if sizes[place] == 1 and fit([*sizes[:place], *sizes[place + 1 :]], shape):
                return f"; add the axis of size 1, as in x[{':, ' * place}None]"
    if len(shape) == rank >= 3 and not fit(sizes, shape):
        orders = {(0, rank - 1, *range(1, rank - 1)): "second", (0, *range(2, rank), 1): "last"}
        for order, position in orders.items():
            if fit(sizes, [shape[axis] for axis in order]):
                return f"; channels come {position}: x.transpose({', '.join(map(str, order))})"
    known = [size for size in sizes[1:] if size is not None]
    if len(shape) == 2 < rank and len(known) == rank - 1 and math.prod(known) == shape[1]:
        return f"; give the rows their shape, as in x.reshape(-1, {', '.join(map(str, known))})"
    return ""


def wrong_rank(leaf: BaseNode, shape: tuple[int, ...]) -> ShapeError:
    """Return the error for data with another number of axes than a leaf."""
    dims: Dims = leaf.dims
    axes = "1 axis" if len(dims) == 1 else f"{len(dims)} axes"
    return ShapeError(
        f"{describe(leaf)} has {axes}, the data has shape {shape}{remedy(dims, shape, leaf.dtype.kind == 'i')}"
    )
