"""Negative log-likelihoods of distributions whose parameters a model predicts."""

from __future__ import annotations

import math
from typing import Unpack, overload

from typing_extensions import TypeVarTuple

from wyrm.graph.node import Node, Tensor
from wyrm.graph.typing import Array
from wyrm.losses.loss import Each, Total, above_zero, finite_above_zero, loss
from wyrm.ops.elementwise.comparison import where

Axes = TypeVarTuple("Axes")


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
