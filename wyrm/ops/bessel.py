"""Modified Bessel functions of the first kind, of orders 0 and 1, also scaled by `exp(-abs(x))`; elementwise."""

from __future__ import annotations

from typing import Any

from wyrm.node.node import Node
from wyrm.ops.comparison import where
from wyrm.ops.elementwise import Axes, Left_co, Unary


class I0(Unary[Left_co, Axes]):
    """Elementwise modified Bessel function of order 0.

    >>> wy.special.i0(wy.Constant(0.0)).forward().item()
    1.0
    """

    __slots__ = ()
    formula = "i0(x)"
    function = "special.i0 i0"

    def _own(self) -> I0[Any, Axes]:
        return self

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        slope: Node = I1(x)
        return (gradient * slope,)


class I0e(Unary[Left_co, Axes]):
    """Elementwise `exp(-abs(x)) * i0(x)`.

    >>> wy.special.i0e(wy.Constant(0.0)).forward().item()
    1.0
    """

    __slots__ = ()
    formula = "i0e(x)"
    function = "special.i0e"

    def _own(self) -> I0e[Any, Axes]:
        return self

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        slope: Node = I1e(x)
        return (gradient * (slope - x.erase().sign() * self),)


class I1(Unary[Left_co, Axes]):
    """Elementwise modified Bessel function of order 1.

    >>> wy.special.i1(wy.Constant(0.0)).forward().item()
    0.0
    """

    __slots__ = ()
    formula = "i1(x)"
    function = "special.i1"

    def _own(self) -> I1[Any, Axes]:
        return self

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        slope = I0(x) - self.erase() / _not_zero(x)
        return (gradient * where(x.equal(0.0), 0.5, slope),)


class I1e(Unary[Left_co, Axes]):
    """Elementwise `exp(-abs(x)) * i1(x)`.

    >>> wy.special.i1e(wy.Constant(0.0)).forward().item()
    0.0
    """

    __slots__ = ()
    formula = "i1e(x)"
    function = "special.i1e"

    def _own(self) -> I1e[Any, Axes]:
        return self

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        slope = I0e(x) - self.erase() * (x.sign() + 1.0 / _not_zero(x))
        return (gradient * where(x.equal(0.0), 0.5, slope),)


def _not_zero(x: Node) -> Node:
    """Return `x`, and 1 where it is 0."""
    return where(x.equal(0.0), 1.0, x)
