"""Momentum descent along orthogonalized matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from typing_extensions import Unpack

from wyrm.errors import ShapeError
from wyrm.graph.base import describe
from wyrm.optim.layerwise import norm
from wyrm.optim.optimizer import LearningRate, Optimizer, ParameterGroups, StepOptions, Update, Value, Values
from wyrm.support.options import choice, number, whole

# The coefficients of x, x^3 and x^5 in each step of the iteration.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


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

    elementwise = False

    def __init__(
        self,
        parameters: ParameterGroups,
        learning_rate: LearningRate = 1e-3,
        momentum: float = 0.95,
        nesterov: bool = True,
        weight_decay: float = 0.1,
        scale: Literal["spectral", "rms"] = "spectral",
        iterations: int = 5,
        epsilon: float = 1e-7,
        **options: Unpack[StepOptions],
    ) -> None:
        self.momentum = number("momentum", momentum, 0.0, 1.0)
        self.nesterov = nesterov
        self.weight_decay = number("weight_decay", weight_decay, 0.0)
        choice("scale", scale, ("spectral", "rms"))
        self.scale: Literal["spectral", "rms"] = scale
        self.iterations = whole("iterations", iterations, 1)
        self.epsilon = number("epsilon", epsilon, 0.0)
        super().__init__(parameters, learning_rate, **options)
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

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        mean = self.momentum * state["mean"] + (1.0 - self.momentum) * gradient
        direction: Value = self.momentum * mean + (1.0 - self.momentum) * gradient if self.nesterov else mean
        rows, columns = parameter.shape
        x: Value = direction.T if rows > columns else direction
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
