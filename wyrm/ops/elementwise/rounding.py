"""Rounding to whole numbers and to decimals; the gradients are zero."""

from __future__ import annotations

import operator
from typing import Any

from wyrm.graph.node import Node
from wyrm.graph.typing import Shaped
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, S, Unary, method
from wyrm.support.foreign_names import answering


class Floor(Unary[Left_co, Axes]):
    """Elementwise largest whole number that is at most `x`.

    >>> wy.floor(wy.Constant([-1.5, 1.5])).forward().tolist()
    [-2.0, 1.0]
    """

    __slots__ = ()
    _own: Floor[Any, Axes]
    formula = "floor(x)"
    function = "floor"


class Ceil(Unary[Left_co, Axes]):
    """Elementwise smallest whole number that is at least `x`.

    >>> wy.ceil(wy.Constant([-1.5, 1.5])).forward().tolist()
    [-1.0, 2.0]
    """

    __slots__ = ()
    _own: Ceil[Any, Axes]
    formula = "ceil(x)"
    function = "ceil"


class Trunc(Unary[Left_co, Axes]):
    """Elementwise `x` without its fraction: `x` rounded towards zero.

    >>> wy.trunc(wy.Constant([-1.5, 1.5])).forward().tolist()
    [-1.0, 1.0]
    """

    __slots__ = ()
    _own: Trunc[Any, Axes]
    formula = "trunc(x)"
    function = "trunc fix"


class Rint(Unary[Left_co, Axes]):
    """Elementwise nearest whole number; halves round to the even one.

    >>> wy.rint(wy.Constant([0.5, 1.5, 2.6])).forward().tolist()
    [0.0, 2.0, 3.0]
    """

    __slots__ = ()
    _own: Rint[Any, Axes]
    formula = "rint(x)"
    function = "rint"


@method("round")
@answering
def round(x: Shaped[L, S], decimals: int = 0) -> Node[Any, S]:
    """Return `x` rounded to a number of decimals, halves to even, as `numpy.round`; the gradient is zero.

    With `decimals` below 0 it rounds to tens, hundreds, and so on. `decimals` must be an int; else raise `TypeError`.

    >>> wy.Constant([1.25, -3.14159]).round(2).forward().tolist()
    [1.25, -3.140000104904175]
    >>> wy.Constant([1250.0]).round(-2).forward().tolist()
    [1200.0]
    """
    node: Any = x
    factor = 10.0 ** abs(operator.index(decimals))
    if factor == 1.0:
        return Rint(node)
    return Rint(node * factor) / factor if decimals > 0 else Rint(node / factor) * factor
