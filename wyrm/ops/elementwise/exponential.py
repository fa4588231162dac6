"""Exponentials, logarithms, trigonometric and hyperbolic functions, sigmoid, softplus and erf, all elementwise."""

from __future__ import annotations

import math
from typing import Any

from wyrm.graph.node import Node
from wyrm.ops.elementwise.elementwise import Axes, Binary, Left_co, Right_co, Unary


class Exp(Unary[Left_co, Axes]):
    """Elementwise exponential `exp(x)`.

    >>> wy.Constant([0.0, -np.inf]).exp().forward().tolist()
    [1.0, 0.0]
    """

    __slots__ = ()
    _own: Exp[Any, Axes]
    formula = "exp(x)"
    method = "exp"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient * self,)


class Expm1(Unary[Left_co, Axes]):
    """Elementwise `exp(x) - 1`, accurate near 0.

    >>> wy.Constant([0.0, -np.inf]).expm1().forward().tolist()
    [0.0, -1.0]
    """

    __slots__ = ()
    _own: Expm1[Any, Axes]
    formula = "expm1(x)"
    method = "expm1"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient * (self.erase() + 1.0),)


class Log(Unary[Left_co, Axes]):
    """Elementwise natural logarithm; -inf at 0, NaN for negative `x`.

    >>> wy.Constant([1.0, 0.0]).log().forward().tolist()
    [0.0, -inf]
    """

    __slots__ = ()
    _own: Log[Any, Axes]
    formula = "log(x)"
    method = "log"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        return (gradient / x,)


class Exp2(Unary[Left_co, Axes]):
    """Elementwise `2 ** x`."""

    __slots__ = ()
    _own: Exp2[Any, Axes]
    formula = "exp2(x)"
    function = "exp2"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient * (self.erase() * math.log(2.0)),)


class Log2(Unary[Left_co, Axes]):
    """Elementwise base-2 logarithm; -inf at 0, NaN for negative `x`."""

    __slots__ = ()
    _own: Log2[Any, Axes]
    formula = "log2(x)"
    function = "log2"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        return (gradient / (x.erase() * math.log(2.0)),)


class Log10(Unary[Left_co, Axes]):
    """Elementwise base-10 logarithm; -inf at 0, NaN for negative `x`."""

    __slots__ = ()
    _own: Log10[Any, Axes]
    formula = "log10(x)"
    function = "log10"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        return (gradient / (x.erase() * math.log(10.0)),)


class LogAddExp(Binary[Left_co, Right_co, Axes]):
    """Elementwise `log(exp(x) + exp(y))` without overflow; the operands broadcast.

    Equal operands share the gradient, infinite ones too; an infinity above a finite operand has all of it.
    """

    __slots__ = ()
    _own: LogAddExp[Any, Any, Axes]
    formula = "where(x == y, x + 0.6931471805599453, maximum(x, y) + log1p(exp(-abs(x - y))))"
    function = "logaddexp"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        from wyrm.ops.elementwise.comparison import where

        x, y = (parent.erase() for parent in self.parents)
        # Equal infinities get half the gradient each, as other equal operands do; but their difference is NaN.
        difference = where((x == y) & (abs(x) == math.inf), 0.0, x - y)
        return gradient * difference.sigmoid(), gradient * (-difference).sigmoid()


class Sinh(Unary[Left_co, Axes]):
    """Elementwise hyperbolic sine."""

    __slots__ = ()
    _own: Sinh[Any, Axes]
    formula = "sinh(x)"
    function = "sinh"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        return (gradient * Cosh(x),)


class Cosh(Unary[Left_co, Axes]):
    """Elementwise hyperbolic cosine."""

    __slots__ = ()
    _own: Cosh[Any, Axes]
    formula = "cosh(x)"
    function = "cosh"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        return (gradient * Sinh(x),)


class LimitedLog(Unary[Left_co, Axes]):
    """Elementwise `max(log(x), low)` of a probability; the derivative is `min(1 / x, 1e12)`, as in PyTorch."""

    __slots__ = ("low",)
    _own: LimitedLog[Any, Axes]
    formula = "maximum(log(x), low)"
    low: float

    def __init__(self, x: Node, low: float = -100.0) -> None:
        self._construct((x,), low=low)

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient / self.parents[0].erase().maximum(1e-12),)


class Log1p(Unary[Left_co, Axes]):
    """Elementwise `log(1 + x)`, accurate near 0; -inf at -1, NaN below.

    >>> wy.Constant([0.0, -1.0]).log1p().forward().tolist()
    [0.0, -inf]
    """

    __slots__ = ()
    _own: Log1p[Any, Axes]
    formula = "log1p(x)"
    method = "log1p"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        return (gradient / (x + 1.0),)


class Sin(Unary[Left_co, Axes]):
    """Elementwise sine of `x` in radians.

    >>> wy.Constant(0.0).sin().forward().item()
    0.0
    """

    __slots__ = ()
    _own: Sin[Any, Axes]
    formula = "sin(x)"
    method = "sin"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        return (gradient * x.cos(),)


class Cos(Unary[Left_co, Axes]):
    """Elementwise cosine of `x` in radians.

    >>> wy.Constant(0.0).cos().forward().item()
    1.0
    """

    __slots__ = ()
    _own: Cos[Any, Axes]
    formula = "cos(x)"
    method = "cos"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        return (-(gradient * x.sin()),)


class Tanh(Unary[Left_co, Axes]):
    """Elementwise hyperbolic tangent.

    >>> wy.Constant([0.0, 100.0]).tanh().forward().tolist()
    [0.0, 1.0]
    """

    __slots__ = ()
    _own: Tanh[Any, Axes]
    formula = "tanh(x)"
    method = "tanh"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient * (1.0 - self.erase().square()),)


class Sigmoid(Unary[Left_co, Axes]):
    """Elementwise logistic function `1 / (1 + exp(-x))`, without overflow.

    >>> wy.Constant([0.0, 1e4]).sigmoid().forward().tolist()
    [0.5, 1.0]
    """

    __slots__ = ()
    _own: Sigmoid[Any, Axes]
    formula = "where(x >= 0.0, 1.0, exp(-abs(x))) / (1.0 + exp(-abs(x)))"
    method = "sigmoid"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        y = self.erase()
        return (gradient * (y * (1.0 - y)),)


class Softplus(Unary[Left_co, Axes]):
    """Elementwise `log(1 + exp(x))`, without overflow.

    >>> wy.Constant([-1e4, 1e4]).softplus().forward().tolist()
    [0.0, 10000.0]
    """

    __slots__ = ()
    _own: Softplus[Any, Axes]
    formula = "maximum(x, 0.0) + log1p(exp(-abs(x)))"
    method = "softplus"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        return (gradient * x.sigmoid(),)


class Erf(Unary[Left_co, Axes]):
    """Elementwise error function (Abramowitz and Stegun 7.1.1).

    >>> wy.Constant([0.0, 10.0]).erf().forward().tolist()
    [0.0, 1.0]
    """

    __slots__ = ()
    _own: Erf[Any, Axes]
    formula = "erf(x)"
    method = "erf"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        return (gradient * (x.square() * -1.0).exp() * (2.0 / math.pi**0.5),)
