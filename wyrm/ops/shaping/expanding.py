"""Axes of size 1 added and removed, and axes flattened into one, of floats and of integers."""

from __future__ import annotations

from typing import Any, Literal, overload

from wyrm.errors import ShapeError
from wyrm.graph.axes import (
    AxisLike,
    Dims,
    One,
    all_axes,
    axis_size,
    normalize_axis,
)
from wyrm.graph.base import BaseNode
from wyrm.graph.typing import AnyShape, AtLeast1D, Bs, M, N, OfShape, Shaped
from wyrm.ops.elementwise.elementwise import L, S, method
from wyrm.ops.shaping.shape import IndexReshape, Reshape, with_axes
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import is_integer


@overload
def expand_dims(x: Shaped[L, AnyShape], axis: AxisLike) -> Reshape[L]: ...
@overload
def expand_dims(x: OfShape[L, tuple[*Bs]], axis: Literal[-1]) -> Reshape[L, tuple[*Bs, One]]: ...
@overload
def expand_dims(x: OfShape[L, tuple[*Bs]], axis: Literal[0]) -> Reshape[L, tuple[One, *Bs]]: ...
@overload
def expand_dims(x: OfShape[L, tuple[M, *Bs]], axis: Literal[1]) -> Reshape[L, tuple[M, One, *Bs]]: ...
@overload
def expand_dims(x: OfShape[L, tuple[*Bs, N]], axis: Literal[-2]) -> Reshape[L, tuple[*Bs, One, N]]: ...
@overload
def expand_dims(x: Shaped[L, S], axis: AxisLike) -> Reshape[L]: ...
@method("expand_dims", integers=IndexReshape)
@explains_keywords
def expand_dims(x: Any, axis: AxisLike) -> Any:
    """Return `x` with axes of size 1 inserted, at the positions `axis` of the result.

    Raise `ShapeError` for a position beyond the result's axes or a repeated one.

    >>> wy.Constant([1.0, 2.0]).expand_dims(0).shape
    (1, 2)
    """
    return with_axes(x, expanded(x, axis))


def expanded(node: BaseNode, axis: AxisLike) -> Dims:
    """Return the axes of a node with axes of size 1 at these positions of the result."""
    if axis is None:
        raise TypeError("expand_dims: axis must be an int or a tuple of ints, not None")
    count = 1 if is_integer(axis) else len(axis)
    positions = all_axes(axis, node.ndim + count)
    dims: Dims = node.dims
    rest = iter(dims)
    return tuple(One() if i in positions else next(rest) for i in range(node.ndim + count))


@overload
def squeeze(x: Shaped[L, AtLeast1D], axis: AxisLike = None) -> Reshape[L]: ...
@overload
def squeeze(x: OfShape[L, tuple[*Bs, N]], axis: Literal[-1]) -> Reshape[L, tuple[*Bs]]: ...
@overload
def squeeze(x: OfShape[L, tuple[N, *Bs]], axis: Literal[0]) -> Reshape[L, tuple[*Bs]]: ...
@overload
def squeeze(x: OfShape[L, tuple[M, N, *Bs]], axis: Literal[1]) -> Reshape[L, tuple[M, *Bs]]: ...
@overload
def squeeze(x: Shaped[L, S], axis: AxisLike = None) -> Reshape[L]: ...
@method("squeeze", integers=IndexReshape)
@explains_keywords
def squeeze(x: Any, axis: AxisLike = None) -> Any:
    """Return `x` without its axes of size 1: all of them, or those in `axis`.

    Raise `ShapeError` if an axis in `axis` has another size.

    >>> wy.Constant([[1.0], [2.0]]).squeeze(-1).shape
    (2,)
    """
    return with_axes(x, squeezed(x, axis))


def squeezed(node: BaseNode, axis: AxisLike) -> Dims:
    """Return the axes of a node without those of size 1 at these positions, or without all of size 1."""
    dims: Dims = node.dims
    if axis is None:
        positions = tuple(i for i, a in enumerate(dims) if axis_size(a) == 1)
    else:
        positions = all_axes(axis, node.ndim)
        for i in positions:
            if axis_size(dims[i]) != 1:
                raise ShapeError(f"squeeze: axis {i} is {dims[i]!r}; only an axis of size 1 can be removed")
    return tuple(a for i, a in enumerate(dims) if i not in positions)


@method("ravel", integers=IndexReshape)
def ravel(x: Shaped[L, S]) -> Reshape[L, tuple[Any]]:
    """Return the elements of `x` in row-major order on one axis.

    >>> wy.Constant([[1.0], [2.0]]).ravel().shape
    (2,)
    """
    same: Reshape[L, tuple[Any]] = with_axes(x, (-1,))
    return same


@overload
def flatten(x: Shaped[L, S]) -> Reshape[L, tuple[Any]]: ...
@overload
def flatten(x: Shaped[L, S], start_axis: int) -> Reshape[L]: ...
@method("flatten")
@explains_keywords
def flatten(x: Any, start_axis: int = 0) -> Reshape:
    """Return `x` with the axes from `start_axis` on flattened into one, in row-major order; all of them by default.

    >>> wy.Constant(np.zeros((2, 3, 4))).flatten(1).shape
    (2, 12)
    """
    return Reshape(x, (*x.dims[: normalize_axis(start_axis, max(x.ndim, 1))], -1))
