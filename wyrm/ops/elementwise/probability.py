"""Functions of probabilities, elementwise: the normal distribution, the error function, entropies, `logit`."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from wyrm.graph.node import Node
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.derivatives import Rule
from wyrm.ops.elementwise.elementwise import Axes, Binary, Left_co, Right_co, Unary, constant_like

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
    formula: ClassVar[str] = f"0.5 * erfc(-x * {_ROOT_HALF})"
    derivatives: ClassVar[tuple[Rule, ...]] = (f"g * (exp(x * x * -0.5) / {_ROOT_TWO_PI})",)  # fewer operations
    function = "special.ndtr"


class LogNdtr(Unary[Left_co, Axes]):
    """Elementwise logarithm of the normal distribution function, accurate in both tails.

    >>> f'{wy.special.log_ndtr(wy.Constant(0.0)).forward().item():.4f}'
    '-0.6931'
    """

    __slots__ = ()
    _own: LogNdtr[Any, Axes]
    formula: ClassVar[str] = (
        f"where(x > 1.0, log1p(-0.5 * erfc(x * {_ROOT_HALF})), where(x > -12.0, log(0.5 * erfc(-x * {_ROOT_HALF})), "
        f"-0.5 * x * x - log(-x * {_ROOT_TWO_PI}) + log({_SERIES})))"
    )
    function = "special.log_ndtr"

    # One op, as accurate as the derivatives of three branches, which are 180 nodes.
    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        (x,) = self.parents
        ratio: Node = InverseMillsRatio(x)
        return (gradient * ratio,)


class InverseMillsRatio(Unary[Left_co, Axes]):
    """Elementwise quotient of the normal density and the normal distribution function."""

    __slots__ = ()
    _own: InverseMillsRatio[Any, Axes]
    formula: ClassVar[str] = (
        f"where(x > -12.0, exp(-0.5 * x * x) * {1.0 / _ROOT_TWO_PI} / (0.5 * erfc(-x * {_ROOT_HALF})), -x / {_SERIES})"
    )
    derivatives: ClassVar[tuple[Rule, ...]] = ("-(g * (f * (x + f)))",)  # fewer operations


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


# `x / y`, and 0 where both are 0.
_BOTH = "(x == 0.0) & ({y} == 0.0)"
_RATIO = f"(where({_BOTH}, 0.0, x) / where({_BOTH}, 1.0, {{y}}))"


class Xlogy(Binary[Left_co, Right_co, Axes]):
    """Elementwise `x * log(y)`, and 0 where `x` is 0 and `y` is not NaN; the operands broadcast.

    The derivative with respect to `x` is `log(y)`; that with respect to `y` is 0 where both are 0.

    >>> wy.special.xlogy(wy.Constant([0.0, 1.0]), wy.Constant([0.0, 1.0])).forward().tolist()
    [0.0, 0.0]
    """

    __slots__ = ()
    _own: Xlogy[Any, Any, Axes]
    formula = "where((x == 0.0) & (y == y), 0.0, x * log(y))"
    # These are the limits where the result is 0.
    derivatives: ClassVar[tuple[Rule, ...]] = ("g * log(y)", "g * " + _RATIO.format(y="y"))
    function = "special.xlogy"


class Xlog1py(Binary[Left_co, Right_co, Axes]):
    """Elementwise `x * log1p(y)`, and 0 where `x` is 0 and `y` is not NaN; the operands broadcast.

    The derivative with respect to `x` is `log1p(y)`; that with respect to `y` is 0 at `x = 0`, `y = -1`.

    >>> wy.special.xlog1py(wy.Constant([0.0, 1.0]), wy.Constant([-1.0, 0.0])).forward().tolist()
    [0.0, 0.0]
    """

    __slots__ = ()
    _own: Xlog1py[Any, Any, Axes]
    formula = "where((x == 0.0) & (y == y), 0.0, x * log1p(y))"
    # These are the limits where the result is 0.
    derivatives: ClassVar[tuple[Rule, ...]] = ("g * log1p(y)", "g * " + _RATIO.format(y="(y + 1.0)"))
    function = "special.xlog1py"


class Entr(Unary[Left_co, Axes]):
    """Elementwise `-x * log(x)`: 0 at 0, and -inf below.

    >>> wy.special.entr(wy.Constant([0.0, 1.0, -1.0])).forward().tolist()
    [0.0, -0.0, -inf]
    """

    __slots__ = ()
    _own: Entr[Any, Axes]
    formula = "where(x < 0.0, -1e999, where(x == 0.0, 0.0, -(x * log(x))))"
    derivatives: ClassVar[tuple[Rule, ...]] = ("-(g * (log(x) + 1.0))",)  # infinite at 0, NaN below
    function = "special.entr"


class RelEntr(Binary[Left_co, Right_co, Axes]):
    """Elementwise `x * log(x / y)`, for operands of at least 0, which broadcast; else infinite.

    It is 0 where `x` is 0, and infinite where only `y` is. The gradient is 0 unless both operands are above 0.

    >>> wy.special.rel_entr(wy.Constant([1.0, 0.0]), wy.Constant([1.0, 2.0])).forward().tolist()
    [0.0, 0.0]
    """

    __slots__ = ()
    _own: RelEntr[Any, Any, Axes]
    formula = (
        "where((x > 0.0) & (y > 0.0), "
        "where((x < 2.0 * y) & (y < 2.0 * x), x * log1p((x - y) / y), "
        "where((x < 1e30 * y) & (y < 1e30 * x), x * log(x / y), x * (log(x) - log(y)))), "
        "where((x == 0.0) & (y >= 0.0), 0.0, where((x == x) & (y == y), 1e999, x + y)))"
    )
    function = "special.rel_entr"

    # A third of the nodes of the derivatives of all branches, and in float32 a third of their error.
    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x, y = (parent.erase() for parent in self.parents)
        inside = (x > 0.0) & (y > 0.0)
        x, y = where(inside, x, 1.0), where(inside, y, 1.0)
        zero = constant_like(0.0, self)
        logarithm: Node = RelEntr(x, y) / x
        return where(inside, gradient * (logarithm + 1.0), zero), where(inside, -(gradient * (x / y)), zero)


class Logit(Unary[Left_co, Axes]):
    """Elementwise `log(x / (1 - x))`, the inverse of `expit`; NaN outside of 0..1.

    >>> wy.special.logit(wy.Constant([0.5, 1.0])).forward().tolist()
    [0.0, inf]
    """

    __slots__ = ()
    _own: Logit[Any, Axes]
    formula = "where((x > 0.3) & (x < 0.65), log1p(2.0 * (x - 0.5)) - log1p(-2.0 * (x - 0.5)), log(x / (1.0 - x)))"
    derivatives: ClassVar[tuple[Rule, ...]] = ("g / (x * (1.0 - x))",)  # infinite at 0 and 1, and fewer operations
    function = "special.logit"


class LogExpit(Unary[Left_co, Axes]):
    """Elementwise logarithm of `expit`, `-log(1 + exp(-x))`, without overflow.

    >>> wy.special.log_expit(wy.Constant([-1e4, 1e4])).forward().tolist()
    [-10000.0, -0.0]
    """

    __slots__ = ()
    _own: LogExpit[Any, Axes]
    formula = "-(maximum(-x, 0.0) + log1p(exp(-abs(x))))"
    derivatives: ClassVar[tuple[Rule, ...]] = ("g * sigmoid(-x)",)  # fewer operations
    function = "special.log_expit"


class Erf(Unary[Left_co, Axes]):
    """Elementwise error function (Abramowitz and Stegun 7.1.1).

    >>> wy.Constant([0.0, 10.0]).erf().forward().tolist()
    [0.0, 1.0]
    """

    __slots__ = ()
    _own: Erf[Any, Axes]
    formula = "erf(x)"
    method = "erf"
