"""`copysign`, `heaviside`, and the extremes that ignore NaN, all elementwise."""

from __future__ import annotations

from typing import Any

from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.node import Node
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, Binary, Left_co, Right_co, constant_like
from wyrm.ops.elementwise.predicates import IsNan, Signbit


class Copysign(Binary[Left_co, Right_co, Axes]):
    """Elementwise size of `x` with the sign of `y`; the operands broadcast. No gradient goes to `y`.

    >>> wy.copysign(wy.Constant([1.0, 2.0]), wy.Constant([-0.0, 5.0])).forward().tolist()
    [-1.0, 2.0]
    """

    __slots__ = ()
    _own: Copysign[Any, Any, Axes]
    formula = "copysign(x, y)"
    function = "copysign"

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        x, y = self.parents
        return where(Signbit(x) == Signbit(y), gradient, -gradient), ZERO


class Heaviside(Binary[Left_co, Right_co, Axes]):
    """Elementwise step: 0 for `x` below 0, 1 above, and `y` at 0; the operands broadcast.

    >>> wy.heaviside(wy.Constant([-2.0, 0.0, 3.0]), 0.5).forward().tolist()
    [0.0, 0.5, 1.0]
    """

    __slots__ = ()
    _own: Heaviside[Any, Any, Axes]
    formula = "where(x > 0.0, 1.0, where(x < 0.0, 0.0, where(x == 0.0, y, x)))"
    function = "heaviside"

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        x, _ = self.parents
        return ZERO, where(x.equal(0.0), gradient, constant_like(0.0, self))


class Fmax(Binary[Left_co, Right_co, Axes]):
    """Elementwise maximum of two operands, or the other operand where one is NaN; they broadcast.

    Equal elements get half the gradient each.

    >>> wy.fmax(wy.Constant([np.nan, 4.0]), 3.0).forward().tolist()
    [3.0, 4.0]
    """

    __slots__ = ()
    _own: Fmax[Any, Any, Axes]
    formula = "where(y != y, x, where(x != x, y, maximum(x, y)))"
    function = "fmax"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, y = self.parents
        return _chosen(gradient, x, y, x > y)


class Fmin(Binary[Left_co, Right_co, Axes]):
    """Elementwise minimum of two operands, or the other operand where one is NaN; they broadcast.

    Equal elements get half the gradient each.

    >>> wy.fmin(wy.Constant([np.nan, 4.0]), 3.0).forward().tolist()
    [3.0, 3.0]
    """

    __slots__ = ()
    _own: Fmin[Any, Any, Axes]
    formula = "where(y != y, x, where(x != x, y, minimum(x, y)))"
    function = "fmin"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, y = self.parents
        return _chosen(gradient, x, y, x < y)


def _chosen(gradient: Node, x: Node, y: Node, takes_x: Node) -> tuple[Node, Node]:
    """Return the gradients with respect to `x` and `y` of the op that takes `x` where the mask is true."""
    share = where(takes_x | IsNan(y), 1.0, where(x.equal(y), 0.5, constant_like(0.0, gradient)))
    return gradient * share, gradient * (1.0 - share)
