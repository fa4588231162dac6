"""Gradient descent, with and without momentum, and along the signs of a moving average."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import Unpack

from wyrm.errors import OptionError
from wyrm.optim.optimizer import LearningRate, Optimizer, ParameterGroups, StepOptions, Update, Value, Values
from wyrm.support.options import number, pair


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

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        **options: Unpack[StepOptions],
    ) -> None:
        self.betas = pair("betas", betas)
        self.weight_decay = number("weight_decay", weight_decay, 0.0)
        super().__init__(parameters, learning_rate, **options)

    def initial_state(self) -> Mapping[str, float]:
        return {"mean": 0.0}

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        ahead, kept = self.betas
        direction: Value = (ahead * state["mean"] + (1.0 - ahead) * gradient).sign()
        if self.weight_decay:
            direction = direction + self.weight_decay * parameter
        mean = kept * state["mean"] + (1.0 - kept) * gradient
        return parameter - hyperparameters["learning_rate"] * direction, {"mean": mean}
