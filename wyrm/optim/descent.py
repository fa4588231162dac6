"""Momentum descent: plain, by the sign (Lion), scaled for each parameter (LARS), or orthogonal (Muon)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from wyrm.errors import OptionError, ShapeError
from wyrm.graph.base import describe
from wyrm.graph.node import Node
from wyrm.ops.elementwise.comparison import where
from wyrm.optim.optimizer import Optimizer, Rate, Update, Values, blend, decayed, norm, option, with_options
from wyrm.support.options import choice

# The coefficients of x, x^3 and x^5 in each step of the iteration of `Muon`.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


@with_options
class SGD(Optimizer):
    """Stochastic gradient descent, with momentum as in Sutskever et al. (2013) and PyTorch.

    velocity = momentum * velocity + gradient; parameter -= learning_rate * velocity. `nesterov` looks ahead along the
    velocity. `weight_decay` adds `weight_decay * parameter` to the gradient. With momentum or weight decay, rows that a
    row-sparse gradient does not touch keep their values and velocity.

    Raise `ValueError` for momentum outside [0, 1), a negative decay, or `nesterov` without momentum.

    >>> x = wy.Parameter(1.0)
    >>> (x * x).backward()
    >>> SGD([x], learning_rate=0.25).step()
    >>> float(x)
    0.5
    """

    learning_rate: Rate
    momentum: float = option(0.0, below=1.0)
    nesterov: bool = False
    weight_decay: float = option(0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and self.momentum == 0.0:
            raise OptionError("nesterov=True needs a momentum above 0")

    def initial_state(self) -> Mapping[str, float]:
        return {"velocity": 0.0} if self.momentum else {}

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        gradient = decayed(self.weight_decay, parameter, gradient)
        if not self.momentum:
            return parameter - hyperparameters["learning_rate"] * gradient, {}
        velocity = self.momentum * state["velocity"] + gradient
        direction = gradient + self.momentum * velocity if self.nesterov else velocity
        return parameter - hyperparameters["learning_rate"] * direction, {"velocity": velocity}


@with_options
class Lion(Optimizer):
    """Steps of one size along the sign of a moving average of gradients (Chen et al., 2023).

    parameter -= learning_rate * (sign(betas[0] * mean + (1 - betas[0]) * gradient) + weight_decay * parameter);
    mean = betas[1] * mean + (1 - betas[1]) * gradient. A learning rate 3 to 10 times below AdamW's, with a weight decay
    as many times above, is usual. Rows that a row-sparse gradient does not touch keep their values and averages.

    Raise `ValueError` for betas outside [0, 1) or a negative argument.

    >>> x = wy.Parameter([1.0, -2.0])
    >>> x.square().sum().backward()
    >>> Lion([x], learning_rate=0.5).step()
    >>> x.value.tolist()
    [0.5, -1.5]
    """

    learning_rate: Rate = Rate(1e-4)
    betas: tuple[float, float] = option((0.9, 0.99))
    weight_decay: float = option(0.0)

    def initial_state(self) -> Mapping[str, float]:
        return {"mean": 0.0}

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        ahead, kept = self.betas
        direction: Node = blend(ahead, state["mean"], gradient).sign()
        if self.weight_decay:
            direction = direction + self.weight_decay * parameter
        mean = blend(kept, state["mean"], gradient)
        return parameter - hyperparameters["learning_rate"] * direction, {"mean": mean}


@with_options
class LARS(Optimizer):
    """Layer-wise adaptive rate scaling of momentum descent (You et al., 2017).

    rate = trust * norm(parameter) / (norm(gradient) + weight_decay * norm(parameter)), or 1 if either norm is 0;
    velocity = momentum * velocity + learning_rate * rate * (gradient + weight_decay * parameter);
    parameter -= velocity. The norms are over the whole parameter, so a row-sparse gradient becomes dense.

    Raise `ValueError` for momentum outside [0, 1) or a negative argument.

    >>> x = wy.Parameter([3.0, 4.0])
    >>> x.square().sum().backward()
    >>> LARS([x], learning_rate=1.0, trust=0.1).step()
    >>> x.value.round(3).tolist()
    [2.700000047683716, 3.5999999046325684]
    """

    learning_rate: Rate
    momentum: float = option(0.9, below=1.0)
    weight_decay: float = option(0.0)
    trust: float = option(0.001)
    elementwise = False

    def initial_state(self) -> Mapping[str, float]:
        return {"velocity": 0.0}

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        size, slope = norm(parameter), norm(gradient)
        some = (size > 0.0) & (slope > 0.0)
        divisor = where(some, slope + self.weight_decay * size, 1.0)
        rate = hyperparameters["learning_rate"] * where(some, self.trust * size / divisor, 1.0)
        velocity = self.momentum * state["velocity"] + rate * (gradient + self.weight_decay * parameter)
        return parameter - velocity, {"velocity": velocity}


@with_options
class Muon(Optimizer):
    """Momentum descent whose step is a matrix with all singular values near 1 (Jordan et al., 2024), as in PyTorch.

    mean = momentum * mean + (1 - momentum) * gradient, and with `nesterov` a step further along it; `iterations` of
    the Newton-Schulz polynomial 3.4445 x - 4.7750 x^3 + 2.0315 x^5 bring its singular values near 1. Before the step,
    the parameter decays by the factor `1 - learning_rate * weight_decay`. `scale` multiplies the step of an (m, n)
    parameter: "spectral" by sqrt(max(1, m / n)), "rms" by 0.2 * sqrt(max(m, n)), so that the learning rates of AdamW
    fit (Liu et al., 2025). The matrices are in the parameter's dtype. A row-sparse gradient becomes dense.

    Every parameter has two axes; `Combined` gives the others to another optimizer. Raise `ShapeError` for another
    number of axes, `ValueError` for a momentum outside [0, 1), a negative argument or an unknown scale.

    >>> x = wy.Parameter([[1.0, 0.0], [0.0, 2.0]])
    >>> x.square().sum().backward()
    >>> Muon([x], learning_rate=0.1).step()
    >>> x.value.round(2).tolist()
    [[0.8799999952316284, 0.0], [0.0, 1.909999966621399]]
    """

    learning_rate: Rate = Rate(1e-3)
    momentum: float = option(0.95, below=1.0)
    nesterov: bool = True
    weight_decay: float = option(0.1)
    scale: Literal["spectral", "rms"] = "spectral"
    iterations: int = option(5, 1)
    epsilon: float = option(1e-7)
    elementwise = False

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("scale", self.scale, ("spectral", "rms"))
        for parameter in self.parameters:
            if len(parameter.dims) != 2:
                raise ShapeError(
                    f"Muon takes parameters with two axes; {describe(parameter)} has {len(parameter.dims)}. Give the "
                    f"others to another optimizer: wy.optim.Combined([Muon(matrices), AdamW(others)])"
                )

    def initial_state(self) -> Mapping[str, float]:
        return {"mean": 0.0}

    def hyperparameters(self, step: int) -> dict[str, float]:
        rate = self.learning_rate
        return {"learning_rate": rate, "decay": 1.0 - rate * self.weight_decay}

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        mean = blend(self.momentum, state["mean"], gradient)
        direction: Node = blend(self.momentum, mean, gradient) if self.nesterov else mean
        rows, columns = parameter.shape
        x: Node = direction.T if rows > columns else direction
        x = x / norm(x).maximum(self.epsilon)
        first, third, fifth = _COEFFICIENTS
        for _ in range(self.iterations):
            gram = x @ x.T
            x = first * x + (third * gram + fifth * (gram @ gram)) @ x
        if rows > columns:
            x = x.T
        if self.scale == "spectral":
            factor = math.sqrt(max(1.0, rows / columns)) if columns else 1.0
        else:
            factor = 0.2 * math.sqrt(max(rows, columns))
        moved = hyperparameters["decay"] * parameter - (factor * hyperparameters["learning_rate"]) * x
        return moved, {"mean": mean}
