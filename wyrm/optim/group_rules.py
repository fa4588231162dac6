"""The options of a group of parameters, and the update rules that are built from them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import RegistrationError
from wyrm.graph.leaves import Input, Parameter
from wyrm.graph.node import Node
from wyrm.ops.elementwise.comparison import where
from wyrm.optim.groups import LearningRate
from wyrm.optim.options import STEP_OPTIONS, check_names
from wyrm.optim.rule import Elements, UpdateEvaluator
from wyrm.optim.whole import WholeRule
from wyrm.support.foreign_names import Answering, Refused, keywords_of
from wyrm.support.options import number

Value = Node
Values = Mapping[str, Value]
# The new parameter, and the new state by name, as nodes.
Update = tuple[Value, dict[str, Value]]
# The rule's scalar that is not a hyperparameter: the factor of all gradients that bounds their global norm.
GRADIENT_SCALE = "gradient__scale"


class GroupRules(Answering):
    """The base of optimizers: a learning rate, options, and rules for the parameters of one group."""

    # The arguments of `__init__` that are stored as attributes of the same names.
    _options: ClassVar[tuple[str, ...]] = ()
    # Whether `update` is elementwise; otherwise it may reduce over the whole parameter and multiply matrices.
    elementwise: ClassVar[bool] = True
    # Whether the state can decay towards zero, through the denormal numbers.
    _state_decays: ClassVar[bool] = True
    # Names of state that is a sum or average of squares, and so cannot be negative.
    _squares: ClassVar[frozenset[str]] = frozenset()
    # The end of the names of this group's numbers, which differ from those of other groups.
    _suffix: str = ""
    # The factor of the whole optimizer's learning rate; None for a group with a rate of its own.
    _rate_factor: float | None = None
    clip_value: float | None = None
    lower: float | None = None
    upper: float | None = None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        named = list(inspect.signature(cls.__init__).parameters.values())[2:]
        cls._options = tuple(each.name for each in named if each.kind is not inspect.Parameter.VAR_KEYWORD)

    def __new__(cls, *arguments: object, **keywords: object) -> Self:
        """Refuse unknown keywords; Python would say of `SGD(parameters, lr=0.1)` that `learning_rate` is missing."""
        if cls.__init__.__module__.startswith("wyrm."):
            check_names(cls.__name__, keywords, keywords_of(cls.__init__))
        return super().__new__(cls)

    def _begin(self) -> None:
        self._rules: dict[tuple[object, ...], UpdateEvaluator | WholeRule] = {}
        self.steps = 0

    def _begin_with(self, rate: LearningRate) -> None:
        """Begin with a learning rate; in a subclass, pyright takes this assignment for another declaration."""
        self._begin()
        self.learning_rate = rate

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

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        """Return the new parameter and the new state as nodes of the arguments, elementwise unless declared."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    # --- the learning rate ----------------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # an attribute that type checkers do not see
        lr = Refused()

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step. Set it to another number or schedule at any time.

        Raise `ValueError` if a schedule returns a rate that is negative or not finite.
        """
        rate = self._learning_rate
        if not callable(rate):
            return rate
        return number(f"the learning rate that {rate} gives after {self.steps} steps", rate(self.steps), 0.0)

    @learning_rate.setter
    def learning_rate(self, rate: LearningRate) -> None:
        self._learning_rate = rate if callable(rate) else number("learning_rate", rate, 0.0)
        self._rate_factor = None
        self._rate_changed()

    def _rate_changed(self) -> None:
        """Follow a new learning rate."""

    # --- rules and their numbers ----------------------------------------------------------------------------------

    def rule_for(self, parameter: Parameter, scaled: bool) -> UpdateEvaluator | WholeRule:
        """Return the rule for a parameter, built on first use; with `scaled`, it scales the gradient first."""
        key = parameter.dtype, *(() if self.elementwise else parameter.shape)
        if key not in self._rules:
            self._rules[key] = self._build(parameter.dtype, parameter.shape, scaled)
        return self._rules[key]

    def _build(self, dtype: np.dtype, shape: tuple[int, ...], scaled: bool) -> UpdateEvaluator | WholeRule:
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
        value: Value = gradient
        if scaled:
            inputs[GRADIENT_SCALE] = Input(name=GRADIENT_SCALE, dtype=dtype)
            value = value * inputs[GRADIENT_SCALE]
        if self.clip_value is not None:
            value = value.minimum(self.clip_value).maximum(-self.clip_value)
        moved, changed = self.update(parameter, value, state, numbers)
        if self.lower is not None:
            moved = moved.maximum(self.lower)
        if self.upper is not None:
            moved = moved.minimum(self.upper)
        if self.elementwise:
            return UpdateEvaluator(parameter, gradient, state, inputs, (moved, changed), self._state_decays)
        if self._state_decays:
            changed = {
                name: flushed(new, gradient) if new.dims == gradient.dims else new for name, new in changed.items()
            }
        return WholeRule(parameter, gradient, state, inputs, (moved, changed))

    def numbers_at(self, step: int) -> dict[str, float]:
        """Return the rule's scalars for a parameter's step, by name."""
        numbers = self.hyperparameters(step)
        return {f"{name}{self._suffix}": value for name, value in numbers.items()} if self._suffix else numbers

    def numbers_of(self, done: int, count: int) -> dict[str, NDArray[np.float64]]:
        """Return the rule's scalars for the `count` steps of parameters after `done` ones, by name, as arrays."""
        if not callable(self._learning_rate):
            try:  # vectorized, if `hyperparameters` is plain arithmetic
                found = self.numbers_at(np.arange(done + 1, done + count + 1, dtype=np.float64))  # type: ignore[arg-type]  # steps
                return {name: _of_steps(value, count) for name, value in found.items()}
            except (TypeError, ValueError):
                pass  # `hyperparameters` branches on the step: fall back to a loop
        steps, each = self.steps, []
        try:
            for i in range(count):
                self.steps = steps + i
                each.append(self.numbers_at(done + 1 + i))
        finally:
            self.steps = steps
        return {name: np.array([numbers[name] for numbers in each]) for name in each[0]}

    # --- options --------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: object) -> None:
        fixed = name in self._options or name in STEP_OPTIONS
        if fixed and name != "learning_rate" and self.__dict__.get("_rules"):
            raise AttributeError(
                f"{name} of {type(self).__name__} cannot change after the rule was built with {getattr(self, name)}; "
                f"make a new optimizer, and load this one's state_dict if the state is the same"
            )
        super().__setattr__(name, value)

    def options(self) -> dict[str, object]:
        """Return the options by name, as `repr` shows them; shared options only where they are set."""
        found = {name: getattr(self, name, None) for name in self._options}
        found["learning_rate"] = self.__dict__.get("_learning_rate")
        shared = {name: getattr(self, name, None) for name in STEP_OPTIONS}
        return found | {name: value for name, value in shared.items() if value is not None}

    def own_options(self, others: Mapping[str, object]) -> dict[str, object]:
        """Return the options that are not among these of the whole optimizer; the factor of a rate, not the rate."""
        mine = self.options()
        if self._rate_factor is not None and "learning_rate" in others:
            del mine["learning_rate"]
            if self._rate_factor != 1.0:
                mine["learning_rate_factor"] = self._rate_factor
        return {name: value for name, value in mine.items() if name not in others or others[name] != value}


def _of_steps(value: object, count: int) -> NDArray[np.float64]:
    """Return the array of a scalar's values in `count` steps; a number is the same in all of them."""
    if isinstance(value, np.ndarray) and value.ndim:
        return value.astype(np.float64, copy=False)
    return np.full(count, value, np.float64)


def flushed(state: Value, gradient: Value) -> Value:
    """Return the state, or zero where it is denormal and the gradient is zero."""
    tiny = float(np.finfo(state.dtype).tiny)
    limit = tiny - gradient.abs() * (1.0 / tiny)
    return where(state.abs() < limit, 0.0, state)
