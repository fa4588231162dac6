"""The index of the largest and of the smallest element along an axis."""

from __future__ import annotations

from typing import Any, Literal, overload

from wyrm.graph.axes import Axis, One, reduced_dims
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import Array, AtLeast1D, Bs, FloatArray, IntegerArray, M, N, OfShape, Shaped
from wyrm.ops.elementwise.elementwise import Axes, L, S, method
from wyrm.ops.reducing.along_axis import ReducedAxisLoops
from wyrm.ops.reducing.base import ReducedAxis, check_keepdims
from wyrm.support.foreign_names import explains_keywords


class ArgMax(ReducedAxis[Axes]):
    """The index of the maximum along one axis, the first of equal ones; the result holds integers, without gradient."""

    __slots__ = ()
    method = "argmax"

    @property
    def within(self) -> Axis:
        """The axis that the values index."""
        axis: Axis = self.parents[0].dims[self.axis]
        return axis

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
