"""Learning rate schedules: functions of the number of completed steps, given to an optimizer as `learning_rate`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wyrm.errors import OptionError
from wyrm.types.options import number, whole


@dataclass(frozen=True)
class Step:
    """`start`, multiplied by `factor` once every `every` steps.

    >>> rate = Step(1.0, every=10, factor=0.5)
    >>> rate(9), rate(10), rate(20)
    (1.0, 0.5, 0.25)
    """

    start: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        number("start", self.start, 0.0)
        whole("every", self.every, 1)
        number("factor", self.factor, 0.0)

    def __call__(self, step: int) -> float:
        return self.start * self.factor ** (step // self.every)


@dataclass(frozen=True)
class Exponential:
    """`start`, multiplied by `factor` every step.

    >>> Exponential(1.0, factor=0.5)(3)
    0.125
    """

    start: float
    factor: float

    def __post_init__(self) -> None:
        number("start", self.start, 0.0)
        number("factor", self.factor, 0.0)

    def __call__(self, step: int) -> float:
        return self.start * self.factor**step


@dataclass(frozen=True)
class Cosine:
    """Half a cosine from `start` to `end` over `steps` (Loshchilov and Hutter, 2017), then constant at `end`.

    >>> rate = Cosine(1.0, steps=10)
    >>> rate(0), round(rate(5), 6), rate(10), rate(1000)
    (1.0, 0.5, 0.0, 0.0)
    """

    start: float
    steps: int
    end: float = 0.0

    def __post_init__(self) -> None:
        number("start", self.start, 0.0)
        whole("steps", self.steps, 1)
        number("end", self.end, 0.0)

    def __call__(self, step: int) -> float:
        if step >= self.steps:
            return self.end
        return self.end + (self.start - self.end) * (1.0 + math.cos(math.pi * step / self.steps)) / 2.0


@dataclass(frozen=True)
class LinearWarmup:
    """A linear increase from `start` to `peak` over `steps`, then constant at `peak`.

    >>> rate = LinearWarmup(1.0, steps=4)
    >>> rate(0), rate(2), rate(4), rate(100)
    (0.0, 0.5, 1.0, 1.0)
    """

    peak: float
    steps: int
    start: float = 0.0

    def __post_init__(self) -> None:
        number("peak", self.peak, 0.0)
        whole("steps", self.steps, 1)
        number("start", self.start, 0.0)

    def __call__(self, step: int) -> float:
        return self.peak if step >= self.steps else self.start + (self.peak - self.start) * step / self.steps


@dataclass(frozen=True)
class WarmupCosine:
    """`LinearWarmup` to `peak` over `warmup` steps, then `Cosine` to `end` at step `steps`, then constant at `end`.

    >>> rate = WarmupCosine(1.0, warmup=2, steps=12)
    >>> rate(1), rate(2), round(rate(7), 6), rate(12), rate(99)
    (0.5, 1.0, 0.5, 0.0, 0.0)
    """

    peak: float
    warmup: int
    steps: int
    end: float = 0.0

    def __post_init__(self) -> None:
        number("peak", self.peak, 0.0)
        number("end", self.end, 0.0)
        whole("warmup", self.warmup, 1)
        whole("steps", self.steps, 1)
        if self.warmup >= self.steps:
            raise OptionError(f"warmup must be below steps={self.steps}, not {self.warmup}")

    def __call__(self, step: int) -> float:
        if step < self.warmup:
            return LinearWarmup(self.peak, self.warmup)(step)
        return Cosine(self.peak, self.steps - self.warmup, self.end)(step - self.warmup)
