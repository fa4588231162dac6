"""Transposition: the axes of the operand in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dims, normalize_axis
from wyrm.graph.base import BaseNode, P_co, format_dims
from wyrm.graph.index_maps import IndexMap
from wyrm.graph.loop_form import LOOPS, Gathered
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import A, Array, AtLeast1D, AtLeast2D, Bs, K, M, N, OfShape, Shaped
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, S, method
from wyrm.ops.shaping.shape import Rearrangement, Unchanged, target_axes


def _each_axis_once(dims: Dims, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return `axes` counted from 0; raise `ShapeError` unless they name each axis once."""
    order = tuple(normalize_axis(axis, len(dims)) for axis in axes)
    if sorted(order) != list(range(len(dims))):
        hint = "; x.swapaxes(axis1, axis2) swaps two" if len(order) == 2 else ""
        raise ShapeError(f"axes {axes} must name each of the {len(dims)} axes once{hint}")
    return order


class _Transposed(Unchanged[P_co, Axes], abstract=True):
    """What `Transpose` and `IndexTranspose` share."""

    __slots__ = ("axes",)
    _own: Transpose[Any, Axes]
    axes: tuple[int, ...]

    def __init__(self, x: BaseNode, axes: tuple[int, ...]) -> None:
        self._construct((x,), axes=axes)

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        object.__setattr__(self, "axes", _each_axis_once(dims, self.axes))
        return tuple(dims[axis] for axis in self.axes)

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.permute_dims(operands[0], self.axes)

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        return self.rebuild(operands, axes=(0, *(axis + 1 for axis in self.axes)))


class Transpose(_Transposed[tuple[Left_co], Axes], Rearrangement[Left_co, Axes]):
    """The operand with its axes in the order `axes`."""

    __slots__ = ()
    _own: Transpose[Any, Axes]

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        inverse = tuple(int(i) for i in np.argsort(self.axes))
        return (Transpose(gradient, inverse),)


class IndexTranspose(_Transposed[Any, Axes], IndexNode[Axes]):
    """The operand's integers with the axes in the order `axes`."""

    __slots__ = ()


@LOOPS.register(Transpose, IndexTranspose)
class _TransposeLoops(Gathered):
    def gather_index(self, node: Transpose | IndexTranspose, index: IndexMap) -> IndexMap:
        return tuple(index[node.axes.index(axis)] for axis in range(len(index)))


@overload
def transpose(x: Shaped[L, AtLeast1D], *axes: int | Sequence[int]) -> Transpose[L]: ...
@overload
def transpose(x: Shaped[L, tuple[M, N]]) -> Transpose[L, tuple[N, M]]: ...
@overload
def transpose(x: Shaped[L, tuple[A, M, N]]) -> Transpose[L, tuple[N, M, A]]: ...
@overload
def transpose(
    x: Shaped[L, tuple[A, M, N]], a: Literal[0], m: Literal[2], n: Literal[1], /
) -> Transpose[L, tuple[A, N, M]]: ...
@overload
def transpose(
    x: Shaped[L, tuple[A, M, N]], a: Literal[1], m: Literal[0], n: Literal[2], /
) -> Transpose[L, tuple[M, A, N]]: ...
@overload
def transpose(
    x: Shaped[L, tuple[A, M, N, K]], a: Literal[0], m: Literal[2], n: Literal[1], k: Literal[3], /
) -> Transpose[L, tuple[A, N, M, K]]: ...
@overload
def transpose(x: Shaped[L, S], *axes: int | Sequence[int]) -> Transpose[L]: ...
@method("transpose", integers=IndexTranspose)
def transpose(x: Any, *axes: Any) -> Any:
    """Return `x` with its axes in the order `axes`, reversed by default.

    Raise `ShapeError` if `axes` does not name each axis once.

    >>> wy.Constant(np.zeros((2, 3, 4))).transpose(1, 0, 2).shape
    (3, 2, 4)
    """
    op = IndexTranspose if isinstance(x, IndexNode) else Transpose
    return op(x, tuple(reversed(range(x.ndim))) if axes in ((), (None,)) else target_axes(axes))


@overload
def swapaxes(x: Shaped[L, AtLeast2D], axis1: int, axis2: int) -> Transpose[L]: ...
@overload
def swapaxes(
    x: OfShape[L, tuple[*Bs, M, N]], axis1: Literal[-1], axis2: Literal[-2]
) -> Transpose[L, tuple[*Bs, N, M]]: ...
@overload
def swapaxes(
    x: OfShape[L, tuple[*Bs, M, N]], axis1: Literal[-2], axis2: Literal[-1]
) -> Transpose[L, tuple[*Bs, N, M]]: ...
@overload
def swapaxes(
    x: OfShape[L, tuple[M, N, *Bs]], axis1: Literal[0], axis2: Literal[1]
) -> Transpose[L, tuple[N, M, *Bs]]: ...
@overload
def swapaxes(
    x: OfShape[L, tuple[A, M, N, *Bs]], axis1: Literal[1], axis2: Literal[2]
) -> Transpose[L, tuple[A, N, M, *Bs]]: ...
@overload
def swapaxes(x: OfShape[L, tuple[M, N, *Bs]], axis1: int, axis2: int) -> Transpose[L]: ...
@method("swapaxes")
def swapaxes(x: Any, axis1: int, axis2: int) -> Transpose:
    """Return `x` with two axes swapped. Raise `ShapeError` for an axis that `x` lacks.

    >>> wy.Constant(np.zeros((2, 3, 4))).swapaxes(0, -1).shape
    (4, 3, 2)
    """
    node: Node = x
    order = list(range(node.ndim))
    first, second = (normalize_axis(axis, node.ndim) for axis in (axis1, axis2))
    order[first], order[second] = order[second], order[first]
    return Transpose(x, tuple(order))


@overload
def matrix_transpose(x: Shaped[L, AtLeast2D]) -> Transpose[L]: ...
@overload
def matrix_transpose(x: OfShape[L, tuple[*Bs, M, N]]) -> Transpose[L, tuple[*Bs, N, M]]: ...
@method("matrix_transpose")
def matrix_transpose(x: Any) -> Transpose:
    """Return `x` with its last two axes swapped; `.mT` for short. Raise `ShapeError` for fewer than two axes.

    >>> wy.Constant(np.zeros((2, 3, 4))).matrix_transpose().shape
    (2, 4, 3)
    """
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: the operand must have two axes or more, not {format_dims(x.dims)}")
    return swapaxes(x, -1, -2)
