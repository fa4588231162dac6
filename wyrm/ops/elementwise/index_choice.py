"""Choices among integer nodes, elementwise: maximum, minimum, clip, absolute value, and selection by a mask."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from wyrm.errors import DTypeError
from wyrm.graph.axes import Dims, broadcast
from wyrm.graph.base import describe, label
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import IntegerArray, Size
from wyrm.ops.elementwise.elementwise import Axes, S, method
from wyrm.ops.elementwise.index_arithmetic import IndexArithmetic, integers_beside


class IndexMaximum(IndexArithmetic[Axes]):
    """The larger of two integers, elementwise; the other operand is an integer node, an integer, or an array."""

    __slots__ = ()
    formula = "maximum(x, y)"
    method = "maximum"


class IndexMinimum(IndexArithmetic[Axes]):
    """The smaller of two integers, elementwise; the other operand is an integer node, an integer, or an array."""

    __slots__ = ()
    formula = "minimum(x, y)"
    method = "minimum"


class IndexWhere(IndexArithmetic[Axes]):
    """Elementwise selection of integers: `y` where the mask `x` is true, else `z`; the operands broadcast."""

    __slots__ = ()
    formula = "where(x, y, z)"

    def __init__(self, condition: Node, x: IndexNode, y: IndexNode) -> None:
        self._construct((condition, x, y))

    def shape_rule(self) -> Dims:
        condition, x, y = self.parents
        return broadcast(broadcast(condition.dims, x.dims), y.dims)

    def dtype_rule(self) -> np.dtype:
        condition, *choices = self.parents
        if condition.dtype.kind != "b":
            raise DTypeError(f"the condition must be a mask, such as x > 0; {label(condition)} is {condition.dtype}")
        self.check_integers(choices)
        return np.dtype(np.int64)

    def bounds(self, operands: Sequence[tuple[int, int]]) -> tuple[int, int]:
        """Return the least and the greatest value for integers within these."""
        return min(least for least, _ in operands), max(greatest for _, greatest in operands)


def where_integers(condition: Node, x: object, y: object) -> IndexWhere:
    """Return `wy.where` for operands of which one is an integer node; the other holds integers too."""
    beside: Any = next(each for each in (x, y) if isinstance(each, IndexNode))
    first, second = (integers_beside(beside, each) for each in (x, y))
    if first is None or second is None:
        stranger = x if first is None else y
        raise TypeError(f"where: {describe(beside)} holds integers, and {type(stranger).__name__} does not")
    return IndexWhere(condition, first, second)


@overload
def clip(x: IndexNode, min: IndexNode, max: IndexNode | IntegerArray | Size | None = None) -> IndexNode: ...
@overload
def clip(x: IndexNode, min: IntegerArray | Size | None, max: IndexNode) -> IndexNode: ...
@overload
def clip(
    x: IndexNode[S], min: IntegerArray | Size | None = None, max: IntegerArray | Size | None = None
) -> IndexNode[S]: ...
@method("clip", IndexNode)
def clip(x: Any, min: Any = None, max: Any = None) -> Any:
    """Return the integers limited to `min` and `max`, of which None is no limit; where they cross, `max` wins.

    >>> wy.IndexConstant([-2, 1, 7]).clip(0, 5).forward().tolist()
    [0, 1, 5]
    """
    if min is not None:
        x = x.maximum(min)
    return x if max is None else x.minimum(max)


@method("abs", IndexNode)
def absolute(x: IndexNode[S]) -> IndexNode[S]:
    """Return the absolute values of integers; the smallest integer of 64 bits has none and stays, as in NumPy.

    >>> abs(wy.IndexConstant([-2, 1])).forward().tolist()
    [2, 1]
    """
    return IndexMaximum(x, IndexConstant(0) - x)


method("__abs__", IndexNode)(absolute)
