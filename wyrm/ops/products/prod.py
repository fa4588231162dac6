"""The product over axes, with a gradient that is correct at zeros too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.graph.loop_form import LOOPS, ByKernel, Reducer
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import FloatArray
from wyrm.ops.composed import Composed
from wyrm.ops.elementwise.elementwise import Axes, Left_co
from wyrm.ops.reducing.base import AlongAxis, Reduction, ReductionLoops, split_at
from wyrm.ops.reducing.cumulative import CumProd, Shift


class Prod(Reduction[Left_co, Axes]):
    """Product over `axis`: an axis, several, or all by default; `keepdims=True` keeps them at size 1.

    The gradient is correct at zeros too. Raise `ShapeError` for an axis that the operand lacks.

    >>> wy.Constant([[1.0, 2.0], [3.0, 4.0]]).prod(axis=-1).forward().tolist()
    [2.0, 12.0]
    """

    __slots__ = ()
    _own: Prod[Any, Axes]
    method = "prod"
    empty: float | None = 1.0

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return xp.prod(operands[0], axis=self.axis, keepdims=self.keepdims)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        # One axis after another: the product of the other elements along it, times the products of the other rows.
        x: Node = self.parents[0]
        result = self.spread(gradient)
        for axis in reversed(self.axis):
            result = result * ProductOfOthers(x, axis)
            x = Prod(x, axis, keepdims=True)
        return (result,)


LOOPS.register(Prod)(ReductionLoops(Reducer(1.0, "total * x")))


class ProductOfOthers(AlongAxis[Axes], Composed[tuple[Node, ...], Axes]):
    """For each element, the product of the others along `axis`: the derivative of the product with respect to it."""

    __slots__ = ()

    def __init__(self, x: Node, axis: int) -> None:
        self._construct((x,), axis=axis)

    def compose(self, x: Node) -> Node:
        before, after = (
            Shift(CumProd(x, axis=self.axis, reverse=back), axis=self.axis, reverse=back, fill=1.0)
            for back in (False, True)
        )
        return before * after


@LOOPS.register(ProductOfOthers)
class _ProductOfOthersLoops(ByKernel):
    @staticmethod
    def kernel(x: FloatArray, out: FloatArray) -> None:
        last = x.shape[1] - 1
        for i in range(x.shape[0]):
            for k in range(x.shape[2]):
                if last >= 0:
                    out[i, 0, k] = 1.0
                for j in range(last):
                    out[i, j + 1, k] = out[i, j, k] * x[i, j, k]
                if last > 0:
                    after = x[i, last, k]
                    for j in range(last):
                        out[i, last - 1 - j, k] *= after
                        after *= x[i, last - 1 - j, k]

    def kernel_arguments(
        self, node: ProductOfOthers, operands: Sequence[np.ndarray], out: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        return split_at(node.axis, operands[0], out)
