"""Averages of parameters over the steps of a training run, as the option `average` of an optimizer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wyrm.support.options import number, whole


@dataclass(frozen=True, kw_only=True)
class Average(ABC):
    """An average of the parameters' values after step `start`, from 1, and after each `every` steps from there.

    After such a step, `average += weight * (parameter - average)`; the first weight is 1. Threads of mode "hogwild" add
    to the averages as they do to the parameters, without locks.
    """

    start: int = 1
    every: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", whole("start", self.start, 1))
        object.__setattr__(self, "every", whole("every", self.every, 1))

    @abstractmethod
    def weight(self, count: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights of the values that are the `count`-th, from 1, in the average."""

    def weights(self, steps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weight of each of these steps; 0 for a step that does not count."""
        since = steps - self.start
        counts = (since >= 0) & (since % self.every == 0)
        return np.where(counts, self.weight(np.maximum(since // self.every + 1.0, 1.0)), 0.0)


@dataclass(frozen=True)
class EMA(Average):
    """An exponential moving average of the parameters: `average = decay * average + (1 - decay) * parameter`.

    It starts with the values after step `start`, and each `every` steps after that count. A row-sparse gradient touches
    a few rows, but the average reads the whole table: a larger `every` makes that cheaper, with `decay` raised to the
    power of `every`.

    Raise `ValueError` for a decay outside [0, 1).

    >>> x = wy.Parameter(4.0)
    >>> optimizer = wy.optim.SGD([x], 0.25, average=EMA(0.5))
    >>> for _ in range(2):
    ...     x.clear_gradient()
    ...     x.square().backward()
    ...     optimizer.step()
    >>> with optimizer.average_parameters(): float(x)
    1.5
    >>> float(x)
    1.0
    """

    decay: float

    def __post_init__(self) -> None:
        super().__post_init__()
        number("decay", self.decay, 0.0, 1.0)

    def weight(self, count: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(count == 1.0, 1.0, 1.0 - self.decay)


@dataclass(frozen=True, kw_only=True)
class SWA(Average):
    """The mean of the parameters after step `start` and each `every` steps after it (Izmailov et al., 2018).

    >>> SWA(start=10, every=5).weights(np.array([9, 10, 12, 15, 20])).round(2).tolist()
    [0.0, 1.0, 0.0, 0.5, 0.33]
    """

    def weight(self, count: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1.0 / count
