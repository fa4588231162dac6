"""Conversion of masks, integers and floats to a float dtype."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.errors import DTypeError
from wyrm.graph.base import ZERO, BaseNode, Gradient
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.loop_form import LOOPS, SameIndex
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, Bs, DTypeLike, Shaped
from wyrm.graph.weak_types import FLOATS, chosen, default_type, is_weak
from wyrm.ops.elementwise.elementwise import (
    Axes,
    L,
    Left_co,
    S,
    Unary,
    method,
)
from wyrm.reach.rules import REACH, Reached, SamePlace

if TYPE_CHECKING:
    from wyrm.reach.facts import Analysis


@method("astype", IndexNode)
def astype_of_integers(x: IndexNode[S], dtype: DTypeLike) -> Cast[Any, S]:
    """Return integers converted to float32 or float64. Raise `DTypeError` for other dtypes.

    >>> wy.IndexConstant([1, 2]).astype("float32").forward().tolist()
    [1.0, 2.0]
    """
    integers: Any = x
    return Cast(integers, chosen(np.dtype(dtype)))


@method("one_hot", IndexNode)
def one_hot(
    x: IndexNode[tuple[*Bs]], num_classes: int, *, dtype: DTypeLike | None = None
) -> Node[Any, tuple[*Bs, Any]]:
    """Return vectors of `num_classes` zeros, with a 1 at each index, along a new last axis.

    An index out of range gives zeros only. Without `dtype` the float type is weak; see `wyrm.Constant`.

    >>> wy.IndexConstant([1, 0]).one_hot(3).forward().tolist()
    [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    indices: Any = x
    classes = IndexConstant(np.arange(operator.index(num_classes)))
    hits: Node = indices.reshape((*indices.dims, 1)) == classes
    return weak_floats(hits) if dtype is None else Cast(hits, chosen(np.dtype(dtype)))


class Cast(Unary[Left_co, Axes]):
    """The operand converted to another float dtype; a mask becomes zeros and ones, integers become floats."""

    __slots__ = ("to",)
    _own: Cast[Any, Axes]
    to: np.dtype

    def __init__(self, x: Shaped[Left_co, Axes], to: DTypeLike) -> None:
        self._construct((x,), to=np.dtype(to))

    def dtype_rule(self) -> np.dtype:
        if self.to not in FLOATS:
            raise DTypeError(f"the dtype must be float32 or float64, not {self.to}; for a mask, compare, as in x > 0")
        return self.to

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return operands[0].astype(self.to)

    # A conversion is no formula. The gradient has the dtype of the operand; masks and integers have none.
    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        (x,) = self.parents
        return (Cast(gradient, x.dtype) if x.dtype.kind == "f" else ZERO,)


LOOPS.register(Cast)(SameIndex())


@REACH.register(Cast)
class _CastReach(SamePlace):
    """The same values in another type."""

    def reached(self, node: Cast, operands: Sequence[Reached], analysis: Analysis) -> Reached:
        return analysis.pointwise(node, operands, "same")


@method("astype")
def astype(x: Shaped[L, S], dtype: DTypeLike) -> Cast[L, S]:
    """Return `x` converted to float32 or float64; a mask becomes zeros and ones. Raise `DTypeError` for other dtypes.

    >>> (wy.Constant([-1.0, 2.0]) > 0).astype("float32").forward().tolist()
    [0.0, 1.0]
    """
    return Cast(x, chosen(np.dtype(dtype)))


def weak_floats(x: BaseNode) -> Node:
    """Return a mask as zeros and ones, or integers as floats, of a weak type; see `wyrm.graph.weak_types`."""
    discrete: Any = x
    return Cast(discrete, default_type(x))


def of_chosen_type(x: Node) -> Node:
    """Return a weak node in its default type, which stays, for a function that depends on the precision."""
    return Cast(x, chosen(x.dtype)) if is_weak(x.dtype) else x
