"""What optimizers are given: parameters, groups of them, options, and averages; each is checked here."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Required, TypedDict, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, OptionError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.parameters import Parameter
from wyrm.support.foreign_names import explain, explains_keywords
from wyrm.support.options import number, pair, whole

T = TypeVar("T")

LearningRate = float | Callable[[int], float]


class ParameterGroup(TypedDict, total=False):
    """A group of parameters and the options in which it differs from the optimizer's others: an ordinary dict.

    `learning_rate_factor` multiplies the optimizer's rate, which may be a schedule; `learning_rate` replaces it. The
    other options are those of the optimizer's class, and of `StepOptions`. Type checkers know the entries of a dict
    that stands in the call; a variable is declared:

    >>> weight, bias = wy.Parameter([1.0, 2.0]), wy.Parameter(0.0)
    >>> groups: list[wy.optim.ParameterGroup] = [{"parameters": [weight], "weight_decay": 0.1}, {"parameters": [bias]}]
    >>> [group.weight_decay for group in wy.optim.SGD(groups, 0.5).groups]
    [0.1, 0.0]
    """

    parameters: Required[Iterable[Parameter]]
    learning_rate: LearningRate
    learning_rate_factor: float
    clip_value: float | None
    lower: float | None
    upper: float | None
    # The options of the optimizers.
    amsgrad: bool
    beta: float
    betas: tuple[float, float]
    centered: bool
    decay: float
    epsilon: float | None
    initial_accumulator: float
    iterations: int
    l1: float
    l2: float
    learning_rate_decay: float
    momentum: float
    momentum_decay: float
    nesterov: bool
    scale: Literal["spectral", "rms"]
    second_decay: float
    smallest_scale: float
    steps_per_epoch: int
    threshold: float
    trust: float
    weight_decay: float


# Parameters, or groups of them.
ParameterGroups = Iterable[Parameter | ParameterGroup]

# --- options ---------------------------------------------------------------------------------------------------------


@dataclass_transform(eq_default=False)
def with_options(optimizer: type[T]) -> type[T]:
    """Give an optimizer an `__init__` with the options that it declares as attributes, as a dataclass has it.

    >>> @with_options
    ... class Descent(wy.optim.Optimizer):
    ...     learning_rate: wy.optim.Rate = wy.optim.Rate(0.1)
    ...     weight_decay: float = wy.optim.option(0.0)
    ...     def update(self, parameter, gradient, state, hyperparameters):
    ...         rate = hyperparameters["learning_rate"]
    ...         return parameter - rate * (gradient + self.weight_decay * parameter), {}
    >>> Descent([wy.Parameter(1.0)], weight_decay=0.5)
    Descent(1 parameter, learning_rate=0.1, weight_decay=0.5)
    """
    made: Any = dataclass(eq=False, repr=False)(optimizer)
    made.__init__.__annotations__["parameters"] = "ParameterGroups"  # what notebooks show: what it takes
    made.__init__ = explains_keywords(made.__init__)
    found: type[T] = made
    return found


def option(default: T, low: float = 0.0, below: float = math.inf) -> T:
    """Declare an option of an optimizer: a number of at least `low` and below `below`, or None if that is the default.

    With an integer as the default, the option is an integer; with a pair, two numbers in [0, 1). Other values raise
    `OptionError`, those of another kind `DTypeError`.
    """
    found: T = field(default=default, metadata={"range": (low, below)})
    return found


def check_declared(optimizer: Any) -> None:
    """Check the declared options of an optimizer, and set them to Python's numbers."""
    for each in fields(optimizer):
        if "range" not in each.metadata:
            continue
        name, value = each.name, getattr(optimizer, each.name)
        if isinstance(each.default, tuple):
            setattr(optimizer, name, pair(name, value))
        elif isinstance(each.default, int):
            setattr(optimizer, name, whole(name, value, each.metadata["range"][0]))
        elif value is not None or each.default is not None:
            setattr(optimizer, name, number(name, value, *each.metadata["range"]))


