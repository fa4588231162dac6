"""Losses of numbers: of the error, and of the likelihood under a distribution whose parameters a model predicts."""

from __future__ import annotations

import math
from typing import Unpack, overload

from typing_extensions import TypeVarTuple

from wyrm.graph.node import Node, Tensor
from wyrm.graph.typing import Array
from wyrm.losses.loss import Each, Total, above_zero, finite_above_zero, loss, within
from wyrm.ops.elementwise.comparison import where

Axes = TypeVarTuple("Axes")


@overload
def mse(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Total]) -> Tensor[()]: ...
@overload
def mse(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Each]) -> Tensor[*Axes]: ...
@loss()
def mse(prediction: Node, target: Node) -> Node:
    """Return the squared error, `(prediction - target) ** 2`.

    `prediction` and `target`, a node or an array, have the same shape. `reduction="mean"` returns the mean over all
    elements, `"sum"` the sum, both scalars; `"none"` returns the errors, of the shape of the prediction.

    `sample_weight`, a node or an array of the shape of the errors or of their leading axes, multiplies them. The mean
    then divides by the sum of the weights, each counted for every error that it multiplies; it is 0 if that is 0.

    Raises:
        ShapeError: the shapes differ; nothing is broadcast, not even an axis of size 1.
        DTypeError: an operand is not float, or the dtypes differ.
        ValueError: `reduction` is unknown, or an array of weights has negative ones.

    >>> mse(wy.Constant([1.0, 2.0]), np.array([1.0, 4.0])).forward().item()
    2.0
    """
    return (prediction - target).square()


@overload
def l1(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Total]) -> Tensor[()]: ...
@overload
def l1(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Each]) -> Tensor[*Axes]: ...
@loss()
def l1(prediction: Node, target: Node) -> Node:
    """Return the absolute error, `|prediction - target|`, with gradient 0 at 0.

    Shapes, weights, reductions and errors are as in `mse`.

    >>> l1(wy.Constant([1.0, 2.0]), np.array([1.0, 4.0]), reduction="none").forward().tolist()
    [0.0, 2.0]
    """
    return (prediction - target).abs()


@overload
def huber(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, delta: float = 1.0, **options: Unpack[Total]
) -> Tensor[()]: ...
@overload
def huber(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, delta: float = 1.0, **options: Unpack[Each]
) -> Tensor[*Axes]: ...
@loss(delta=above_zero)
def huber(prediction: Node, target: Node, *, delta: float = 1.0) -> Node:
    """Return the Huber loss: half the squared error up to `delta`, beyond it `delta * (|error| - delta / 2)`.

    Huber, "Robust estimation of a location parameter" (1964). `delta` is above 0. Shapes, weights, reductions and other
    errors are as in `mse`.

    >>> huber(wy.Constant([0.5, 3.0]), np.zeros(2), reduction="none").forward().tolist()
    [0.125, 2.5]
    """
    error = prediction - target
    # One formula for both parts: if the error is clipped to +-delta, the parabola and its tangent are the same product.
    bounded = error.clip(-delta, delta)
    return bounded * (error - 0.5 * bounded)


@overload
def smooth_l1(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, beta: float = 1.0, **options: Unpack[Total]
) -> Tensor[()]: ...
@overload
def smooth_l1(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, beta: float = 1.0, **options: Unpack[Each]
) -> Tensor[*Axes]: ...
@loss(beta=above_zero)
def smooth_l1(prediction: Node, target: Node, *, beta: float = 1.0) -> Node:
    """Return the Huber loss divided by `beta`: `error ** 2 / (2 * beta)` up to `beta`, beyond it `|error| - beta / 2`.

    Girshick, "Fast R-CNN" (2015). `beta` is above 0. Shapes, weights, reductions and other errors are as in `mse`.

    >>> smooth_l1(wy.Constant([0.5, 3.0]), np.zeros(2), beta=2.0, reduction="none").forward().tolist()
    [0.0625, 2.0]
    """
    error = prediction - target
    bounded = error.clip(-beta, beta)
    return bounded * (1.0 / beta) * (error - 0.5 * bounded)


@overload
def log_cosh(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Total]) -> Tensor[()]: ...
@overload
def log_cosh(prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, **options: Unpack[Each]) -> Tensor[*Axes]: ...
@loss()
def log_cosh(prediction: Node, target: Node) -> Node:
    """Return `log(cosh(prediction - target))`: half the squared error where it is small, else `|error| - log(2)`.

    It has all derivatives, and is finite for all finite errors. Shapes, weights, reductions and errors are as in `mse`.

    >>> log_cosh(wy.Constant([0.0, 1e4]), np.zeros(2), reduction="none").forward().round(2).tolist()
    [0.0, 9999.31]
    """
    error = prediction - target
    losses = error + (error * -2.0).softplus() - math.log(2.0)
    return losses


