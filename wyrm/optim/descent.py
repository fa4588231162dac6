"""Gradient descent, with and without momentum."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import Unpack

from wyrm.errors import OptionError
from wyrm.optim.optimizer import LearningRate, Optimizer, ParameterGroups, StepOptions, Update, Value, Values
from wyrm.types.options import number


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

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate,
        momentum: float = 0.0,
        nesterov: bool = False,
        weight_decay: float = 0.0,
        **options: Unpack[StepOptions],
    ) -> None:
        self.momentum = number("momentum", momentum, 0.0, 1.0)
        self.weight_decay = number("weight_decay", weight_decay, 0.0)
        self.nesterov = nesterov
        if nesterov and momentum == 0.0:
            raise OptionError("nesterov=True needs a momentum above 0")
        super().__init__(parameters, learning_rate, **options)

    def initial_state(self) -> Mapping[str, float]:
        return {"velocity": 0.0} if self.momentum else {}

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        if self.weight_decay:
            gradient = gradient + self.weight_decay * parameter
        if not self.momentum:
            return parameter - hyperparameters["learning_rate"] * gradient, {}
        velocity = self.momentum * state["velocity"] + gradient
        direction = gradient + self.momentum * velocity if self.nesterov else velocity
        return parameter - hyperparameters["learning_rate"] * direction, {"velocity": velocity}