class StepOptions(TypedDict, total=False):
    """Options of every optimizer: limits of the gradients, bounds of the parameters, and averages of them.

    `max_norm` scales all gradients by one factor so that their global norm, over all groups, is at most `max_norm`;
    each of the threads of mode "hogwild" scales its own gradients by their own norm.
    `clip_value` then clips every element of a gradient to `[-clip_value, clip_value]`. `lower` and `upper` bound every
    element of a parameter after its step. `average`, an `EMA` or `SWA`, keeps averages of the parameters. A group may
    have its own `clip_value`, `lower` and `upper`.
    """

    max_norm: float | None
    clip_value: float | None
    lower: float | None
    upper: float | None
    average: Average | None


# The options that a group of parameters may have.
GROUP_OPTIONS = ("clip_value", "lower", "upper")
STEP_OPTIONS = ("max_norm", *GROUP_OPTIONS, "average")


def check_names(who: str, names: Iterable[str], known: Sequence[str] = STEP_OPTIONS) -> None:
    """Raise `TypeError` unless all these are names of the known options."""
    for name in names:
        if name not in known:
            error = TypeError(f"{who}.__init__() got an unexpected keyword argument {name!r}")
            explain(error, who, [name], known)
            raise error


def check_step_options(optimizer: Any) -> None:
    """Raise `OptionError` or `DTypeError` for values of `StepOptions` that are out of range."""
    for name in ("max_norm", "clip_value"):
        if getattr(optimizer, name) is not None:
            limit(name, getattr(optimizer, name))
    for name in ("lower", "upper"):
        if getattr(optimizer, name) is not None:
            setattr(optimizer, name, number(name, getattr(optimizer, name)))
    lower, upper, average = optimizer.lower, optimizer.upper, optimizer.average
    if lower is not None and upper is not None and not lower <= upper:
        raise OptionError(f"lower must be at most upper={upper:g}, not {lower:g}")
    if average is not None and not isinstance(average, Average):
        raise DTypeError(f"average must be an average, as in wy.optim.EMA(0.999), not {average!r}")


