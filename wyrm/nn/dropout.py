"""Dropout as a module."""

from __future__ import annotations

import numpy as np

from wyrm.errors import DTypeError
from wyrm.nn.axes import Axes
from wyrm.nn.layer import Pointwise
from wyrm.node.node import Tensor
from wyrm.node.training_mode import record_training_mode


def _rate(rate: object) -> float:
    if isinstance(rate, bool) or not isinstance(rate, int | float | np.integer | np.floating):
        raise DTypeError(f"Dropout: rate is a number, not {rate!r}, a {type(rate).__name__}")
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"Dropout: rate is at least 0 and below 1, not {rate}")
    return float(rate)


def _seed(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise DTypeError(f"Dropout: seed is a whole number, not {seed!r}, a {type(seed).__name__}")
    return int(seed)


class Dropout(Pointwise):
    """Sets elements to zero with probability `rate` and divides the others by `1 - rate`, while `training`.

    `rate` is at least 0 and below 1. A graph that is built after `evaluate()`, or with a rate of 0, has no dropout at
    all. Masks depend on `seed`, on the step (see `wyrm.random.set_step`) and on the place in the graph, so that two
    uses of one module draw different ones. Srivastava et al., "Dropout" (2014), in its inverted form.

    Raises `ValueError` for a rate outside its range, `DTypeError` for what is no number or no whole number as seed.

    >>> wy.random.set_step(0)
    >>> dropout, ones = Dropout(0.5), wy.Constant(np.ones(100))
    >>> sorted(set(dropout(ones).forward().tolist()))
    [0.0, 2.0]
    >>> dropout.evaluate()(ones) is ones
    True
    """

    def __init__(self, rate: float, seed: int = 0) -> None:
        self.rate = _rate(rate)
        self.seed = _seed(seed)

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """`x` with dropout while `training`, else `x` itself."""
        if self.training and self.rate > 0.0:
            return record_training_mode(x.dropout(self.rate, self.seed), self)
        return x

    def add(self, residual: Tensor[*Axes], x: Tensor[*Axes]) -> Tensor[*Axes]:
        """`residual + dropout(x)` as one node, of the axes that both have."""
        if self.training and self.rate > 0.0:
            return record_training_mode(residual.add_dropout(x, self.rate, self.seed), self)
        total: Tensor[*Axes] = residual + x
        return total

    def __repr__(self) -> str:
        return f"Dropout({self.rate}{f', seed={self.seed}' if self.seed else ''})"
