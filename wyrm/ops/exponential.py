"""Exponentials, logarithms, trigonometric and hyperbolic functions, sigmoid, softplus and erf, all elementwise."""

from __future__ import annotations

from typing import Any

from wyrm.node.node import Node
from wyrm.ops.elementwise import Axes, Binary, Left_co, Right_co, Unary

# Equal infinities get half of the gradient each, as other equal operands do; but their difference is NaN.
_DIFFERENCE = "where((x == y) & (abs(x) == 1e999), 0.0, x - y)"


class Exp(Unary[Left_co, Axes]):
    """Elementwise exponential `exp(x)`.

    >>> wy.Constant([0.0, -np.inf]).exp().forward().tolist()
    [1.0, 0.0]
    """

    __slots__ = ()
    formula = "exp(x)"
    method = "exp"

    def _own(self) -> Exp[Any, Axes]:
        return self


class Expm1(Unary[Left_co, Axes]):
    """Elementwise `exp(x) - 1`, accurate near 0.

    >>> wy.Constant([0.0, -np.inf]).expm1().forward().tolist()
    [0.0, -1.0]
    """

    __slots__ = ()
    formula = "expm1(x)"
    method = "expm1"

    def _own(self) -> Expm1[Any, Axes]:
        return self


class Log(Unary[Left_co, Axes]):
    """Elementwise natural logarithm; -inf at 0, NaN for negative `x`.

    >>> wy.Constant([1.0, 0.0]).log().forward().tolist()
    [0.0, -inf]
    """

    __slots__ = ()
    formula = "log(x)"
    method = "log"

    def _own(self) -> Log[Any, Axes]:
        return self


class Exp2(Unary[Left_co, Axes]):
    """Elementwise `2 ** x`."""

    __slots__ = ()
    formula = "exp2(x)"
    function = "exp2"

    def _own(self) -> Exp2[Any, Axes]:
        return self


class Log2(Unary[Left_co, Axes]):
    """Elementwise base-2 logarithm; -inf at 0, NaN for negative `x`."""

    __slots__ = ()
    formula = "log2(x)"
    function = "log2"

    def _own(self) -> Log2[Any, Axes]:
        return self


class Log10(Unary[Left_co, Axes]):
    """Elementwise base-10 logarithm; -inf at 0, NaN for negative `x`."""

    __slots__ = ()
    formula = "log10(x)"
    function = "log10"

    def _own(self) -> Log10[Any, Axes]:
        return self


class LogAddExp(Binary[Left_co, Right_co, Axes]):
    """Elementwise `log(exp(x) + exp(y))` without overflow; the operands broadcast.

    Equal operands share the gradient, infinite ones too; an infinity above a finite operand has all of it.
    """

    __slots__ = ()
    formula = "where(x == y, x + 0.6931471805599453, maximum(x, y) + log1p(exp(-abs(x - y))))"
    derivatives = (f"g * sigmoid({_DIFFERENCE})", f"g * sigmoid(-{_DIFFERENCE})")
    function = "logaddexp"

    def _own(self) -> LogAddExp[Any, Any, Axes]:
        return self


class Sinh(Unary[Left_co, Axes]):
    """Elementwise hyperbolic sine."""

    __slots__ = ()
    formula = "sinh(x)"
    function = "sinh"

    def _own(self) -> Sinh[Any, Axes]:
        return self


class Cosh(Unary[Left_co, Axes]):
    """Elementwise hyperbolic cosine."""

    __slots__ = ()
    formula = "cosh(x)"
    function = "cosh"

    def _own(self) -> Cosh[Any, Axes]:
        return self


class LimitedLog(Unary[Left_co, Axes]):
    """Elementwise `max(log(x), low)` of a probability; the derivative is `min(1 / x, 1e12)`, as in PyTorch."""

    __slots__ = ("low",)
    formula = "maximum(log(x), low)"
    derivatives = ("g / maximum(x, 1e-12)",)  # not 0 below the limit
    low: float

    def __init__(self, x: Node, low: float = -100.0) -> None:
        self._construct((x,), low=low)

    def _own(self) -> LimitedLog[Any, Axes]:
        return self


class Log1p(Unary[Left_co, Axes]):
    """Elementwise `log(1 + x)`, accurate near 0; -inf at -1, NaN below.

    >>> wy.Constant([0.0, -1.0]).log1p().forward().tolist()
    [0.0, -inf]
    """

    __slots__ = ()
    formula = "log1p(x)"
    method = "log1p"

    def _own(self) -> Log1p[Any, Axes]:
        return self


class Sin(Unary[Left_co, Axes]):
    """Elementwise sine of `x` in radians.

    >>> wy.Constant(0.0).sin().forward().item()
    0.0
    """

    __slots__ = ()
    formula = "sin(x)"
    method = "sin"

    def _own(self) -> Sin[Any, Axes]:
        return self


class Cos(Unary[Left_co, Axes]):
    """Elementwise cosine of `x` in radians.

    >>> wy.Constant(0.0).cos().forward().item()
    1.0
    """

    __slots__ = ()
    formula = "cos(x)"
    method = "cos"

    def _own(self) -> Cos[Any, Axes]:
        return self


class Tanh(Unary[Left_co, Axes]):
    """Elementwise hyperbolic tangent.

    >>> wy.Constant([0.0, 100.0]).tanh().forward().tolist()
    [0.0, 1.0]
    """

    __slots__ = ()
    formula = "tanh(x)"
    method = "tanh"

    def _own(self) -> Tanh[Any, Axes]:
        return self


class Sigmoid(Unary[Left_co, Axes]):
    """Elementwise logistic function `1 / (1 + exp(-x))`, without overflow.

    >>> wy.Constant([0.0, 1e4]).sigmoid().forward().tolist()
    [0.5, 1.0]
    """

    __slots__ = ()
    formula = "sigmoid(x)"
    method = "sigmoid"

    def _own(self) -> Sigmoid[Any, Axes]:
        return self


class Softplus(Unary[Left_co, Axes]):
    """Elementwise `log(1 + exp(x))`, without overflow.

    >>> wy.Constant([-1e4, 1e4]).softplus().forward().tolist()
    [0.0, 10000.0]
    """

    __slots__ = ()
    formula = "softplus(x)"
    method = "softplus"

    def _own(self) -> Softplus[Any, Axes]:
        return self


class Erf(Unary[Left_co, Axes]):
    """Elementwise error function (Abramowitz and Stegun 7.1.1).

    >>> wy.Constant([0.0, 10.0]).erf().forward().tolist()
    [0.0, 1.0]
    """

    __slots__ = ()
    formula = "erf(x)"
    method = "erf"

    def _own(self) -> Erf[Any, Axes]:
        return self
