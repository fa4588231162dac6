"""Optimizers that divide the step of each element by the root of its squared gradients."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from wyrm.graph.node import Node
from wyrm.ops.elementwise.comparison import where
from wyrm.optim.optimizer import Optimizer, Rate, Update, Values, blend, decayed, norm, option, with_options

# A division by a rate of 0 is one by this number.
_SMALLEST_RATE = 1e-12


@with_options
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

    learning_rate: Rate = Rate(0.01)
    initial_accumulator: float = option(0.0)
    epsilon: float = option(1e-10)
    weight_decay: float = option(0.0)
    learning_rate_decay: float = option(0.0)
    _squares = frozenset({"total"})
    _state_decays = False

    def initial_state(self) -> Mapping[str, float]:
        return {"total": self.initial_accumulator}

    def hyperparameters(self, step: int) -> dict[str, float]:
        return {"learning_rate": self.learning_rate / (1.0 + self.learning_rate_decay * (step - 1))}

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        gradient = decayed(self.weight_decay, parameter, gradient)
        total = state["total"] + gradient.square()
        return parameter - hyperparameters["learning_rate"] * gradient / (total.sqrt() + self.epsilon), {"total": total}


@with_options
class FTRL(Optimizer):
    """Follow the regularized leader, proximal (McMahan et al., 2013): Adagrad's steps, with exact zeros by `l1`.

    total += gradient ** 2; strength = (beta + sqrt(total)) / learning_rate + l2; a parameter becomes the minimum of
    `slope * x + l1 * abs(x) + strength * x ** 2 / 2`, which is 0 where `abs(slope)` is at most `l1`. The paper's sum
    `slope` of gradients and past parameters is kept as what it says beside the parameter: it is `gradient + pull -
    strength * parameter`, where `pull` is `-l1 * sign(parameter)`, or for a parameter of 0 its last `slope`. So a
    parameter may begin anywhere, and another learning rate moves none by itself. Rows that a row-sparse gradient does
    not touch keep their values and state, which is exact: without a gradient they would not move.

    Raise `ValueError` for a negative argument.

    >>> x = wy.Parameter([0.0, 0.0])
    >>> (wy.Constant([3.0, 0.5]) * x).sum().backward()
    >>> FTRL([x], learning_rate=0.5, beta=1.0, l1=1.0).step()
    >>> x.value.tolist()
    [-0.25, 0.0]
    """

    learning_rate: Rate = Rate(0.1)
    beta: float = option(1.0)
    l1: float = option(0.0)
    l2: float = option(0.0)
    _squares = frozenset({"total"})
    _state_decays = False

    def initial_state(self) -> Mapping[str, float]:
        return {"total": 0.0, **({"pull": 0.0} if self.l1 else {})}

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        rate, total = hyperparameters["learning_rate"], state["total"] + gradient.square()
        divisor: Node = total.sqrt() + self.beta  # the strength times the rate, which may be 0
        if self.l2:
            divisor = divisor + self.l2 * rate
        if not self.beta:  # without a gradient so far
            divisor = where(divisor > 0.0, divisor, 1.0)
        if not self.l1:
            return parameter - rate * gradient / divisor, {"total": total}
        pull = where(parameter.equal(0.0), state["pull"], -self.l1 * parameter.sign())
        slope = pull + gradient - parameter * (divisor * (1.0 / rate.maximum(_SMALLEST_RATE)))
        kept = slope.clip(-self.l1, self.l1)
        moved = where(slope.abs() > self.l1, parameter + rate * (kept - pull - gradient) / divisor, 0.0)
        return moved, {"total": total, "pull": kept}


@with_options
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

    learning_rate: Rate = Rate(0.01)
    decay: float = option(0.99, below=1.0)
    epsilon: float = option(1e-8)
    momentum: float = option(0.0, below=1.0)
    centered: bool = False
    weight_decay: float = option(0.0)
    _squares = frozenset({"square"})

    def initial_state(self) -> Mapping[str, float]:
        names = ["square", *(["mean"] if self.centered else []), *(["velocity"] if self.momentum else [])]
        return dict.fromkeys(names, 0.0)

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        gradient = decayed(self.weight_decay, parameter, gradient)
        square = blend(self.decay, state["square"], gradient.square())
        changed: dict[str, Node] = {"square": square}
        spread: Node = square
        if self.centered:
            changed["mean"] = blend(self.decay, state["mean"], gradient)
            # Rounding may take the variance below 0 where the gradient is constant.
            spread = (square - changed["mean"].square()).maximum(0.0)
        direction: Node = gradient / (spread.sqrt() + self.epsilon)
        if self.momentum:
            direction = changed["velocity"] = self.momentum * state["velocity"] + direction
        return parameter - hyperparameters["learning_rate"] * direction, changed


@with_options
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

    learning_rate: Rate = Rate(1.0)
    decay: float = option(0.9, below=1.0)
    epsilon: float = option(1e-6)
    weight_decay: float = option(0.0)
    _squares = frozenset({"square", "moved"})

    def initial_state(self) -> Mapping[str, float]:
        return {"square": 0.0, "moved": 0.0}

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        gradient = decayed(self.weight_decay, parameter, gradient)
        square = blend(self.decay, state["square"], gradient.square())
        change = (state["moved"] + self.epsilon).sqrt() / (square + self.epsilon).sqrt() * gradient
        moved = blend(self.decay, state["moved"], change.square())
        return parameter - hyperparameters["learning_rate"] * change, {"square": square, "moved": moved}


@with_options
class Adafactor(Optimizer):
    """Adafactor without momentum (Shazeer and Stern, 2018), as in PyTorch.

    The average of squared gradients of a parameter with two axes or more is the product of its means over the last two
    axes, divided by their mean; the weight of the past is `1 - step ** second_decay`. Steps whose root mean square is
    above `threshold` are scaled down to it. The rate is `min(learning_rate, 1 / sqrt(step))` times the root mean square
    of the parameter, which counts as at least `smallest_scale`. The parameter first decays by the factor
    `1 - learning_rate * weight_decay`. Squares count as at least `epsilon ** 2`, and their mean as at least `epsilon`,
    by default the distance from 1 to the next number of the dtype. A row-sparse gradient becomes dense.

    Raise `ValueError` for a `second_decay` that is not negative, or another argument that is.

    >>> x = wy.Parameter([[1.0, 2.0], [3.0, 4.0]])
    >>> x.square().sum().backward()
    >>> optimizer = Adafactor([x], learning_rate=0.1)
    >>> optimizer.step()
    >>> {name: array.shape for name, array in optimizer.state_of(x).items()}
    {'row': (2, 1), 'column': (1, 2)}
    >>> x.value.round(2).tolist()
    [[0.7900000214576721, 1.7000000476837158], [2.7200000286102295, 3.7300000190734863]]
    """

    learning_rate: Rate = Rate(0.01)
    second_decay: float = option(-0.8, -math.inf, 0.0)
    epsilon: float | None = option(None)
    smallest_scale: float = option(1e-3)
    threshold: float = option(1.0, float(np.finfo(np.float32).tiny))
    weight_decay: float = option(0.0)
    elementwise = False
    _squares = frozenset({"row", "column", "square"})

    def initial_state(self) -> Mapping[str, float]:
        return {"row": 0.0, "column": 0.0, "square": 0.0}

    def state_shapes(self, shape: tuple[int, ...]) -> Mapping[str, tuple[int, ...]]:
        if len(shape) < 2:
            return {"square": shape}
        return {"row": (*shape[:-1], 1), "column": (*shape[:-2], 1, shape[-1])}

    def hyperparameters(self, step: int) -> dict[str, float]:
        rate = self.learning_rate
        return {
            "rate": np.minimum(rate, step**-0.5),
            "decay": 1.0 - rate * self.weight_decay,
            "new": step**self.second_decay,
        }

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        epsilon = float(np.finfo(parameter.dtype).eps) if self.epsilon is None else self.epsilon
        new, squares = hyperparameters["new"], gradient.square()
        square: Node
        changed: dict[str, Node]
        if len(parameter.dims) < 2:
            square = state["square"] + new * (squares - state["square"])
            changed = {"square": square}
        else:
            row = state["row"] + new * (squares.mean(-1, keepdims=True) - state["row"])
            column = state["column"] + new * (squares.mean(-2, keepdims=True) - state["column"])
            changed = {"row": row, "column": column}
            square = row * column / row.mean(-2, keepdims=True).maximum(epsilon)
        direction = gradient / square.maximum(epsilon * epsilon).sqrt()
        root = math.sqrt(parameter.size) or 1.0
        scale = (norm(parameter) / root).maximum(self.smallest_scale)
        divisor = (norm(direction) / (root * self.threshold)).maximum(1.0)
        moved = hyperparameters["decay"] * parameter
        return moved - hyperparameters["rate"] * scale / divisor * direction, changed
