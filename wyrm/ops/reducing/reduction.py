"""Reductions over one, several or all axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import AxisLike, Dims, axis_size
from wyrm.graph.base import explain
from wyrm.graph.loop_form import LOOPS, Decomposed, Reducer
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.conversion import weak_floats
from wyrm.ops.elementwise.elementwise import Axes, Left_co
from wyrm.ops.kernels.sums import summed
from wyrm.ops.reducing import counting
from wyrm.ops.reducing.base import Reduction, ReductionLoops
from wyrm.ops.reducing.counting import CountTrue


def _mean(xp: ArrayNamespace, x: Array, axis: tuple[int, ...], keepdims: bool) -> FloatArray:
    count = math.prod(x.shape[a] for a in axis)
    mean: FloatArray = summed(xp, x, axis, keepdims) / as_number(xp, count, x.dtype)
    return mean


def as_number(xp: ArrayNamespace, count: Any, dtype: np.dtype) -> Any:
    """Return a number of elements in a dtype; an export may leave it open."""
    return dtype.type(count) if isinstance(count, int | float | np.number) else xp.astype(xp.asarray(count), dtype)


def _as_floats(cls: type[Reduction], x: Node, arguments: Any, keywords: Any) -> Any:
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
        return _as_floats(cls, x, arguments, keywords)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return _mean(xp, operands[0], self.axis, self.keepdims)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (self.spread(gradient / self.count(gradient)),)


LOOPS.register(Mean)(ReductionLoops(Reducer(0.0, "total + x", "total / count")))


class _Extreme(Reduction[Left_co, Axes], abstract=True):
    __slots__ = ()

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

    @classmethod
    def of_mask(cls, x: Node, *arguments: Any, **keywords: Any) -> Any:
        return counting.any(x, *arguments, **keywords)

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

    @classmethod
    def of_mask(cls, x: Node, *arguments: Any, **keywords: Any) -> Any:
        return counting.all(x, *arguments, **keywords)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return xp.min(operands[0], axis=self.axis, keepdims=self.keepdims)


LOOPS.register(Min)(ReductionLoops(Reducer(math.inf, "minimum(total, x)")))


class LogSumExp(Reduction[Left_co, Axes]):
    """`log(sum(exp(x)))` over `axis`, without overflow: an axis, several, or all by default.

    `keepdims=True` keeps them at size 1. Raise `ShapeError` over an axis of size 0.

    >>> wy.Constant([1e4, 1e4]).logsumexp().forward().item() > 1e4
    True
    """

    __slots__ = ()
    _own: LogSumExp[Any, Axes]
    method = "logsumexp"

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        (x,) = operands
        top = xp.max(x, axis=self.axis, keepdims=True)
        top = xp.where(xp.isfinite(top), top, 0.0)  # -inf - -inf would be NaN
        total = xp.log(summed(xp, xp.exp(x - top), self.axis, True)) + top
        return total.reshape(shape)

    def _powers(self) -> tuple[Node, Node, Node]:
        """Return the maximum, a constant to differentiation, then `exp(x - maximum)` and its sum, as nodes."""
        (x,) = self.parents
        largest: Node = Max(x, self.axis, keepdims=True)
        top = where(abs(largest) < math.inf, largest, 0.0).stop_gradient()
        powers = (x - top).exp()
        return top, powers, powers.sum(self.axis, keepdims=True)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        # Not exp(x - self): where the maximum is large, `self = log(total) + top` has rounded log(total) away.
        _, powers, total = self._powers()
        return (powers / total * self.spread(gradient),)


@LOOPS.register(LogSumExp)
class _LogSumExpLoops(Decomposed):
    def decompose(self, node: LogSumExp[Node]) -> Node:
        top, _, total = node._powers()
        result = total.log() + top
        return result if node.keepdims else result.reshape(node.dims)


class Variance(Reduction[Left_co, Axes]):
    """Variance over `axis`: the sum of squared distances from the mean, divided by `n - ddof`.

    `axis` is an axis, several, or all by default; `keepdims=True` keeps them at size 1. Raise `ShapeError` unless
    `n > ddof`.

    >>> wy.Constant([1.0, 3.0]).var().forward().item()
    1.0
    """

    __slots__ = ("ddof",)
    _own: Variance[Any, Axes]
    method = "var"
    more_arguments = ", ddof: int = 0"
    ddof: int

    def __init__(
        self, x: Node, axis: AxisLike = None, keepdims: bool = False, ddof: int = 0, **attributes: Any
    ) -> None:
        super().__init__(x, axis, keepdims, ddof=ddof, **attributes)

    def shape_rule(self) -> Dims:
        result = super().shape_rule()
        sizes = [axis_size(self.parents[0].dims[a]) for a in self.axis]
        if None not in sizes:
            self._check_freedom(math.prod(size for size in sizes if size is not None))
        return result

    def check_sizes(self, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]) -> None:
        super().check_sizes(shapes, shape)
        try:
            self._check_freedom(math.prod(shapes[0][axis] for axis in self.axis))
        except ShapeError as error:
            raise ShapeError(explain(self, str(error))) from None

    def _check_freedom(self, count: int) -> None:
        if count - self.ddof <= 0:
            raise ShapeError(f"divides by n - ddof, which must be above 0 but is {count} - {self.ddof}")

    @classmethod
    def of_mask(cls, x: Node, *arguments: Any, **keywords: Any) -> Any:
        return _as_floats(cls, x, arguments, keywords)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        (x,) = operands
        distance: FloatArray = x - _mean(xp, x, self.axis, True)
        count = math.prod(x.shape[axis] for axis in self.axis) - self.ddof
        variance: FloatArray = summed(xp, distance * distance, self.axis, self.keepdims) / as_number(
            xp, count, self.dtype
        )
        return variance

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        distance = x - Mean(x, self.axis, keepdims=True)
        return (distance * self.spread(gradient * 2.0 / (self.count(gradient) - float(self.ddof))),)


@LOOPS.register(Variance)
class _VarianceLoops(Decomposed):
    def decompose(self, node: Variance[Node]) -> Node:
        (x,) = node.parents
        distance = x - Mean(x, node.axis, keepdims=True)
        total: Node = Sum(distance.square(), node.axis, node.keepdims)
        return total / (node.count(total) - float(node.ddof))


class Std(Variance[Left_co, Axes]):
    """Standard deviation over `axis`: the square root of the variance; `axis`, `keepdims` and `ddof` as in `var`.

    The gradient is not finite where all elements are equal.

    >>> wy.Constant([1.0, 3.0]).std().forward().item()
    1.0
    """

    __slots__ = ()
    _own: Std[Any, Axes]
    method = "std"

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return xp.sqrt(super().evaluate(xp, *operands, shape=shape))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return super().vjp(gradient / (self.erase() * 2.0))


@LOOPS.register(Std)
class _StdLoops(Decomposed):
    def decompose(self, node: Std) -> Node:
        variance: Node = Variance(node.parents[0], node.axis, node.keepdims, node.ddof)
        return variance.sqrt()
