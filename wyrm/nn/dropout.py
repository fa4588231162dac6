"""The dropout layer."""

from __future__ import annotations

import numpy as np

from wyrm.errors import DTypeError
from wyrm.nn.axes import Axes
from wyrm.nn.layer import Pointwise
from wyrm.node.node import Tensor
from wyrm.node.training_mode import record_training_mode
from wyrm.types.options import number


def _seed(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise DTypeError(f"Dropout: seed must be an integer, not {seed!r}")
    return int(seed)


class Dropout(Pointwise):
    """Inverted dropout: while `training`, sets elements to zero with probability `rate`, divides others by `1 - rate`.

    `rate` is in [0, 1). A graph built after `eval()`, or with a rate of 0, has no dropout. The mask depends on
    `seed`, the step (see `wyrm.random.set_step`) and the position in the graph: two calls of one module draw different
    masks. Srivastava et al., "Dropout" (2014).

    Raise `ValueError` for a rate out of range, `DTypeError` for a rate that is no number or a seed that is no integer.

    >>> wy.random.set_step(0)
    >>> dropout, ones = Dropout(0.5), wy.Constant(np.ones(100))
    >>> sorted(set(dropout(ones).forward().tolist()))
    [0.0, 2.0]
    >>> dropout.eval()(ones) is ones
    True
    """

    def __init__(self, rate: float, seed: int = 0) -> None:
        self.rate = number("Dropout: rate", rate, 0.0, 1.0)
        self.seed = _seed(seed)

    def __call__(self, x: Tensor[*Axes]) -> Tensor[*Axes]:
        """Return `x` with dropout while `training`, else `x` itself."""
        if self.training and self.rate > 0.0:
            return record_training_mode(x.dropout(self.rate, self.seed), self)
        return x

    def add(self, residual: Tensor[*Axes], x: Tensor[*Axes]) -> Tensor[*Axes]:
        """Return `residual + dropout(x)` as one node; both have the same axes."""
        if self.training and self.rate > 0.0:
            return record_training_mode(residual.add_dropout(x, self.rate, self.seed), self)
        total: Tensor[*Axes] = residual + x
        return total

    def __repr__(self) -> str:
        return f"Dropout({self.rate}{f', seed={self.seed}' if self.seed else ''})"
