"""The base class of optimizers: state, step, and an update rule written once as a graph."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from wyrm.errors import CheckpointError, Diverged, DTypeError, NotSet, OptionError
from wyrm.graph.arrays import as_array
from wyrm.graph.base import describe
from wyrm.graph.leaves import Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import bound_array, stored, touch
from wyrm.graph.typing import FloatArray
from wyrm.optim.averaging import Average
from wyrm.optim.gradients import all_finite, checked_parameters, global_norm, summed
from wyrm.optim.group_rules import GRADIENT_SCALE, GroupRules, Update, Value, Values
from wyrm.optim.groups import LearningRate, ParameterGroups, check_distinct, scaled_rate, split_groups
from wyrm.optim.options import GROUP_OPTIONS, StepOptions, checked_options
from wyrm.optim.rule import BLOCK, UpdateEvaluator
from wyrm.optim.saving import check_state
from wyrm.optim.whole import WholeRule
from wyrm.support.interrupts import deferred
from wyrm.support.memory import aligned
from wyrm.support.options import MOST_STEPS, number

__all__ = ["LearningRate", "Optimizer", "ParameterGroups", "StepOptions", "Update", "Value", "Values"]

# Once gradients are zero, their moving average decays to denormal numbers, with which a processor is a hundred times
# slower. Every `_FLUSH_EVERY` steps, denormal state is therefore set to zero where the gradient is zero.
_FLUSH_EVERY = 16
# The name of the averages of a parameter among its state, and of their weight among the numbers of a step.
_AVERAGE, _AVERAGE_WEIGHT = "averaged_parameter", "average__weight"


class Optimizer(GroupRules):
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
    # The options that are about all groups together.
    max_norm: float | None = None
    average: Average | None = None
    _arrays: list[dict[str, np.ndarray]]
    # Copies newer state from the device of a program into `_arrays`, which are the newest then.
    _newer: Callable[[], None] | None = None
    _members: tuple[Optimizer, ...] = ()
    # Whether this optimizer is a group of another one, which holds its state.
    _is_member = False
    # Whether the parameters hold their averages at present.
    _averaged = False

    def __init__(
        self, parameters: ParameterGroups, learning_rate: LearningRate, **options: Unpack[StepOptions]
    ) -> None:
        for name, value in checked_options(type(self).__name__, options).items():
            setattr(self, name, value)
        self._begin_with(learning_rate)
        given, groups = split_groups(type(self).__name__, parameters)
        if groups:
            members = [self._member(group) for group in groups]
            self._join(members, [state for member in members for state in member._state])
            return
        self.parameters = checked_parameters(type(self).__name__, given)
        self._hold([self._new_state(parameter) for parameter in self.parameters], [0] * len(self.parameters))

    @property
    def _state(self) -> list[dict[str, np.ndarray]]:
        """The state arrays of each parameter by name; reading them copies newer ones from a device first."""
        if self._newer is not None:
            newer, self._newer = self._newer, None
            try:
                newer()
            except BaseException:
                self._newer = newer
                raise
        return self._arrays

    @_state.setter
    def _state(self, arrays: list[dict[str, np.ndarray]]) -> None:
        self._arrays = arrays

    def hold_on_device(self, newer: Callable[[], None]) -> None:
        """Declare that a program holds the state on a device; `newer` copies it to the host once it is needed there.

        The program that held it before gives it back first.
        """
        if self._newer != newer:
            _ = self._state
        self._newer = newer

    # --- groups ---------------------------------------------------------------------------------------------------

    @property
    def groups(self) -> tuple[Optimizer, ...]:
        """The groups of parameters as optimizers with options of their own; without groups, this optimizer alone."""
        return self._members or (self,)

    @property
    def rated_groups(self) -> list[Optimizer]:
        """This optimizer and its groups, as far as they have a learning rate of their own, which others follow."""
        every = (self, *self._members)
        # `Combined` has no rate.
        return [group for group in every if group._rate_factor is None and "_learning_rate" in group.__dict__]

    def _member(self, group: Mapping[str, Any]) -> Optimizer:
        """Return the optimizer of a group: the options are this one's unless the group has its own."""
        own = {name: value for name, value in group.items() if name not in ("parameters", "learning_rate_factor")}
        known = [*self._options, *GROUP_OPTIONS]
        if unknown := [name for name in own if name not in known]:
            raise OptionError(
                f"a group of {type(self).__name__} has no option {unknown[0]!r}; it may have "
                f"{', '.join(['learning_rate_factor', *known])}"
            )
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
            member._suffix, member._rules = f"__{position}" if position else "", {}
            member._is_member = True
        groups = [position for position, member in enumerate(members) for _ in member.parameters]
        self._hold(state, groups)
        for member in members:
            member._state = []

    def _hold(self, state: list[dict[str, np.ndarray]], groups: list[int]) -> None:
        """Start with this state of the parameters, which are in these groups."""
        self._position = {parameter: i for i, parameter in enumerate(self.parameters)}
        self._state, self._group_of = state, groups
        # The rules of all parameters, for `step`.
        self._all_rules: list[UpdateEvaluator | WholeRule] = []
        self._counts = [0] * len(self.parameters)
        if self.average is not None:
            for parameter, arrays in zip(self.parameters, state, strict=True):
                arrays[_AVERAGE] = aligned(parameter.shape, parameter.dtype, bound_array(parameter))

    def _new_state(self, parameter: Parameter) -> dict[str, np.ndarray]:
        start = self.initial_state()
        return {
            name: aligned(shape, parameter.dtype, start[name])
            for name, shape in self.state_shapes(parameter.shape).items()
        }

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

    def rule(self, parameter: Parameter) -> UpdateEvaluator | WholeRule:
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
                    numbers[group, step] = self.groups[group].numbers_at(step) | scale
            with deferred:
                for i, gradient in enumerate(held):
                    if gradient is None:
                        continue
                    self._counts[i] += 1
                    self._move(rules[i], self.parameters[i], gradient, self._state[i], numbers[keys[i]])
                    if self.average is not None:
                        self._add_to_average(i, self.average)
                self._set_steps(self.steps + 1)

    def _diverged(self, parameter: Parameter, gradient: FloatArray) -> Diverged:
        return Diverged(
            f"the gradient of {describe(parameter)} holds {gradient[~np.isfinite(gradient)][0]} in step "
            f"{self.steps + 1} at learning rate {self.learning_rate:g}; no parameter has moved. Find the "
            f"cause with wy.watch_nan(), lower the learning rate, or clip with the option max_norm"
        )

    def _move(
        self,
        rule: UpdateEvaluator | WholeRule,
        parameter: Parameter,
        gradient: FloatArray | RowSparse,
        state: Mapping[str, np.ndarray],
        hyperparameters: Mapping[str, float],
    ) -> None:
        array = bound_array(parameter)
        try:
            if isinstance(rule, UpdateEvaluator) and isinstance(gradient, RowSparse):
                rule.move_rows(array, gradient, state, hyperparameters)
            else:
                dense = gradient.dense() if isinstance(gradient, RowSparse) else gradient
                rule(array, dense, state, hyperparameters, rule.flushes and self.steps % _FLUSH_EVERY == 0)
        finally:
            touch(stored(parameter))

    def _set_steps(self, steps: int) -> None:
        for group in (self, *self._members):
            group.__dict__["steps"] = steps  # past the checks of options in `__setattr__`: each native call comes here

    def _check_usable(self) -> None:
        """Raise `OptionError` for a group of another optimizer, and while the parameters hold their averages."""
        if self._is_member:
            raise OptionError(f"this {type(self).__name__} is a group of another optimizer: use that one")
        if self._averaged:
            raise OptionError("the parameters hold their averages: train and save after average_parameters()")

    def numbers_on_device(self, count: int, parameters: Sequence[Parameter]) -> dict[str, NDArray[np.float64]]:
        """Return `numbers` for a program that holds the state on a device, and leave it there."""
        newer, self._newer = self._newer, None
        try:
            return self.numbers(count, parameters)
        finally:
            self._newer = newer

    # --- averages -------------------------------------------------------------------------------------------------

    def _add_to_average(self, i: int, average: Average) -> None:
        """Add a parameter's value after its step to its average."""
        weight = average.weights(np.array([self._counts[i]]))[0]
        if not weight:
            return
        flat, averaged = bound_array(self.parameters[i]).reshape(-1), self._state[i][_AVERAGE].reshape(-1)
        for start in range(0, flat.size, BLOCK):
            block = averaged[start : start + BLOCK]
            block += flat.dtype.type(weight) * (flat[start : start + BLOCK] - block)

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
                array, average = bound_array(self.parameters[i]), self._state[i][_AVERAGE]
                array[...], average[...] = average.copy(), array.copy()
                touch(stored(self.parameters[i]))
            self._averaged = not self._averaged

    # --- for programs that run the rule themselves ----------------------------------------------------------------

    def numbers(self, count: int, parameters: Sequence[Parameter] | None = None) -> dict[str, NDArray[np.float64]]:
        """Return the rules' scalars for the next `count` steps of these parameters, by default all, as arrays.

        `count` is at least 1; a schedule is evaluated for these steps only.
        """
        self._check_usable()
        _ = self._state  # a program changes these arrays in place
        completed = {(self._group_of[position], self._counts[position]) for position in self._positions(parameters)}
        if len(completed) > 1 and len(completed) > len({index for index, _ in completed}):
            raise ValueError(
                f"the parameters of this {type(self).__name__} have completed different numbers of steps, so a "
                f"program cannot update them together; make a new optimizer"
            )
        found: dict[str, NDArray[np.float64]] = {}
        for index, done in sorted(completed):
            group = self.groups[index]
            found |= group.numbers_of(done, count)
            if self.average is not None:
                found[f"{_AVERAGE_WEIGHT}{group._suffix}"] = self.average.weights(np.arange(done + 1, done + count + 1))
        return found

    def average_of(self, parameter: Parameter) -> tuple[str, str] | None:
        """Return the names of a parameter's average among its state and of its weight among the numbers; or None."""
        if self.average is None:
            return None
        return _AVERAGE, f"{_AVERAGE_WEIGHT}{self.groups[self._group_of[self._position[parameter]]]._suffix}"

    def state_of(self, parameter: Parameter) -> dict[str, np.ndarray]:
        """Return the state arrays of a parameter, by name; a program updates them in place."""
        return self._state[self._position[parameter]]

    def advance(self, count: int, parameters: Sequence[Parameter] | None = None) -> None:
        """Add `count` to the step counts of these parameters, by default all; a negative `count` undoes steps."""
        self._set_steps(self.steps + count)
        for position in self._positions(parameters):
            self._counts[position] += count

    def step_counts(self) -> list[int]:
        """Return the steps of the optimizer, then those of each parameter, without reading the state arrays."""
        self._check_usable()
        return [self.steps, *self._counts]

    def load_step_counts(self, counts: Sequence[int]) -> None:
        """Go on counting from a result of `step_counts`; raise `CheckpointError` for another number of parameters."""
        self._check_usable()
        if any(not 0 <= count < MOST_STEPS for count in counts):
            raise CheckpointError(f"counts of steps must be at least 0 and below 2**62, not {list(counts)}")
        if len(counts) != 1 + len(self._counts):
            raise CheckpointError(
                f"{type(self).__name__} has {len(self._counts)} parameters; the saved counts are of {len(counts) - 1}"
            )
        with deferred:
            self._set_steps(counts[0])
            self._counts = list(counts[1:])

    def _positions(self, parameters: Sequence[Parameter] | None) -> Sequence[int]:
        """Return the indices of these parameters in `self.parameters`."""
        if parameters is None:
            return range(len(self.parameters))
        return [self._position[parameter] for parameter in parameters]

    def zero_gradient(self) -> None:
        """Set the gradients of the parameters to zero."""
        for parameter in self.parameters:
            parameter.clear_gradient()

    def __setattr__(self, name: str, value: object) -> None:
        if "_counts" in self.__dict__ and name != "learning_rate":
            if name in ("max_norm", "average"):
                raise AttributeError(f"{name} of {type(self).__name__} cannot change; make a new optimizer")
            if self._members and (name in self._options or name in GROUP_OPTIONS):
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
        return self.__dict__ | own | {"_rules": {}, "_all_rules": []}

    # --- saving ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return copies of the state arrays, as `position.name`, and the step counts."""
        self._check_usable()
        arrays = {f"{i}.{slot}": a.copy() for i, state in enumerate(self._state) for slot, a in state.items()}
        return arrays | {"steps": np.asarray(self.steps), "counts": np.asarray(self._counts, np.int64)}

    def load_state_dict(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load a saved state.

        Raise `CheckpointError` for missing, extra or mismatched arrays, and for state that no step can continue from:
        non-finite values, negative averages of squares, negative counts. Nothing has changed then.
        """
        if not isinstance(arrays, Mapping):
            raise DTypeError(f"load_state_dict takes arrays by name, as state_dict() returns them, not {arrays!r}")
        given = {name: as_array(array) for name, array in arrays.items()}
        check_state(type(self).__name__, self.state_dict(), given, self._cannot_be_negative)
        with deferred:
            for i, state in enumerate(self._state):
                for slot in state:
                    state[slot][...] = given[f"{i}.{slot}"]
            self._set_steps(int(given["steps"]))
            self._counts = [int(count) for count in given["counts"]]

    def _cannot_be_negative(self, name: str) -> bool:
        """Whether a saved array is a count, or a sum or average of squares."""
        position, _, slot = name.partition(".")
        return name in ("steps", "counts") or slot in self.groups[self._group_of[int(position)]]._squares
