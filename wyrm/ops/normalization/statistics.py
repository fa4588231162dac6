"""Reductions that are composed of simpler ones: log-sum-exp, variance and standard deviation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wyrm.errors import ShapeError
from wyrm.graph.axes import AxisLike, Dims, known_size
from wyrm.graph.base import explain
from wyrm.graph.node import Node
from wyrm.ops.composed import Composed
from wyrm.ops.elementwise.comparison import IsFinite, where
from wyrm.ops.elementwise.elementwise import Axes, Left_co
from wyrm.ops.reducing.base import Reduction
from wyrm.ops.reducing.reduction import Max, Mean, Sum, of_floats


class LogSumExp(Reduction[Left_co, Axes], Composed[tuple[Left_co], Axes]):
    """`log(sum(exp(x)))` over `axis`, without overflow: an axis, several, or all by default.

    `keepdims=True` keeps them at size 1. Raise `ShapeError` over an axis of size 0.

    >>> wy.Constant([1e4, 1e4]).logsumexp().forward().item() > 1e4
    True
    """

    __slots__ = ()
    _own: LogSumExp[Any, Axes]
    method = "logsumexp"

    def compose(self, x: Node) -> Node:
        top, _, total = self._powers(x)
        result = total.log() + top
        return result if self.keepdims else result.reshape(self.dims)

    def _powers(self, x: Node) -> tuple[Node, Node, Node]:
        """Return the maximum, a constant to differentiation, then `exp(x - maximum)` and its sum."""
        largest: Node = Max(x, self.axis, keepdims=True)
        top = where(IsFinite(largest), largest, 0.0).stop_gradient()
        powers = (x - top).exp()
        return top, powers, powers.sum(self.axis, keepdims=True)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        # Not exp(x - self): where the maximum is large, `self = log(total) + top` has rounded log(total) away.
        _, powers, total = self._powers(self.parents[0])
        return (powers / total * self.spread(gradient),)


class Variance(Reduction[Left_co, Axes], Composed[tuple[Left_co], Axes]):
    """Variance over `axis`: the sum of squared distances from the mean, divided by `n - ddof`.

    `axis` is an axis, several, or all by default; `keepdims=True` keeps them at size 1. Raise `ShapeError` unless
    `n > ddof`.

    >>> wy.Constant([1.0, 3.0]).var().forward().item()
    1.0
    """

    __slots__ = ("ddof",)
    _own: Variance[Any, Axes]
    method = "var"
    ddof: int

    def __init__(
        self, x: Node, axis: AxisLike = None, keepdims: bool = False, ddof: int = 0, **attributes: Any
    ) -> None:
        super().__init__(x, axis, keepdims, ddof=ddof, **attributes)

    def shape_rule(self) -> Dims:
        result = super().shape_rule()
        count = known_size(self.parents[0].dims[a] for a in self.axis)
        if count is not None:
            self._check_freedom(count)
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
        return of_floats(cls, x, arguments, keywords)

    def compose(self, x: Node) -> Node:
        distance = x - Mean(x, self.axis, keepdims=True)
        total: Node = Sum(distance.square(), self.axis, self.keepdims)
        return total / (self.count(total) - float(self.ddof))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        distance = x - Mean(x, self.axis, keepdims=True)
        return (distance * self.spread(gradient * 2.0 / (self.count(gradient) - float(self.ddof))),)


class Std(Variance[Left_co, Axes]):
    """Standard deviation over `axis`: the square root of the variance; `axis`, `keepdims` and `ddof` as in `var`.

    The gradient is not finite where all elements are equal.

    >>> wy.Constant([1.0, 3.0]).std().forward().item()
    1.0
    """

    __slots__ = ()
    _own: Std[Any, Axes]
    method = "std"

    def compose(self, x: Node) -> Node:
        variance: Node = Variance(x, self.axis, self.keepdims, self.ddof)
        return variance.sqrt()

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return super().vjp(gradient / (self.erase() * 2.0))
