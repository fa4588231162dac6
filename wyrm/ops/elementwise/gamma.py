"""The gamma and beta functions, elementwise. SciPy computes the incomplete beta function, in native programs too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from wyrm.graph.base import BaseNode, Gradient, Undefined
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import FloatArray, Shaped
from wyrm.ops.elementwise.elementwise import Axes, Binary, Elementwise, Left_co, Parents_co, Right_co, Unary
from wyrm.ops.elementwise.probability import Xlog1py, Xlogy
from wyrm.reach.rules import REACH, SamePlace
from wyrm.support.imports import special_functions


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


_OF_ARGUMENT_ONLY = Undefined("only the derivative with respect to the last argument has a formula")


class GammaInc(Binary[Left_co, Right_co, Axes]):
    """Elementwise regularized lower incomplete gamma function of a parameter and an argument, both at least 0.

    It has a gradient with respect to the argument only.

    >>> f'{wy.special.gammainc(1.0, wy.Constant(1.0)).forward().item():.4f}'
    '0.6321'
    """

    __slots__ = ()
    _own: GammaInc[Any, Any, Axes]
    formula = "gammainc(x, y)"
    function = "special.gammainc"

    # There is no rule with respect to the first operand.
    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (_OF_ARGUMENT_ONLY, gradient * _gamma_density(*self.parents))


class GammaIncC(Binary[Left_co, Right_co, Axes]):
    """Elementwise `1 - gammainc(a, x)`, precise where it is small.

    It has a gradient with respect to the argument only.

    >>> f'{wy.special.gammaincc(1.0, wy.Constant(1.0)).forward().item():.4f}'
    '0.3679'
    """

    __slots__ = ()
    _own: GammaIncC[Any, Any, Axes]
    formula = "gammaincc(x, y)"
    function = "special.gammaincc"

    # As that of `GammaInc`.
    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (_OF_ARGUMENT_ONLY, -gradient * _gamma_density(*self.parents))


def _gamma_density(a: Node, x: Node) -> Node:
    """Return `x ** (a - 1) * exp(-x) / gamma(a)`."""
    a, x = a.erase(), x.erase()
    return (Xlogy(a - 1.0, x) - x - GammaLn(a)).exp()


class BetaInc(Elementwise[Parents_co, Axes]):
    """Elementwise regularized incomplete beta function of two parameters above 0 and an argument in [0, 1].

    It has a gradient with respect to the argument only.
    """

    __slots__ = ()
    _own: BetaInc[Any, Axes]
    arity: ClassVar[int | None] = 3

    def __init__(self, operands: tuple[Node, ...]) -> None:
        self._construct(operands)

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return np.asarray(special_functions("wyrm.special.betainc").betainc(*operands), self.dtype)

    # A function of SciPy has no formula to derive.
    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        parents: Any = self.parents
        a, b, x = (parent.erase() for parent in parents)
        slope = (Xlogy(a - 1.0, x) + Xlog1py(b - 1.0, -x) - BetaLn(a, b)).exp()
        return (_OF_ARGUMENT_ONLY, _OF_ARGUMENT_ONLY, gradient * slope)


REACH.register(BetaInc)(SamePlace())


@JAX.register(BetaInc)
class _BetaIncForm(JaxForm):
    """The function of `jax.scipy.special`."""

    def lower(self, node: BaseNode, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        from jax.scipy.special import betainc

        return betainc(*operands)