def limit(name: str, value: object) -> None:
    """Raise `OptionError` unless the limit is above 0, `DTypeError` unless it is a number; infinity clips nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DTypeError(f"{name} must be a number, not {value!r}")
    if not value > 0.0:
        raise OptionError(f"{name} must be above 0, not {value}")


# --- parameters and groups -------------------------------------------------------------------------------------------


def checked_parameters(who: str, parameters: Iterable[Parameter]) -> list[Parameter]:
    """Return the parameters as a list; raise unless there is at least one, each occurs once, and all are parameters."""
    if isinstance(parameters, BaseNode):
        raise TypeError(f"{who} takes a list of parameters, not one node: {describe(parameters)}")
    if not isinstance(parameters, Iterable):
        raise TypeError(f"{who} takes a list of parameters, not {type(parameters).__name__}: pass model.parameters()")
    found = list(parameters)
    if not found:
        raise ValueError(f"{who} was given no parameters; pass loss.parameters()")
    seen: set[Parameter] = set()
    for parameter in found:
        if not isinstance(parameter, Parameter):
            raise TypeError(
                f"{who} takes a list of parameters, as model.parameters() gives; an element is "
                f"{type(parameter).__name__}"
            )
        if parameter in seen:
            raise ValueError(f"{who} was given {describe(parameter)} twice")
        seen.add(parameter)
    return found


@dataclass(frozen=True)
class ScaledRate:
    """A schedule times a factor."""

    schedule: Callable[[int], float]
    factor: float

    def __call__(self, step: int) -> float:
        return self.factor * self.schedule(step)


def scaled_rate(rate: LearningRate, factor: float) -> LearningRate:
    """Return the learning rate or schedule times a factor."""
    if factor == 1.0:
        return rate
    return ScaledRate(rate, factor) if callable(rate) else factor * rate


def split_groups(who: str, parameters: object) -> tuple[Any, list[Mapping[str, Any]]]:
    """Return the parameters and no groups, or the groups of a list of groups.

    Raise `TypeError` for a list of both, and `ValueError` for a group without the entry "parameters".
    """
    if isinstance(parameters, BaseNode) or not isinstance(parameters, Iterable):
        return parameters, []
    given = list(parameters)
    groups = [each for each in given if isinstance(each, Mapping)]
    if groups and len(groups) < len(given):
        raise TypeError(f"{who} takes a list of parameters or a list of groups, not a list of both")
    for position, group in enumerate(groups):
        if "parameters" not in group:
            raise OptionError(
                f'group {position} of {who} has no entry "parameters"; a group is a dict such as '
                f'{{"parameters": model.parameters(), "learning_rate": 0.1}}'
            )
    return given, groups


def check_distinct(who: str, groups: Sequence[Sequence[Parameter]]) -> None:
    """Raise `ValueError` for a parameter in two groups."""
    group_of: dict[Parameter, int] = {}
    for position, group in enumerate(groups):
        for parameter in group:
            if parameter in group_of:
                raise ValueError(f"{who} has {describe(parameter)} in groups {group_of[parameter]} and {position}")
            group_of[parameter] = position


# --- averages --------------------------------------------------------------------------------------------------------


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
        """Return the weight of each of these steps; 0 for a step that does not count.

        Exports call it with a node, so it is arithmetic and functions of NumPy, as `weight` is.
        """
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


# The numbers of so many epochs, and at most of so many steps, are computed at once.
_EPOCHS_AHEAD, _STEPS_AHEAD, _ALL_STEPS = 32, 4096, 2**50


@dataclass(frozen=True)
class Precomputed:
    """A rule's scalars at a constant learning rate for the steps after `first` ones; none by default."""

    rate: float | None = None
    first: int = 0
    numbers: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def of(self, rate: float, done: int, count: int) -> dict[str, NDArray[np.float64]] | None:
        """Return the scalars for `count` steps after `done` ones, if they are known."""
        start = done - self.first
        if rate != self.rate or start < 0 or any(start + count > len(value) for value in self.numbers.values()):
            return None
        return {name: value[start : start + count] for name, value in self.numbers.items()}

    @staticmethod
    def ahead(
        numbers_at: Callable[[Any], Mapping[str, object]], rate: float, done: int, count: int, fixed: bool
    ) -> Precomputed:
        """Return the scalars of `count` steps after `done` ones, or of more if the options of the rule are `fixed`.

        Raise `TypeError` or `ValueError` if `numbers_at` takes one step at a time only.
        """

        def first(steps: int) -> Mapping[str, object]:
            return numbers_at(np.arange(done + 1, done + steps + 1, dtype=np.float64))

        # Of two steps, because a branch on the number of one step would be taken.
        found, many = first(2), _ALL_STEPS
        changes = any(isinstance(value, np.ndarray) and value.ndim for value in found.values())
        if changes:
            many = max(count, min(_EPOCHS_AHEAD * count, _STEPS_AHEAD)) if fixed else max(count, 2)
            found = first(many)
        numbers = {name: _in_each_step(value, many) for name, value in found.items()}
        return Precomputed(rate, done if changes else 0, numbers)

    @staticmethod
    def exactly(
        numbers_at: Callable[[Any], Mapping[str, object]], done: int, count: int
    ) -> dict[str, NDArray[np.float64]]:
        """Return the scalars of `count` steps after `done` ones, whose learning rates differ; raise as `ahead` does."""
        found = numbers_at(np.arange(done + 1, done + count + 1, dtype=np.float64))
        return {name: _in_each_step(value, count) for name, value in found.items()}


def _in_each_step(value: object, count: int) -> NDArray[np.float64]:
    """Return the array of a scalar's values in `count` steps; a number is the same in all, and stored once."""
    if isinstance(value, np.ndarray) and value.ndim:
        return value.astype(np.float64, copy=False)
    return np.broadcast_to(np.array(value, np.float64), count)
