"""Numbers of elements: those of a mask that are true, `any`, `all`, and the size of an axis as a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

import numpy as np

from wyrm.errors import DTypeError
from wyrm.graph.axes import AxisLike, Dim, Dims, all_axes, reduced_dims
from wyrm.graph.base import BaseNode, label
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import as_constant
from wyrm.graph.loop_form import LOOPS, Reducer
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, AtLeast1D, Bs, N, OfShape, Shaped
from wyrm.graph.weak_types import default_type
from wyrm.ops.elementwise.elementwise import Axes, L, S, method
from wyrm.ops.reducing.base import Count, ReductionLoops, check_keepdims
from wyrm.support.foreign_names import explains_keywords


class CountTrue(IndexNode[Axes]):
    """The number of true elements of a mask over `axis`: an axis, several, or all by default; integers.

    `keepdims=True` keeps the axes at size 1. Raise `DTypeError` unless the operand is a mask.
    """

    __slots__ = ("axis", "keepdims")
    axis: tuple[int, ...]
    keepdims: bool

    def __init__(self, x: Node, axis: AxisLike = None, keepdims: bool = False) -> None:
        self._construct((x,), axis=axis, keepdims=check_keepdims("count_true", keepdims))

    def shape_rule(self) -> Dims:
        (x,) = self.parents
        object.__setattr__(self, "axis", all_axes(self.axis, len(x.dims)))
        return reduced_dims(x.dims, self.axis, self.keepdims)

    def dtype_rule(self) -> np.dtype:
        (x,) = self.parents
        if x.dtype.kind != "b":
            raise DTypeError(f"the operand must be a mask, such as x > 0; {label(x)} is {x.dtype}")
        return super().dtype_rule()

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> BaseNode | None:
        return self.rebuild(operands, axis=tuple(axis + 1 for axis in self.axis))

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.sum(operands[0], axis=self.axis, keepdims=self.keepdims)


LOOPS.register(CountTrue)(ReductionLoops(Reducer(0.0, "total + x")))


def size_of_axis(axis: Dim, beside: BaseNode) -> BaseNode:
    """Return the size of an axis as a scalar for an op with the node `beside`, whatever decides the size.

    It is an integer beside integers, else a number in the float type of that node.

    >>> class Batch(wy.Dim): ...
    >>> x = wy.Input(np.ones((4, 3)), dims=(Batch(), 3))
    >>> (x.sum() / x.shape[0]).forward().item()
    3.0
    >>> ((wy.argmax(x, axis=0) + 7) % x.shape[0]).forward().tolist()
    [3, 3, 3]
    """
    if isinstance(beside, IndexNode):
        return IndexConstant(axis.size) if axis.size is not None else CountTrue(_repeated(True, np.dtype(bool), axis))
    dtype = beside.dtype if beside.dtype.kind == "f" else default_type(beside)
    return as_constant(axis.size, dtype) if axis.size is not None else Count(_repeated(1.0, dtype, axis), (0,))


def _repeated(value: float, dtype: np.dtype, axis: Dim) -> Node:
    """Return a number for each position of an axis."""
    return as_constant(value, dtype).broadcast_to((axis,))


# --- methods of nodes -------------------------------------------------------------------------------------------------


def _truth(x: Node) -> Node:
    """Return a mask unchanged, and for floats whether they are not 0, as NumPy sees them: NaN is not 0."""
    return x if x.dtype.kind == "b" else x.not_equal(0.0)


@overload
def any(x: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False) -> Node[Any, tuple[()]]: ...
@overload
def any(x: Shaped[L, AtLeast1D], axis: AxisLike = None, keepdims: bool = False) -> Node: ...
@overload
def any(x: OfShape[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False) -> Node[Any, tuple[*Bs]]: ...
@overload
def any(x: OfShape[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False) -> Node[Any, tuple[*Bs]]: ...
@overload
def any(x: OfShape[L, tuple[N, *Bs]], axis: AxisLike = None, keepdims: bool = False) -> Node: ...
@method("any")
@explains_keywords
def any(x: Any, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return whether any element over `axis` is true, or not 0, as a mask; false over an axis of size 0.

    `axis` is an axis, several, or all by default; `keepdims=True` keeps them at size 1.

    >>> (wy.Constant([[1.0, -2.0], [3.0, 4.0]]) < 0).any(axis=-1).forward().tolist()
    [True, False]
    """
    count: Any = CountTrue(_truth(x), axis, check_keepdims("any", keepdims))
    result: Node = count != 0
    return result


@overload
def all(x: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False) -> Node[Any, tuple[()]]: ...
@overload
def all(x: Shaped[L, AtLeast1D], axis: AxisLike = None, keepdims: bool = False) -> Node: ...
@overload
def all(x: OfShape[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False) -> Node[Any, tuple[*Bs]]: ...
@overload
def all(x: OfShape[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False) -> Node[Any, tuple[*Bs]]: ...
@overload
def all(x: OfShape[L, tuple[N, *Bs]], axis: AxisLike = None, keepdims: bool = False) -> Node: ...
@method("all")
@explains_keywords
def all(x: Any, axis: AxisLike = None, keepdims: bool = False) -> Node:
    """Return whether all elements over `axis` are true, or not 0, as a mask; true over an axis of size 0.

    `axis` is an axis, several, or all by default; `keepdims=True` keeps them at size 1.

    >>> (wy.Constant([[1.0, -2.0], [3.0, 4.0]]) > 0).all(axis=-1).forward().tolist()
    [False, True]
    """
    count: Any = CountTrue(~_truth(x), axis, check_keepdims("all", keepdims))
    result: Node = count == 0
    return result
