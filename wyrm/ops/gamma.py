"""The gamma function and its relatives, elementwise."""

from __future__ import annotations

from typing import Any

from wyrm.node.node import Node
from wyrm.ops.elementwise import Axes, Binary, Left_co, Right_co, Unary
from wyrm.types.typing import Shaped


class GammaLn(Unary[Left_co, Axes]):
    """Elementwise logarithm of the absolute value of the gamma function; infinite at the integers up to 0.

    The derivative is `digamma`.

    >>> wy.special.gammaln(wy.Constant([1.0, 0.0])).forward().tolist()
    [0.0, inf]
    """

    __slots__ = ()
    formula = "gammaln(x)"
    function = "special.gammaln"

    def _own(self) -> GammaLn[Any, Axes]:
        return self


class Gamma(Unary[Left_co, Axes]):
    """Elementwise gamma function; NaN at the integers below 0.

    >>> wy.special.gamma(wy.Constant([1.0, 5.0])).forward().tolist()
    [1.0, 24.0]
    """

    __slots__ = ()
    formula = "gamma(x)"
    function = "special.gamma"

    def _own(self) -> Gamma[Any, Axes]:
        return self


class Digamma(Unary[Left_co, Axes]):
    """Elementwise derivative of the logarithm of the gamma function; -inf at 0, NaN at the integers below.

    >>> f'{wy.special.digamma(wy.Constant(1.0)).forward().item():.4f}'
    '-0.5772'
    """

    __slots__ = ()
    formula = "digamma(x)"
    function = "special.digamma special.psi"

    def _own(self) -> Digamma[Any, Axes]:
        return self


class HurwitzZeta(Unary[Left_co, Axes]):
    """Elementwise Hurwitz zeta function of a number `s` above 1: the sum of `(x + k) ** -s` over all k from 0."""

    __slots__ = ("s",)
    formula = "zeta(s, x)"
    s: float

    def __init__(self, x: Shaped[Left_co, Axes], s: float) -> None:
        self._construct((x,), s=float(s))

    def _own(self) -> HurwitzZeta[Any, Axes]:
        return self


class BetaLn(Binary[Left_co, Right_co, Axes]):
    """Elementwise logarithm of the absolute value of the beta function; the operands broadcast.

    >>> wy.special.betaln(wy.Constant([1.0]), 1.0).forward().tolist()
    [0.0]
    """

    __slots__ = ()
    formula = "betaln(x, y)"
    function = "special.betaln"

    def _own(self) -> BetaLn[Any, Any, Axes]:
        return self


class Beta(Binary[Left_co, Right_co, Axes]):
    """Elementwise beta function `gamma(x) * gamma(y) / gamma(x + y)`; the operands broadcast.

    >>> wy.special.beta(wy.Constant([1.0]), 4.0).forward().tolist()
    [0.25]
    """

    __slots__ = ()
    formula = "beta(x, y)"
    function = "special.beta"

    def _own(self) -> Beta[Any, Any, Axes]:
        return self


def _slopes(x: Node, y: Node) -> tuple[Node, Node]:
    """Return the derivatives of the logarithm of the beta function."""
    both, of_x, of_y = (Digamma(each) for each in (x.erase() + y.erase(), x.erase(), y.erase()))
    return of_x - both.erase(), of_y - both.erase()
