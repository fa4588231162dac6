"""Ops that only rearrange or repeat: in the reference engine they are views where NumPy can make one."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Generic, SupportsIndex, overload

import numpy as np
from typing_extensions import TypeVar, TypeVarTuple

from wyrm.errors import ShapeError
from wyrm.node.base import ZERO, format_dims
from wyrm.node.node import IndexNode, Node
from wyrm.ops.elementwise import L, S, method
from wyrm.ops.reduction import AxisLike, all_axes
from wyrm.types.dims import Axis, Dim, Dims, One, axis_size, broadcast, normalize_axis, product
from wyrm.types.typing import AtLeast2D, Shaped

Bs = TypeVarTuple("Bs")
M = TypeVar("M")
N = TypeVar("N")
S2 = TypeVar("S2")
NewDims = TypeVar("NewDims", bound=tuple[Dim, ...])
OwnL = TypeVar("OwnL", bound="Node[Any, Any]", covariant=True)


class Rearrangement(Node[tuple[L], S], Generic[L, S], abstract=True):
    """An op whose elements are those of its operand."""

    __slots__ = ()

    def dtype_rule(self) -> np.dtype[Any]:
        return self.parents[0].dtype


def _known(dims: Dims) -> int | None:
    sizes = [axis_size(axis) for axis in dims]
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


def _reshaped(dims: Dims, target: tuple[Any, ...]) -> Dims:
    """The axes that `target` describes, its -1 filled in; sizes left for the data must cancel out."""
    if sum(type(axis) is int and axis == -1 for axis in target) > 1:
        raise ShapeError(f"the shape {target} leaves more than one axis open")
    for axis in target:
        if not isinstance(axis, Dim) and operator.index(axis) < -1:
            raise ShapeError(f"the shape {target} has a negative axis; one axis may be -1")
    opened = [i for i, axis in enumerate(target) if type(axis) is int and axis == -1]
    given = tuple(axis for axis in target if not (type(axis) is int and axis == -1))
    mine, theirs = _factors(dims), _factors(given)
    for axis in list(theirs):
        if axis_size(axis) is None and axis in mine:
            mine.remove(axis)
            theirs.remove(axis)
    have, want = _known(tuple(mine)), _known(tuple(theirs))
    reason = f"cannot make {format_dims(target)} of {format_dims(dims)}"
    if not opened:
        if have is None or want is None or have != want:
            raise ShapeError(f"{reason}: {have} elements against {want}" if None not in (have, want) else reason)
        return target
    if want is None:
        raise ShapeError(f"{reason}: it has an axis without a size that the operand does not have")
    filled: Axis
    if have is not None:
        if want == 0 or have % want:
            raise ShapeError(f"{reason}: {have} elements do not divide by {want}")
        filled = have // want
    else:
        open_axes = [axis for axis in mine if axis_size(axis) is None]
        rest = math.prod(size for axis in mine if (size := axis_size(axis)) is not None)
        if want == 0 or rest % want:
            raise ShapeError(f"{reason}: {rest} elements do not divide by {want}")
        filled = product((*open_axes, rest // want) if rest != want else tuple(open_axes))
    return target[: opened[0]] + (filled,) + target[opened[0] + 1 :]


def _factors(dims: Dims) -> list[Axis]:
    """The axes with products of axes taken apart."""
    factors: list[Axis] = []
    for axis in dims:
        parts = getattr(axis, "parts", None)
        if parts is not None and axis_size(axis) is None and type(axis).__name__ == "Times":
            factors += _factors(parts)
        else:
            factors.append(axis)
    return factors


class Reshape(Rearrangement[L, S], Generic[L, S]):
    """The same elements in row-major order under other axes."""

    __slots__ = ("to",)
    to: tuple[Any, ...]

    def __init__(self, x: Any, to: tuple[Any, ...]) -> None:
        self._construct((x,), to=to)

    def _own(self) -> Reshape[Any, S]:
        return self

    def shape_rule(self) -> Dims:
        return _reshaped(self.parents[0].dims, self.to)

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return xp.reshape(operands[0], shape)

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (Reshape(gradient, self.parents[0].dims),)


def _target(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = tuple(shape[0])
    return tuple(axis if isinstance(axis, Dim) else operator.index(axis) for axis in shape)


@overload
def reshape(x: Shaped[OwnL, S2], shape: NewDims, /) -> Reshape[OwnL, NewDims]: ...
@overload
def reshape(x: Shaped[OwnL, S2], shape: tuple[SupportsIndex, ...], /) -> Reshape[OwnL, Any]: ...
@overload
def reshape(x: Shaped[OwnL, S2], *shape: SupportsIndex) -> Reshape[OwnL, Any]: ...
@method("reshape")
def reshape(x: Any, *shape: Any) -> Any:
    """The same elements under other axes; one of them may be -1. Named axes keep the type checker informed.

    >>> wy.Constant([1.0, 2.0, 3.0, 4.0]).reshape(2, -1).shape
    (2, 2)
    """
    return Reshape(x, _target(shape))


class IndexReshape(IndexNode[S], Generic[S]):
    """Integers under other axes."""

    __slots__ = ("to",)
    to: tuple[Any, ...]

    def __init__(self, x: Any, to: tuple[Any, ...]) -> None:
        self._construct((x,), to=to)

    def shape_rule(self) -> Dims:
        return _reshaped(self.parents[0].dims, self.to)

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return xp.reshape(operands[0], shape)

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (ZERO,)


@overload
def index_reshape(x: IndexNode[Any], shape: NewDims, /) -> IndexReshape[NewDims]: ...
@overload
def index_reshape(x: IndexNode[Any], *shape: Any) -> IndexReshape[Any]: ...
@method("reshape", IndexNode)
def index_reshape(x: Any, *shape: Any) -> Any:
    """The same integers under other axes; one of them may be -1."""
    return IndexReshape(x, _target(shape))


class Transpose(Rearrangement[L, S], Generic[L, S]):
    """The axes in the order `axes`."""

    __slots__ = ("axes",)
    axes: tuple[int, ...]

    def __init__(self, x: Any, axes: tuple[int, ...]) -> None:
        self._construct((x,), axes=axes)

    def _own(self) -> Transpose[Any, S]:
        return self

    def shape_rule(self) -> Dims:
        dims = self.parents[0].dims
        axes = tuple(normalize_axis(axis, len(dims)) for axis in self.axes)
        if sorted(axes) != list(range(len(dims))):
            raise ShapeError(f"axes {self.axes} do not name each of the {len(dims)} axes once")
        object.__setattr__(self, "axes", axes)
        return tuple(dims[axis] for axis in axes)

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return xp.transpose(operands[0], self.axes)

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        inverse = tuple(int(i) for i in np.argsort(self.axes))
        return (Transpose(gradient, inverse),)


@method("transpose")
def transpose(x: Shaped[OwnL, S2], *axes: int) -> Transpose[OwnL, Any]:
    """The axes in another order, reversed where none is given.

    >>> wy.Constant(np.zeros((2, 3, 4))).transpose(1, 0, 2).shape
    (3, 2, 4)
    """
    node: Any = x
    return Transpose(x, _target(axes) or tuple(reversed(range(node.ndim))))


@method("swapaxes")
def swapaxes(x: Shaped[OwnL, S2], axis1: int, axis2: int) -> Transpose[OwnL, Any]:
    """Two axes exchanged.

    >>> wy.Constant(np.zeros((2, 3, 4))).swapaxes(0, -1).shape
    (4, 3, 2)
    """
    node: Any = x
    order = list(range(node.ndim))
    first, second = (normalize_axis(axis, node.ndim) for axis in (axis1, axis2))
    order[first], order[second] = order[second], order[first]
    return Transpose(x, tuple(order))


@overload
def matrix_transpose(x: Shaped[OwnL, AtLeast2D]) -> Transpose[OwnL, Any]: ...
@overload
def matrix_transpose(x: Shaped[OwnL, tuple[*Bs, M, N]]) -> Transpose[OwnL, tuple[*Bs, N, M]]: ...
@method("matrix_transpose")
def matrix_transpose(x: Any) -> Any:
    """The last two axes exchanged; `.mT` for short.

    >>> wy.Constant(np.zeros((2, 3, 4))).matrix_transpose().shape
    (2, 4, 3)
    """
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: needs two axes or more, not {format_dims(x.dims)}")
    return swapaxes(x, -1, -2)


class BroadcastTo(Rearrangement[L, S], Generic[L, S]):
    """The operand repeated to the axes `to`, by NumPy's rule."""

    __slots__ = ("to",)
    to: tuple[Any, ...]

    def __init__(self, x: Any, to: tuple[Any, ...]) -> None:
        self._construct((x,), to=to)

    def _own(self) -> BroadcastTo[Any, S]:
        return self

    def shape_rule(self) -> Dims:
        dims = self.parents[0].dims
        result = broadcast(dims, self.to)
        if len(result) != len(self.to) or any(
            axis_size(a) != axis_size(b) for a, b in zip(result, self.to, strict=True)
        ):
            raise ShapeError(f"{format_dims(dims)} does not stretch to {format_dims(self.to)}")
        return self.to

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        return xp.broadcast_to(operands[0], shape)

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient,)


