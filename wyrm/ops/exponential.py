"""Exponentials, logarithms, and the functions made of them."""

from __future__ import annotations

import math
from typing import Any, Generic

from wyrm.ops.elementwise import L, S, Unary


class Exp(Unary[L, S], Generic[L, S]):
    """`e ** x`."""

    __slots__ = ()
    formula = "exp(x)"
    method = "exp"

    def _own(self) -> Exp[Any, S]:
        return self

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * self,)


class Expm1(Unary[L, S], Generic[L, S]):
    """`e ** x - 1`, exact near 0."""

    __slots__ = ()
    formula = "expm1(x)"
    method = "expm1"

    def _own(self) -> Expm1[Any, S]:
        return self

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * (self.erase() + 1.0),)


class Log(Unary[L, S], Generic[L, S]):
    """The natural logarithm; -inf at 0, NaN below."""

    __slots__ = ()
    formula = "log(x)"
    method = "log"

    def _own(self) -> Log[Any, S]:
        return self

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        (x,) = self.parents
        return (gradient / x,)


class LimitedLog(Unary[L, S], Generic[L, S]):
    """`log(x)` of a probability, but at least `low`; the derivative is `1 / x`, but at most 1e12, as in PyTorch."""

    __slots__ = ("low",)
    formula = "maximum(log(x), low)"
    low: float

    def __init__(self, x: Any, low: float = -100.0) -> None:
        self._construct((x,), low=low)

    def _own(self) -> LimitedLog[Any, S]:
        return self

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient / self.parents[0].erase().maximum(1e-12),)


class Log1p(Unary[L, S], Generic[L, S]):
    """`log(1 + x)`, exact near 0."""

    __slots__ = ()
    formula = "log1p(x)"
    method = "log1p"

    def _own(self) -> Log1p[Any, S]:
        return self

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        x = self.parents[0].erase()
        return (gradient / (x + 1.0),)


class Sin(Unary[L, S], Generic[L, S]):
    """The sine of `x` radians."""

    __slots__ = ()
    formula = "sin(x)"
    method = "sin"

    def _own(self) -> Sin[Any, S]:
        return self

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        x = self.parents[0].erase()
        return (gradient * x.cos(),)


class Cos(Unary[L, S], Generic[L, S]):
    """The cosine of `x` radians."""

    __slots__ = ()
    formula = "cos(x)"
    method = "cos"

    def _own(self) -> Cos[Any, S]:
        return self

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        x = self.parents[0].erase()
        return (-(gradient * x.sin()),)


class Tanh(Unary[L, S], Generic[L, S]):
    """The hyperbolic tangent."""

    __slots__ = ()
    formula = "tanh(x)"
    method = "tanh"

    def _own(self) -> Tanh[Any, S]:
        return self

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient * (1.0 - self.erase().square()),)


class Sigmoid(Unary[L, S], Generic[L, S]):
    """`1 / (1 + e ** -x)`, finite everywhere."""

    __slots__ = ()
    formula = "where(x >= 0.0, 1.0, exp(-abs(x))) / (1.0 + exp(-abs(x)))"
    method = "sigmoid"

    def _own(self) -> Sigmoid[Any, S]:
        return self

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        y = self.erase()
        return (gradient * (y * (1.0 - y)),)


class Softplus(Unary[L, S], Generic[L, S]):
    """`log(1 + e ** x)`, without overflow."""

    __slots__ = ()
    formula = "maximum(x, 0.0) + log1p(exp(-abs(x)))"
    method = "softplus"

    def _own(self) -> Softplus[Any, S]:
        return self

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        x = self.parents[0].erase()
        return (gradient * x.sigmoid(),)


class Erf(Unary[L, S], Generic[L, S]):
    """The error function (Abramowitz and Stegun 7.1.1)."""

    __slots__ = ()
    formula = "erf(x)"
    method = "erf"

    def _own(self) -> Erf[Any, S]:
        return self

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        x = self.parents[0].erase()
        return (gradient * (x.square() * -1.0).exp() * (2.0 / math.pi**0.5),)
