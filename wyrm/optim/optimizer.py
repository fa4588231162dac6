"""The base class of optimizers: state, step, and an update rule written once as a graph."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import Unpack

from wyrm.engines.optimizer import AVERAGE, GRADIENT_SCALE
from wyrm.errors import Diverged, NotSet, OptionError
from wyrm.graph.base import describe
from wyrm.graph.node import Node
from wyrm.graph.parameters import Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import bound_array, stored, touch
from wyrm.graph.typing import FloatArray
from wyrm.optim.clipping import all_finite, global_norm, summed
from wyrm.optim.options import (
    GROUP_OPTIONS,
    Average,
    LearningRate,
    ParameterGroups,
    Precomputed,
    StepOptions,
    check_declared,
    check_distinct,
    check_names,
    check_step_options,
    checked_parameters,
    option,
    scaled_rate,
    split_groups,
    with_options,
)
from wyrm.optim.rules import Rate, Rule, Update, Values, blend, check_group, decayed, norm, option_names
from wyrm.optim.state import OptimizerState
from wyrm.support.interrupts import deferred
from wyrm.support.memory import aligned
from wyrm.support.options import number

if TYPE_CHECKING:
    from wyrm.optim.state import GivenParameters

# What the author of an optimizer needs.
__all__ = [
    "LearningRate",
    "Node",
    "Optimizer",
    "ParameterGroups",
    "Rate",
    "StepOptions",
    "Update",
    "Values",
    "blend",
    "decayed",
    "norm",
    "option",
    "with_options",
]  # fmt: skip

# Once gradients are zero, their moving average decays to denormal numbers, with which a processor is a hundred times
# slower. Every `_FLUSH_EVERY` steps, denormal state is therefore set to zero where the gradient is zero.
_FLUSH_EVERY = 16


@with_options
class Optimizer(OptimizerState):
    """The base class of all optimizers.

    A subclass declares its state with initial values, and its elementwise rule, `update`, over nodes. The rule runs on
    whole parameters, or on the rows that a row-sparse gradient touches; other rows keep their values and state, so
    momentum and weight decay do not apply to them. A parameter without a gradient is skipped, and bias corrections
    count each parameter's own steps. A subclass with `elementwise = False` may reduce over a parameter and multiply
    matrices; its row-sparse gradients become dense.

    `parameters` are parameters, or groups of them: dicts with "parameters" and options that differ from the others'.
    `"learning_rate_factor"` instead of `"learning_rate"` multiplies the optimizer's rate, which may be a schedule.

    `learning_rate` is a number or a schedule, a function of the number of completed steps. It can be set at any time,
    also that of one of the `groups`; other options are fixed once the rule has been built. `StepOptions` describes the
    options that all optimizers share: `max_norm`, `clip_value`, `lower`, `upper` and `average`.

    Raise `ValueError` for an empty list, a repeated parameter, or a learning rate that is negative or not finite, and
    `TypeError` for an element that is not a parameter.

    >>> class SignDescent(wy.optim.Optimizer):
    ...     def __init__(self, parameters, learning_rate=0.01, momentum=0.9):
    ...         self.momentum = momentum
    ...         super().__init__(parameters, learning_rate)
    ...     def initial_state(self):
    ...         return {"mean": 0.0}
    ...     def update(self, parameter, gradient, state, hyperparameters):
    ...         mean = self.momentum * state["mean"] + (1.0 - self.momentum) * gradient
    ...         return parameter - hyperparameters["learning_rate"] * mean.sign(), {"mean": mean}
    >>> x = wy.Parameter([1.0, -2.0])
    >>> optimizer = SignDescent([x], learning_rate=0.5)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.value.tolist()
    [0.5, -1.5]
    >>> model = wy.nn.Linear(2, 3)
    >>> groups = [{"parameters": [model.weight], "weight_decay": 0.1}, {"parameters": [model.bias]}]
    >>> [group.weight_decay for group in wy.optim.SGD(groups, 0.5, max_norm=1.0).groups]
    [0.1, 0.0]
    """

    _foreign = "OPTIMIZER"
    parameters: GivenParameters
    learning_rate: Rate
    _: KW_ONLY
    max_norm: float | None = None
    clip_value: float | None = None
    lower: float | None = None
    upper: float | None = None
    average: Average | None = None

    def __init__(
        self, parameters: ParameterGroups, learning_rate: LearningRate, **options: Unpack[StepOptions]
    ) -> None:
        check_names(type(self).__name__, options)
        self.parameters, self.learning_rate = parameters, learning_rate
        for name, value in options.items():
            setattr(self, name, value)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check the options, and begin with the state of the parameters."""
        check_declared(self)
        check_step_options(self)
        self.steps: int = 0
        self._rules = {}
        every, groups = split_groups(type(self).__name__, self.parameters)
        if groups:
            members = [self._member(group) for group in groups]
            self._join(members, [state for member in members for state in member._state])
            return
        self.parameters = checked_parameters(type(self).__name__, every)
        self._start_with([self._new_state(parameter) for parameter in self.parameters], [0] * len(self.parameters))

    # --- groups ---------------------------------------------------------------------------------------------------

    @property
    def rated_groups(self) -> list[Optimizer]:
        """This optimizer and the groups that have a learning rate of their own; the other groups follow this one's."""
        every = (self, *self._members)
        # `Combined` has no rate.
        return [group for group in every if group._rate_factor is None and "_learning_rate" in group.__dict__]

    def _member(self, group: Mapping[str, Any]) -> Optimizer:
        """Return the optimizer of a group: the options are this one's unless the group has its own."""
        own = {name: value for name, value in group.items() if name not in ("parameters", "learning_rate_factor")}
        known = check_group(type(self), own)
        factor = number("learning_rate_factor", group.get("learning_rate_factor", 1.0), 0.0)
        follows = "learning_rate" not in own
        if not follows and "learning_rate_factor" in group:
            raise OptionError("a group has either a learning_rate or a learning_rate_factor, not both")
        shared = {name: getattr(self, name) for name in known if hasattr(self, name)}
        rate = {"learning_rate": scaled_rate(self._learning_rate, factor)} if follows else {}
        options: dict[str, Any] = {name: value for name, value in (shared | own | rate).items() if value is not None}
        member = type(self)(group["parameters"], **options)
        member._rate_factor = factor if follows else None
        return member

    def _join(self, members: Sequence[Optimizer], state: list[dict[str, np.ndarray]]) -> None:
        """Take over the parameters and the state of the optimizers of groups."""
        check_distinct(type(self).__name__, [member.parameters for member in members])
        self._members = tuple(members)
        self.parameters = [parameter for member in members for parameter in member.parameters]
        for position, member in enumerate(members):
            member._suffix, member._rules, member._precomputed = f"__{position}" if position else "", {}, Precomputed()
            member._is_member = True
        groups = [position for position, member in enumerate(members) for _ in member.parameters]
        self._start_with(state, groups)
        for member in members:
            member._state = []

    def _start_with(self, state: list[dict[str, np.ndarray]], groups: list[int]) -> None:
        """Start with this state of the parameters, which are in these groups."""
        self._position = {parameter: i for i, parameter in enumerate(self.parameters)}
        self._state, self._group_of = state, groups
        # The rules of all parameters, for `step`.
        self._all_rules: list[Rule] = []
        self._counts = [0] * len(self.parameters)
        if self.average is not None:
            for parameter, arrays in zip(self.parameters, state, strict=True):
                arrays[AVERAGE] = aligned(parameter.shape, parameter.dtype, bound_array(parameter))

    def _rate_changed(self) -> None:
        for member in self._members:
            if member._rate_factor is not None:
                member._learning_rate = scaled_rate(self._learning_rate, member._rate_factor)

    def scale_learning_rates(self, factor: float, minimum: float = 0.0) -> None:
        """Multiply the learning rate, and the rates that groups have of their own, by `factor`, down to `minimum`.

        Groups with a `learning_rate_factor` follow the learning rate. Raise `OptionError` for a schedule; no rate has
        changed then.

        >>> groups = [{"parameters": [wy.Parameter(1.0)]}, {"parameters": [wy.Parameter(1.0)], "learning_rate": 0.25}]
        >>> optimizer = wy.optim.SGD(groups, learning_rate=1.0)
        >>> optimizer.scale_learning_rates(0.5)
        >>> [group.learning_rate for group in optimizer.groups]
        [0.5, 0.125]
        """
        if any(callable(group.options()["learning_rate"]) for group in self.groups):
            raise OptionError(f"a learning rate must be a number to be scaled, and {self!r} has a schedule")
        for group in self.rated_groups:
            rate = group.learning_rate
            group.learning_rate = max(rate * factor, min(rate, minimum))

    # --- stepping -------------------------------------------------------------------------------------------------

    def rule(self, parameter: Parameter) -> Rule:
        """Return the rule of a parameter, built on first use."""
        return self.groups[self._group_of[self._position[parameter]]].rule_for(parameter, self.max_norm is not None)

    def step(self) -> None:
        """Update every parameter that has a gradient.

        The update is atomic: Ctrl-C takes effect before or after it. Raise `Diverged` for a gradient with a NaN or an
        infinity and `NotSet` if no parameter has a gradient; no parameter has changed then.
        """
        self._check_usable()
        gradients = [stored(parameter).gradient for parameter in self.parameters]
        if all(gradient is None for gradient in gradients):
            raise NotSet(
                "no parameter has a gradient: call loss.backward() before step(), and zero_gradient() only after it"
            )
        held = [summed(g) if isinstance(g, RowSparse) else g for g in gradients]
        arrays = [gradient.values if isinstance(gradient, RowSparse) else gradient for gradient in held]
        numbers: dict[tuple[int, int], dict[str, float]] = {}  # by group and step count, which most parameters share
        with np.errstate(all="ignore"):
            for parameter, values in zip(self.parameters, arrays, strict=True):
                if values is not None and not all_finite(values):
                    raise self._diverged(parameter, values)
            if not self._all_rules:
                self._all_rules = [self.rule(parameter) for parameter in self.parameters]
            rules = self._all_rules
            scale: dict[str, float] = {}
            if self.max_norm is not None:
                norm = global_norm(values for values in arrays if values is not None)
                scale[GRADIENT_SCALE] = self.max_norm / norm if norm > self.max_norm else 1.0
            keys = [(group, count + 1) for group, count in zip(self._group_of, self._counts, strict=True)]
            for group, step in keys:
                if (group, step) not in numbers:
                    weights = {name: float(each[0]) for name, each in self._weights(group, np.array([step])).items()}
                    numbers[group, step] = self.groups[group].numbers_at(step) | scale | weights
            with deferred:
                for i, gradient in enumerate(held):
                    if gradient is None:
                        continue
                    self._counts[i] += 1
                    self._move(rules[i], self.parameters[i], gradient, self._state[i], numbers[keys[i]])
                    averaging = self.average_rule(self.parameters[i])
                    if averaging is not None:
                        averaging.move(self._state[i][AVERAGE], bound_array(self.parameters[i]), {}, numbers[keys[i]])
                self._set_steps(self.steps + 1)

    def _diverged(self, parameter: Parameter, gradient: FloatArray) -> Diverged:
        return Diverged(
            f"the gradient of {describe(parameter)} holds {gradient[~np.isfinite(gradient)][0]} in step "
            f"{self.steps + 1} at learning rate {self.learning_rate:g}; no parameter has moved. Find the "
            f"cause with wy.watch_nan(), lower the learning rate, or clip with the option max_norm"
        )

    def _move(
        self,
        rule: Rule,
        parameter: Parameter,
        gradient: FloatArray | RowSparse,
        state: Mapping[str, np.ndarray],
        hyperparameters: Mapping[str, float],
    ) -> None:
        flush = rule.flushes and self.steps % _FLUSH_EVERY == 0
        try:
            rule.move(bound_array(parameter), gradient, state, hyperparameters, flush)
        finally:
            touch(stored(parameter))

    # --- averages -------------------------------------------------------------------------------------------------

    @contextmanager
    def average_parameters(self) -> Iterator[None]:
        """Exchange the parameters for their averages inside the `with` statement, for evaluation.

        A parameter that no average counts yet keeps its value. Raise `OptionError` without the option `average`;
        training, saving and loading the optimizer inside the statement raise it too.
        """
        if self.average is None:
            raise OptionError(
                f"{type(self).__name__} keeps no averages; give it average=wy.optim.EMA(0.999) when you make it"
            )
        self._check_usable()
        chosen = [i for i, count in enumerate(self._counts) if count >= self.average.start]
        self._exchange(chosen)
        try:
            yield
        finally:
            self._exchange(chosen)

    def _exchange(self, chosen: Sequence[int]) -> None:
        with deferred:
            for i in chosen:
                array, average = bound_array(self.parameters[i]), self._state[i][AVERAGE]
                array[...], average[...] = average.copy(), array.copy()
                touch(stored(self.parameters[i]))
            self._averaged = not self._averaged

    def zero_gradient(self) -> None:
        """Set the gradients of the parameters to zero."""
        for parameter in self.parameters:
            parameter.clear_gradient()

    def __setattr__(self, name: str, value: object) -> None:
        if "_counts" in self.__dict__ and name != "learning_rate":
            if name in ("max_norm", "average"):
                raise AttributeError(f"{name} of {type(self).__name__} cannot change; make a new optimizer")
            if self._members and (name in option_names(type(self)) or name in GROUP_OPTIONS):
                raise AttributeError(f"{name} of {type(self).__name__} is that of each group: set it in groups[i]")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        options = self.options()
        count = f"{len(self.parameters)} parameter{'' if len(self.parameters) == 1 else 's'}"
        text = f"{type(self).__name__}({', '.join([count, *(f'{name}={value}' for name, value in options.items())])}"
        for position, member in enumerate(self._members):
            own = member.own_options(options)
            named = "".join(f", {name}={value}" for name, value in own.items())
            text += f"; group {position}: {type(member).__name__}({len(member.parameters)}{named})"
        return f"{text})"

    def __getstate__(self) -> dict[str, object]:
        """Return the state for copies and pickles: own counts and arrays, and no rule, which is rebuilt."""
        state = [{slot: array.copy() for slot, array in arrays.items()} for arrays in self._state]
        members = tuple(map(copy.copy, self._members))
        own = {"_counts": list(self._counts), "_arrays": state, "_newer": None, "_members": members}
        return self.__dict__ | own | {"_rules": {}, "_all_rules": [], "_precomputed": Precomputed()}
