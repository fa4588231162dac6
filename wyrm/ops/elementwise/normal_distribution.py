"""The error function's relatives and the distribution function of the normal distribution, elementwise."""

from __future__ import annotations

import math
from typing import Any

from wyrm.graph.node import Node
from wyrm.ops.elementwise.elementwise import Axes, Left_co, Unary

_ROOT_HALF, _ROOT_TWO_PI = math.sqrt(0.5), math.sqrt(2.0 * math.pi)


def _tail_series(terms: int) -> str:
    """Return the series in 1 / x ** 2 of the tail of the distribution (Abramowitz and Stegun 26.2.12), as a formula.

    It is the sum of `(-1) ** k * (2 k - 1)!! / x ** (2 k)`.
    """
    series = "1.0"
    for k in range(terms, 0, -1):
        series = f"(1.0 - {2.0 * k - 1.0} * (1.0 / (x * x)) * {series})"
    return series


# Below -12, where `erfc` leaves the range of float32, ten terms have an error of 2e-15.
_SERIES = _tail_series(10)


class Erfc(Unary[Left_co, Axes]):
    """Elementwise complementary error function `1 - erf(x)`, accurate where it is small.

    >>> wy.special.erfc(wy.Constant([0.0, 30.0])).forward().tolist()
    [1.0, 0.0]
    """

    __slots__ = ()
    _own: Erfc[Any, Axes]
    formula = "erfc(x)"
    function = "special.erfc"


class ErfInv(Unary[Left_co, Axes]):
    """Elementwise inverse of `erf`; infinite at -1 and 1, NaN outside.

    >>> wy.special.erfinv(wy.Constant([0.0, 1.0])).forward().tolist()
    [0.0, inf]
    """

    __slots__ = ()
    _own: ErfInv[Any, Axes]
    formula = "erfinv(x)"
    function = "special.erfinv"


class Ndtr(Unary[Left_co, Axes]):
    """Elementwise distribution function of the standard normal distribution.

    >>> wy.special.ndtr(wy.Constant([0.0, np.inf])).forward().tolist()
    [0.5, 1.0]
    """

    __slots__ = ()
    _own: Ndtr[Any, Axes]
    formula = f"0.5 * erfc(-x * {_ROOT_HALF})"
    derivatives = (f"g * (exp(x * x * -0.5) / {_ROOT_TWO_PI})",)  # fewer operations
    function = "special.ndtr"


class LogNdtr(Unary[Left_co, Axes]):
    """Elementwise logarithm of the normal distribution function, accurate in both tails.

    >>> f'{wy.special.log_ndtr(wy.Constant(0.0)).forward().item():.4f}'
    '-0.6931'
    """

    __slots__ = ()
    _own: LogNdtr[Any, Axes]
    formula = (
        f"where(x > 1.0, log1p(-0.5 * erfc(x * {_ROOT_HALF})), where(x > -12.0, log(0.5 * erfc(-x * {_ROOT_HALF})), "
        f"-0.5 * x * x - log(-x * {_ROOT_TWO_PI}) + log({_SERIES})))"
    )
    function = "special.log_ndtr"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        ratio: Node = InverseMillsRatio(x)
        return (gradient * ratio,)


class InverseMillsRatio(Unary[Left_co, Axes]):
    """Elementwise quotient of the normal density and the normal distribution function."""

    __slots__ = ()
    _own: InverseMillsRatio[Any, Axes]
    formula = (
        f"where(x > -12.0, exp(-0.5 * x * x) * {1.0 / _ROOT_TWO_PI} / (0.5 * erfc(-x * {_ROOT_HALF})), -x / {_SERIES})"
    )
    derivatives = ("-(g * (f * (x + f)))",)  # fewer operations


class Ndtri(Unary[Left_co, Axes]):
    """Elementwise quantile of the standard normal distribution, the inverse of `ndtr`; NaN outside of 0..1.

    At 0 and 1 the quantile and its derivative are infinite.

    >>> wy.special.ndtri(wy.Constant([0.5, 1.0])).forward().tolist()
    [0.0, inf]
    """

    __slots__ = ()
    _own: Ndtri[Any, Axes]
    formula = "ndtri(x)"
    function = "special.ndtri"
