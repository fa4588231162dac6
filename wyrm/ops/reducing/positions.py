"""Where the largest and the smallest element along an axis stand, and the `k` largest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Dims, One, axis_size, reduced_dims, unify
from wyrm.graph.base import label
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.loop_form import LOOPS, ByKernel, Reduced, Reducer
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, AtLeast1D, Bs, FloatArray, IntegerArray, M, N, OfShape, Shaped
from wyrm.ops.elementwise.elementwise import Axes, L, S, method
from wyrm.ops.reducing.base import (
    PositionsAlongAxis,
    ReducedAxis,
    ReducedAxisLoops,
    SortedReach,
    check_keepdims,
    split_at,
)
from wyrm.ops.shaping.arange import positions
from wyrm.reach.rules import REACH
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.imports import jnp


class ArgMax(ReducedAxis[Axes], PositionsAlongAxis[Axes]):
    """The index of the maximum along one axis, the first of equal ones; the result holds integers, without gradient."""

    __slots__ = ()
    method = "argmax"

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.argmax(operands[0], axis=self.axis).reshape(shape)


@LOOPS.register(ArgMax)
class _ArgMaxLoops(ReducedAxisLoops):
    @staticmethod
    def kernel(x: FloatArray, out: IntegerArray) -> None:
        for i in range(x.shape[0]):
            for k in range(x.shape[2]):
                best = 0
                for j in range(x.shape[1]):
                    if x[i, j, k] > x[i, best, k] or (x[i, j, k] != x[i, j, k] and x[i, best, k] == x[i, best, k]):
                        best = j
                out[i, k] = best


@overload
def argmax(x: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False) -> ArgMax[tuple[()]]: ...
@overload
def argmax(x: Shaped[L, AtLeast1D], axis: int | None = None, keepdims: bool = False) -> IndexNode: ...
@overload
def argmax(x: OfShape[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False) -> ArgMax[tuple[*Bs]]: ...
@overload
def argmax(x: OfShape[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False) -> ArgMax[tuple[*Bs]]: ...
@overload
def argmax(
    x: OfShape[L, tuple[M, N, *Bs]], axis: Literal[1], keepdims: Literal[False] = False
) -> ArgMax[tuple[M, *Bs]]: ...
@overload
def argmax(x: OfShape[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[True]) -> ArgMax[tuple[*Bs, One]]: ...
@overload
def argmax(x: OfShape[L, tuple[N, *Bs]], axis: int, keepdims: bool = False) -> ArgMax: ...
@overload
def argmax(x: OfShape[L, tuple[N, *Bs]], axis: None = None, *, keepdims: bool) -> IndexNode: ...
@method("argmax")
@explains_keywords
def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> IndexNode:
    """Return the index of the maximum along `axis`, or among all elements in row-major order if it is None.

    Equal elements give the first index; NaN counts as the largest. Raise `ShapeError` over an axis of size 0.

    >>> wy.Constant([[1.0, 3.0], [2.0, 3.0]]).argmax().forward().item()
    1
    >>> wy.Constant([[1.0, 3.0], [2.0, 3.0]]).argmax(axis=0).forward().tolist()
    [1, 0]
    """
    kept = check_keepdims("argmax", keepdims)
    if axis is not None:
        return ArgMax(x, axis, kept)
    position: IndexNode = ArgMax(x if x.ndim == 1 else x.reshape((-1,)), 0)
    return position.reshape(reduced_dims(x.dims, tuple(range(x.ndim)), True)) if kept else position


@overload
def argmin(x: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False) -> IndexNode[tuple[()]]: ...
@overload
def argmin(x: Shaped[L, AtLeast1D], axis: int | None = None, keepdims: bool = False) -> IndexNode: ...
@overload
def argmin(
    x: OfShape[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False
) -> IndexNode[tuple[*Bs]]: ...
@overload
def argmin(
    x: OfShape[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False
) -> IndexNode[tuple[*Bs]]: ...
@overload
def argmin(x: OfShape[L, tuple[N, *Bs]], axis: int | None = None, keepdims: bool = False) -> IndexNode: ...
@method("argmin")
@explains_keywords
def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> IndexNode:
    """Return the index of the minimum along `axis`, or among all elements in row-major order if it is None.

    Equal elements give the first index; NaN counts as the smallest. Raise `ShapeError` over an axis of size 0.

    >>> wy.Constant([[1.0, 3.0], [2.0, 1.0]]).argmin(axis=0).forward().tolist()
    [0, 1]
    """
    node: Node = x
    return (~node if node.dtype.kind == "b" else -node).argmax(axis, keepdims)


class FirstTrue(ReducedAxis[Axes]):
    """The position of the first true element along the last axis of a mask, or the size of the axis if none is true.

    The second parent holds the positions. A compiled loop ends at that element: nothing is computed for later ones.
    """

    __slots__ = ()

    def __init__(self, x: Node, positions: IndexNode) -> None:
        self._construct((x, positions), axis=x.ndim - 1, keepdims=False)

    @property
    def within(self) -> int | None:
        """The upper bound of the values; None if data decides it."""
        size = axis_size(self.parents[0].dims[-1])
        return None if size is None else size + 1

    def shape_rule(self) -> Dims:
        mask, positions = self.parents
        if mask.dtype.kind != "b" or not mask.dims:
            raise DTypeError(f"the operand must be a mask with an axis, such as x > 0; {label(mask)} is {mask.dtype}")
        if len(positions.dims) != 1:
            raise ShapeError(f"the positions must have the last axis of the mask, not {label(positions)}")
        unify(mask.dims[-1], positions.dims[0])
        if axis_size(mask.dims[-1]) == 0:
            raise ShapeError("has no value over an axis of size 0")
        dims: Dims = mask.dims[:-1]
        return dims

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        return self.rebuild(operands, axis=self.axis + 1) if mapped[0] and not mapped[1] else None

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        mask, positions = operands
        return xp.min(xp.where(mask, positions, mask.shape[-1]), axis=-1)


@LOOPS.register(FirstTrue)
class _FirstTrueLoops(Reduced):
    reducer = Reducer(2.0**62, "where(x, minimum(total, y), total)", "minimum(total, count)", ends=True)

    def reduce_axes(self, node: FirstTrue) -> tuple[int, ...]:
        return (node.axis,)


def first_true(mask: Node) -> IndexNode:
    """Return the position of the first true element along the last axis of a mask, or its size if none is true.

    >>> first_true(wy.Constant([[1.0, -1.0, -2.0], [1.0, 2.0, 3.0]]) < 0.0).forward().tolist()
    [1, 3]
    """
    return FirstTrue(mask, positions(mask.dims[-1]))


class TopIndices(PositionsAlongAxis[Axes]):
    """The indices of the `k` largest elements along `axis`, the largest first.

    Of equal elements the first comes first, and NaN counts as the largest. The axis has a size of at least `k`.
    """

    __slots__ = ("k",)
    written = "top_k"
    k: int

    def __init__(self, x: Node | IndexNode, k: int, axis: int) -> None:
        self._construct((x,), axis=axis, k=k)

    def shape_rule(self) -> Dims:
        dims = super().shape_rule()
        axis = dims[self.axis]
        size = axis_size(axis)
        if size is None:
            raise ShapeError(
                f"top_k works along an axis with a size, but {label(self.parents[0])} has {axis!r}; give the axis one"
            )
        if not 1 <= self.k <= size:
            raise ShapeError(f"k must be from 1 to {size}, the size of axis {self.axis}, not {self.k}")
        return (*dims[: self.axis], self.k, *dims[self.axis + 1 :])

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> IntegerArray:
        # The last of equal elements is the first of those in reverse order.
        backward: Any = xp.argsort(xp.flip(operands[0], axis=self.axis), axis=self.axis, stable=True)
        order: Any = operands[0].shape[self.axis] - 1 - xp.flip(backward, axis=self.axis)
        chosen: IntegerArray = order[(*(slice(None) for _ in range(self.axis)), slice(self.k))]
        return chosen


REACH.register(TopIndices)(SortedReach())


@JAX.register(TopIndices)
class _TopIndicesForm(JaxForm):
    """`jax.lax.top_k`, which works along the last axis."""

    ranks: bool = True

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        indices = lowering.largest(node, operands[0])
        return lowering.xp.astype(jnp.moveaxis(indices, -1, node.axis), node.dtype)


@LOOPS.register(TopIndices)
class _TopIndicesLoops(ByKernel):
    @staticmethod
    def kernel(x: FloatArray, out: IntegerArray) -> None:
        """Insert each element among the largest ones so far."""
        for i in range(x.shape[0]):
            for k in range(x.shape[2]):
                count = 0
                for j in range(x.shape[1]):
                    place = count
                    while place > 0:
                        before = x[i, out[i, place - 1, k], k]
                        is_larger = x[i, j, k] > before or (x[i, j, k] != x[i, j, k] and before == before)
                        if not is_larger:
                            break
                        if place < out.shape[1]:
                            out[i, place, k] = out[i, place - 1, k]
                        place -= 1
                    if place < out.shape[1]:
                        out[i, place, k] = j
                        count = min(count + 1, out.shape[1])

    def kernel_arguments(self, node: TopIndices, operands: Sequence[Array], out: Array) -> tuple[Any, ...]:
        return *split_at(node.axis, operands[0]), *split_at(node.axis, out)


__all__ = ["FirstTrue", "TopIndices", "first_true"]
