"""The gamma function and its relatives, elementwise."""

from __future__ import annotations

from typing import Any

from wyrm.graph.node import Node
from wyrm.graph.typing import Shaped
from wyrm.ops.elementwise.elementwise import Axes, Binary, Left_co, Right_co, Unary


class GammaLn(Unary[Left_co, Axes]):
    """Elementwise logarithm of the absolute value of the gamma function; infinite at the integers up to 0.

    The derivative is `digamma`.

    >>> wy.special.gammaln(wy.Constant([1.0, 0.0])).forward().tolist()
    [0.0, inf]
    """

    __slots__ = ()
    _own: GammaLn[Any, Axes]
    formula = "gammaln(x)"
    function = "special.gammaln"


class Gamma(Unary[Left_co, Axes]):
    """Elementwise gamma function; NaN at the integers below 0.

    >>> wy.special.gamma(wy.Constant([1.0, 5.0])).forward().tolist()
    [1.0, 24.0]
    """

    __slots__ = ()
    _own: Gamma[Any, Axes]
    formula = "gamma(x)"
    function = "special.gamma"


class Digamma(Unary[Left_co, Axes]):
    """Elementwise derivative of the logarithm of the gamma function; -inf at 0, NaN at the integers below.

    >>> f'{wy.special.digamma(wy.Constant(1.0)).forward().item():.4f}'
    '-0.5772'
    """

    __slots__ = ()
    _own: Digamma[Any, Axes]
    formula = "digamma(x)"
    function = "special.digamma special.psi"


class HurwitzZeta(Unary[Left_co, Axes]):
    """Elementwise Hurwitz zeta function of a number `s` above 1: the sum of `(x + k) ** -s` over all k from 0."""

    __slots__ = ("s",)
    _own: HurwitzZeta[Any, Axes]
    formula = "zeta(s, x)"
    s: float

    def __init__(self, x: Shaped[Left_co, Axes], s: float) -> None:
        self._construct((x,), s=float(s))


class BetaLn(Binary[Left_co, Right_co, Axes]):
    """Elementwise logarithm of the absolute value of the beta function; the operands broadcast.

    >>> wy.special.betaln(wy.Constant([1.0]), 1.0).forward().tolist()
    [0.0]
    """

    __slots__ = ()
    _own: BetaLn[Any, Any, Axes]
    formula = "betaln(x, y)"
    function = "special.betaln"


class Beta(Binary[Left_co, Right_co, Axes]):
    """Elementwise beta function `gamma(x) * gamma(y) / gamma(x + y)`; the operands broadcast.

    >>> wy.special.beta(wy.Constant([1.0]), 4.0).forward().tolist()
    [0.25]
    """

    __slots__ = ()
    _own: Beta[Any, Any, Axes]
    formula = "beta(x, y)"
    function = "special.beta"


def _slopes(x: Node, y: Node) -> tuple[Node, Node]:
    """Return the derivatives of the logarithm of the beta function."""
    both, of_x, of_y = (Digamma(each) for each in (x.erase() + y.erase(), x.erase(), y.erase()))
    return of_x - both.erase(), of_y - both.erase()
