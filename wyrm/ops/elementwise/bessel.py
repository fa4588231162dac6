"""Modified Bessel functions of the first kind, of orders 0 and 1, also scaled by `exp(-abs(x))`; elementwise."""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.graph.node import Node
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, Left_co, Unary


class I0(Unary[Left_co, Axes]):
    """Elementwise modified Bessel function of order 0.

    >>> wy.special.i0(wy.Constant(0.0)).forward().item()
    1.0
    """

    __slots__ = ()
    _own: I0[Any, Axes]
    formula = "i0(x)"
    function = "special.i0 i0"


class I0e(Unary[Left_co, Axes]):
    """Elementwise `exp(-abs(x)) * i0(x)`.

    >>> wy.special.i0e(wy.Constant(0.0)).forward().item()
    1.0
    """

    __slots__ = ()
    _own: I0e[Any, Axes]
    formula = "i0e(x)"
    function = "special.i0e"


class I1(Unary[Left_co, Axes]):
    """Elementwise modified Bessel function of order 1.

    >>> wy.special.i1(wy.Constant(0.0)).forward().item()
    0.0
    """

    __slots__ = ()
    _own: I1[Any, Axes]
    formula = "i1(x)"
    function = "special.i1"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        return (gradient * _slope(x, I0(x), self.erase()),)


class I1e(Unary[Left_co, Axes]):
    """Elementwise `exp(-abs(x)) * i1(x)`.

    >>> wy.special.i1e(wy.Constant(0.0)).forward().item()
    0.0
    """

    __slots__ = ()
    _own: I1e[Any, Axes]
    formula = "i1e(x)"
    function = "special.i1e"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        slope = _slope(x, I0e(x), self.erase(), (-abs(x)).exp())
        return (gradient * (slope - x.sign() * self.erase()),)


def _slope(x: Node, i0: Node, i1: Node, scale: Node | float = 1.0) -> Node:
    """Return the derivative of `I1` times `scale`, from both functions times `scale`: `i0 - i1 / x`.

    Near 0, where the quotient and its own derivatives would lose digits, it is the power series.
    """
    near = abs(x) < (0.2 if x.dtype == np.float32 else 0.008)  # the term left out is below the rounding error
    square = where(near, x, 0.0).square()
    series = (((7.0 / 18432.0) * square + 5.0 / 384.0) * square + 3.0 / 16.0) * square + 0.5
    return where(near, series * scale, i0 - i1 / where(near, 1.0, x))