@overload
def quantile(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, level: float = 0.5, **options: Unpack[Total]
) -> Tensor[()]: ...
@overload
def quantile(
    prediction: Tensor[*Axes], target: Tensor[*Axes] | Array, *, level: float = 0.5, **options: Unpack[Each]
) -> Tensor[*Axes]: ...
@loss(level=within(0.0, 1.0))
def quantile(prediction: Node, target: Node, *, level: float = 0.5) -> Node:
    """Return the quantile (pinball) loss, `max(level * error, (level - 1) * error)` with `error = target - prediction`.

    Its minimum is the quantile of the targets at `level`, which lies between 0 and 1. Koenker and Bassett, "Regression
    quantiles" (1978). Shapes, weights, reductions and other errors are as in `mse`.

    >>> quantile(wy.Constant([1.0, 1.0]), np.array([2.0, 0.0]), level=0.75, reduction="none").forward().tolist()
    [0.75, 0.25]
    """
    error = target - prediction
    return level * error + (-error).relu()


@overload
def poisson_nll(
    rate: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def poisson_nll(
    rate: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    *,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    **options: Unpack[Each],
) -> Tensor[*Axes]: ...
@loss()
def poisson_nll(rate: Node, target: Node, *, log_input: bool = True, full: bool = False, epsilon: float = 1e-8) -> Node:
    """Return the negative log-likelihood of counts under Poisson distributions, without the constant `log(target!)`.

    With `log_input`, `rate` holds logarithms of rates, and the loss is `exp(rate) - target * rate`. Else it holds
    rates, and the loss is `rate - target * log(rate + epsilon)`. `full` adds Stirling's approximation of the constant,
    `t * log(t) - t + log(2 * pi * t) / 2`, for targets above 1. Shapes, weights, reductions and errors are as in `mse`.

    >>> poisson_nll(wy.Constant([0.0]), np.array([3.0])).forward().item()
    1.0
    """
    losses: Node = rate.exp() - target * rate if log_input else rate - target * (rate + epsilon).log()
    if full:
        count = target.maximum(1.0)
        constant = count * count.log() - count + 0.5 * (2.0 * math.pi * count).log()
        losses = losses + where(target > 1.0, constant, 0.0)
    return losses


@overload
def gaussian_nll(
    mean: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    variance: Tensor[*Axes] | Array,
    *,
    full: bool = False,
    epsilon: float = 1e-6,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def gaussian_nll(
    mean: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    variance: Tensor[*Axes] | Array,
    *,
    full: bool = False,
    epsilon: float = 1e-6,
    **options: Unpack[Each],
) -> Tensor[*Axes]: ...
@loss(epsilon=above_zero)
def gaussian_nll(mean: Node, target: Node, variance: Node, *, full: bool = False, epsilon: float = 1e-6) -> Node:
    """Return the negative log-likelihood of normal distributions, `(log(v) + (target - mean) ** 2 / v) / 2`.

    `variance` v, a node or an array, counts as at least `epsilon`; below that its gradient is 0, where PyTorch passes
    the gradient at `epsilon` on. `full` adds the constant `log(2 * pi) / 2`. Nix and Weigend, "Estimating the mean and
    variance of the target probability distribution" (1994). The operands have the same shape; weights, reductions and
    errors are as in `mse`.

    >>> gaussian_nll(wy.Constant([1.0]), np.array([3.0]), np.array([1.0])).forward().item()
    2.0
    """
    bounded = variance.maximum(epsilon)
    losses: Node = 0.5 * (bounded.log() + (target - mean).square() / bounded)
    if full:
        losses = losses + 0.5 * math.log(2.0 * math.pi)
    return losses


@overload
def student_t_nll(
    location: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    scale: Tensor[*Axes] | Array,
    *,
    degrees_of_freedom: float,
    full: bool = False,
    **options: Unpack[Total],
) -> Tensor[()]: ...
@overload
def student_t_nll(
    location: Tensor[*Axes],
    target: Tensor[*Axes] | Array,
    scale: Tensor[*Axes] | Array,
    *,
    degrees_of_freedom: float,
    full: bool = False,
    **options: Unpack[Each],
) -> Tensor[*Axes]: ...
@loss(degrees_of_freedom=finite_above_zero)
def student_t_nll(location: Node, target: Node, scale: Node, *, degrees_of_freedom: float, full: bool = False) -> Node:
    """Return the negative log-likelihood of Student's t-distributions, which outliers change less than a Gaussian's.

    The loss is `log(scale) + (n + 1) / 2 * log(1 + z ** 2 / n)` with `z = (target - location) / scale` and the degrees
    of freedom n, a number above 0. `full` adds the constant that depends on n alone. `scale`, a node or an array, is
    above 0. The operands have the same shape; weights, reductions and other errors are as in `mse`.

    >>> location, one = wy.Constant([0.0]), np.array([1.0])
    >>> student_t_nll(location, one, one, degrees_of_freedom=1.0).forward().round(4).item()
    0.6931
    """
    n = degrees_of_freedom
    z = (target - location) / scale
    losses = scale.log() + (0.5 * (n + 1.0)) * (z.square() * (1.0 / n)).log1p()
    if full:
        losses = losses + (0.5 * math.log(n * math.pi) + math.lgamma(0.5 * n) - math.lgamma(0.5 * (n + 1.0)))
    return losses
