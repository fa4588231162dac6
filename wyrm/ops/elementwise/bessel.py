"""Bessel functions, elementwise. Those of any order are computed by SciPy in every engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from wyrm.errors import OptionError
from wyrm.graph.base import describe
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import FloatArray
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, Left_co, Unary
from wyrm.ops.kernels.loops_jax import on_host
from wyrm.reach.rules import REACH, SamePlace
from wyrm.support.imports import jax, special_functions


class I0(Unary[Left_co, Axes]):
    """Elementwise modified Bessel function of order 0.

    >>> wy.special.i0(wy.Constant(0.0)).forward().item()
    1.0
    """

    __slots__ = ()
    _own: I0[Any, Axes]
    formula = "i0(x)"
    function = "special.i0 i0"


class I0e(Unary[Left_co, Axes]):
    """Elementwise `exp(-abs(x)) * i0(x)`.

    >>> wy.special.i0e(wy.Constant(0.0)).forward().item()
    1.0
    """

    __slots__ = ()
    _own: I0e[Any, Axes]
    formula = "i0e(x)"
    function = "special.i0e"


class I1(Unary[Left_co, Axes]):
    """Elementwise modified Bessel function of order 1.

    >>> wy.special.i1(wy.Constant(0.0)).forward().item()
    0.0
    """

    __slots__ = ()
    _own: I1[Any, Axes]
    formula = "i1(x)"
    function = "special.i1"

    # Near 0 the derivative is a power series: the rule `i0 - i1 / x` loses digits there.
    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        return (gradient * _slope(x, I0(x), self.erase()),)


class I1e(Unary[Left_co, Axes]):
    """Elementwise `exp(-abs(x)) * i1(x)`.

    >>> wy.special.i1e(wy.Constant(0.0)).forward().item()
    0.0
    """

    __slots__ = ()
    _own: I1e[Any, Axes]
    formula = "i1e(x)"
    function = "special.i1e"

    # As that of `I1`.
    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        slope = _slope(x, I0e(x), self.erase(), (-abs(x)).exp())
        return (gradient * (slope - x.sign() * self.erase()),)


def _slope(x: Node, i0: Node, i1: Node, scale: Node | float = 1.0) -> Node:
    """Return the derivative of `I1` times `scale`, from both functions times `scale`: `i0 - i1 / x`.

    Near 0, where the quotient and its own derivatives would lose digits, it is the power series.
    """
    near = abs(x) < (0.2 if x.dtype == np.float32 else 0.008)  # the term left out is below the rounding error
    square = where(near, x, 0.0).square()
    series = (((7.0 / 18432.0) * square + 5.0 / 384.0) * square + 3.0 / 16.0) * square + 0.5
    return where(near, series * scale, i0 - i1 / where(near, 1.0, x))


class _OfOrder(Unary[Left_co, Axes], abstract=True):
    """A function of an order, which is a number, and of the operand."""

    __slots__ = ("order",)
    order: float
    # The function's name in `scipy.special`.
    scipy_name: ClassVar[str]

    def __init__(self, x: Node, order: float) -> None:
        self._construct((x,), order=float(order))

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        function = getattr(special_functions(f"wyrm.special.{self.scipy_name}"), self.scipy_name)
        return np.asarray(function(self.order, operands[0]), self.dtype)

    def neighbor(self, step: float) -> Node:
        """Return the function of the order `order + step`."""
        other: Node = type(self)(self.parents[0], self.order + step)
        return other


@JAX.register(_OfOrder)
class _OfOrderForm(JaxForm):
    """A call of SciPy on the host, because JAX has no Bessel functions of any order.

    A program on a GPU copies the operand to the host and the result back.
    """

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        if not lowering.calls_numpy:
            raise OptionError(
                f"{describe(node)} calls SciPy, which a file cannot: export what comes before, and compute it by "
                f"scipy.special.{node.scipy_name}({node.order:g}, x)"
            )
        return _on_host(node.scipy_name)(node.order, operands[0])


@cache
def _on_host(name: str) -> Callable[[float, Any], Any]:
    """Return the JAX function of an order and an array that calls the function `name` of SciPy."""
    of_scipy = getattr(special_functions(f"wyrm.special.{name}"), name)

    def value_of(order: float, x: Any) -> Any:
        dtype = np.dtype(x.dtype)
        return on_host(lambda host: of_scipy(order, host), x.shape, dtype, [x], "broadcast_all")

    function: Any = jax.custom_jvp(value_of, nondiff_argnums=(0,))

    def derivative(order: float, primals: Any, tangents: Any) -> Any:
        (x,), (tangent,) = primals, tangents
        value, below, above = (function(order + step, x) for step in (0.0, -1.0, 1.0))
        slope = 0.5 * (below - above if name in ("jv", "yv") else below + above)
        return value, tangent * (slope - jax.numpy.sign(x) * value if name == "ive" else slope)

    function.defjvp(derivative)
    return function  # type: ignore[no-any-return]  # JAX does not declare it


class BesselJ(_OfOrder[Left_co, Axes]):
    """Elementwise Bessel function of the first kind."""

    __slots__ = ()
    _own: BesselJ[Any, Axes]
    scipy_name = "jv"

    # A function of SciPy has no formula to derive; the derivative has the neighboring orders.
    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient * (0.5 * (self.neighbor(-1.0) - self.neighbor(1.0))),)


class BesselY(_OfOrder[Left_co, Axes]):
    """Elementwise Bessel function of the second kind."""

    __slots__ = ()
    _own: BesselY[Any, Axes]
    scipy_name = "yv"

    # As that of `BesselJ`.
    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient * (0.5 * (self.neighbor(-1.0) - self.neighbor(1.0))),)


class BesselI(_OfOrder[Left_co, Axes]):
    """Elementwise modified Bessel function of the first kind."""

    __slots__ = ()
    _own: BesselI[Any, Axes]
    scipy_name = "iv"

    # As that of `BesselJ`.
    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient * (0.5 * (self.neighbor(-1.0) + self.neighbor(1.0))),)


class BesselIe(_OfOrder[Left_co, Axes]):
    """Elementwise modified Bessel function of the first kind times `exp(-abs(x))`."""

    __slots__ = ()
    _own: BesselIe[Any, Axes]
    scipy_name = "ive"

    # As that of `BesselJ`.
    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        return (gradient * (0.5 * (self.neighbor(-1.0) + self.neighbor(1.0)) - x.sign() * self.erase()),)


REACH.register(BesselI, BesselIe, BesselJ, BesselY)(SamePlace())
