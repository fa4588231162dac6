"""Adam with a factored average of squares, which needs little memory."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from typing_extensions import Unpack

from wyrm.optim.layerwise import norm
from wyrm.optim.optimizer import LearningRate, Optimizer, ParameterGroups, StepOptions, Update, Value, Values
from wyrm.support.options import number


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

    elementwise = False
    _squares = frozenset({"row", "column", "square"})

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate = 0.01,
        second_decay: float = -0.8,
        epsilon: float | None = None,
        smallest_scale: float = 1e-3,
        threshold: float = 1.0,
        weight_decay: float = 0.0,
        **options: Unpack[StepOptions],
    ) -> None:
        self.second_decay = number("second_decay", second_decay, -math.inf, 0.0)
        self.epsilon = None if epsilon is None else number("epsilon", epsilon, 0.0)
        self.smallest_scale = number("smallest_scale", smallest_scale, 0.0)
        self.threshold = number("threshold", threshold, float(np.finfo(np.float32).tiny))
        self.weight_decay = number("weight_decay", weight_decay, 0.0)
        super().__init__(parameters, learning_rate, **options)

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

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        epsilon = float(np.finfo(parameter.dtype).eps) if self.epsilon is None else self.epsilon
        new, squares = hyperparameters["new"], gradient.square()
        square: Value
        changed: dict[str, Value]
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
