"""Bessel functions of any order, elementwise. SciPy computes them, in native programs too."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from wyrm.node.node import Node
from wyrm.ops.elementwise import Axes, Left_co, Unary
from wyrm.types.namespace import ArrayNamespace
from wyrm.types.typing import FloatArray


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


class BesselJ(_OfOrder[Left_co, Axes]):
    """Elementwise Bessel function of the first kind."""

    __slots__ = ()
    scipy_name = "jv"

    def _own(self) -> BesselJ[Any, Axes]:
        return self

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient * (0.5 * (self.beside(-1.0) - self.beside(1.0))),)


class BesselY(_OfOrder[Left_co, Axes]):
    """Elementwise Bessel function of the second kind."""

    __slots__ = ()
    scipy_name = "yv"

    def _own(self) -> BesselY[Any, Axes]:
        return self

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient * (0.5 * (self.beside(-1.0) - self.beside(1.0))),)


class BesselI(_OfOrder[Left_co, Axes]):
    """Elementwise modified Bessel function of the first kind."""

    __slots__ = ()
    scipy_name = "iv"

    def _own(self) -> BesselI[Any, Axes]:
        return self

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        return (gradient * (0.5 * (self.beside(-1.0) + self.beside(1.0))),)


class BesselIe(_OfOrder[Left_co, Axes]):
    """Elementwise modified Bessel function of the first kind times `exp(-abs(x))`."""

    __slots__ = ()
    scipy_name = "ive"

    def _own(self) -> BesselIe[Any, Axes]:
        return self

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        return (gradient * (0.5 * (self.beside(-1.0) + self.beside(1.0)) - x.sign() * self.erase()),)
