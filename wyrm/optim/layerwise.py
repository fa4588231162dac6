"""Optimizers that scale the step of each parameter by the norm of the parameter."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import Unpack

from wyrm.ops.elementwise.comparison import where
from wyrm.optim.optimizer import LearningRate, Optimizer, ParameterGroups, StepOptions, Update, Value, Values
from wyrm.support.options import number, pair


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

    elementwise = False

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 0.001,
        **options: Unpack[StepOptions],
    ) -> None:
        self.momentum = number("momentum", momentum, 0.0, 1.0)
        self.weight_decay = number("weight_decay", weight_decay, 0.0)
        self.trust = number("trust", trust, 0.0)
        super().__init__(parameters, learning_rate, **options)

    def initial_state(self) -> Mapping[str, float]:
        return {"velocity": 0.0}

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        size, slope = norm(parameter), norm(gradient)
        some = (size > 0.0) & (slope > 0.0)
        divisor = where(some, slope + self.weight_decay * size, 1.0)
        rate = hyperparameters["learning_rate"] * where(some, self.trust * size / divisor, 1.0)
        velocity = self.momentum * state["velocity"] + rate * (gradient + self.weight_decay * parameter)
        return parameter - velocity, {"velocity": velocity}


class LAMB(Optimizer):
    """Adam with decoupled weight decay, scaled for each parameter by a trust ratio (You et al., 2020).

    direction = mean / (sqrt(square) + epsilon) + weight_decay * parameter, with the corrected averages of Adam;
    parameter -= learning_rate * norm(parameter) / norm(direction) * direction, with a ratio of 1 if either norm is 0.
    The norms are over the whole parameter, so a row-sparse gradient becomes dense.

    Raise `ValueError` for betas outside [0, 1) or a negative argument.

    >>> x = wy.Parameter([3.0, 4.0])
    >>> x.square().sum().backward()
    >>> LAMB([x], learning_rate=0.1, weight_decay=0.0).step()
    >>> x.value.round(3).tolist()
    [2.6459999084472656, 3.6459999084472656]
    """

    elementwise = False
    _squares = frozenset({"square"})

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-6,
        weight_decay: float = 0.01,
        **options: Unpack[StepOptions],
    ) -> None:
        self.betas = pair("betas", betas)
        self.epsilon = number("epsilon", epsilon, 0.0)
        self.weight_decay = number("weight_decay", weight_decay, 0.0)
        super().__init__(parameters, learning_rate, **options)

    def initial_state(self) -> Mapping[str, float]:
        return {"mean": 0.0, "square": 0.0}

    def hyperparameters(self, step: int) -> dict[str, float]:
        return {
            "learning_rate": self.learning_rate,
            "correction": 1.0 / (1.0 - self.betas[0] ** step),
            "root_correction": (1.0 - self.betas[1] ** step) ** -0.5,
        }

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        first, second = self.betas
        mean = first * state["mean"] + (1.0 - first) * gradient
        square = second * state["square"] + (1.0 - second) * gradient.square()
        root = square.sqrt() * hyperparameters["root_correction"] + self.epsilon
        direction = hyperparameters["correction"] * mean / root + self.weight_decay * parameter
        size, length = norm(parameter), norm(direction)
        some = (size > 0.0) & (length > 0.0)
        ratio = where(some, size / where(some, length, 1.0), 1.0)
        moved = parameter - hyperparameters["learning_rate"] * ratio * direction
        return moved, {"mean": mean, "square": square}


def norm(x: Value) -> Value:
    """Return the Euclidean norm of all elements."""
    return x.square().sum().sqrt()
