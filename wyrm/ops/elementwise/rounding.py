"""Rounding to whole numbers and decimals, signs, steps, and the extremes that ignore NaN, all elementwise."""

from __future__ import annotations

import operator
from typing import Any, ClassVar

from wyrm.graph.base import ZERO
from wyrm.graph.node import Node
from wyrm.graph.typing import Shaped
from wyrm.ops.elementwise.derivatives import Rule
from wyrm.ops.elementwise.elementwise import Axes, Binary, L, Left_co, Right_co, S, Unary, method
from wyrm.support.foreign_names import explains_keywords


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
@explains_keywords
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


# The share of the first operand, where `x > y` or `x < y` says that it is taken.
_SHARE = "where((x {} y) | isnan(y), 1.0, where(x == y, 0.5, 0.0))"


class Copysign(Binary[Left_co, Right_co, Axes]):
    """Elementwise size of `x` with the sign of `y`; the operands broadcast. No gradient goes to `y`.

    >>> wy.copysign(wy.Constant([1.0, 2.0]), wy.Constant([-0.0, 5.0])).forward().tolist()
    [-1.0, 2.0]
    """

    __slots__ = ()
    _own: Copysign[Any, Any, Axes]
    formula = "copysign(x, y)"
    function = "copysign"


class Heaviside(Binary[Left_co, Right_co, Axes]):
    """Elementwise step: 0 for `x` below 0, 1 above, and `y` at 0; the operands broadcast.

    >>> wy.heaviside(wy.Constant([-2.0, 0.0, 3.0]), 0.5).forward().tolist()
    [0.0, 0.5, 1.0]
    """

    __slots__ = ()
    _own: Heaviside[Any, Any, Axes]
    formula = "where(x > 0.0, 1.0, where(x < 0.0, 0.0, where(x == 0.0, y, x)))"
    derivatives: ClassVar[tuple[Rule, ...]] = (ZERO, "where(x == 0.0, g, 0.0)")  # 0 for NaN
    function = "heaviside"


class Fmax(Binary[Left_co, Right_co, Axes]):
    """Elementwise maximum of two operands, or the other operand where one is NaN; they broadcast.

    Equal elements get half the gradient each.

    >>> wy.fmax(wy.Constant([np.nan, 4.0]), 3.0).forward().tolist()
    [3.0, 4.0]
    """

    __slots__ = ()
    _own: Fmax[Any, Any, Axes]
    formula = "where(y != y, x, where(x != x, y, maximum(x, y)))"
    # These take fewer operations.
    derivatives: ClassVar[tuple[Rule, ...]] = ("g * " + _SHARE.format(">"), f"g * (1.0 - {_SHARE.format('>')})")
    function = "fmax"


class Fmin(Binary[Left_co, Right_co, Axes]):
    """Elementwise minimum of two operands, or the other operand where one is NaN; they broadcast.

    Equal elements get half the gradient each.

    >>> wy.fmin(wy.Constant([np.nan, 4.0]), 3.0).forward().tolist()
    [3.0, 3.0]
    """

    __slots__ = ()
    _own: Fmin[Any, Any, Axes]
    formula = "where(y != y, x, where(x != x, y, minimum(x, y)))"
    # These take fewer operations.
    derivatives: ClassVar[tuple[Rule, ...]] = ("g * " + _SHARE.format("<"), f"g * (1.0 - {_SHARE.format('<')})")
    function = "fmin"
