"""The base class of optimizers: options, groups, state, and an update rule written once as a graph."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from wyrm.engines.optimizer import AVERAGE, GRADIENT_SCALE, Elements
from wyrm.errors import (
    CheckpointError,
    Diverged,
    DTypeError,
    NotSet,
    OptionError,
    RegistrationError,
    UnusedParameter,
)
from wyrm.graph.arrays import as_array
from wyrm.graph.base import describe
from wyrm.graph.leaves import Input
from wyrm.graph.node import Node
from wyrm.graph.parameters import Parameter, ResizableParameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import CHANGES, Undrawn, bound_array, constant, draw, first_copy, held_shape, stored, touch
from wyrm.graph.typing import FloatArray
from wyrm.optim.clipping import all_finite, limited, summed
from wyrm.optim.options import (
    GROUP_OPTIONS,
    STEP_OPTIONS,
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
from wyrm.optim.rule import Named, Rule, Update, Values, averaging_rule, blend, decayed, flushed, norm
from wyrm.support.foreign_names import ExplainsNames, ForeignName, keywords_of
from wyrm.support.interrupts import deferred
from wyrm.support.options import MOST_STEPS, number

if TYPE_CHECKING:

    class GivenParameters:
        """An attribute that is set to parameters or groups of them, and that is read as a list of parameters."""

        def __get__(self, instance: object, owner: type) -> list[Parameter]: ...
        def __set__(self, instance: object, value: ParameterGroups) -> None: ...


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


class Rate:
    """The learning rate of an optimizer: set a number or a schedule at any time, read the rate of the next step.

    An optimizer that declares `learning_rate: Rate = Rate(0.01)` has a default; one without must be given a rate. Raise
    `ValueError` if a schedule returns a rate that is negative or not finite.
    """

    def __init__(self, default: LearningRate | None = None) -> None:
        self.default = default

    @overload
    def __get__(self, instance: None, owner: type) -> LearningRate: ...
    @overload
    def __get__(self, instance: Optimizer, owner: type) -> float: ...
    def __get__(self, instance: Optimizer | None, owner: type) -> LearningRate:
        if instance is None:
            if self.default is None:
                raise AttributeError(f"{owner.__name__} has no default of learning_rate")
            return self.default  # a dataclass reads it
        return self.of_next_step(instance)

    def __set__(self, instance: Optimizer, value: LearningRate) -> None:
        instance._learning_rate = value if callable(value) else number("learning_rate", value, 0.0)
        instance._rate_factor = None
        instance._rate_changed()

    def of_next_step(self, instance: Optimizer) -> float:
        """Return the learning rate of the next step of an optimizer."""
        rate = instance._learning_rate
        if not callable(rate):
            return rate
        if instance._rate_ahead is not None:
            return cast(float, instance._rate_ahead)  # an array, where `hyperparameters` gets an array of steps
        return checked_rate(rate, instance.steps, rate(instance.steps))


def checked_rate(schedule: Callable[[int], float], step: int, value: float) -> float:
    """Return what a schedule gives after so many steps; raise `OptionError` for a negative or infinite rate."""
    if type(value) is float and 0.0 <= value < math.inf:  # the text of the error takes longer than the schedule
        return value
    return number(f"the learning rate that {schedule} gives after {step} steps", value, 0.0)


_option_names: dict[type, tuple[str, ...]] = {}


def option_names(optimizer: type[Optimizer]) -> tuple[str, ...]:
    """Return the names of the arguments of an optimizer that are its own options, stored as attributes."""
    found = _option_names.get(optimizer)
    if found is None:
        named = list(inspect.signature(optimizer.__init__).parameters.values())[2:]
        names = [each.name for each in named if each.kind is not inspect.Parameter.VAR_KEYWORD]
        found = _option_names[optimizer] = tuple(name for name in names if name not in STEP_OPTIONS)
    return found


def check_group(optimizer: type[Optimizer], names: Iterable[str]) -> tuple[str, ...]:
    """Return the options that a group of parameters may have; raise `OptionError` for a name that is none of them."""
    known = (*option_names(optimizer), *GROUP_OPTIONS)
    for name in names:
        if name not in (*known, "parameters", "learning_rate_factor"):
            raise OptionError(
                f"a group of {optimizer.__name__} has no option {name!r}; it may have "
                f"{', '.join(['learning_rate_factor', *known])}"
            )
    return known


class _Kept:
    """What an optimizer keeps; in the class itself, these attributes would be options too."""

    # Ends the names of this group's numbers, so that they differ from those of other groups.
    _suffix: str = ""
    _learning_rate: LearningRate
    # The factor of the whole optimizer's learning rate; None for a group with a rate of its own.
    _rate_factor: float | None = None
    _rules: dict[tuple[object, ...], Rule]
    _precomputed: Precomputed = Precomputed()
    # The learning rate while `numbers_of` computes, which has called the schedule already.
    _rate_ahead: float | NDArray[np.float64] | None = None
    steps: int
    # For each parameter: its state by name, its number of steps, and its group. Of the state, some may be `Undrawn`.
    _arrays: list[dict[str, Any]]
    _may_be_undrawn = True
    _counts: list[int]
    _group_of: list[int]
    _position: dict[Parameter, int]
    # Copies the state from the device of a program to `_arrays`; None while these are up to date.
    _newer: Callable[[], None] | None = None
    # The shapes that the state is of, by the positions of the parameters that may have another size than before.
    _sizes: dict[int, tuple[int, ...]]
    _members: tuple[Optimizer, ...] = ()
    # Whether this optimizer is a group of another one, which holds its state.
    _is_member = False
    # Whether the parameters hold their averages at present.
    _averaged = False


@with_options
class Optimizer(_Kept, ExplainsNames):
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

    _foreign = "optimizers"
    parameters: GivenParameters
    learning_rate: Rate
    _: KW_ONLY
    max_norm: float | None = None
    clip_value: float | None = None
    lower: float | None = None
    upper: float | None = None
    average: Average | None = None

    # Whether `update` is elementwise; otherwise it may reduce over the whole parameter and multiply matrices.
    elementwise: ClassVar[bool] = True
    # Whether the state can decay towards zero, through the denormal numbers.
    _state_decays: ClassVar[bool] = True
    # Names of state that is a sum or average of squares, and so cannot be negative.
    _squares: ClassVar[frozenset[str]] = frozenset()

    if not TYPE_CHECKING:  # hidden from language servers, which would show `__new__` in place of `__init__`
        learning_rate = Rate()  # without a default
        lr = ForeignName("lr", "use optimizer.learning_rate")

        def __new__(cls, *arguments: object, **keywords: object) -> Self:
            """Refuse unknown keywords: Python would say of `SGD(x, lr=0.1)` that `learning_rate` is missing."""
            if cls.__init__.__module__.startswith("wyrm."):
                check_names(cls.__name__, keywords, keywords_of(cls.__init__))
            return super().__new__(cls)

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        rate = cls.__dict__.get("learning_rate")
        if rate is not None and not hasattr(rate, "__set__"):
            raise RegistrationError(
                f"{cls.__name__} declares its learning_rate as a {type(rate).__name__}, which nothing checks and which "
                f"follows no schedule: write learning_rate: wy.optim.Rate = wy.optim.Rate(...), with the default in it"
            )

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
            self._join(members, [state for member in members for state in member._arrays])
            return
        self.parameters = checked_parameters(type(self).__name__, every)
        self._start_with([self._new_state(parameter) for parameter in self.parameters], [0] * len(self.parameters))

    # --- defined by subclasses ------------------------------------------------------------------------------------

    def initial_state(self) -> Mapping[str, float]:
        """Return the initial value of each state array, by name."""
        return {}

    def state_shapes(self, shape: tuple[int, ...]) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of the state arrays of a parameter of this shape, by name.

        Only a rule that is not elementwise may have state of other shapes than the parameter's, or leave some out.
        """
        return dict.fromkeys(self.initial_state(), shape)

    def hyperparameters(self, step: int) -> dict[str, float]:
        """Return the scalars of the rule that change from step to step; `step` counts a parameter's steps from 1.

        They are computed in float64 and cast to the parameter's dtype.
        """
        return {"learning_rate": self.learning_rate}

    def update(self, parameter: Node, gradient: Node, state: Values, hyperparameters: Values) -> Update:
        """Return the new parameter and the new state as nodes of the arguments, elementwise unless declared."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

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

    def _join(self, members: Sequence[Optimizer], state: list[dict[str, Any]]) -> None:
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

    def _start_with(self, state: list[dict[str, Any]], groups: list[int]) -> None:
        """Start with this state of the parameters, which are in these groups."""
        self._position = {parameter: i for i, parameter in enumerate(self.parameters)}
        self._state, self._group_of = state, groups
        # The rules of all parameters, for `step`.
        self._all_rules: list[Rule] = []
        self._counts = [0] * len(self.parameters)
        for parameter, arrays in zip(self.parameters, state, strict=True):
            self._begin_average(parameter, arrays)
        resizable = {i: each for i, each in enumerate(self.parameters) if isinstance(each, ResizableParameter)}
        self._sizes = {i: _shape_of(parameter) for i, parameter in resizable.items()}
        if resizable and not all(group.elementwise for group in self.groups):
            raise OptionError(f"{type(self).__name__} has a rule over whole parameters, so that their sizes are fixed")

    def _begin_average(self, parameter: Parameter, state: dict[str, Any]) -> None:
        if self.average is not None:
            state[AVERAGE] = first_copy(parameter)

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
        if self.has_schedule:
            raise OptionError(f"a learning rate must be a number to be scaled, and {self!r} has a schedule")
        for group in self.rated_groups:
            rate = group.learning_rate
            group.learning_rate = max(rate * factor, min(rate, minimum))

    @property
    def has_schedule(self) -> bool:
        """Whether a learning rate is a function of the steps."""
        return any(callable(group.options()["learning_rate"]) for group in self.groups)

    @property
    def groups(self) -> tuple[Optimizer, ...]:
        """The groups of parameters as optimizers with options of their own; without groups, this optimizer alone."""
        return self._members or (self,)

    def _new_state(self, parameter: Parameter) -> dict[str, Any]:
        start = self.initial_state()
        return {
            name: constant(shape, parameter.dtype, start[name])
            for name, shape in self.state_shapes(_shape_of(parameter)).items()
        }

    def _check_usable(self) -> None:
        """Raise `OptionError` for a group of another optimizer, and while the parameters hold their averages."""
        if self._is_member:
            raise OptionError(f"this {type(self).__name__} is a group of another optimizer: use that one")
        if self._averaged:
            raise OptionError("the parameters hold their averages: train and save after average_parameters()")

    def _check_trained(self, parameters: Iterable[Parameter]) -> None:
        """Raise `UnusedParameter` for parameters that their model has no more, which nothing would learn from."""
        if not CHANGES.replaced:
            return
        replaced = [what for each in parameters if (what := stored(each).replaced) is not None]
        if replaced:
            listed = "; ".join(replaced[:3]) + (f"; and {len(replaced) - 3} more" if len(replaced) > 3 else "")
            raise UnusedParameter(
                f"{type(self).__name__} would train parameters that the model has no more: {listed}. Build the loss "
                f"anew, and compile it with an optimizer of what it trains, loss.parameters()"
            )

    def _set_steps(self, steps: int) -> None:
        for group in (self, *self._members):
            group.__dict__["steps"] = steps  # without the checks of `__setattr__`, since each native call comes here

    @property
    def _state(self) -> list[dict[str, np.ndarray]]:
        """The state arrays of each parameter by name; reading them copies newer ones from a device first.

        That of a parameter which has been given another size begins anew.
        """
        if self._newer is not None:
            newer, self._newer = self._newer, None
            try:
                newer()
            except BaseException:
                self._newer = newer
                raise
        for i, shape in self._sizes.items() if self._arrays else ():  # those of a group are elsewhere
            parameter = self.parameters[i]
            if held_shape(parameter) != shape:
                self._sizes = self._sizes | {i: _shape_of(parameter)}  # copies of the optimizer have their own
                self._arrays[i] = self.groups[self._group_of[i]]._new_state(parameter)
                self._begin_average(parameter, self._arrays[i])
                self._counts[i], self._may_be_undrawn = 0, True
        if self._may_be_undrawn:
            draw(self._arrays)
            self._may_be_undrawn = False
        return self._arrays

    @_state.setter
    def _state(self, arrays: list[dict[str, np.ndarray]]) -> None:
        self._arrays = arrays

    def hold_on_device(self, newer: Callable[[], None]) -> None:
        """Declare that a program holds the state on a device; `newer` copies it to the host once it is needed there.

        The program that held it before gives it back first.
        """
        if self._newer is not None and self._newer != newer:
            _ = self._state
        self._newer = newer

    # --- rules and their numbers ----------------------------------------------------------------------------------

    def rule_for(self, parameter: Parameter, scaled: bool) -> Rule:
        """Return the rule for a parameter, built on first use; with `scaled`, it scales the gradient first."""
        key = parameter.dtype, *(() if self.elementwise else parameter.shape)
        if key not in self._rules:
            self._rules[key] = self._build(parameter.dtype, parameter.shape, scaled)
        return self._rules[key]

    def _build(self, dtype: np.dtype, shape: tuple[int, ...], scaled: bool) -> Rule:
        axes = (Elements(),) if self.elementwise else shape
        shapes = self.state_shapes(shape)
        parameter = Input(name="parameter", dims=axes, dtype=dtype)
        gradient = Input(name="gradient", dims=axes, dtype=dtype)
        state = {
            name: Input(name=name, dims=axes if self.elementwise else shapes[name], dtype=dtype) for name in shapes
        }
        numbers = {name: Input(name=name, dtype=dtype) for name in self.hyperparameters(1)}
        if unfit := [name for name in (*numbers, *shapes) if "__" in name or not name.isidentifier()]:
            raise RegistrationError(
                f"a hyperparameter or state of {type(self).__name__} is named {unfit[0]!r}; a name is an identifier "
                f"without two underscores in a row"
            )
        inputs = {f"{name}{self._suffix}": leaf for name, leaf in numbers.items()}
        value: Node = gradient
        if scaled:
            inputs[GRADIENT_SCALE] = Input(name=GRADIENT_SCALE, dtype=dtype)
            value = value * inputs[GRADIENT_SCALE]
        if self.clip_value is not None:
            value = value.minimum(self.clip_value).maximum(-self.clip_value)
        given = Named("state", state, self.update), Named("hyperparameter", numbers, self.update)
        updated: object = self.update(parameter, value, *given)
        if not isinstance(updated, tuple) or len(updated) != 2 or not isinstance(updated[1], Mapping):
            raise RegistrationError(
                f"update of {type(self).__name__} must return the new parameter, and the new state by name: "
                f"(parameter, {{...}}), where {{}} is no state; it returned {updated!r}"
            )
        moved, changed = updated
        if self.lower is not None:
            moved = moved.maximum(self.lower)
        if self.upper is not None:
            moved = moved.minimum(self.upper)
        flushes = self._state_decays
        if flushes and not self.elementwise:  # in the graph itself
            flushes = False
            changed = {
                name: flushed(new, gradient) if new.dims == gradient.dims else new for name, new in changed.items()
            }
        return Rule(parameter, gradient, state, inputs, (moved, changed), self.elementwise, flushes, self._squares)

    def numbers_at(self, step: int) -> dict[str, float]:
        """Return the rule's scalars for a parameter's step, by name."""
        numbers = self.hyperparameters(step)
        return {f"{name}{self._suffix}": value for name, value in numbers.items()} if self._suffix else numbers

    def numbers_of(self, done: int, count: int) -> dict[str, NDArray[np.float64]]:
        """Return the rule's scalars for the `count` steps of parameters after `done` ones, by name, as arrays."""
        rate, rates = self._learning_rate, None
        if callable(rate):  # a schedule, which is called once for each step
            rates = [checked_rate(rate, step, rate(step)) for step in range(self.steps, self.steps + count)]
        try:
            return self._vectorized(done, count, rates)
        except (TypeError, ValueError):  # `hyperparameters` branches on the step
            return self._one_by_one(done, count, rates)

    def _vectorized(self, done: int, count: int, rates: Sequence[float] | None) -> dict[str, NDArray[np.float64]]:
        """Return what `numbers_of` does; raise `TypeError` or `ValueError` if `hyperparameters` takes no arrays."""
        if rates is not None:
            with self._at_rate(np.array(rates)):
                return Precomputed.exactly(self.numbers_at, done, count)
        rate = self._learning_rate
        assert not callable(rate)
        found = self._precomputed.of(rate, done, count)
        if found is None:
            # Once there are rules, the options of wyrm's own optimizers are fixed, and with them the next numbers.
            known = bool(self._rules) and type(self).__module__.startswith("wyrm.")
            numbers = Precomputed.ahead(self.numbers_at, rate, done, count, known)
            self._precomputed = numbers if known else Precomputed()
            found = numbers.of(rate, done, count)
        assert found is not None
        return found

    def _one_by_one(self, done: int, count: int, rates: Sequence[float] | None) -> dict[str, NDArray[np.float64]]:
        """Return what `numbers_of` does, computed for one step after the other."""
        steps, each = self.steps, []
        try:
            for i in range(count):
                self.steps = steps + i
                with self._at_rate(None if rates is None else rates[i]):
                    each.append(self.numbers_at(done + 1 + i))
        finally:
            self.steps = steps
        return {name: np.array([numbers[name] for numbers in each]) for name in each[0]}

    @contextmanager
    def _at_rate(self, rate: float | NDArray[np.float64] | None) -> Iterator[None]:
        """Let `learning_rate` be a number or an array with a rate for each of many steps; None changes nothing."""
        self._rate_ahead = rate
        try:
            yield
        finally:
            self._rate_ahead = None

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
        _ = self._state  # which counts no steps of a parameter of another size
        gradients = [stored(parameter).gradient for parameter in self.parameters]
        self._check_trained(each for each, g in zip(self.parameters, gradients, strict=True) if g is not None)
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
                scale[GRADIENT_SCALE] = limited([each for each in arrays if each is not None], self.max_norm)[1]
            keys = [(group, count + 1) for group, count in zip(self._group_of, self._counts, strict=True)]
            for group, step in keys:
                if (group, step) not in numbers:
                    numbers[group, step] = self.groups[group].numbers_at(step) | scale
                    if self.average is not None:
                        weight = self.average.weights(np.array([step]))[0]
                        numbers[group, step][self.groups[group].average_weight] = float(weight)
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
        try:
            flush = self.steps % _FLUSH_EVERY == 0
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

    # --- for programs that run the rule themselves ----------------------------------------------------------------

    def numbers(self, count: int, parameters: Sequence[Parameter] | None = None) -> dict[str, NDArray[np.float64]]:
        """Return the rules' scalars for the next `count` steps of these parameters, by default all, as arrays.

        `count` is at least 1; a schedule is evaluated for these steps only.
        """
        self._check_usable()
        self._check_trained(self.parameters if parameters is None else parameters)
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
                found[group.average_weight] = self.average.weights(np.arange(done + 1, done + count + 1))
        return found

    @property
    def average_weight(self) -> str:
        """The name of the weight of this group's averages among the numbers of a step."""
        return f"average__weight{self._suffix}"

    def average_rule(self, parameter: Parameter) -> Rule | None:
        """Return the rule of the array `AVERAGE` of a parameter's state, built on first use; None without averages."""
        if self.average is None:
            return None
        group = self.groups[self._group_of[self._position[parameter]]]
        key = AVERAGE, parameter.dtype
        if key not in group._rules:
            group._rules[key] = averaging_rule(parameter.dtype, group.average_weight)
        return group._rules[key]

    def state_of(self, parameter: Parameter) -> dict[str, np.ndarray]:
        """Return the state arrays of a parameter, by name; a program updates them in place."""
        return self._state[self._position[parameter]]

    def first_state_of(self, parameter: Parameter) -> Mapping[str, np.ndarray | Undrawn]:
        """Return the state arrays of a parameter for a copy on a device, where it draws what nobody has read here."""
        return self.state_of(parameter) if self._newer or self._sizes else self._arrays[self._position[parameter]]

    def numbers_on_device(self, count: int, parameters: Sequence[Parameter]) -> dict[str, NDArray[np.float64]]:
        """Return `numbers` for a program that holds the state on a device, and leave it there."""
        (newer, undrawn), self._newer, self._may_be_undrawn = (self._newer, self._may_be_undrawn), None, False
        try:
            return self.numbers(count, parameters)
        finally:
            self._newer, self._may_be_undrawn = newer, undrawn or self._may_be_undrawn

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

    # --- saving ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return copies of the state arrays, as `position.name`, and the step counts."""
        self._check_usable()
        return {name: array.copy() for name, array in self._arrays_by_name().items()}

    def _arrays_by_name(self) -> dict[str, np.ndarray]:
        """Return the state arrays themselves, and arrays of the step counts."""
        arrays = {f"{i}.{slot}": array for i, state in enumerate(self._state) for slot, array in state.items()}
        return arrays | {"steps": np.asarray(self.steps), "counts": np.asarray(self._counts, np.int64)}

    def load_state_dict(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load a saved state.

        Raise `CheckpointError` for missing, extra or mismatched arrays, and for state that no step can continue from:
        non-finite values, negative averages of squares, negative counts. Nothing has changed then.
        """
        if not isinstance(arrays, Mapping):
            raise DTypeError(f"load_state_dict takes arrays by name, as state_dict() returns them, not {arrays!r}")
        given = {name: as_array(array) for name, array in arrays.items()}
        self._check_usable()
        _check_state(type(self).__name__, self._arrays_by_name(), given, self._cannot_be_negative)
        with deferred:
            for i, state in enumerate(self._state):
                for slot in state:
                    state[slot][...] = given[f"{i}.{slot}"]
            self._set_steps(int(given["steps"]))
            self._counts = [int(count) for count in given["counts"]]
            for parameter in self.parameters:  # for programs that know bounds of the state
                touch(stored(parameter))

    def _restart(self) -> None:
        """Begin anew: the state has its initial values, and no step is done."""
        self._check_usable()
        with deferred:
            for parameter, group, state in zip(self.parameters, self._group_of, self._state, strict=True):
                start: dict[str, Any] = {**self.groups[group].initial_state(), AVERAGE: bound_array(parameter)}
                for slot, array in state.items():
                    array[...] = start[slot]
                touch(stored(parameter))
            self._set_steps(0)
            self._counts = [0] * len(self.parameters)

    def _cannot_be_negative(self, name: str) -> bool:
        """Whether a saved array is a count, or a sum or average of squares."""
        position, _, slot = name.partition(".")
        return name in ("steps", "counts") or slot in self.groups[self._group_of[int(position)]]._squares

    # --- options --------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        if "_counts" in self.__dict__ and name != "learning_rate":
            if name in ("max_norm", "average"):
                raise AttributeError(f"{name} of {type(self).__name__} cannot change; make a new optimizer")
            if self._members and (name in option_names(type(self)) or name in GROUP_OPTIONS):
                raise AttributeError(f"{name} of {type(self).__name__} is that of each group: set it in groups[i]")
        fixed = name in option_names(type(self)) or name in STEP_OPTIONS
        if fixed and name != "learning_rate" and self.__dict__.get("_rules"):
            raise AttributeError(
                f"{name} of {type(self).__name__} cannot change after the rule was built with {getattr(self, name)}; "
                f"make a new optimizer, and load this one's state_dict if the state is the same"
            )
        super().__setattr__(name, value)

    def options(self) -> dict[str, object]:
        """Return the options by name, as `repr` shows them; shared options only where they are set."""
        found = {name: getattr(self, name, None) for name in option_names(type(self))}
        found["learning_rate"] = self.__dict__.get("_learning_rate")
        shared = {name: getattr(self, name, None) for name in STEP_OPTIONS}
        return found | {name: value for name, value in shared.items() if value is not None}

    def own_options(self, others: Mapping[str, object]) -> dict[str, object]:
        """Return the options that differ from those of the whole optimizer; for a scaled learning rate, its factor."""
        mine = self.options()
        if self._rate_factor is not None and "learning_rate" in others:
            del mine["learning_rate"]
            if self._rate_factor != 1.0:
                mine["learning_rate_factor"] = self._rate_factor
        return {name: value for name, value in mine.items() if name not in others or others[name] != value}

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


def _shape_of(parameter: Parameter) -> tuple[int, ...]:
    shape = held_shape(parameter)
    assert shape is not None
    return shape


def _check_state(
    who: str, mine: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray], cannot_be_negative: Callable[[str], bool]
) -> None:
    """Raise `CheckpointError` unless training can continue from the arrays `given`, which replace `mine`."""
    wrong = [
        f"{name} (has {mine[name].shape} {mine[name].dtype}, given {given[name].shape} {given[name].dtype})"
        for name in sorted(mine.keys() & given.keys())
        if mine[name].shape != given[name].shape or mine[name].dtype != given[name].dtype
    ]
    missing, extra = sorted(mine.keys() - given.keys()), sorted(given.keys() - mine.keys())
    found = {"missing": missing, "extra": extra, "mismatched": wrong}
    if any(found.values()):
        raise CheckpointError(
            f"the state does not match this {who}: "
            + "; ".join(f"{what}: {', '.join(names)}" for what, names in found.items() if names)
        )
    impossible = [
        f"{name} {problem}"
        for name in sorted(mine)
        if (problem := _impossible(given[name], cannot_be_negative(name))) is not None
    ]
    if impossible:
        raise CheckpointError(f"{who} cannot continue from this state: {', '.join(impossible)}")


def _impossible(values: np.ndarray, cannot_be_negative: bool) -> str | None:
    """Return why training cannot continue from a saved array, or None."""
    if not np.isfinite(values).all():
        return "holds a NaN or an infinity"
    if values.dtype.kind == "i" and (values >= MOST_STEPS).any():
        return "holds a count that is not below 2**62"
    return "holds a negative number" if cannot_be_negative and (values < 0).any() else None
