"""The state of an optimizer: arrays beside the parameters, and counts of steps; saved, loaded, and lent to programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.optimizer import AVERAGE
from wyrm.errors import CheckpointError, DTypeError, OptionError
from wyrm.graph.arrays import as_array
from wyrm.graph.parameters import Parameter
from wyrm.graph.storage import stored, touch
from wyrm.optim.options import Average, ParameterGroups
from wyrm.optim.rules import GroupRules, Rule, averaging_rule
from wyrm.support.interrupts import deferred
from wyrm.support.memory import aligned
from wyrm.support.options import MOST_STEPS

if TYPE_CHECKING:
    from wyrm.optim.optimizer import Optimizer

    class GivenParameters:
        """An attribute that is set to parameters or groups of them, and that is read as a list of parameters."""

        def __get__(self, instance: object, owner: type) -> list[Parameter]: ...
        def __set__(self, instance: object, value: ParameterGroups) -> None: ...


# The weight of an average among the numbers of a step.
AVERAGE_WEIGHT = "average__weight"


class OptimizerState(GroupRules):
    """The rules of all groups, with the state of their parameters."""

    parameters: GivenParameters
    average: Average | None = None
    # For each parameter: its state by name, its number of steps, and its group.
    _arrays: list[dict[str, np.ndarray]]
    _counts: list[int]
    _group_of: list[int]
    _position: dict[Parameter, int]
    # Copies the state from the device of a program to `_arrays`; None while these are up to date.
    _newer: Callable[[], None] | None = None
    _members: tuple[Optimizer, ...] = ()
    # Whether this optimizer is a group of another one, which holds its state.
    _is_member = False
    # Whether the parameters hold their averages at present.
    _averaged = False

    @property
    def groups(self) -> tuple[Optimizer, ...]:
        """The groups of parameters as optimizers with options of their own; without groups, this optimizer alone."""
        return self._members or (self,)  # type: ignore[return-value]  # the one subclass is `Optimizer`

    def _new_state(self, parameter: Parameter) -> dict[str, np.ndarray]:
        start = self.initial_state()
        return {
            name: aligned(shape, parameter.dtype, start[name])
            for name, shape in self.state_shapes(parameter.shape).items()
        }

    def _check_usable(self) -> None:
        """Raise `OptionError` for a group of another optimizer, and while the parameters hold their averages."""
        if self._is_member:
            raise OptionError(f"this {type(self).__name__} is a group of another optimizer: use that one")
        if self._averaged:
            raise OptionError("the parameters hold their averages: train and save after average_parameters()")

    def _set_steps(self, steps: int) -> None:
        for group in (self, *self._members):
            group.__dict__["steps"] = steps  # without the checks of `__setattr__`, since each native call comes here

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
            found |= self.groups[index].numbers_of(done, count)
            found |= self._weights(index, np.arange(done + 1, done + count + 1))
        return found

    def _weights(self, index: int, steps: NDArray[np.int64]) -> dict[str, NDArray[np.float64]]:
        """Return the weight of the averages of a group in these steps, by its name among the numbers."""
        if self.average is None:
            return {}
        return {f"{AVERAGE_WEIGHT}{self.groups[index]._suffix}": self.average.weights(steps)}

    def average_rule(self, parameter: Parameter) -> Rule | None:
        """Return the rule of the array `AVERAGE` of a parameter's state, built on first use; None without averages."""
        if self.average is None:
            return None
        group = self.groups[self._group_of[self._position[parameter]]]
        key = AVERAGE, parameter.dtype
        if key not in group._rules:
            group._rules[key] = averaging_rule(parameter.dtype, f"{AVERAGE_WEIGHT}{group._suffix}")
        return group._rules[key]

    def state_of(self, parameter: Parameter) -> dict[str, np.ndarray]:
        """Return the state arrays of a parameter, by name; a program updates them in place."""
        return self._state[self._position[parameter]]

    def numbers_on_device(self, count: int, parameters: Sequence[Parameter]) -> dict[str, NDArray[np.float64]]:
        """Return `numbers` for a program that holds the state on a device, and leave it there."""
        newer, self._newer = self._newer, None
        try:
            return self.numbers(count, parameters)
        finally:
            self._newer = newer

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
        _check_state(type(self).__name__, self.state_dict(), given, self._cannot_be_negative)
        with deferred:
            for i, state in enumerate(self._state):
                for slot in state:
                    state[slot][...] = given[f"{i}.{slot}"]
            self._set_steps(int(given["steps"]))
            self._counts = [int(count) for count in given["counts"]]
            for parameter in self.parameters:  # for programs that know bounds of the state
                touch(stored(parameter))

    def _cannot_be_negative(self, name: str) -> bool:
        """Whether a saved array is a count, or a sum or average of squares."""
        position, _, slot = name.partition(".")
        return name in ("steps", "counts") or slot in self.groups[self._group_of[int(position)]]._squares


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
