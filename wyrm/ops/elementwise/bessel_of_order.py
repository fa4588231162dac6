"""Bessel functions of any order, elementwise. SciPy computes them, in native and in lowered programs too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import Node
from wyrm.graph.typing import FloatArray
from wyrm.ops.elementwise.elementwise import Axes, Left_co, Unary


class _OfOrder(Unary[Left_co, Axes], abstract=True):
    """A function of an order, which is a number, and of the operand."""

    __slots__ = ("order",)
    order: float
    # The function's name in `scipy.special`.
    scipy_name: ClassVar[str]

    def __init__(self, x: Node, order: float) -> None:
        self._construct((x,), order=float(order))

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        from scipy import special

        return np.asarray(getattr(special, self.scipy_name)(self.order, operands[0]), self.dtype)

    def beside(self, step: float) -> Node:
        """Return the function of the order changed by `step`."""
        other: Node = type(self)(self.parents[0], self.order + step)
        return other


@JAX.register(_OfOrder)
class _OfOrderForm(JaxForm):
    """A call of SciPy on the host, because JAX has no Bessel functions of any order.

    A program on a GPU copies the operand to the host and the result back. `jax.export` cannot write such a call.
    """

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        return _on_host(node.scipy_name)(node.order, operands[0])


@cache
def _on_host(name: str) -> Callable[[float, Any], Any]:
    """Return the JAX function of an order and an array that calls the function `name` of SciPy."""
    import jax
    from scipy import special

    def value_of(order: float, x: Any) -> Any:
        dtype = np.dtype(x.dtype)

        def compute(words: Any) -> Any:
            host = np.ascontiguousarray(words).view(dtype)
            return np.asarray(getattr(special, name)(order, host), dtype).view(np.uint32).reshape(words.shape)

        # The call gets and returns words of 32 bits: it may run in a thread of XLA's, in which JAX has no 64-bit types.
        words = jax.lax.bitcast_convert_type(x, np.uint32)
        kind = jax.ShapeDtypeStruct(words.shape, words.dtype)
        found = jax.pure_callback(compute, kind, words, vmap_method="broadcast_all")
        return jax.lax.bitcast_convert_type(found, dtype)

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

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient * (0.5 * (self.beside(-1.0) - self.beside(1.0))),)


class BesselY(_OfOrder[Left_co, Axes]):
    """Elementwise Bessel function of the second kind."""

    __slots__ = ()
    _own: BesselY[Any, Axes]
    scipy_name = "yv"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient * (0.5 * (self.beside(-1.0) - self.beside(1.0))),)


class BesselI(_OfOrder[Left_co, Axes]):
    """Elementwise modified Bessel function of the first kind."""

    __slots__ = ()
    _own: BesselI[Any, Axes]
    scipy_name = "iv"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient * (0.5 * (self.beside(-1.0) + self.beside(1.0))),)


class BesselIe(_OfOrder[Left_co, Axes]):
    """Elementwise modified Bessel function of the first kind times `exp(-abs(x))`."""

    __slots__ = ()
    _own: BesselIe[Any, Axes]
    scipy_name = "ive"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        return (gradient * (0.5 * (self.beside(-1.0) + self.beside(1.0)) - x.sign() * self.erase()),)
