"""What every optimizer shares: the state, the step, and the rule written once as a graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wyrm._interrupts import deferred
from wyrm.errors import CheckpointError, Diverged, NotSet
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
# The new parameter, and the new state by name.
Update = tuple[Value, dict[str, Value]]
# An average of gradients that have become zero decays into the denormal numbers, on which a processor is a hundred
# times slower. One that gets there while its gradient is zero is set to zero, this often. What small gradients feed
# stays as it is, denormal or not.
_FLUSH_EVERY = 16


def _filled(parameter: Parameter, start: float) -> np.ndarray:
    """State that begins with a number."""
    return aligned(parameter.shape, parameter.dtype, start)


class Optimizer:
    """The base of all optimizers.

    A subclass names its state, with the number that each starts from, and writes its rule, `update`, once: over nodes,
    element by element. The rule runs on whole parameters, or on the rows that a row-sparse gradient touches; rows that
    it does not touch keep their values and their state, so the optimizers that have momentum, averages or weight decay
    are lazy on them. A parameter without a gradient is skipped, and its corrections count its own steps only.

    `learning_rate` is a number or a schedule: a function of the number of steps done so far. It can be set at any time;
    other options stay as they are once the rule was built from them.

    Raises `ValueError` for no parameters, one given twice, or a learning rate that is negative or not finite;
    `TypeError` for what is no parameter.

    >>> class SignDescent(wy.optim.Optimizer):
    ...     def __init__(self, parameters, learning_rate=0.01, momentum=0.9):
    ...         self.momentum = momentum
    ...         super().__init__(parameters, learning_rate)
    ...     def initial_state(self):
    ...         return {"mean": 0.0}
    ...     def update(self, parameter, gradient, state, hyper):
    ...         mean = self.momentum * state["mean"] + (1.0 - self.momentum) * gradient
    ...         return parameter - hyper["learning_rate"] * mean.sign(), {"mean": mean}
    >>> x = wy.Parameter([1.0, -2.0])
    >>> optimizer = SignDescent([x], learning_rate=0.5)
    >>> x.square().sum().backward()
    >>> optimizer.step()
    >>> x.value.tolist()
    [0.5, -1.5]
    """

    # The arguments of `__init__`, which are attributes of the same names.
    _options: ClassVar[tuple[str, ...]] = ()
    # Whether the state can shrink towards zero, through the denormal numbers.
    _state_decays: ClassVar[bool] = True
    # The state that is a sum or an average of squares.
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

    # --- what a subclass defines ----------------------------------------------------------------------------------

    def initial_state(self) -> Mapping[str, float]:
        """The state that this optimizer keeps, by name, and the number that each starts from."""
        return {}

    def hyper(self, step: int) -> dict[str, float]:
        """The numbers of the rule that change from step to step; `step` counts a parameter's steps from 1.

        They are computed in float64 and given to the rule in the parameter's dtype.
        """
        return {"learning_rate": self.learning_rate}

    def update(self, parameter: Value, gradient: Value, state: Values, hyper: Values) -> Update:
        """The new parameter and the new state, as nodes made of the arguments, element by element."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    # --- what it does ---------------------------------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The rate of the next step. Set it to another number or schedule at any time.

        `ValueError` where a schedule gives a rate that is negative or not finite.
        """
        rate = self._learning_rate
        if not callable(rate):
            return rate
        return number(f"the learning rate that {rate} gives after {self.steps} steps", rate(self.steps), 0.0)

    @learning_rate.setter
    def learning_rate(self, rate: LearningRate) -> None:
        self._learning_rate = rate if callable(rate) else number("learning_rate", rate, 0.0)

    def rule(self, dtype: np.dtype) -> UpdateEvaluator:
        """The rule for parameters of one float type."""
        rule = self._rules.get(dtype)
        if rule is None:
            elements = (Elements(),)
            parameter = Input(name="parameter", dims=elements, dtype=dtype)
            gradient = Input(name="gradient", dims=elements, dtype=dtype)
            state = {name: Input(name=name, dims=elements, dtype=dtype) for name in self.initial_state()}
            hyper = {name: Input(name=name, dtype=dtype) for name in self.hyper(1)}
            update = self.update(parameter, gradient, state, hyper)
            rule = self._rules[dtype] = UpdateEvaluator(parameter, gradient, state, hyper, update)
        return rule

    def step(self) -> None:
        """Move every parameter that has a gradient.

        All move or none: Ctrl-C takes effect before or after. Raises, before any parameter moves, `Diverged` for a NaN
        or an infinity, and `NotSet` where none has a gradient.
        """
        gradients = [stored(parameter).gradient for parameter in self.parameters]
        if all(gradient is None for gradient in gradients):
            raise NotSet(
                "no parameter has a gradient to follow: call loss.backward() before step(), "
                "and zero_gradient() only after it"
            )
        held = [summed(g) if isinstance(g, RowSparse) else g for g in gradients]
        numbers: dict[int, dict[str, float]] = {}  # by the steps of a parameter, which most have in common
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
                    numbers[count + 1] = self.hyper(count + 1)
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
        hyper: Mapping[str, float],
    ) -> None:
        array = bound_array(parameter)
        try:
            if isinstance(gradient, RowSparse):
                self._move_rows(rule, array, gradient, state, hyper)
            else:
                flush = self._state_decays and self.steps % _FLUSH_EVERY == 0
                rule(array, gradient, state, hyper, flush)
        finally:
            touch(stored(parameter))

    @staticmethod
    def _move_rows(
        rule: UpdateEvaluator,
        array: np.ndarray,
        gradient: RowSparse,
        state: Mapping[str, np.ndarray],
        hyper: Mapping[str, float],
    ) -> None:
        """The rule on the rows that the gradient names, gathered and written back; each is named once."""
        places = [array, *state.values()]
        stride = max(1, BLOCK * array.shape[0] // max(1, array.size))
        for start in range(0, len(gradient.rows), stride):
            rows = gradient.rows[start : start + stride]
            gathered = [place.take(rows, axis=0) for place in places]
            slots = dict(zip(state, gathered[1:], strict=True))
            rule(gathered[0], gradient.values[start : start + stride], slots, hyper)
            for place, values in zip(places, gathered, strict=True):
                place[rows] = values

    # --- for programs that run the rule themselves ----------------------------------------------------------------

    def numbers(self, count: int, parameters: Sequence[Parameter] | None = None) -> dict[str, NDArray[np.float64]]:
        """The numbers of the rule for the next `count` steps of these parameters, by default of all; an array for each.

        There is one step or more, and a schedule is asked for no other.
        """
        counts = {self._counts[position] for position in self._positions(parameters)}
        if len(counts) > 1:
            raise ValueError(
                f"the parameters of this {type(self).__name__} have done different numbers of steps, so a program "
                f"cannot move them together; make a new optimizer"
            )
        (done,) = counts
        if not callable(self._learning_rate):
            try:  # all at once, where `hyper` is arithmetic
                found = self.hyper(np.arange(done + 1, done + count + 1, dtype=np.float64))  # type: ignore[arg-type]  # see below
                return {name: np.broadcast_to(np.asarray(value, np.float64), (count,)) for name, value in found.items()}
            except (TypeError, ValueError):
                pass  # a rule that looks at its step: one by one
        steps, each = self.steps, []
        try:
            for i in range(count):
                self.steps = steps + i
                each.append(self.hyper(done + 1 + i))
        finally:
            self.steps = steps
        return {name: np.array([numbers[name] for numbers in each]) for name in each[0]}

    def state_of(self, parameter: Parameter) -> dict[str, np.ndarray]:
        """The arrays of a parameter's state by name, as they are: a program changes them in place."""
        return self._state[self._position[parameter]]

    def advance(self, count: int, parameters: Sequence[Parameter] | None = None) -> None:
        """Count steps that a program has done, or below 0 undone, with these parameters, by default with all."""
        self.steps += count
        for position in self._positions(parameters):
            self._counts[position] += count

    def _positions(self, parameters: Sequence[Parameter] | None) -> Sequence[int]:
        """Where these parameters stand among those of the optimizer."""
        if parameters is None:
            return range(len(self.parameters))
        return [self._position[parameter] for parameter in parameters]

    @property
    def flushes(self) -> bool:
        """Whether denormal state becomes zero where the gradient is zero."""
        return self._state_decays

    def zero_gradient(self) -> None:
        """Set the gradients of the parameters to zero."""
        for parameter in self.parameters:
            parameter.clear_gradient()

    def __setattr__(self, name: str, value: object) -> None:
        if name in self._options and name != "learning_rate" and self.__dict__.get("_rules"):
            raise AttributeError(
                f"{name} of {type(self).__name__} cannot be set, for the rule was built with {getattr(self, name)}; "
                f"make a new optimizer, and give it this one's state where it has the same"
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        rate = self._learning_rate if callable(self._learning_rate) else self.learning_rate
        options = {name: getattr(self, name, None) for name in self._options} | {"learning_rate": rate}
        count = f"{len(self.parameters)} parameter{'' if len(self.parameters) == 1 else 's'}"
        return f"{type(self).__name__}({', '.join([count, *(f'{name}={value}' for name, value in options.items())])})"

    def __getstate__(self) -> dict[str, Any]:
        """What a copy starts from: its own counts and state, and a rule that is built anew from the options."""
        state = [{slot: array.copy() for slot, array in arrays.items()} for arrays in self._state]
        return self.__dict__ | {"_rules": {}, "_counts": list(self._counts), "_state": state}

    # --- saving ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, np.ndarray]:
        """Copies of the state, by `position.slot`, and the counts of steps."""
        arrays = {f"{i}.{slot}": a.copy() for i, state in enumerate(self._state) for slot, a in state.items()}
        return arrays | {"steps": np.asarray(self.steps), "counts": np.asarray(self._counts, np.int64)}

    def load_state_dict(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over a saved state.

        `CheckpointError` lists what does not match, or cannot be gone on from: numbers that are not finite, negative
        averages of squares, negative counts. Then nothing has changed.
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
                f"the state is not that of this {type(self).__name__}: "
                + "; ".join(f"{what}: {', '.join(names)}" for what, names in found.items() if names)
            )
        impossible = [f"{name} {problem}" for name in sorted(mine) if (problem := self._impossible(name, given[name]))]
        if impossible:
            raise CheckpointError(f"no {type(self).__name__} can go on from this state: {', '.join(impossible)}")
        with deferred:
            for i, state in enumerate(self._state):
                for slot in state:
                    state[slot][...] = given[f"{i}.{slot}"]
            self.steps = int(given["steps"])
            self._counts = [int(count) for count in given["counts"]]

    def _impossible(self, name: str, values: np.ndarray) -> str | None:
        """Why no step can go on from a saved array."""
        if not np.isfinite(values).all():
            return "holds a NaN or an infinity"
        if name in ("steps", "counts") or name.partition(".")[2] in self._squares:
            return "holds a negative number" if (values < 0).any() else None
        return None


def checked_parameters(who: str, parameters: Iterable[Parameter]) -> list[Parameter]:
    """The parameters as a list: at least one, each once, and nothing else."""
    if isinstance(parameters, BaseNode):
        raise TypeError(f"{who} takes a list of parameters, not one node: {describe(parameters)}")
    found = list(parameters)
    if not found:
        raise ValueError(f"{who} was given no parameters; pass loss.parameters()")
    seen: set[Parameter] = set()
    for parameter in found:
        if not isinstance(parameter, Parameter):
            raise TypeError(f"{who} changes parameters, not {type(parameter).__name__}")
        if parameter in seen:
            raise ValueError(f"{who} was given {describe(parameter)} twice")
        seen.add(parameter)
    return found


def all_finite(values: FloatArray) -> bool:
    """Whether there is neither a NaN nor an infinity."""
    if values.size <= BLOCK:
        return bool(np.isfinite(values).all())
    flat = values.reshape(-1)
    return all(np.isfinite(flat[start : start + BLOCK]).all() for start in range(0, flat.size, BLOCK))


def summed(gradient: RowSparse) -> RowSparse:
    """The gradient with each row named once."""
    return gradient if len(gradient.rows) == 1 else gradient.summed()
