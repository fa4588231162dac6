"""The number of true elements of a mask along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.errors import DTypeError
from wyrm.node.base import ZERO, BaseNode, Gradient, label
from wyrm.node.loop_form import LOOPS, Reducer
from wyrm.node.node import IndexNode, Node
from wyrm.ops.elementwise import Axes
from wyrm.ops.keywords import check_keepdims
from wyrm.ops.reduction import AxisLike, ReductionLoops, all_axes, reduced_dims
from wyrm.types.dims import Dims
from wyrm.types.namespace import ArrayNamespace
from wyrm.types.typing import Array


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
        axes = tuple(axis + 1 for axis in self.axis)
        return self.rebuild(tuple(operands), self.attribute_values() | {"axis": axes})

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        return xp.sum(operands[0], axis=self.axis, keepdims=self.keepdims)

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,)


LOOPS.register(CountTrue)(ReductionLoops(Reducer(0.0, "total + x")))
