"""Optimizers with a separate step size for every element."""

from __future__ import annotations

from collections.abc import Mapping

from typing_extensions import Unpack

from wyrm.optim.optimizer import LearningRate, Optimizer, ParameterGroups, StepOptions, Update, Value, Values
from wyrm.support.options import number, pair


class Adagrad(Optimizer):
    """Adagrad (Duchi et al., 2011): divides the step by the root of the sum of squared gradients.

    total += gradient ** 2; parameter -= learning_rate * gradient / (sqrt(total) + epsilon). Exact for row-sparse
    gradients, since a row without gradient would not move anyway; with `weight_decay`, untouched rows do not decay.
    `learning_rate_decay` divides the learning rate by `1 + learning_rate_decay * (step - 1)`.

    Raise `ValueError` for a negative argument.

    >>> x = wy.Parameter(1.0)
    >>> (x * x).backward()
    >>> Adagrad([x], learning_rate=0.5).step()
    >>> float(x)
    0.5
    """

    _squares = frozenset({"total"})
    _state_decays = False

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate = 0.01,
        initial_accumulator: float = 0.0,
        epsilon: float = 1e-10,
        weight_decay: float = 0.0,
        learning_rate_decay: float = 0.0,
        **options: Unpack[StepOptions],
    ) -> None:
        self.learning_rate_decay = number("learning_rate_decay", learning_rate_decay, 0.0)
        self.initial_accumulator = number("initial_accumulator", initial_accumulator, 0.0)
        self.epsilon = number("epsilon", epsilon, 0.0)
        self.weight_decay = number("weight_decay", weight_decay, 0.0)
        super().__init__(parameters, learning_rate, **options)

    def initial_state(self) -> Mapping[str, float]:
        return {"total": self.initial_accumulator}

    def hyperparameters(self, step: int) -> dict[str, float]:
        return {"learning_rate": self.learning_rate / (1.0 + self.learning_rate_decay * (step - 1))}

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        if self.weight_decay:
            gradient = gradient + self.weight_decay * parameter
        total = state["total"] + gradient.square()
        return parameter - hyperparameters["learning_rate"] * gradient / (total.sqrt() + self.epsilon), {"total": total}


class RMSprop(Optimizer):
    """RMSprop (Hinton, 2012), as in PyTorch: divides the step by the root of a moving average of squared gradients.

    `decay` is the weight of the past in the average. `centered` subtracts the square of the average gradient, so that
    the divisor estimates the standard deviation. Rows that a row-sparse gradient does not touch keep their values.

    Raise `ValueError` for a decay or momentum outside [0, 1) or a negative argument.

    >>> x = wy.Parameter(1.0)
    >>> (x * x).backward()
    >>> RMSprop([x], learning_rate=0.1, decay=0.75).step()
    >>> round(float(x), 6)
    0.8
    """

    _squares = frozenset({"square"})

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate = 0.01,
        decay: float = 0.99,
        epsilon: float = 1e-8,
        momentum: float = 0.0,
        centered: bool = False,
        weight_decay: float = 0.0,
        **options: Unpack[StepOptions],
    ) -> None:
        self.decay = number("decay", decay, 0.0, 1.0)
        self.epsilon = number("epsilon", epsilon, 0.0)
        self.momentum = number("momentum", momentum, 0.0, 1.0)
        self.weight_decay = number("weight_decay", weight_decay, 0.0)
        self.centered = centered
        super().__init__(parameters, learning_rate, **options)

    def initial_state(self) -> Mapping[str, float]:
        names = ["square", *(["mean"] if self.centered else []), *(["velocity"] if self.momentum else [])]
        return dict.fromkeys(names, 0.0)

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        if self.weight_decay:
            gradient = gradient + self.weight_decay * parameter
        square = self.decay * state["square"] + (1.0 - self.decay) * gradient.square()
        changed: dict[str, Value] = {"square": square}
        spread: Value = square
        if self.centered:
            changed["mean"] = self.decay * state["mean"] + (1.0 - self.decay) * gradient
            # Rounding may take the variance below 0 where the gradient is constant.
            spread = (square - changed["mean"].square()).maximum(0.0)
        direction: Value = gradient / (spread.sqrt() + self.epsilon)
        if self.momentum:
            direction = changed["velocity"] = self.momentum * state["velocity"] + direction
        return parameter - hyperparameters["learning_rate"] * direction, changed


