"""`copysign`, `heaviside`, and the extremes that ignore NaN, all elementwise."""

from __future__ import annotations

from typing import Any

from wyrm.graph.base import ZERO
from wyrm.ops.elementwise.elementwise import Axes, Binary, Left_co, Right_co

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
    derivatives = (ZERO, "where(x == 0.0, g, 0.0)")  # 0 for NaN
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
    derivatives = ("g * " + _SHARE.format(">"), f"g * (1.0 - {_SHARE.format('>')})")  # fewer operations
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
    derivatives = ("g * " + _SHARE.format("<"), f"g * (1.0 - {_SHARE.format('<')})")  # fewer operations
    function = "fmin"
