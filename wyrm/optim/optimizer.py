"""What every optimizer shares: the state, the step, and the rule written once as a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import CheckpointError, Diverged, NotSet
from wyrm.node.base import describe
from wyrm.node.leaves import Input, Parameter
from wyrm.node.node import Node
from wyrm.node.storage import stored, tick
from wyrm.optim.rule import Rule
from wyrm.types.rows import RowSparse

LearningRate = float | Callable[[int], float]
# An average of gradients that have become zero decays into the denormal numbers, on which a processor is a hundred
# times slower. Set to zero this often, and this far above them, it never gets there.
_FLUSH_EVERY = 16
_FLUSH_BELOW = 1e8
Value = Node[Any, Any]
Values = Mapping[str, Value]
# The new parameter, and the new state by name.
Update = tuple[Value, dict[str, Value]]


class Optimizer:
    """The base of all optimizers.

    A subclass names its state, with the number that each starts from, and writes its rule, `update`, once: over nodes,
    element by element. The rule runs on whole parameters, or on the rows that a row-sparse gradient
    touches; rows that it does not touch keep their values and their state (momentum, averages, decay), so the
    optimizers that have such state are lazy on them.

    `learning_rate` is a number or a schedule: a function of the number of steps done so far.

    Raises `ValueError` for no parameters, one given twice, or a negative learning rate; `TypeError` for what is no
    parameter.
    """

    def __init__(self, parameters: Iterable[Parameter[Any]], learning_rate: LearningRate) -> None:
        self.parameters = list(parameters)
        if not self.parameters:
            raise ValueError(f"{type(self).__name__} was given no parameters; pass loss.parameters()")
        for parameter in self.parameters:
            if not isinstance(parameter, Parameter):
                raise TypeError(f"{type(self).__name__} changes parameters, not {type(parameter).__name__}")
        if len(set(self.parameters)) != len(self.parameters):
            twice = next(p for i, p in enumerate(self.parameters) if p in self.parameters[:i])
            raise ValueError(f"{type(self).__name__} was given {describe(twice)} twice")
        if not callable(learning_rate):
            in_range("learning_rate", learning_rate, 0.0)
        self._learning_rate = learning_rate
        self.steps = 0
        self._counts = [0] * len(self.parameters)
        self._state = [
            {slot: np.full(p.shape, start, p.dtype) for slot, start in self.initial_state().items()}
            for p in self.parameters
        ]
        self._rules: dict[np.dtype[Any], Rule] = {}

    # --- what a subclass defines ----------------------------------------------------------------------------------

    def initial_state(self) -> Mapping[str, float]:
        """The state that this optimizer keeps, by name, and the number that each starts from."""
        return {}

    def hyper(self, step: int) -> dict[str, float]:
        """The numbers of the rule that change from step to step; `step` counts from 1."""
        return {"learning_rate": self.learning_rate}

    def update(self, parameter: Value, gradient: Value, state: Values, hyper: Values) -> Update:
        """The new parameter and the new state, as nodes made of the arguments, element by element."""
        raise NotImplementedError

    # --- what it does ---------------------------------------------------------------------------------------------

    @property
    def learning_rate(self) -> float:
        """The rate of the next step."""
        rate = self._learning_rate
        return float(rate(self.steps)) if callable(rate) else float(rate)

    def rule(self, dtype: np.dtype[Any]) -> Rule:
        """The rule for parameters of one float type."""
        if dtype not in self._rules:
            names = ["parameter", "gradient", *self.initial_state(), *self.hyper(1)]
            leaves = {name: Input(name=name, dtype=dtype) for name in names}
            state = {name: leaves[name] for name in self.initial_state()}
            hyper = {name: leaves[name] for name in self.hyper(1)}
            value, changed = self.update(leaves["parameter"], leaves["gradient"], state, hyper)
            self._rules[dtype] = Rule(leaves, [value, *(changed[name] for name in state)])
        return self._rules[dtype]

    def step(self) -> None:
        """Move every parameter that has a gradient.

        Raises, before any parameter moves, `Diverged` for a NaN or an infinity, and `NotSet` where none has a gradient.
        """
        gradients = [stored(parameter).gradient for parameter in self.parameters]
        if all(gradient is None for gradient in gradients):
            raise NotSet(
                "no parameter has a gradient to follow: call loss.backward() before step(), "
                "and zero_gradient() only after it"
            )
        held = [g.summed() if isinstance(g, RowSparse) else g for g in gradients]
        for parameter, gradient in zip(self.parameters, held, strict=True):
            values = gradient.values if isinstance(gradient, RowSparse) else gradient
            if values is not None and not np.isfinite(values).all():
                raise Diverged(
                    f"the gradient of {describe(parameter)} holds {values[~np.isfinite(values)][0]} in step "
                    f"{self.steps + 1} at learning rate {self.learning_rate:g}; no parameter has moved. Find the cause "
                    f"with wy.watch_nan(), lower the learning rate, or clip with wy.optim.clip_by_global_norm"
                )
        for i, gradient in enumerate(held):
            if gradient is not None:
                self._counts[i] += 1
                self._move(i, gradient)
        self.steps += 1

    def _move(self, i: int, gradient: NDArray[Any] | RowSparse) -> None:
        parameter, state = self.parameters[i], self._state[i]
        hyper = [np.asarray(value, parameter.dtype) for value in self.hyper(self._counts[i]).values()]
        storage = stored(parameter)
        array = storage.array
        assert array is not None  # a parameter always holds an array
        places = [array, *state.values()]
        if isinstance(gradient, RowSparse):
            rows = gradient.rows
            old = [place[rows] for place in places]
            for place, value in zip(
                places, self.rule(parameter.dtype)(old[0], gradient.values, *old[1:], *hyper), strict=True
            ):
                place[rows] = value
        else:
            for place, value in zip(
                places, self.rule(parameter.dtype)(array, gradient, *state.values(), *hyper), strict=True
            ):
                place[...] = value
            if self.steps % _FLUSH_EVERY == 0:
                for slot in state.values():
                    slot[np.abs(slot) < np.finfo(slot.dtype).tiny * _FLUSH_BELOW] = 0.0
        storage.version = tick()

    def zero_gradient(self) -> None:
        """Set the gradients of the parameters to zero."""
        for parameter in self.parameters:
            parameter.clear_gradient()

    # --- saving ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Copies of the state, by `position.slot`, and the counts of steps."""
        arrays = {f"{i}.{slot}": a.copy() for i, state in enumerate(self._state) for slot, a in state.items()}
        return arrays | {"steps": np.asarray(self.steps), "counts": np.asarray(self._counts, np.int64)}

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over a saved state; `CheckpointError` lists what does not match, and then nothing has changed."""
        mine = self.state_dict()
        missing, extra = sorted(mine.keys() - arrays.keys()), sorted(arrays.keys() - mine.keys())
        wrong = [
            f"{name} (has {mine[name].shape} {mine[name].dtype}, given {arrays[name].shape} {arrays[name].dtype})"
            for name in sorted(mine.keys() & arrays.keys())
            if mine[name].shape != arrays[name].shape or mine[name].dtype != arrays[name].dtype
        ]
        found = {"missing": missing, "extra": extra, "mismatched": wrong}
        if any(found.values()):
            raise CheckpointError(
                f"the state is not that of this {type(self).__name__}: "
                + "; ".join(f"{what}: {', '.join(names)}" for what, names in found.items() if names)
            )
        for i, state in enumerate(self._state):
            for slot in state:
                state[slot][...] = arrays[f"{i}.{slot}"]
        self.steps = int(arrays["steps"])
        self._counts = [int(count) for count in arrays["counts"]]


def in_range(name: str, value: float, low: float, high: float = float("inf")) -> float:
    """`value` as it is; `ValueError` unless `low <= value < high` (NaN is neither)."""
    if not low <= value < high:
        bound = f"at least {low:g}" + ("" if high == float("inf") else f" and below {high:g}")
        raise ValueError(f"{name} is {bound}, not {value}")
    return value