@overload
def broadcast_to(x: Shaped[OwnL, S2], shape: NewDims) -> BroadcastTo[OwnL, NewDims]: ...
@overload
def broadcast_to(x: Shaped[OwnL, S2], shape: tuple[SupportsIndex, ...]) -> BroadcastTo[OwnL, Any]: ...
@method("broadcast_to")
def broadcast_to(x: Any, shape: Any) -> Any:
    """The operand repeated to `shape`.

    >>> wy.Constant([1.0, 2.0]).broadcast_to((3, 2)).shape
    (3, 2)
    """
    return BroadcastTo(x, _target(tuple(shape)))


@method("expand_dims")
def expand_dims(x: Shaped[OwnL, S2], axis: AxisLike) -> Reshape[OwnL, Any]:
    """Axes of size 1 put in, at these positions of the result.

    >>> wy.Constant([1.0, 2.0]).expand_dims(0).shape
    (1, 2)
    """
    node: Any = x
    count = 1 if isinstance(axis, int | np.integer) else len(axis or ())
    positions = all_axes(axis, node.ndim + count) if axis is not None else ()
    rest = iter(node.dims)
    return Reshape(x, tuple(One() if i in positions else next(rest) for i in range(node.ndim + count)))


@method("squeeze")
def squeeze(x: Shaped[OwnL, S2], axis: AxisLike = None) -> Reshape[OwnL, Any]:
    """Axes of size 1 taken out: all of them, or those named. `ShapeError` for one of another size.

    >>> wy.Constant([[1.0], [2.0]]).squeeze(-1).shape
    (2,)
    """
    node: Any = x
    if axis is None:
        positions = tuple(i for i, a in enumerate(node.dims) if axis_size(a) == 1)
    else:
        positions = all_axes(axis, node.ndim)
        for i in positions:
            if axis_size(node.dims[i]) != 1:
                raise ShapeError(f"squeeze: axis {i} is {node.dims[i]!r}, only an axis of size 1 can go")
    return Reshape(x, tuple(a for i, a in enumerate(node.dims) if i not in positions))


@method("ravel")
def ravel(x: Shaped[OwnL, S2]) -> Reshape[OwnL, Any]:
    """All elements on one axis.

    >>> wy.Constant([[1.0], [2.0]]).ravel().shape
    (2,)
    """
    return Reshape(x, (-1,))
