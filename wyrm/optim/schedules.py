"""Learning rate schedules: functions of the number of completed steps, given to an optimizer as `learning_rate`.

A step is a batch: a training of some epochs with a `DataLoader` has `epochs * len(loader)` of them, and one with
columns `epochs * math.ceil(rows / batch_size)`.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeVar, dataclass_transform

from wyrm.errors import OptionError
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import number, whole

C = TypeVar("C", bound=type[Any])


class Formula:
    """The base of a schedule that is a function of numbers, `formula(step, *fields)`.

    The function is compiled where a program leaves Python, so it is written in the language of kernels.
    """

    formula: ClassVar[Callable[..., float]]

    @cached_property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the formula behind the step."""
        fields: Mapping[str, Any] = self.__dataclass_fields__  # type: ignore[attr-defined]  # of each subclass
        return tuple(getattr(self, name) for name in fields)

    def __call__(self, step: int) -> float:
        return type(self).formula(step, *self.arguments)


# --- the formulas, in the language of kernels -------------------------------------------------------------------------


def _passed(step: int, boundaries: Sequence[int]) -> int:
    """Return how many of the increasing boundaries are at most `step`."""
    count = 0
    for i in range(len(boundaries)):
        if step >= boundaries[i]:
            count += 1
    return count


def _step(step: int, start: float, every: int, factor: float) -> float:
    return start * factor ** (step // every)


def _multi_step(step: int, start: float, milestones: Sequence[int], factor: float) -> float:
    return start * factor ** _passed(step, milestones)


def _piecewise(step: int, values: Sequence[float], boundaries: Sequence[int]) -> float:
    return float(values[_passed(step, boundaries)])


def _exponential(step: int, start: float, factor: float) -> float:
    return start * factor**step


def _half_cosine(start: float, end: float, fraction: float) -> float:
    return end + (start - end) * (1.0 + math.cos(math.pi * fraction)) / 2.0


def _cosine(step: int, start: float, steps: int, end: float) -> float:
    if step >= steps:
        return end
    return _half_cosine(start, end, step / steps)


def _cosine_restarts(step: int, start: float, steps: int, end: float, growth: int) -> float:
    at, length = step, steps
    if growth == 1:
        at %= length
    while at >= length:
        at, length = at - length, length * growth
    return _cosine(at, start, length, end)


def _polynomial(step: int, start: float, steps: int, end: float, power: float) -> float:
    if step >= steps:
        return end
    return float(end + (start - end) * (1.0 - step / steps) ** power)


def _one_cycle(step: int, peak: float, steps: int, rise: float, start_divisor: float, end_divisor: float) -> float:
    start = peak / start_divisor
    end, last = start / end_divisor, steps - 1
    top = max(0.0, rise * steps - 1.0)
    if step <= top and top > 0.0:
        return _half_cosine(start, peak, step / top)
    return _half_cosine(peak, end, min(1.0, (step - top) / (last - top)))


def _linear_warmup(step: int, peak: float, steps: int, start: float) -> float:
    return peak if step >= steps else start + (peak - start) * step / steps


def _warmup_cosine(step: int, peak: float, warmup: int, steps: int, end: float) -> float:
    if step < warmup:
        return _linear_warmup(step, peak, warmup, 0.0)
    return _cosine(step - warmup, peak, steps - warmup, end)


# --- the schedules ----------------------------------------------------------------------------------------------------


@dataclass_transform(frozen_default=True)
def _schedule(cls: C) -> C:
    """Make a frozen dataclass of a schedule, whose errors for unknown keywords say what to use instead."""
    made: Any = dataclass(frozen=True)(cls)
    made.__init__ = explains_keywords(made.__init__)
    result: C = made
    return result


@_schedule
class Step(Formula):
    """`start`, multiplied by `factor` once every `every` steps.

    >>> rate = Step(1.0, every=10, factor=0.5)
    >>> rate(9), rate(10), rate(20)
    (1.0, 0.5, 0.25)
    """

    formula = staticmethod(_step)

    start: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        number("start", self.start, 0.0)
        _set_options(self, every=whole("every", self.every, 1))
        number("factor", self.factor, 0.0)


@_schedule
class MultiStep(Formula):
    """`start`, multiplied by `factor` at each of the increasing steps `milestones`.

    >>> rate = MultiStep(1.0, milestones=(10, 30), factor=0.5)
    >>> rate(9), rate(10), rate(30)
    (1.0, 0.5, 0.25)
    """

    formula = staticmethod(_multi_step)

    start: float
    milestones: Sequence[int]
    factor: float = 0.1

    def __post_init__(self) -> None:
        number("start", self.start, 0.0)
        _set_options(self, milestones=_increasing("milestones", self.milestones))
        number("factor", self.factor, 0.0)


@_schedule
class Piecewise(Formula):
    """The first of `values` before the first of the increasing steps `boundaries`, and then one value after each.

    >>> rate = Piecewise([0.1, 1.0, 0.01], boundaries=[5, 20])
    >>> rate(4), rate(5), rate(19), rate(20)
    (0.1, 1.0, 1.0, 0.01)
    """

    formula = staticmethod(_piecewise)

    values: Sequence[float]
    boundaries: Sequence[int]

    def __post_init__(self) -> None:
        for position, value in enumerate(self.values):
            number(f"values[{position}]", value, 0.0)
        _set_options(self, boundaries=_one_more("values", self.values, self.boundaries))


@_schedule
class Joined:
    """The first of `schedules` before the first of the increasing steps `boundaries`, and then one after each.

    A schedule counts its steps from the boundary at which it begins. A number stands for a constant rate.

    >>> rate = Joined([LinearWarmup(1.0, 4), 1.0, Exponential(1.0, 0.5)], boundaries=[4, 10])
    >>> rate(2), rate(4), rate(9), rate(10), rate(12)
    (0.5, 1.0, 1.0, 1.0, 0.25)
    """

    schedules: Sequence[float | Callable[[int], float]]
    boundaries: Sequence[int]

    def __post_init__(self) -> None:
        for position, schedule in enumerate(self.schedules):
            if not callable(schedule):
                number(f"schedules[{position}]", schedule, 0.0)
        _set_options(self, boundaries=_one_more("schedules", self.schedules, self.boundaries))

    def __call__(self, step: int) -> float:
        position = bisect_right(self.boundaries, step)
        schedule = self.schedules[position]
        return schedule(step - (self.boundaries[position - 1] if position else 0)) if callable(schedule) else schedule


@_schedule
class Exponential(Formula):
    """`start`, multiplied by `factor` every step.

    >>> Exponential(1.0, factor=0.5)(3)
    0.125
    """

    formula = staticmethod(_exponential)

    start: float
    factor: float

    def __post_init__(self) -> None:
        number("start", self.start, 0.0)
        number("factor", self.factor, 0.0)


@_schedule
class Cosine(Formula):
    """Half a cosine from `start` to `end` over `steps` (Loshchilov and Hutter, 2017), then constant at `end`.

    >>> rate = Cosine(1.0, steps=10)
    >>> rate(0), round(rate(5), 6), rate(10), rate(1000)
    (1.0, 0.5, 0.0, 0.0)
    """

    formula = staticmethod(_cosine)

    start: float
    steps: int
    end: float = 0.0

    def __post_init__(self) -> None:
        number("start", self.start, 0.0)
        _set_options(self, steps=whole("steps", self.steps, 1))
        number("end", self.end, 0.0)


@_schedule
class CosineRestarts(Formula):
    """Half a cosine from `start` to `end` over `steps`, again and again (Loshchilov and Hutter, 2017).

    Each repetition takes `growth` times as many steps as the one before.

    >>> rate = CosineRestarts(1.0, steps=10, growth=2)
    >>> [round(rate(step), 6) for step in (0, 5, 10, 20, 30)]
    [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    formula = staticmethod(_cosine_restarts)

    start: float
    steps: int
    end: float = 0.0
    growth: int = 1

    def __post_init__(self) -> None:
        number("start", self.start, 0.0)
        _set_options(self, steps=whole("steps", self.steps, 1))
        number("end", self.end, 0.0)
        _set_options(self, growth=whole("growth", self.growth, 1))


@_schedule
class Polynomial(Formula):
    """`end + (start - end) * (1 - step / steps) ** power` over `steps`, then constant at `end`: by default a line.

    The linear decay of word2vec over some epochs is `Polynomial(0.025, epochs * math.ceil(rows / batch_size), 1e-4)`.

    >>> rate = Polynomial(1.0, steps=10, power=2.0)
    >>> rate(0), rate(5), rate(10), rate(99)
    (1.0, 0.25, 0.0, 0.0)
    """

    formula = staticmethod(_polynomial)

    start: float
    steps: int
    end: float = 0.0
    power: float = 1.0

    def __post_init__(self) -> None:
        number("start", self.start, 0.0)
        _set_options(self, steps=whole("steps", self.steps, 1))
        number("end", self.end, 0.0)
        number("power", self.power, 0.0)


@_schedule
class OneCycle(Formula):
    """Half a cosine up to `peak`, then half a cosine down, over `steps` (Smith and Topin, 2018), as in PyTorch.

    The rate rises from `peak / start_divisor` over the fraction `rise` of the steps, falls to
    `peak / start_divisor / end_divisor` in step `steps - 1`, and then stays there.

    >>> rate = OneCycle(1.0, steps=11, rise=0.5454, start_divisor=10.0)
    >>> round(rate(0), 6), round(rate(5), 3), round(rate(10), 6)
    (0.1, 1.0, 1e-05)
    """

    formula = staticmethod(_one_cycle)

    peak: float
    steps: int
    rise: float = 0.3
    start_divisor: float = 25.0
    end_divisor: float = 1e4

    def __post_init__(self) -> None:
        number("peak", self.peak, 0.0)
        _set_options(self, steps=whole("steps", self.steps, 2))
        number("rise", self.rise, 0.0, 1.0)
        number("start_divisor", self.start_divisor, 1.0)
        number("end_divisor", self.end_divisor, 1.0)


@_schedule
class LinearWarmup(Formula):
    """A linear increase from `start` to `peak` over `steps`, then constant at `peak`.

    >>> rate = LinearWarmup(1.0, steps=4)
    >>> rate(0), rate(2), rate(4), rate(100)
    (0.0, 0.5, 1.0, 1.0)
    """

    formula = staticmethod(_linear_warmup)

    peak: float
    steps: int
    start: float = 0.0

    def __post_init__(self) -> None:
        number("peak", self.peak, 0.0)
        _set_options(self, steps=whole("steps", self.steps, 1))
        number("start", self.start, 0.0)


@_schedule
class WarmupCosine(Formula):
    """`LinearWarmup` to `peak` over `warmup` steps, then `Cosine` to `end` at step `steps`, then constant at `end`.

    Both count batches, as in `WarmupCosine(1e-3, warmup=len(loader), steps=epochs * len(loader))`. The rate of step 0
    is 0, so that the first batch moves no parameter.

    >>> rate = WarmupCosine(1.0, warmup=2, steps=12)
    >>> rate(1), rate(2), round(rate(7), 6), rate(12), rate(99)
    (0.5, 1.0, 0.5, 0.0, 0.0)
    """

    formula = staticmethod(_warmup_cosine)

    peak: float
    warmup: int
    steps: int
    end: float = 0.0

    def __post_init__(self) -> None:
        number("peak", self.peak, 0.0)
        number("end", self.end, 0.0)
        _set_options(self, warmup=whole("warmup", self.warmup, 1))
        _set_options(self, steps=whole("steps", self.steps, 1))
        if self.warmup >= self.steps:
            raise OptionError(f"warmup must be below steps={self.steps}, not {self.warmup}")


def _set_options(schedule: object, **values: object) -> None:
    """Set checked options of a frozen schedule, as Python's numbers, which do not overflow."""
    for name, value in values.items():
        object.__setattr__(schedule, name, value)


def _increasing(name: str, steps: Sequence[int]) -> tuple[int, ...]:
    """Return the steps; raise `OptionError` unless they are positive and increase, `DTypeError` unless integers."""
    found: list[int] = []
    for position, step in enumerate(steps):
        found.append(whole(f"{name}[{position}]", step, found[-1] + 1 if found else 1))
    return tuple(found)


def _one_more(name: str, values: Sequence[object], boundaries: Sequence[int]) -> tuple[int, ...]:
    """Return the increasing boundaries; raise `OptionError` unless there is one more value than boundaries."""
    found = _increasing("boundaries", boundaries)
    if len(values) != len(found) + 1:
        raise OptionError(f"{len(found)} boundaries need {len(found) + 1} {name}, not {len(values)}")
    return found
