"""Adam and its variants: steps along an average of gradients, divided by the root of an average of their squares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wyrm.graph.node import Node
from wyrm.ops.elementwise.comparison import where
from wyrm.optim.optimizer import Optimizer, Rate, Update, Values, blend, decayed, norm, option, with_options


@with_options
class _Moments(Optimizer):
    """The base of the variants of Adam: averages of the gradient and of its square, with the weights `betas`."""

    learning_rate: Rate = Rate(2e-3)
    betas: tuple[float, float] = option((0.9, 0.999))
    epsilon: float = option(1e-8)
    weight_decay: float = option(0.0)
    _squares = frozenset({"square"})

    def initial_state(self) -> Mapping[str, float]:
        return {"mean": 0.0, "square": 0.0}

    def _averages(self, gradient: Node, state: Values) -> tuple[Node, Node]:
        mean = blend(self.betas[0], state["mean"], gradient)
        return mean, blend(self.betas[1], state["square"], gradient.square())


@with_options
class Adam(_Moments):
    """Adam (Kingma and Ba, 2015): steps along a moving average of gradients, divided by the root of that of squares.

    Both averages are corrected for their start at 0. `weight_decay` adds `weight_decay * parameter` to the gradient;
    see `AdamW` for decoupled decay. `amsgrad` divides by the root of the largest average of squares so far (Reddi et
    al., 2018). Rows that a row-sparse gradient does not touch, such as that of an `Embedding`, keep their values and
    averages; the correction counts the steps of the whole parameter, as in PyTorch's SparseAdam. PyTorch's Adam moves
    every row in each step: that is `wy.nn.Embedding(..., dense=True)`.

    Raise `ValueError` for betas outside [0, 1) or a negative argument.

    >>> x = wy.Parameter(1.0)
    >>> (x * x).backward()
    >>> Adam([x], learning_rate=0.1).step()
    >>> round(float(x), 6)
    0.9
    """

    learning_rate: Rate = Rate(1e-3)
    amsgrad: bool = False
    _squares = frozenset({"square", "largest_square"})
    _decoupled = False

    def initial_state(self) -> Mapping[str, float]:
        return {**super().initial_state(), **({"largest_square": 0.0} if self.amsgrad else {})}

    def hyperparameters(self, step: int) -> dict[str, float]:
        rate = self.learning_rate
        return {
            "step_size": rate / (1.0 - self.betas[0] ** step),
            "root_correction": (1.0 - self.betas[1] ** step) ** -0.5,
            "decay": 1.0 - rate * self.weight_decay,
        }

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        if not self._decoupled:
            gradient = decayed(self.weight_decay, parameter, gradient)
        elif self.weight_decay:
            parameter = hyperparameters["decay"] * parameter
        mean, square = self._averages(gradient, state)
        changed: dict[str, Node] = {"mean": mean, "square": square}
        divisor: Node = square
        if self.amsgrad:
            divisor = changed["largest_square"] = state["largest_square"].maximum(square)
        root = divisor.sqrt() * hyperparameters["root_correction"] + self.epsilon
        return parameter - hyperparameters["step_size"] * mean / root, changed


@with_options
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

    weight_decay: float = option(0.01)
    _decoupled = True


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

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        gradient = decayed(self.weight_decay, parameter, gradient)
        mean = blend(self.betas[0], state["mean"], gradient)
        largest = (self.betas[1] * state["largest"]).maximum(gradient.abs() + self.epsilon)
        return parameter - hyperparameters["step_size"] * mean / largest, {"mean": mean, "largest": largest}


@with_options
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

    momentum_decay: float = option(4e-3)

    def hyperparameters(self, step: int) -> dict[str, float]:
        rate, product, following = self.learning_rate, self._momentum_product(step), self._momentum(step + 1)
        return {
            "new": rate * (1.0 - self._momentum(step)) / (1.0 - product),
            "old": rate * following / (1.0 - product * following),
            "root_correction": (1.0 - self.betas[1] ** step) ** -0.5,
        }

    def _momentum(self, step: Any) -> Any:
        return self.betas[0] * (1.0 - 0.5 * 0.96 ** (step * self.momentum_decay))

    def _momentum_product(self, step: Any) -> Any:
        """Return the product of the momenta of the steps from 1 to `step`: a number, an array or a node.

        Its logarithm is a sum over steps of `log(1 - x) = -sum(x ** k / k)`, where `x` is a power of 0.96 of at most a
        half. Summed over the steps first, which are geometric, 52 terms are exact.
        """
        terms, decay = np.arange(1.0, 53.0), self.momentum_decay * np.log(0.96)
        if decay == 0.0:
            return (0.5 * self.betas[0]) ** step
        weights = np.exp(terms * decay) * 0.5**terms / (terms * np.expm1(terms * decay))
        steps = step[:, None] if isinstance(step, np.ndarray) and step.ndim == 1 else step
        return self.betas[0] ** step * np.exp(-(weights * np.expm1(steps * (terms * decay))).sum(axis=-1))

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        gradient = decayed(self.weight_decay, parameter, gradient)
        mean, square = self._averages(gradient, state)
        root = square.sqrt() * hyperparameters["root_correction"] + self.epsilon
        direction = hyperparameters["new"] * gradient + hyperparameters["old"] * mean
        return parameter - direction / root, {"mean": mean, "square": square}


@with_options
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

    learning_rate: Rate = Rate(1e-3)

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

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        mean, square = self._averages(decayed(self.weight_decay, parameter, gradient), state)
        size = hyperparameters["adapted"] / (square.sqrt() + self.epsilon) + hyperparameters["plain"]
        return parameter - size * mean, {"mean": mean, "square": square}


@with_options
class LAMB(_Moments):
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

    learning_rate: Rate = Rate(1e-3)
    epsilon: float = option(1e-6)
    weight_decay: float = option(0.01)
    elementwise = False

    def hyperparameters(self, step: int) -> dict[str, float]:
        return {
            "learning_rate": self.learning_rate,
            "correction": 1.0 / (1.0 - self.betas[0] ** step),
            "root_correction": (1.0 - self.betas[1] ** step) ** -0.5,
        }

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        mean, square = self._averages(gradient, state)
        root = square.sqrt() * hyperparameters["root_correction"] + self.epsilon
        direction = hyperparameters["correction"] * mean / root + self.weight_decay * parameter
        size, length = norm(parameter), norm(direction)
        some = (size > 0.0) & (length > 0.0)
        ratio = where(some, size / where(some, length, 1.0), 1.0)
        moved = parameter - hyperparameters["learning_rate"] * ratio * direction
        return moved, {"mean": mean, "square": square}
