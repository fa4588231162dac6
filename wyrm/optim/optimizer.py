"""The base class of optimizers: state, step, and an update rule written once as a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wyrm._interrupts import deferred
from wyrm.errors import CheckpointError, Diverged, NotSet
from wyrm.foreign_names import Answering
from wyrm.node.base import BaseNode, describe
from wyrm.node.leaves import Input, Parameter
from wyrm.node.node import Node
from wyrm.node.storage import bound_array, stored, touch
from wyrm.optim.rule import BLOCK, Elements, UpdateEvaluator
from wyrm.types.arrays import as_array
from wyrm.types.memory import aligned
from wyrm.types.options import number
from wyrm.types.rows import RowSparse
from wyrm.types.typing import FloatArray

LearningRate = float | Callable[[int], float]
Value = Node
Values = Mapping[str, Value]
# The new parameter, and the new state by name, as nodes.
Update = tuple[Value, dict[str, Value]]
# Once gradients are zero, their moving average decays to denormal numbers, with which a processor is a hundred times
# slower. Every `_FLUSH_EVERY` steps, denormal state is therefore set to zero where the gradient is zero.
_FLUSH_EVERY = 16


def _filled(parameter: Parameter, start: float) -> np.ndarray:
    """Return a state array for the parameter, filled with `start`."""
    return aligned(parameter.shape, parameter.dtype, start)


class Optimizer(Answering):
    """The base class of all optimizers.

    A subclass declares its state with initial values, and its elementwise rule, `update`, over nodes. The rule runs on
    whole parameters, or on the rows that a row-sparse gradient touches; other rows keep their values and state, so
    momentum, averages and weight decay do not apply to them. A parameter without a gradient is skipped, and bias
    corrections count each parameter's own steps.

    `learning_rate` is a number or a schedule, a function of the number of completed steps. It can be set at any time;
    other options are fixed once the rule has been built.

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
    """

    _foreign = "OPTIMIZER"
    # The arguments of `__init__` that are stored as attributes of the same names.
    _options: ClassVar[tuple[str, ...]] = ()
    # Whether the state can decay towards zero, through the denormal numbers.
    _state_decays: ClassVar[bool] = True
    # Names of state that is a sum or average of squares, and so cannot be negative.
    _squares: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls._options = tuple(inspect.signature(cls.__init__).parameters)[2:]

    def __init__(self, parameters: Iterable[Parameter], learning_rate: LearningRate) -> None:
        self.parameters = checked_parameters(type(self).__name__, parameters)
        self._position = {parameter: i for i, parameter in enumerate(self.parameters)}
        self._rules: dict[np.dtype, UpdateEvaluator] = {}
        self.learning_rate = learning_rate
        self.steps = 0
        self._counts = [0] * len(self.parameters)
        self._state = [
            {slot: _filled(p, start) for slot, start in self.initial_state().items()} for p in self.parameters
        ]

    # --- defined by subclasses ------------------------------------------------------------------------------------

    def initial_state(self) -> Mapping[str, float]:
        """Return the initial value of each state array, by name."""
        return {}

    def hyperparameters(self, step: int) -> dict[str, float]:
        """Return the scalars of the rule that change from step to step; `step` counts a parameter's steps from 1.

        They are computed in float64 and cast to the parameter's dtype.
        """
        return {"learning_rate": self.learning_rate}

    def update(self, parameter: Value, gradient: Value, state: Values, hyperparameters: Values) -> Update:
        """Return the new parameter and the new state as elementwise nodes of the arguments."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    # --- stepping -------------------------------------------------------------------------------------------------

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

    def rule(self, dtype: np.dtype) -> UpdateEvaluator:
        """Return the rule for parameters of this dtype, built on first use."""
        rule = self._rules.get(dtype)
        if rule is None:
            elements = (Elements(),)
            parameter = Input(name="parameter", dims=elements, dtype=dtype)
            gradient = Input(name="gradient", dims=elements, dtype=dtype)
            state = {name: Input(name=name, dims=elements, dtype=dtype) for name in self.initial_state()}
            hyperparameters = {name: Input(name=name, dtype=dtype) for name in self.hyperparameters(1)}
            update = self.update(parameter, gradient, state, hyperparameters)
            rule = self._rules[dtype] = UpdateEvaluator(parameter, gradient, state, hyperparameters, update)
        return rule

    def step(self) -> None:
        """Update every parameter that has a gradient.

        The update is atomic: Ctrl-C takes effect before or after it. Raise `Diverged` for a gradient with a NaN or an
        infinity and `NotSet` if no parameter has a gradient; no parameter has changed then.
        """
        gradients = [stored(parameter).gradient for parameter in self.parameters]
        if all(gradient is None for gradient in gradients):
            raise NotSet(
                "no parameter has a gradient: call loss.backward() before step(), and zero_gradient() only after it"
            )
        held = [summed(g) if isinstance(g, RowSparse) else g for g in gradients]
        numbers: dict[int, dict[str, float]] = {}  # by step count, which most parameters share
        with np.errstate(all="ignore"):
            for parameter, gradient in zip(self.parameters, held, strict=True):
                values = gradient.values if isinstance(gradient, RowSparse) else gradient
                if values is not None and not all_finite(values):
                    raise Diverged(
                        f"the gradient of {describe(parameter)} holds {values[~np.isfinite(values)][0]} in step "
                        f"{self.steps + 1} at learning rate {self.learning_rate:g}; no parameter has moved. Find the "
                        f"cause with wy.watch_nan(), lower the learning rate, or clip with "
                        f"wy.optim.clip_by_global_norm"
                    )
            rules = [self.rule(parameter.dtype) for parameter in self.parameters]
            for count in self._counts:
                if count + 1 not in numbers:
                    numbers[count + 1] = self.hyperparameters(count + 1)
            with deferred:
                for i, gradient in enumerate(held):
                    if gradient is not None:
                        self._counts[i] += 1
                        self._move(rules[i], self.parameters[i], gradient, self._state[i], numbers[self._counts[i]])
                self.steps += 1

    def _move(
        self,
        rule: UpdateEvaluator,
        parameter: Parameter,
        gradient: FloatArray | RowSparse,
        state: Mapping[str, np.ndarray],
        hyperparameters: Mapping[str, float],
    ) -> None:
        array = bound_array(parameter)
        try:
            if isinstance(gradient, RowSparse):
                self._move_rows(rule, array, gradient, state, hyperparameters)
            else:
                flush = self._state_decays and self.steps % _FLUSH_EVERY == 0
                rule(array, gradient, state, hyperparameters, flush)
        finally:
            touch(stored(parameter))

    @staticmethod
    def _move_rows(
        rule: UpdateEvaluator,
        array: np.ndarray,
        gradient: RowSparse,
        state: Mapping[str, np.ndarray],
        hyperparameters: Mapping[str, float],
    ) -> None:
        """Apply the rule to the rows of the gradient, each of which occurs once: gather, update, scatter."""
        arrays = [array, *state.values()]
        stride = max(1, BLOCK * array.shape[0] // max(1, array.size))
        for start in range(0, len(gradient.rows), stride):
            rows = gradient.rows[start : start + stride]
            gathered = [target.take(rows, axis=0) for target in arrays]
            slots = dict(zip(state, gathered[1:], strict=True))
            rule(gathered[0], gradient.values[start : start + stride], slots, hyperparameters)
            for target, values in zip(arrays, gathered, strict=True):
                target[rows] = values

    # --- for programs that run the rule themselves ----------------------------------------------------------------

    def numbers(self, count: int, parameters: Sequence[Parameter] | None = None) -> dict[str, NDArray[np.float64]]:
        """Return the rule's scalars for the next `count` steps of these parameters, by default all, as arrays.

        `count` is at least 1; a schedule is evaluated for these steps only.
        """
        counts = {self._counts[position] for position in self._positions(parameters)}
        if len(counts) > 1:
            raise ValueError(
                f"the parameters of this {type(self).__name__} have completed different numbers of steps, so a program "
                f"cannot update them together; make a new optimizer"
            )
        (done,) = counts
        if not callable(self._learning_rate):
            try:  # vectorized, if `hyperparameters` is plain arithmetic
                found = self.hyperparameters(np.arange(done + 1, done + count + 1, dtype=np.float64))  # type: ignore[arg-type]  # steps
                return {name: np.broadcast_to(np.asarray(value, np.float64), (count,)) for name, value in found.items()}
            except (TypeError, ValueError):
                pass  # `hyperparameters` branches on the step: fall back to a loop
        steps, each = self.steps, []
        try:
            for i in range(count):
                self.steps = steps + i
                each.append(self.hyperparameters(done + 1 + i))
        finally:
            self.steps = steps
        return {name: np.array([numbers[name] for numbers in each]) for name in each[0]}

    def state_of(self, parameter: Parameter) -> dict[str, np.ndarray]:
        """Return the state arrays of a parameter, by name; a program updates them in place."""
        return self._state[self._position[parameter]]

    def advance(self, count: int, parameters: Sequence[Parameter] | None = None) -> None:
        """Add `count` to the step counts of these parameters, by default all; a negative `count` undoes steps."""
        self.steps += count
        for position in self._positions(parameters):
            self._counts[position] += count

    def _positions(self, parameters: Sequence[Parameter] | None) -> Sequence[int]:
        """Return the indices of these parameters in `self.parameters`."""
        if parameters is None:
            return range(len(self.parameters))
        return [self._position[parameter] for parameter in parameters]

    @property
    def flushes(self) -> bool:
        """Whether denormal state is set to zero where the gradient is zero."""
        return self._state_decays

    def zero_gradient(self) -> None:
        """Set the gradients of the parameters to zero."""
        for parameter in self.parameters:
            parameter.clear_gradient()

    def __setattr__(self, name: str, value: object) -> None:
        if name in self._options and name != "learning_rate" and self.__dict__.get("_rules"):
            raise AttributeError(
                f"{name} of {type(self).__name__} cannot change after the rule was built with {getattr(self, name)}; "
                f"make a new optimizer, and load this one's state_dict if the state is the same"
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        rate = self._learning_rate if callable(self._learning_rate) else self.learning_rate
        options = {name: getattr(self, name, None) for name in self._options} | {"learning_rate": rate}
        count = f"{len(self.parameters)} parameter{'' if len(self.parameters) == 1 else 's'}"
        return f"{type(self).__name__}({', '.join([count, *(f'{name}={value}' for name, value in options.items())])})"

    def __getstate__(self) -> dict[str, object]:
        """Return the state for copies and pickles: own counts and arrays, and no rule, which is rebuilt."""
        state = [{slot: array.copy() for slot, array in arrays.items()} for arrays in self._state]
        return self.__dict__ | {"_rules": {}, "_counts": list(self._counts), "_state": state}

    # --- saving ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return copies of the state arrays, as `position.name`, and the step counts."""
        arrays = {f"{i}.{slot}": a.copy() for i, state in enumerate(self._state) for slot, a in state.items()}
        return arrays | {"steps": np.asarray(self.steps), "counts": np.asarray(self._counts, np.int64)}

    def load_state_dict(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Load a saved state.

        Raise `CheckpointError` for missing, extra or mismatched arrays, and for state that no step can continue from:
        non-finite values, negative averages of squares, negative counts. Nothing has changed then.
        """
        mine = self.state_dict()
        given = {name: as_array(array) for name, array in arrays.items()}
        missing, extra = sorted(mine.keys() - given.keys()), sorted(given.keys() - mine.keys())
        wrong = [
            f"{name} (has {mine[name].shape} {mine[name].dtype}, given {given[name].shape} {given[name].dtype})"
            for name in sorted(mine.keys() & given.keys())
            if mine[name].shape != given[name].shape or mine[name].dtype != given[name].dtype
        ]
        found = {"missing": missing, "extra": extra, "mismatched": wrong}
        if any(found.values()):
            raise CheckpointError(
                f"the state does not match this {type(self).__name__}: "
                + "; ".join(f"{what}: {', '.join(names)}" for what, names in found.items() if names)
            )
        impossible = [f"{name} {problem}" for name in sorted(mine) if (problem := self._impossible(name, given[name]))]
        if impossible:
            raise CheckpointError(f"{type(self).__name__} cannot continue from this state: {', '.join(impossible)}")
        with deferred:
            for i, state in enumerate(self._state):
                for slot in state:
                    state[slot][...] = given[f"{i}.{slot}"]
            self.steps = int(given["steps"])
            self._counts = [int(count) for count in given["counts"]]

    def _impossible(self, name: str, values: np.ndarray) -> str | None:
        """Return why training cannot continue from a saved array, or None."""
        if not np.isfinite(values).all():
            return "holds a NaN or an infinity"
        if name in ("steps", "counts") or name.partition(".")[2] in self._squares:
            return "holds a negative number" if (values < 0).any() else None
        return None


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


def all_finite(values: FloatArray) -> bool:
    """Whether no element is a NaN or an infinity."""
    if values.size <= BLOCK:
        return bool(np.isfinite(values).all())
    flat = values.reshape(-1)
    return all(np.isfinite(flat[start : start + BLOCK]).all() for start in range(0, flat.size, BLOCK))


def summed(gradient: RowSparse) -> RowSparse:
    """Return the gradient with repeated rows summed."""
    return gradient if len(gradient.rows) == 1 else gradient.summed()
