"""Activation functions of neural networks."""

from __future__ import annotations

import math
from typing import Any, Literal, overload

from wyrm.graph.typing import Shaped
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, S, Unary, method
from wyrm.support.foreign_names import answering

# The parts of GELU and of its approximation by tanh.
_ERF = f"erf(x * {math.sqrt(0.5)})"
_SCALE = math.sqrt(2.0 / math.pi)
_BEND = f"tanh({_SCALE} * (x + 0.044715 * x * (x * x)))"
_SLOPE = f"({_SCALE} * (1.0 + {3.0 * 0.044715} * (x * x)))"


class Relu(Unary[Left_co, Axes]):
    """Rectified linear unit, `max(x, 0)`; the derivative at 0 is 0.

    >>> wy.Constant([-1.0, 2.0]).relu().forward().tolist()
    [0.0, 2.0]
    """

    __slots__ = ()
    _own: Relu[Any, Axes]
    formula = "maximum(x, 0.0)"
    derivatives = ("where(x > 0.0, g, 0.0)",)  # 0 at 0
    method = "relu"


class LeakyRelu(Unary[Left_co, Axes]):
    """Leaky rectified linear unit: `x` where positive, else `negative_slope * x`."""

    __slots__ = ("negative_slope",)
    _own: LeakyRelu[Any, Axes]
    formula = "where(x > 0.0, x, negative_slope * x)"
    negative_slope: float

    def __init__(self, x: Shaped[Left_co, Axes], negative_slope: float = 0.01) -> None:
        self._construct((x,), negative_slope=float(negative_slope))


@method("leaky_relu", function=False)
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
    derivatives = ("where(x > 0.0, g, g * alpha * exp(minimum(x, 0.0)))",)  # `alpha` at 0, and fewer operations
    alpha: float

    def __init__(self, x: Shaped[Left_co, Axes], alpha: float = 1.0) -> None:
        self._construct((x,), alpha=float(alpha))


@method("elu", function=False)
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
    derivatives = ("g * (sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x))))",)  # finite where exp(-x) is not
    method = "silu"
    only_method = True


class Gelu(Unary[Left_co, Axes]):
    """Gaussian error linear unit: `x` times the standard normal CDF of `x` (Hendrycks and Gimpel, 2016)."""

    __slots__ = ()
    _own: Gelu[Any, Axes]
    formula = f"0.5 * x * (1.0 + {_ERF})"
    derivatives = (f"g * (0.5 * (1.0 + {_ERF}) + x * (exp(x * x * -0.5) * {1.0 / math.sqrt(2.0 * math.pi)}))",)


class GeluTanh(Unary[Left_co, Axes]):
    """The tanh approximation of `Gelu`, as in GPT-2 (Hendrycks and Gimpel, 2016)."""

    __slots__ = ()
    _own: GeluTanh[Any, Axes]
    formula = f"0.5 * x * (1.0 + tanh({_SCALE} * (x + 0.044715 * x * x * x)))"
    derivatives = (f"g * (0.5 * (1.0 + {_BEND}) + 0.5 * x * (1.0 - {_BEND} * {_BEND}) * {_SLOPE})",)


@overload
def gelu(x: Shaped[L, S], approximate: Literal[False] = False) -> Gelu[L, S]: ...
@overload
def gelu(x: Shaped[L, S], approximate: Literal[True]) -> GeluTanh[L, S]: ...
@method("gelu", function=False)
@answering
def gelu(x: Any, approximate: bool = False) -> Gelu | GeluTanh:
    """Return `x` times the standard normal CDF of `x` (Gaussian error linear unit; Hendrycks and Gimpel, 2016).

    With `approximate=True`, use the tanh approximation, as in GPT-2.

    >>> wy.Constant([0.0]).gelu().forward().tolist()
    [0.0]
    """
    return GeluTanh(x) if approximate else Gelu(x)
