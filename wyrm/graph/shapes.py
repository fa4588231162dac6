"""Comparisons and sizes of whole shapes, some of whose axes get their sizes from data."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wyrm.graph.axes import Axis, Dim, Dims, Plus, Times, axis_size


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
    sizes = [axis_size(axis) for axis in dims]
    return Times(dims) if None in sizes else math.prod(size for size in sizes if size is not None)


def total_size(shapes: Sequence[Dims]) -> Axis:
    """Return the number of elements of several arrays: a number if all sizes are known, else a `Plus` axis.

    >>> total_size([(Dim(2), 3), (4,)]), total_size([(Dim(), 3), (4,)])
    (10, Plus[Times[Dim(), 3], 4])
    """
    sizes = [number_of_elements(dims) for dims in shapes]
    return Plus(sizes) if any(isinstance(size, Dim) for size in sizes) else sum(map(int, sizes))
