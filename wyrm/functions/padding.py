"""Padding at the ends of axes, with NumPy's names and arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.operands import Operand, as_node
from wyrm.graph.axes import normalize_axis
from wyrm.graph.base import describe
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import Node
from wyrm.ops.indexing.rearranging import sized_axis, taken
from wyrm.ops.indexing.slicing import concatenate
from wyrm.support.options import choice

__all__ = ["pad"]

# One number for all ends, one for each end of every axis, or a pair for each axis.
Widths = int | Sequence[int] | Sequence[Sequence[int]] | Mapping[int, int | tuple[int, int]] | np.ndarray
Mode = Literal["constant", "edge", "reflect", "symmetric", "wrap"]


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


def pad(array: Operand, pad_width: Widths, mode: Mode = "constant", constant_values: Any = 0) -> Node:
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
    shapes: Any = [(*dims[:axis], width, *dims[axis + 1 :]) for width in widths]
    ends = [as_constant(value, x.dtype).broadcast_to(shape) for shape, value in zip(shapes, values, strict=True)]
    return concatenate([ends[0], x, ends[1]], axis)
