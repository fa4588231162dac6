"""The cube root, the length of a vector of two numbers, and `logaddexp2`, all elementwise."""

from __future__ import annotations

import math
from typing import Any

from wyrm.ops.elementwise.elementwise import Axes, Binary, Left_co, Right_co, Unary

# As for the natural logarithm, `LogAddExp`.
_DIFFERENCE = f"(where((x == y) & (abs(x) == 1e999), 0.0, x - y) * {math.log(2.0)})"


class Cbrt(Unary[Left_co, Axes]):
    """Elementwise cube root.

    >>> wy.cbrt(wy.Constant([8.0, -1.0])).forward().tolist()
    [2.0, -1.0]
    """

    __slots__ = ()
    _own: Cbrt[Any, Axes]
    formula = "cbrt(x)"
    function = "cbrt"


class Hypot(Binary[Left_co, Right_co, Axes]):
    """Elementwise `sqrt(x ** 2 + y ** 2)` without overflow; the operands broadcast. The gradient at the origin is 0.

    >>> wy.hypot(wy.Constant([3.0]), 4.0).forward().tolist()
    [5.0]
    """

    __slots__ = ()
    _own: Hypot[Any, Any, Axes]
    formula = "hypot(x, y)"
    function = "hypot"


class LogAddExp2(Binary[Left_co, Right_co, Axes]):
    """Elementwise `log2(2 ** x + 2 ** y)` without overflow; the operands broadcast. See `logaddexp` for infinities.

    >>> wy.logaddexp2(wy.Constant([3.0]), 3.0).forward().tolist()
    [4.0]
    """

    __slots__ = ()
    _own: LogAddExp2[Any, Any, Axes]
    formula = "where(x == y, x + 1.0, maximum(x, y) + log1p(exp2(-abs(x - y))) * 1.4426950408889634)"
    derivatives = (f"g * sigmoid({_DIFFERENCE})", f"g * sigmoid(-{_DIFFERENCE})")
    function = "logaddexp2"
