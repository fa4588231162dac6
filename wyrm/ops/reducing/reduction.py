"""Reductions over one, several or all axes."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from wyrm.graph.loop_form import LOOPS, Reducer
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import FloatArray
from wyrm.ops.elementwise.conversion import weak_floats
from wyrm.ops.elementwise.elementwise import Axes, Left_co
from wyrm.ops.kernels.sums import summed
from wyrm.ops.reducing.base import Reduction, ReductionLoops
from wyrm.ops.reducing.counting import CountTrue


def of_floats(cls: type[Reduction], x: Node, arguments: Any, keywords: Any) -> Any:
    """Return the reduction of a mask as zeros and ones of a weak float type."""
    return cls(weak_floats(x), *arguments, **keywords)


class Sum(Reduction[Left_co, Axes]):
    """Sum over `axis`: an axis, several, or all by default; `keepdims=True` keeps them at size 1.

    The sum of a mask is the number of its true elements, as integers. Raise `ShapeError` for an axis that the operand
    lacks.

    Engines add long axes in parts, in another order than NumPy, and compiled programs all but fewer than eight elements
    of axes with sizes. Such a sum is finite where that of the absolute values is in the range of the dtype; beyond it,
    a part may overflow, such as that of the numbers above 0 in `[3e38, -3e38, 3e38, -3e38, ...]`.

    >>> wy.Constant([[1.0, 2.0], [3.0, 4.0]]).sum(axis=-1).forward().tolist()
    [3.0, 7.0]
    """

    __slots__ = ()
    _own: Sum[Any, Axes]
    adds_rows = True
    method = "sum"
    # The sum of a mask is a number of elements.
    declaration: ClassVar[str] = f"""
@overload
def {{method}}(self: ShapedMask[S], axis: None = None, keepdims: Literal[False] = False) -> CountTrue[tuple[()]]: ...
@overload
def {{method}}(self: ShapedMask[S], axis: AxisLike = None, keepdims: bool = False) -> CountTrue: ...
{Reduction.declaration}
"""
    empty: float | None = 0.0

    @classmethod
    def of_mask(cls, x: Node, *arguments: Any, **keywords: Any) -> Any:
        return CountTrue(x, *arguments, **keywords)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return summed(xp, operands[0], self.axis, self.keepdims)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (self.spread(gradient),)


LOOPS.register(Sum)(ReductionLoops(Reducer(0.0, "total + x")))


class Mean(Reduction[Left_co, Axes]):
    """Arithmetic mean over `axis`: an axis, several, or all by default; `keepdims=True` keeps them at size 1.

    For elements near the largest number of the dtype, see `sum`. Raise `ShapeError` over an axis of size 0 or one that
    the operand lacks.

    >>> wy.Constant([1.0, 3.0]).mean().forward().item()
    2.0
    """

    __slots__ = ()
    _own: Mean[Any, Axes]
    averages_rows = True
    method = "mean"

    @classmethod
    def of_mask(cls, x: Node, *arguments: Any, **keywords: Any) -> Any:
        return of_floats(cls, x, arguments, keywords)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        (x,) = operands
        number: Any = math.prod(x.shape[a] for a in self.axis)
        # An export may leave it open.
        known = isinstance(number, int | float | np.number)
        count = x.dtype.type(number) if known else xp.astype(xp.asarray(number), x.dtype)
        mean: FloatArray = summed(xp, x, self.axis, self.keepdims) / count
        return mean

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (self.spread(gradient / self.count(gradient)),)


LOOPS.register(Mean)(ReductionLoops(Reducer(0.0, "total + x", "total / count")))


class _Extreme(Reduction[Left_co, Axes], abstract=True):
    __slots__ = ()

    @classmethod
    def of_mask(cls, x: Node, *arguments: Any, **keywords: Any) -> Any:
        return of_floats(cls, x, arguments, keywords).not_equal(0.0)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        ties = x.equal(self.spread(self)).astype(self.dtype)
        share = gradient / Sum(ties, self.axis, self.keepdims)
        return (ties * self.spread(share),)


class Max(_Extreme[Left_co, Axes]):
    """Maximum over `axis`: an axis, several, or all by default; `keepdims=True` keeps them at size 1.

    Equal largest elements share the gradient equally. Raise `ShapeError` over an axis of size 0.

    >>> wy.Constant([1.0, 3.0]).max().forward().item()
    3.0
    """

    __slots__ = ()
    _own: Max[Any, Axes]
    method = "max"

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return xp.max(operands[0], axis=self.axis, keepdims=self.keepdims)


LOOPS.register(Max)(ReductionLoops(Reducer(-math.inf, "maximum(total, x)")))


class Min(_Extreme[Left_co, Axes]):
    """Minimum over `axis`: an axis, several, or all by default; `keepdims=True` keeps them at size 1.

    Equal smallest elements share the gradient equally. Raise `ShapeError` over an axis of size 0.

    >>> wy.Constant([1.0, 3.0]).min().forward().item()
    1.0
    """

    __slots__ = ()
    _own: Min[Any, Axes]
    method = "min"

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return xp.min(operands[0], axis=self.axis, keepdims=self.keepdims)


LOOPS.register(Min)(ReductionLoops(Reducer(math.inf, "minimum(total, x)")))
