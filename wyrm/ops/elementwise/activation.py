"""Activation functions of neural networks."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

from wyrm.graph.node import Node
from wyrm.graph.typing import Shaped
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, S, Unary, constant_like, method
from wyrm.support.foreign_names import answering


class Relu(Unary[Left_co, Axes]):
    """Rectified linear unit, `max(x, 0)`; the derivative at 0 is 0.

    >>> wy.Constant([-1.0, 2.0]).relu().forward().tolist()
    [0.0, 2.0]
    """

    __slots__ = ()
    _own: Relu[Any, Axes]
    formula = "maximum(x, 0.0)"
    method = "relu"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        return (where(x > 0.0, gradient, constant_like(0.0, self)),)


class LeakyRelu(Unary[Left_co, Axes]):
    """Leaky rectified linear unit: `x` where positive, else `negative_slope * x`."""

    __slots__ = ("negative_slope",)
    _own: LeakyRelu[Any, Axes]
    formula = "where(x > 0.0, x, negative_slope * x)"
    negative_slope: float

    def __init__(self, x: Shaped[Left_co, Axes], negative_slope: float = 0.01) -> None:
        self._construct((x,), negative_slope=float(negative_slope))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        return (where(x > 0.0, gradient, gradient * self.negative_slope),)


@method("leaky_relu")
def leaky_relu(x: Shaped[L, S], negative_slope: float = 0.01) -> LeakyRelu[L, S]:
    """Return `x` where positive, else `negative_slope * x` (leaky rectified linear unit); so is the derivative at 0.

    >>> wy.Constant([-1.0, 1.0]).leaky_relu(0.5).forward().tolist()
    [-0.5, 1.0]
    """
    return LeakyRelu(x, negative_slope)


class Elu(Unary[Left_co, Axes]):
    """Exponential linear unit: `x` where positive, else `alpha * (exp(x) - 1)` (Clevert et al., 2015)."""

    __slots__ = ("alpha",)
    _own: Elu[Any, Axes]
    formula = "where(x > 0.0, x, alpha * expm1(minimum(x, 0.0)))"
    alpha: float

    def __init__(self, x: Shaped[Left_co, Axes], alpha: float = 1.0) -> None:
        self._construct((x,), alpha=float(alpha))

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        return (where(x > 0.0, gradient, gradient * self.alpha * x.minimum(0.0).exp()),)


@method("elu")
def elu(x: Shaped[L, S], alpha: float = 1.0) -> Elu[L, S]:
    """Return `x` where positive, else `alpha * (exp(x) - 1)` (exponential linear unit; Clevert et al., 2015).

    >>> wy.Constant([0.0, 1.0]).elu().forward().tolist()
    [0.0, 1.0]
    """
    return Elu(x, alpha)


class Silu(Unary[Left_co, Axes]):
    """Sigmoid linear unit, `x * sigmoid(x)`, also known as swish.

    >>> wy.Constant([0.0, 40.0]).silu().forward().tolist()
    [0.0, 40.0]
    """

    __slots__ = ()
    _own: Silu[Any, Axes]
    formula = "x / (1.0 + exp(-x))"
    method = "silu"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        gate = x.sigmoid()
        return (gradient * (gate * (1.0 + x * (1.0 - gate))),)


class Gelu(Unary[Left_co, Axes]):
    """Gaussian error linear unit: `x` times the standard normal CDF of `x` (Hendrycks and Gimpel, 2016)."""

    __slots__ = ()
    _own: Gelu[Any, Axes]
    formula = "0.5 * x * (1.0 + erf(x * 0.7071067811865476))"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        distribution = 0.5 * (1.0 + (x * math.sqrt(0.5)).erf())
        density = (x.square() * -0.5).exp() * (1.0 / math.sqrt(2.0 * math.pi))
        return (gradient * (distribution + x * density),)


class GeluTanh(Unary[Left_co, Axes]):
    """The tanh approximation of `Gelu`, as in GPT-2 (Hendrycks and Gimpel, 2016)."""

    __slots__ = ()
    _own: GeluTanh[Any, Axes]
    formula = "0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))"

    def vjp(self, gradient: Node) -> tuple[Node, ...]:
        x = self.parents[0].erase()
        scale = math.sqrt(2.0 / math.pi)
        squared = x.square()
        bend = (scale * (x + 0.044715 * x * squared)).tanh()
        slope = scale * (1.0 + 3.0 * 0.044715 * squared)
        return (gradient * (0.5 * (1.0 + bend) + 0.5 * x * (1.0 - bend.square()) * slope),)


@overload
def gelu(x: Shaped[L, S], approximate: Literal[False] = False) -> Gelu[L, S]: ...
@overload
def gelu(x: Shaped[L, S], approximate: Literal[True]) -> GeluTanh[L, S]: ...
@method("gelu")
@answering
def gelu(x: Any, approximate: bool = False) -> Gelu | GeluTanh:
    """Return `x` times the standard normal CDF of `x` (Gaussian error linear unit; Hendrycks and Gimpel, 2016).

    With `approximate=True`, use the tanh approximation, as in GPT-2.

    >>> wy.Constant([0.0]).gelu().forward().tolist()
    [0.0]
    """
    return GeluTanh(x) if approximate else Gelu(x)
