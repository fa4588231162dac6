"""Variants of Adam."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from typing_extensions import Unpack

from wyrm.optim.optimizer import LearningRate, Optimizer, ParameterGroups, StepOptions, Update, Value, Values
from wyrm.support.options import number, pair


class _Moments(Optimizer):
    """The options that the variants share; `weight_decay` adds `weight_decay * parameter` to the gradient."""

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        **options: Unpack[StepOptions],
    ) -> None:
        self.betas = pair("betas", betas)
        self.epsilon = number("epsilon", epsilon, 0.0)
        self.weight_decay = number("weight_decay", weight_decay, 0.0)
        super().__init__(parameters, learning_rate, **options)

    def _decayed(self, parameter: Value, gradient: Value) -> Value:
        return gradient + self.weight_decay * parameter if self.weight_decay else gradient

    def _mean(self, state: Values, gradient: Value) -> Value:
        return self.betas[0] * state["mean"] + (1.0 - self.betas[0]) * gradient

    def _square(self, state: Values, gradient: Value) -> Value:
        return self.betas[1] * state["square"] + (1.0 - self.betas[1]) * gradient.square()


class Adamax(_Moments):
    """Adam with the largest recent gradient in place of the root of the average of squares (Kingma and Ba, 2015).

    largest = max(betas[1] * largest, abs(gradient) + epsilon), as in PyTorch; the average gradient is corrected for its
    start at 0. Rows that a row-sparse gradient does not touch keep their values and state.

    Raise `ValueError` for betas outside [0, 1) or a negative argument.

    >>> x = wy.Parameter(1.0)
    >>> (x * x).backward()
    >>> Adamax([x], learning_rate=0.1).step()
    >>> round(float(x), 6)
    0.9
    """

    _squares = frozenset({"largest"})

    def initial_state(self) -> Mapping[str, float]:
        return {"mean": 0.0, "largest": 0.0}

    def hyperparameters(self, step: int) -> dict[str, float]:
        return {"step_size": self.learning_rate / (1.0 - self.betas[0] ** step)}

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        gradient = self._decayed(parameter, gradient)
        mean = self._mean(state, gradient)
        largest = (self.betas[1] * state["largest"]).maximum(gradient.abs() + self.epsilon)
        return parameter - hyperparameters["step_size"] * mean / largest, {"mean": mean, "largest": largest}


class NAdam(_Moments):
    """Adam with Nesterov momentum (Dozat, 2016), as in PyTorch.

    The weight of the past in step t is `betas[0] * (1 - 0.96 ** (t * momentum_decay) / 2)`. Rows that a row-sparse
    gradient does not touch keep their values and averages.

    Raise `ValueError` for betas outside [0, 1) or a negative argument.

    >>> x = wy.Parameter(1.0)
    >>> (x * x).backward()
    >>> NAdam([x], learning_rate=0.1).step()
    >>> round(float(x), 3)
    0.894
    """

    _squares = frozenset({"square"})

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        **options: Unpack[StepOptions],
    ) -> None:
        self.momentum_decay = number("momentum_decay", momentum_decay, 0.0)
        self._products = np.ones(1)
        super().__init__(parameters, learning_rate, betas, epsilon, weight_decay, **options)

    def initial_state(self) -> Mapping[str, float]:
        return {"mean": 0.0, "square": 0.0}

    def hyperparameters(self, step: int) -> dict[str, float]:
        rate, product, following = self.learning_rate, self._product(step), self._momentum(step + 1)
        return {
            "new": rate * (1.0 - self._momentum(step)) / (1.0 - product),
            "old": rate * following / (1.0 - product * following),
            "root_correction": (1.0 - self.betas[1] ** step) ** -0.5,
        }

    def _momentum(self, step: Any) -> Any:
        return self.betas[0] * (1.0 - 0.5 * 0.96 ** (step * self.momentum_decay))

    def _product(self, step: Any) -> Any:
        """Return the product of the momenta of the steps from 1 to `step`, a number or an array."""
        last = int(np.max(step))
        if last >= len(self._products):
            self._products = np.cumprod([1.0, *self._momentum(np.arange(1, 2 * last + 1))])
        return self._products[np.asarray(step, np.int64)]

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        gradient = self._decayed(parameter, gradient)
        mean, square = self._mean(state, gradient), self._square(state, gradient)
        root = square.sqrt() * hyperparameters["root_correction"] + self.epsilon
        direction = hyperparameters["new"] * gradient + hyperparameters["old"] * mean
        return parameter - direction / root, {"mean": mean, "square": square}


class RAdam(_Moments):
    """Adam that starts as momentum descent, until the average of squares is reliable (Liu et al., 2020).

    As in PyTorch. Rows that a row-sparse gradient does not touch keep their values and averages.

    Raise `ValueError` for betas outside [0, 1) or a negative argument.

    >>> x = wy.Parameter(1.0)
    >>> (x * x).backward()
    >>> RAdam([x], learning_rate=0.1).step()
    >>> round(float(x), 6)
    0.8
    """

    _squares = frozenset({"square"})

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
        weight_decay: float = 0.0,
        **options: Unpack[StepOptions],
    ) -> None:
        super().__init__(parameters, learning_rate, betas, epsilon, weight_decay, **options)

    def initial_state(self) -> Mapping[str, float]:
        return {"mean": 0.0, "square": 0.0}

    def hyperparameters(self, step: int) -> dict[str, float]:
        first, second = self.betas
        correction = 1.0 - second**step
        longest = 2.0 / (1.0 - second) - 1.0
        # The exponential average has the variance of a simple average of this length, rho in the paper. It is used
        # above 5, as in PyTorch.
        length = longest - 2.0 * step * second**step / correction
        known = np.greater(length, 5.0)
        safe = np.maximum(length, 5.0)
        divisor = (longest - 4.0) * (longest - 2.0) * safe if longest > 5.0 else np.inf
        variance = (safe - 4.0) * (safe - 2.0) * longest / divisor
        step_size = self.learning_rate / (1.0 - first**step)
        return {
            "adapted": known * step_size * np.sqrt(variance * correction),
            "plain": (1.0 - known) * step_size,
        }

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        gradient = self._decayed(parameter, gradient)
        mean, square = self._mean(state, gradient), self._square(state, gradient)
        size = hyperparameters["adapted"] / (square.sqrt() + self.epsilon) + hyperparameters["plain"]
        return parameter - size * mean, {"mean": mean, "square": square}
