"""The update rule of an optimizer as a graph, which every engine runs, and the numbers that it takes in each step."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Self, overload

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.numpy.calls import BLOCK, BlockPlan
from wyrm.engines.numpy.reference import ReferenceRunner
from wyrm.engines.optimizer import GRADIENT_SCALE
from wyrm.errors import OptionError, RegistrationError
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.node import Node
from wyrm.graph.parameters import Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.schedule import Schedule
from wyrm.graph.storage import store, stored
from wyrm.ops.elementwise.comparison import where
from wyrm.optim.options import GROUP_OPTIONS, STEP_OPTIONS, LearningRate, Precomputed, check_names
from wyrm.support.foreign_names import ExplainsNames, ForeignName, keywords_of
from wyrm.support.options import number

Values = Mapping[str, Node]
"""The state, or the hyperparameters, by name."""
Update = tuple[Node, dict[str, Node]]
"""The new parameter, and the new state by name, as nodes."""
_Run = Callable[[list[np.ndarray], np.ndarray, list[float]], None]


class Elements(Dim):
    """The elements of a parameter, or of the rows that a gradient touches, flattened."""


class Rule:
    """The graph of an update, from the parameter, gradient, state and scalars to the new values.

    The inputs of an elementwise rule have any number of elements. Those of another rule have the axes of a parameter,
    and each state has axes of its own. The `hyperparameters` are scalar inputs. `outputs` are the new parameter and the
    new state, in the order of `state`. If the rule `flushes`, denormal state may become zero. The state in `squares` is
    never negative. Where the hyperparameter `idle_at_zero` is 0, nothing changes.

    Raise `RegistrationError` for a rule that uses leaves other than its arguments and constants, that does not return
    the declared state in the parameter's dtype and in its shapes, or that is not elementwise and does not say so.
    """

    def __init__(
        self,
        parameter: Input,
        gradient: Input,
        state: Mapping[str, Input],
        hyperparameters: Mapping[str, Input],
        update: tuple[Node, Mapping[str, Node]],
        elementwise: bool,
        flushes: bool,
        squares: frozenset[str] = frozenset(),
        idle_at_zero: str | None = None,
    ) -> None:
        self.parameter = parameter
        self.gradient = gradient
        self.state: dict[str, Input] = dict(state)
        self.hyperparameters: dict[str, Input] = dict(hyperparameters)
        self.elementwise = elementwise
        self.flushes = flushes
        self.squares = squares
        self.idle_at_zero = idle_at_zero
        self.outputs: list[Node] = self._checked_outputs(*update)
        self._check_nodes()
        self._run: _Run | None = None

    def _checked_outputs(self, value: Node, changed: Mapping[str, Node]) -> list[Node]:
        if changed.keys() != self.state.keys():
            raise RegistrationError(
                f"an optimizer's update must return the state that initial_state declares, "
                f"{', '.join(self.state) or 'none'}; it returned {', '.join(changed) or 'none'}"
            )
        outputs = [value, *(changed[name] for name in self.state)]
        for leaf, output in zip([self.parameter, *self.state.values()], outputs, strict=True):
            if output.dtype != self.parameter.dtype:
                raise RegistrationError(
                    f"an optimizer's update must keep the dtype {self.parameter.dtype}, not return {describe(output)}"
                )
            if not self.elementwise and output.dims != leaf.dims:
                raise RegistrationError(
                    f"an optimizer's update must keep the shape of {leaf.name}, {leaf.dims}, not return "
                    f"{describe(output)}"
                )
        return outputs

    def _check_nodes(self) -> None:
        inputs: set[BaseNode] = {self.parameter, self.gradient, *self.state.values(), *self.hyperparameters.values()}
        for node in Schedule(self.outputs).nodes:
            if node in inputs or (isinstance(node, Constant) and not (self.elementwise and node.dims)):
                continue
            if self.elementwise and (node.is_leaf or not node.formula):
                raise RegistrationError(
                    f"an optimizer's rule must be elementwise and use only its arguments and constants; "
                    f"{describe(node)} is not. A rule over whole parameters declares `elementwise = False`"
                )
            if node.is_leaf:
                raise RegistrationError(
                    f"an optimizer's rule must use only its arguments and constants; {describe(node)} is another leaf"
                )

    def move(
        self,
        parameter: np.ndarray,
        gradient: np.ndarray | RowSparse,
        state: Mapping[str, np.ndarray],
        hyperparameters: Mapping[str, float],
        flush: bool = False,
    ) -> None:
        """Write the new values into `parameter` and the arrays of `state`, which are contiguous.

        The rows of a row-sparse gradient occur once. With `flush`, denormal state becomes zero where the gradient is.
        """
        arrays = [parameter, *[state[name] for name in self.state]]
        scalars = [hyperparameters[name] for name in self.hyperparameters]
        if self.idle_at_zero is not None and not hyperparameters[self.idle_at_zero]:
            return
        run = self._run or self._prepare()
        if not isinstance(gradient, RowSparse):
            run(arrays, gradient, scalars)
            if flush and self.elementwise:
                _flush([array.reshape(-1) for array in arrays[1:]], gradient.reshape(-1))
        elif not self.elementwise:
            run(arrays, gradient.dense(), scalars)
        else:
            stride = max(1, BLOCK * parameter.shape[0] // max(1, parameter.size))
            for start in range(0, len(gradient.rows), stride):
                rows = gradient.rows[start : start + stride]
                gathered = [array.take(rows, axis=0) for array in arrays]
                run(gathered, gradient.values[start : start + stride], scalars)
                for array, values in zip(arrays, gathered, strict=True):
                    array[rows] = values

    def _prepare(self) -> _Run:
        """Return a function that replaces the parameter and its state, given these arrays, the gradient and scalars."""
        leaves, numbers = [self.parameter, *self.state.values()], list(self.hyperparameters.values())
        if self.elementwise:
            self._run = BlockPlan([*leaves, self.gradient], numbers, self.outputs).run
        else:
            self._run = partial(_run_whole, ReferenceRunner(self.outputs), [*leaves, self.gradient, *numbers])
        return self._run


def _run_whole(
    runner: ReferenceRunner, leaves: list[Input], arrays: list[np.ndarray], gradient: np.ndarray, scalars: list[float]
) -> None:
    given = [*arrays, gradient, *(np.asarray(scalar, gradient.dtype) for scalar in scalars)]
    for leaf, array in zip(leaves, given, strict=True):
        if stored(leaf).array is None:
            stored(leaf).array = np.empty_like(array)
        store(stored(leaf), array)
    plan = runner.run()
    for target, output in zip(arrays, runner.schedule.outputs, strict=True):
        target[...] = plan.value(output)


def _flush(state: list[np.ndarray], gradient: np.ndarray) -> None:
    """Set denormal state to zero where the gradient is zero."""
    for start in range(0, gradient.size, BLOCK):
        no_gradient = gradient[start : start + BLOCK] == 0.0
        for array in state:
            block = array[start : start + BLOCK]
            np.copyto(block, 0.0, where=no_gradient & (np.abs(block) < np.finfo(block.dtype).tiny))


def averaging_rule(dtype: np.dtype, weight: str) -> Rule:
    """Return the rule `average + weight * (parameter - average)`; `weight` is the name of that number.

    The rule's parameter is the average, and its gradient the averaged parameter. An average that approaches 0 becomes 0
    instead of a denormal number, which is slow.
    """
    axes = (Elements(),)
    average, parameter = Input(name="average", dims=axes, dtype=dtype), Input(name="parameter", dims=axes, dtype=dtype)
    factor = Input(name=weight, dtype=dtype)
    new = average + factor * (parameter - average)
    kept = where(new.abs() < float(np.finfo(dtype).tiny), 0.0, new)
    return Rule(average, parameter, {}, {weight: factor}, (kept, {}), True, False, idle_at_zero=weight)


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
    def __get__(self, instance: GroupRules, owner: type) -> float: ...
    def __get__(self, instance: GroupRules | None, owner: type) -> LearningRate:
        if instance is None:
            if self.default is None:
                raise AttributeError(f"{owner.__name__} has no default of learning_rate")
            return self.default  # a dataclass reads it
        return self.of_next_step(instance)

    def __set__(self, instance: GroupRules, value: LearningRate) -> None:
        instance._learning_rate = value if callable(value) else number("learning_rate", value, 0.0)
        instance._rate_factor = None
        instance._rate_changed()

    def of_next_step(self, instance: GroupRules) -> float:
        """Return the learning rate of the next step of an optimizer."""
        rate = instance._learning_rate
        if not callable(rate):
            return rate
        return number(f"the learning rate that {rate} gives after {instance.steps} steps", rate(instance.steps), 0.0)


_option_names: dict[type, tuple[str, ...]] = {}


def option_names(optimizer: type[GroupRules]) -> tuple[str, ...]:
    """Return the names of the arguments of an optimizer that are its own options, stored as attributes."""
    found = _option_names.get(optimizer)
    if found is None:
        named = list(inspect.signature(optimizer.__init__).parameters.values())[2:]
        names = [each.name for each in named if each.kind is not inspect.Parameter.VAR_KEYWORD]
        found = _option_names[optimizer] = tuple(name for name in names if name not in STEP_OPTIONS)
    return found


def check_group(optimizer: type[GroupRules], names: Iterable[str]) -> tuple[str, ...]:
    """Return the options that a group of parameters may have; raise `OptionError` for a name that is none of them."""
    known = (*option_names(optimizer), *GROUP_OPTIONS)
    for name in names:
        if name not in (*known, "parameters", "learning_rate_factor"):
            raise OptionError(
                f"a group of {optimizer.__name__} has no option {name!r}; it may have "
                f"{', '.join(['learning_rate_factor', *known])}"
            )
    return known


class GroupRules(ExplainsNames):
    """The base of optimizers: a learning rate, options, and rules for the parameters of one group."""

    # Whether `update` is elementwise; otherwise it may reduce over the whole parameter and multiply matrices.
    elementwise: ClassVar[bool] = True
    # Whether the state can decay towards zero, through the denormal numbers.
    _state_decays: ClassVar[bool] = True
    # Names of state that is a sum or average of squares, and so cannot be negative.
    _squares: ClassVar[frozenset[str]] = frozenset()
    # Ends the names of this group's numbers, so that they differ from those of other groups.
    _suffix: str = ""
    _learning_rate: LearningRate
    # The factor of the whole optimizer's learning rate; None for a group with a rate of its own.
    _rate_factor: float | None = None
    _rules: dict[tuple[object, ...], Rule]
    _precomputed: Precomputed = Precomputed()
    steps: int
    learning_rate: Rate
    clip_value: float | None = None
    lower: float | None = None
    upper: float | None = None

    if not TYPE_CHECKING:  # a subclass without a default declares it again; and a name of other libraries
        learning_rate = Rate()
        lr = ForeignName("lr", "use optimizer.learning_rate")

    if not TYPE_CHECKING:  # hidden from language servers, which would show it in place of `__init__`

        def __new__(cls, *arguments: object, **keywords: object) -> Self:
            """Refuse unknown keywords: Python would say of `SGD(x, lr=0.1)` that `learning_rate` is missing."""
            if cls.__init__.__module__.startswith("wyrm."):
                check_names(cls.__name__, keywords, keywords_of(cls.__init__))
            return super().__new__(cls)

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

    def _rate_changed(self) -> None:
        """Follow a new learning rate."""

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
        moved, changed = self.update(parameter, value, state, numbers)
        if self.lower is not None:
            moved = moved.maximum(self.lower)
        if self.upper is not None:
            moved = moved.minimum(self.upper)
        flushes = self._state_decays
        if flushes and not self.elementwise:  # in the graph itself
            flushes = False
            changed = {
                name: _flushed(new, gradient) if new.dims == gradient.dims else new for name, new in changed.items()
            }
        return Rule(parameter, gradient, state, inputs, (moved, changed), self.elementwise, flushes, self._squares)

    def numbers_at(self, step: int) -> dict[str, float]:
        """Return the rule's scalars for a parameter's step, by name."""
        numbers = self.hyperparameters(step)
        return {f"{name}{self._suffix}": value for name, value in numbers.items()} if self._suffix else numbers

    def numbers_of(self, done: int, count: int) -> dict[str, NDArray[np.float64]]:
        """Return the rule's scalars for the `count` steps of parameters after `done` ones, by name, as arrays."""
        if not callable(self._learning_rate):
            ahead = self._precomputed.of(self._learning_rate, done, count)
            if ahead is not None:
                return ahead
            # Once there are rules, the options of wyrm's own optimizers are fixed, and with them the next numbers.
            known = bool(self._rules) and type(self).__module__.startswith("wyrm.")
            try:  # vectorized, if `hyperparameters` is plain arithmetic
                numbers = Precomputed.ahead(self.numbers_at, self._learning_rate, done, count, known)
                self._precomputed = numbers if known else Precomputed()
                ahead = numbers.of(self._learning_rate, done, count)
                assert ahead is not None
                return ahead
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


def _flushed(state: Node, gradient: Node) -> Node:
    """Return the state, or zero where it is denormal and the gradient is zero."""
    tiny = float(np.finfo(state.dtype).tiny)
    limit = tiny - gradient.abs() * (1.0 / tiny)
    return where(state.abs() < limit, 0.0, state)


def blend(decay: float, old: Node, new: Node) -> Node:
    """Return the moving average of a value: `decay * old + (1 - decay) * new`."""
    return decay * old + (1.0 - decay) * new


def decayed(decay: float, parameter: Node, gradient: Node) -> Node:
    """Return the gradient plus `decay` times the parameter."""
    return gradient + decay * parameter if decay else gradient


def norm(x: Node) -> Node:
    """Return the Euclidean norm of all elements."""
    return x.square().sum().sqrt()
