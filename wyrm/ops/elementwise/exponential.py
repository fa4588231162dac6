"""Exponentials and logarithms, elementwise."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from wyrm.graph.node import Node
from wyrm.ops.elementwise.derivatives import Rule
from wyrm.ops.elementwise.elementwise import Axes, Binary, Left_co, Right_co, Unary

# Equal infinities get half of the gradient each, as other equal operands do; but their difference is NaN.
_DIFFERENCE = "where((x == y) & (abs(x) == 1e999), 0.0, x - y)"
_DIFFERENCE_2 = f"({_DIFFERENCE} * {math.log(2.0)})"


class Exp(Unary[Left_co, Axes]):
    """Elementwise exponential `exp(x)`.

    >>> wy.Constant([0.0, -np.inf]).exp().forward().tolist()
    [1.0, 0.0]
    """

    __slots__ = ()
    _own: Exp[Any, Axes]
    formula = "exp(x)"
    method = "exp"


class Expm1(Unary[Left_co, Axes]):
    """Elementwise `exp(x) - 1`, accurate near 0.

    >>> wy.Constant([0.0, -np.inf]).expm1().forward().tolist()
    [0.0, -1.0]
    """

    __slots__ = ()
    _own: Expm1[Any, Axes]
    formula = "expm1(x)"
    method = "expm1"


class Log(Unary[Left_co, Axes]):
    """Elementwise natural logarithm; -inf at 0, NaN for negative `x`.

    >>> wy.Constant([1.0, 0.0]).log().forward().tolist()
    [0.0, -inf]
    """

    __slots__ = ()
    _own: Log[Any, Axes]
    formula = "log(x)"
    method = "log"


class Exp2(Unary[Left_co, Axes]):
    """Elementwise `2 ** x`."""

    __slots__ = ()
    _own: Exp2[Any, Axes]
    formula = "exp2(x)"
    function = "exp2"


class Log2(Unary[Left_co, Axes]):
    """Elementwise base-2 logarithm; -inf at 0, NaN for negative `x`."""

    __slots__ = ()
    _own: Log2[Any, Axes]
    formula = "log2(x)"
    function = "log2"


class Log10(Unary[Left_co, Axes]):
    """Elementwise base-10 logarithm; -inf at 0, NaN for negative `x`."""

    __slots__ = ()
    _own: Log10[Any, Axes]
    formula = "log10(x)"
    function = "log10"


class LogAddExp(Binary[Left_co, Right_co, Axes]):
    """Elementwise `log(exp(x) + exp(y))` without overflow; the operands broadcast.

    Equal operands share the gradient, infinite ones too; an infinity above a finite operand has all of it.
    """

    __slots__ = ()
    _own: LogAddExp[Any, Any, Axes]
    formula = "where(x == y, x + 0.6931471805599453, maximum(x, y) + log1p(exp(-abs(x - y))))"
    # These share the gradient of equal infinities, and are half of the operations.
    derivatives: ClassVar[tuple[Rule, ...]] = (f"g * sigmoid({_DIFFERENCE})", f"g * sigmoid(-{_DIFFERENCE})")
    function = "logaddexp"


class LimitedLog(Unary[Left_co, Axes]):
    """Elementwise `max(log(x), low)` of a probability; the derivative is `min(1 / x, 1e12)`, as in PyTorch."""

    __slots__ = ("low",)
    _own: LimitedLog[Any, Axes]
    formula = "maximum(log(x), low)"
    derivatives: ClassVar[tuple[Rule, ...]] = ("g / maximum(x, 1e-12)",)  # not 0 below the limit
    low: float

    def __init__(self, x: Node, low: float = -100.0) -> None:
        self._construct((x,), low=low)


class Log1p(Unary[Left_co, Axes]):
    """Elementwise `log(1 + x)`, accurate near 0; -inf at -1, NaN below.

    >>> wy.Constant([0.0, -1.0]).log1p().forward().tolist()
    [0.0, -inf]
    """

    __slots__ = ()
    _own: Log1p[Any, Axes]
    formula = "log1p(x)"
    method = "log1p"


class LogAddExp2(Binary[Left_co, Right_co, Axes]):
    """Elementwise `log2(2 ** x + 2 ** y)` without overflow; the operands broadcast. See `logaddexp` for infinities.

    >>> wy.logaddexp2(wy.Constant([3.0]), 3.0).forward().tolist()
    [4.0]
    """

    __slots__ = ()
    _own: LogAddExp2[Any, Any, Axes]
    formula = "where(x == y, x + 1.0, maximum(x, y) + log1p(exp2(-abs(x - y))) * 1.4426950408889634)"
    # As those of `LogAddExp`.
    derivatives: ClassVar[tuple[Rule, ...]] = (f"g * sigmoid({_DIFFERENCE_2})", f"g * sigmoid(-{_DIFFERENCE_2})")
    function = "logaddexp2"