class Adadelta(Optimizer):
    """Adadelta (Zeiler, 2012), as in PyTorch: the unit of a step is the root of a moving average of squared steps.

    square = decay * square + (1 - decay) * gradient ** 2;
    change = sqrt(moved + epsilon) / sqrt(square + epsilon) * gradient;
    moved = decay * moved + (1 - decay) * change ** 2; parameter -= learning_rate * change.
    `weight_decay` adds `weight_decay * parameter` to the gradient. Rows that a row-sparse gradient does not touch keep
    their values.

    Raise `ValueError` for a decay outside [0, 1) or a negative argument.

    >>> x = wy.Parameter(1.0)
    >>> (x * x).backward()
    >>> Adadelta([x], epsilon=0.01).step()
    >>> round(float(x), 3)
    0.688
    """

    _squares = frozenset({"square", "moved"})

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate = 1.0,
        decay: float = 0.9,
        epsilon: float = 1e-6,
        weight_decay: float = 0.0,
        **options: Unpack[StepOptions],
    ) -> None:
        self.decay = number("decay", decay, 0.0, 1.0)
        self.epsilon = number("epsilon", epsilon, 0.0)
        self.weight_decay = number("weight_decay", weight_decay, 0.0)
        super().__init__(parameters, learning_rate, **options)

    def initial_state(self) -> Mapping[str, float]:
        return {"square": 0.0, "moved": 0.0}

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        if self.weight_decay:
            gradient = gradient + self.weight_decay * parameter
        square = self.decay * state["square"] + (1.0 - self.decay) * gradient.square()
        change = (state["moved"] + self.epsilon).sqrt() / (square + self.epsilon).sqrt() * gradient
        moved = self.decay * state["moved"] + (1.0 - self.decay) * change.square()
        return parameter - hyperparameters["learning_rate"] * change, {"square": square, "moved": moved}


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015): steps along a moving average of gradients, divided by the root of that of squares.

    Both averages are corrected for their start at 0. `weight_decay` adds `weight_decay * parameter` to the gradient;
    see `AdamW` for decoupled decay. `amsgrad` divides by the root of the largest average of squares so far (Reddi et
    al., 2018). Rows that a row-sparse gradient does not touch keep their values and averages; the correction counts the
    steps of the whole parameter, as in PyTorch's SparseAdam.

    Raise `ValueError` for betas outside [0, 1) or a negative argument.

    >>> x = wy.Parameter(1.0)
    >>> (x * x).backward()
    >>> Adam([x], learning_rate=0.1).step()
    >>> round(float(x), 6)
    0.9
    """

    _squares = frozenset({"square", "largest_square"})
    _decoupled = False

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        **options: Unpack[StepOptions],
    ) -> None:
        self.betas = pair("betas", betas)
        self.epsilon = number("epsilon", epsilon, 0.0)
        self.amsgrad = amsgrad
        self.weight_decay = number("weight_decay", weight_decay, 0.0)
        super().__init__(parameters, learning_rate, **options)

    def initial_state(self) -> Mapping[str, float]:
        return {"mean": 0.0, "square": 0.0} | ({"largest_square": 0.0} if self.amsgrad else {})

    def hyperparameters(self, step: int) -> dict[str, float]:
        rate = self.learning_rate
        return {
            "step_size": rate / (1.0 - self.betas[0] ** step),
            "root_correction": (1.0 - self.betas[1] ** step) ** -0.5,
            "decay": 1.0 - rate * self.weight_decay,
        }

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        if self.weight_decay and self._decoupled:
            parameter = hyperparameters["decay"] * parameter
        elif self.weight_decay:
            gradient = gradient + self.weight_decay * parameter
        first, second = self.betas
        mean = first * state["mean"] + (1.0 - first) * gradient
        square = second * state["square"] + (1.0 - second) * gradient.square()
        changed: dict[str, Value] = {"mean": mean, "square": square}
        divisor: Value = square
        if self.amsgrad:
            divisor = changed["largest_square"] = state["largest_square"].maximum(square)
        root = divisor.sqrt() * hyperparameters["root_correction"] + self.epsilon
        return parameter - hyperparameters["step_size"] * mean / root, changed


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019).

    Each step also subtracts `learning_rate * weight_decay * parameter`. Everything else is as in `Adam`; rows that a
    row-sparse gradient does not touch do not decay.

    >>> x = wy.Parameter(1.0)
    >>> (x * x).backward()
    >>> AdamW([x], learning_rate=0.1, weight_decay=0.5).step()
    >>> round(float(x), 6)
    0.85
    """

    _decoupled = True

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        **options: Unpack[StepOptions],
    ) -> None:
        super().__init__(parameters, learning_rate, betas, epsilon, weight_decay, amsgrad, **options)
