"""Activation functions of neural networks: ops, and those composed of other ops, with which they fuse."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, overload

from wyrm.errors import ShapeError
from wyrm.graph.axes import axis_size, normalize_axis
from wyrm.graph.base import describe
from wyrm.graph.node import Node
from wyrm.graph.typing import AtLeast1D, Bs, N, OfShape, Shaped
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.derivatives import Rule
from wyrm.ops.elementwise.elementwise import Axes, L, Left_co, S, Unary, method
from wyrm.support.foreign_names import explains_keywords

# Terms of GELU, and of its approximation by tanh. `_SLOPE` is the derivative of the argument of tanh.
_ERF = f"erf(x * {math.sqrt(0.5)})"
_SCALE = math.sqrt(2.0 / math.pi)
_TANH = f"tanh({_SCALE} * (x + 0.044715 * x * (x * x)))"
_SLOPE = f"({_SCALE} * (1.0 + {3.0 * 0.044715} * (x * x)))"


class Relu(Unary[Left_co, Axes]):
    """Rectified linear unit, `max(x, 0)`; the derivative at 0 is 0.

    >>> wy.Constant([-1.0, 2.0]).relu().forward().tolist()
    [0.0, 2.0]
    """

    __slots__ = ()
    _own: Relu[Any, Axes]
    formula = "maximum(x, 0.0)"
    derivatives: ClassVar[tuple[Rule, ...]] = ("where(x > 0.0, g, 0.0)",)  # 0 at 0
    method = "relu"


class LeakyRelu(Unary[Left_co, Axes]):
    """Leaky rectified linear unit: `x` where positive, else `negative_slope * x`; so is the derivative at 0.

    >>> wy.Constant([-1.0, 1.0]).leaky_relu(0.5).forward().tolist()
    [-0.5, 1.0]
    """

    __slots__ = ("negative_slope",)
    _own: LeakyRelu[Any, Axes]
    formula = "where(x > 0.0, x, negative_slope * x)"
    method = "leaky_relu"
    only_method = True
    negative_slope: float

    def __init__(self, x: Shaped[Left_co, Axes], negative_slope: float = 0.01) -> None:
        self._construct((x,), negative_slope=float(negative_slope))


class Elu(Unary[Left_co, Axes]):
    """Exponential linear unit: `x` where positive, else `alpha * (exp(x) - 1)` (Clevert et al., 2015).

    >>> wy.Constant([0.0, 1.0]).elu().forward().tolist()
    [0.0, 1.0]
    """

    __slots__ = ("alpha",)
    _own: Elu[Any, Axes]
    formula = "where(x > 0.0, x, alpha * expm1(minimum(x, 0.0)))"
    # This is `alpha` at 0, and takes fewer operations.
    derivatives: ClassVar[tuple[Rule, ...]] = ("where(x > 0.0, g, g * alpha * exp(minimum(x, 0.0)))",)
    method = "elu"
    only_method = True
    alpha: float

    def __init__(self, x: Shaped[Left_co, Axes], alpha: float = 1.0) -> None:
        self._construct((x,), alpha=float(alpha))


class Silu(Unary[Left_co, Axes]):
    """Sigmoid linear unit, `x * sigmoid(x)`, also known as swish.

    >>> wy.Constant([0.0, 40.0]).silu().forward().tolist()
    [0.0, 40.0]
    """

    __slots__ = ()
    _own: Silu[Any, Axes]
    formula = "x / (1.0 + exp(-x))"
    # This is finite where exp(-x) is not.
    derivatives: ClassVar[tuple[Rule, ...]] = ("g * (sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x))))",)
    method = "silu"
    only_method = True


class Gelu(Unary[Left_co, Axes]):
    """Gaussian error linear unit: `x` times the standard normal CDF of `x` (Hendrycks and Gimpel, 2016)."""

    __slots__ = ()
    _own: Gelu[Any, Axes]
    formula: ClassVar[str] = f"0.5 * x * (1.0 + {_ERF})"
    # Fewer operations.
    derivatives: ClassVar[tuple[Rule, ...]] = (
        f"g * (0.5 * (1.0 + {_ERF}) + x * (exp(x * x * -0.5) * {1.0 / math.sqrt(2.0 * math.pi)}))",
    )


class GeluTanh(Unary[Left_co, Axes]):
    """The tanh approximation of `Gelu`, as in GPT-2 (Hendrycks and Gimpel, 2016)."""

    __slots__ = ()
    _own: GeluTanh[Any, Axes]
    formula: ClassVar[str] = f"0.5 * x * (1.0 + tanh({_SCALE} * (x + 0.044715 * x * x * x)))"
    # Fewer operations.
    derivatives: ClassVar[tuple[Rule, ...]] = (
        f"g * (0.5 * (1.0 + {_TANH}) + 0.5 * x * (1.0 - {_TANH} * {_TANH}) * {_SLOPE})",
    )


@overload
def gelu(x: Shaped[L, S], approximate: Literal[False] = False) -> Gelu[L, S]: ...
@overload
def gelu(x: Shaped[L, S], approximate: Literal[True]) -> GeluTanh[L, S]: ...
@method("gelu", function=False)
@explains_keywords
def gelu(x: Any, approximate: bool = False) -> Gelu | GeluTanh:
    """Return `x` times the standard normal CDF of `x` (Gaussian error linear unit; Hendrycks and Gimpel, 2016).

    With `approximate=True`, use the tanh approximation, as in GPT-2.

    >>> wy.Constant([0.0]).gelu().forward().tolist()
    [0.0]
    """
    return GeluTanh(x) if approximate else Gelu(x)


# The constants with which activations keep mean 0 and variance 1 (Klambauer et al., 2017).
_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


@method("relu6", function=False)
def relu6(x: Shaped[L, S]) -> Node[Any, S]:
    """Return `min(max(x, 0), 6)`; the derivative at 0 and at 6 is 0.

    >>> wy.Constant([-1.0, 2.0, 7.0]).relu6().forward().tolist()
    [0.0, 2.0, 6.0]
    """
    node: Any = x
    result: Node[Any, S] = where(node >= 6.0, 6.0, node.relu())
    return result


@method("hardtanh", function=False)
def hardtanh(x: Shaped[L, S], min_value: float = -1.0, max_value: float = 1.0) -> Node[Any, S]:
    """Return `x` limited to `min_value`..`max_value`, as `x.clip`; raise `ValueError` if `min_value` is the larger.

    >>> wy.Constant([-2.0, 0.5, 2.0]).hardtanh().forward().tolist()
    [-1.0, 0.5, 1.0]
    """
    node: Any = x
    result: Node[Any, S] = node.clip(min_value, max_value)
    return result


@method("hardsigmoid", function=False)
def hardsigmoid(x: Shaped[L, S]) -> Node[Any, S]:
    """Return `x / 6 + 1 / 2` limited to 0..1, a piecewise linear approximation of the sigmoid.

    The derivative at -3 and at 3 is 0.

    >>> wy.Constant([-4.0, 0.0, 4.0]).hardsigmoid().forward().tolist()
    [0.0, 0.5, 1.0]
    """
    node: Any = x
    result: Node[Any, S] = (node + 3.0).relu6() * (1.0 / 6.0)
    return result


@method("hardswish", function=False)
def hardswish(x: Shaped[L, S]) -> Node[Any, S]:
    """Return `x * hardsigmoid(x)` (Howard et al., "Searching for MobileNetV3", 2019).

    >>> wy.Constant([-4.0, 0.0, 4.0]).hardswish().forward().tolist()
    [-0.0, 0.0, 4.0]
    """
    node: Any = x
    result: Node[Any, S] = node * node.hardsigmoid()
    return result


@method("selu", function=False)
def selu(x: Shaped[L, S]) -> Node[Any, S]:
    """Return `1.0507 * elu(x, 1.6733)` (Klambauer et al., "Self-normalizing neural networks", 2017).

    >>> wy.Constant([0.0, 1.0]).selu().forward().round(4).tolist()
    [0.0, 1.0506999492645264]
    """
    node: Any = x
    result: Node[Any, S] = node.elu(_SELU_ALPHA) * _SELU_SCALE
    return result


@method("celu", function=False)
def celu(x: Shaped[L, S], alpha: float = 1.0) -> Node[Any, S]:
    """Return `x` where positive, else `alpha * (exp(x / alpha) - 1)`, which has a continuous derivative.

    Barron, "Continuously differentiable exponential linear units" (2017). Raise `ValueError` if `alpha` is 0.

    >>> wy.Constant([0.0, 1.0]).celu(2.0).forward().tolist()
    [0.0, 1.0]
    """
    if alpha == 0.0:
        raise ValueError("celu: alpha must not be 0")
    node: Any = x
    # Both branches have the slope 1 at 0, where the minimum of `x` and 0 would have 1/2.
    below = where(node > 0.0, 0.0, node)
    result: Node[Any, S] = where(node > 0.0, node, (below * (1.0 / alpha)).expm1() * alpha)
    return result


@method("mish", function=False)
def mish(x: Shaped[L, S]) -> Node[Any, S]:
    """Return `x * tanh(softplus(x))` (Misra, "Mish", 2019).

    >>> wy.Constant([0.0, 40.0]).mish().forward().tolist()
    [0.0, 40.0]
    """
    node: Any = x
    result: Node[Any, S] = node * node.softplus().tanh()
    return result


@method("softsign", function=False)
def softsign(x: Shaped[L, S]) -> Node[Any, S]:
    """Return `x / (1 + |x|)`.

    >>> wy.Constant([-1.0, 3.0]).softsign().forward().tolist()
    [-0.5, 0.75]
    """
    node: Any = x
    result: Node[Any, S] = node / (1.0 + node.abs())
    return result


@method("log_sigmoid", function=False)
def log_sigmoid(x: Shaped[L, S]) -> Node[Any, S]:
    """Return `log(sigmoid(x))`, finite for all finite `x`.

    >>> wy.Constant([0.0, -1e4]).log_sigmoid().forward().round(4).tolist()
    [-0.6930999755859375, -10000.0]
    """
    node: Any = x
    result: Node[Any, S] = -(-node).softplus()
    return result


@overload
def glu(x: Shaped[L, AtLeast1D], axis: int = -1) -> Node: ...
@overload
def glu(x: OfShape[L, tuple[*Bs, N]], axis: Literal[-1] = -1) -> Node[Any, tuple[*Bs, Any]]: ...
@overload
def glu(x: OfShape[L, tuple[*Bs, N]], axis: int) -> Node: ...
@method("glu", function=False)
def glu(x: Any, axis: int = -1) -> Node:
    """Return `first * sigmoid(second)`, where `first` and `second` are the halves of `x` along `axis`.

    Dauphin et al., "Language modeling with gated convolutional networks" (2017). `wyrm.nn.GLU` takes other activations.
    Raise `ShapeError` unless the axis has an even size.

    >>> wy.Constant([[3.0, 0.0]]).glu().forward().tolist()
    [[1.5]]
    """
    first, second = halves(x, axis, "glu")
    return first * second.sigmoid()


def halves(x: Node, axis: int, caller: str) -> tuple[Node, Node]:
    """Return the halves of `x` along an axis; raise `ShapeError` naming `caller` unless the axis has an even size."""
    node: Any = x
    position = normalize_axis(axis, node.ndim)
    size = axis_size(node.dims[position])
    if size is None or size % 2:
        raise ShapeError(f"{caller}: axis {axis} of {describe(x)} needs an even size")
    before = (slice(None),) * position
    return node[(*before, slice(0, size // 2))], node[(*before, slice(size // 2, size))]


class Sigmoid(Unary[Left_co, Axes]):
    """Elementwise logistic function `1 / (1 + exp(-x))`, without overflow.

    >>> wy.Constant([0.0, 1e4]).sigmoid().forward().tolist()
    [0.5, 1.0]
    """

    __slots__ = ()
    _own: Sigmoid[Any, Axes]
    formula = "sigmoid(x)"
    method = "sigmoid"


class Softplus(Unary[Left_co, Axes]):
    """Elementwise `log(1 + exp(x))`, without overflow.

    >>> wy.Constant([-1e4, 1e4]).softplus().forward().tolist()
    [0.0, 10000.0]
    """

    __slots__ = ()
    _own: Softplus[Any, Axes]
    formula = "softplus(x)"
    method = "softplus"
