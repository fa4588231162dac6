"""`CheckedSteps`: the calls of a program with an optimizer, which change nothing unless all numbers stay finite."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from wyrm.engines.native.products.pool import processors
from wyrm.engines.native.run.bounds import Interval, RuleBounds, bounds_of, hull, norm_bounds
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.engines.native.run.snapshot import Snapshot, touched_rows
from wyrm.engines.native.stages.loops import OptimizerNumber
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.engines.native.stages.updates import GRADIENT_LIMIT, LARGEST
from wyrm.engines.native.stages.write import Head
from wyrm.engines.optimizer import AVERAGE, GRADIENT_SCALE, UpdateRule
from wyrm.graph.parameters import Parameter
from wyrm.graph.storage import bound_array, stored

if TYPE_CHECKING:
    from wyrm.engines.native.run.engine import NativeEngine

# Gradients of larger numbers need a copy of what they change. With smaller ones, the squares that optimizers compute,
# and quotients by their roots, are far from the largest number.
_LIMIT = 2.0**24
_GRADIENTS = (-_LIMIT, _LIMIT)
# By how much hyperparameters may change before bounds are computed again: more than Adam's corrections do.
_SPREAD = 64.0
# Bytes of parameters from which threads share the reading.
_LARGE = 2**24
# Steps with a copy after a gradient beyond the limit, for which the computation up to there is done twice.
_COPIES = 16


class CheckedSteps:
    """Single steps that keep all numbers finite or change nothing.

    The `runner` has the functions of `Source.checked`, which check the gradients before they update. Where bounds of
    the rules show that gradients within the limit leave all numbers finite, nothing else is needed. Otherwise a step
    begins with a copy of what it changes.
    """

    def __init__(self, engine: NativeEngine, runner: NativeRunner) -> None:
        self.runner: NativeRunner = runner
        self._engine = engine
        # The numbers that limit gradients and others, by name, for steps without a copy and with one.
        of_step = [each for each in self.runner.source.arguments.values() if isinstance(each, OptimizerNumber)]
        limits = [each for each in of_step if each.number in (GRADIENT_LIMIT, LARGEST)]
        self._finite = {each.name: float(np.finfo(each.dtype).max) for each in limits}
        self._small = self._finite | {each.name: _LIMIT for each in limits if each.number == GRADIENT_LIMIT}
        # The arrays that hold limits, and which.
        self._set: tuple[Binding | None, Mapping[str, float]] = None, self._finite
        self._bounds = _StepBounds(engine.graph)
        # The next steps that begin with a copy; all if no bounds are known of a rule over whole parameters.
        self._copies: float = math.inf if engine.graph.source.rules else 0

    def do(self, binding: Binding, head: Head) -> bool:
        """Do a step with the data of a binding; return whether all numbers are finite, else nothing has changed."""
        if not self._copies and self._bounds.cover(head.hyperparameters[0].tolist()):
            if self._run(binding, head, self._small):
                return True
            if not np.isfinite(binding.array(self._engine.graph.tree.outputs[0])):
                return False
            self._copies = _COPIES + 1
        self._copies = max(0, self._copies - 1)
        self._bounds.forget()
        given = {leaf: binding.array(buffer) for leaf, buffer in binding.source.fed}
        touched = touched_rows(self._engine.graph, given)
        snapshot = Snapshot(self._engine.graph, touched) if touched else self._engine.snapshot_of_all()
        snapshot.take()
        finite = False
        try:
            finite = self._run(binding, head, self._finite) and snapshot.is_finite()
        finally:
            if not finite:
                snapshot.restore()
        return finite

    def done(self) -> None:
        """Note that the step has changed the arrays, and nothing else."""
        self._bounds.take_over()

    def _run(self, binding: Binding, head: Head, limits: Mapping[str, float]) -> bool:
        """Do a step unless a number is beyond its limit; return whether it was done."""
        if self._set[0] is not binding or self._set[1] is not limits:
            for name, limit in limits.items():
                binding.numbers[name][()] = limit
            self._set = binding, limits
        return self.runner.call(binding, self._engine.graph.no_columns, head) > 0


class _StepBounds:
    """Between which numbers the parameters and the state of a program are."""

    def __init__(self, graph: NativeGraph) -> None:
        self._graph = graph
        self._names = graph.source.hyperparameters
        self._storages = [stored(leaf) for leaf in graph.trained]
        # For each rule, its bounds and its parameters; made when they are first measured.
        self._rules: dict[UpdateRule, tuple[RuleBounds, list[Parameter]]] = {}
        # When the arrays last changed.
        self._versions: list[int] = []
        # The next steps that surely have bounds, with hyperparameters between these numbers, and the last ones.
        self._left = 0
        self._between: list[Interval] = []
        self._numbers: list[float] = []
        # Otherwise the bounds after the last step, and after the next one, if they are known.
        self._known: dict[UpdateRule, list[Interval]] | None = None
        self._next: dict[UpdateRule, list[Interval]] | None = None

    def cover(self, numbers: list[float]) -> bool:
        """Return whether a step with these hyperparameters and gradients within the limit leaves all numbers finite."""
        self._next = None
        if self._versions != [each.version for each in self._storages]:
            self.forget()
        if not (self._left and (numbers == self._numbers or self._are_between(numbers))):
            if self._known is not None:
                self._next = self._after_step(self._known, numbers)
            if self._next is not None:
                return True
            self._known = None
            self._between = [_around(number) for number in numbers]
            self._left = self._steps_with_bounds(self._measured(exactly=False)) or self._steps_with_bounds(
                measured := self._measured()
            )
            if not self._left:
                self._known, self._next = measured, self._after_step(measured, numbers)
                return self._next is not None
        self._left -= 1
        self._numbers = numbers
        return True

    def forget(self) -> None:
        """Measure again before the next step."""
        self._known, self._next, self._left = None, None, 0

    def take_over(self) -> None:
        """Note that the step has changed the arrays, and nothing else."""
        self._known = self._next
        self._versions = [each.version for each in self._storages]

    def _are_between(self, numbers: list[float]) -> bool:
        return all(low <= each <= high for each, (low, high) in zip(numbers, self._between, strict=True))

    def _steps_with_bounds(self, before: Mapping[UpdateRule, list[Interval]]) -> int:
        """Return for how many steps all rules have bounds."""
        given = self._by_name(self._between)
        return min(bounds.steps(before[rule], _GRADIENTS, given) for rule, (bounds, _) in self._rules.items())

    def _after_step(
        self, before: Mapping[UpdateRule, list[Interval]], numbers: list[float]
    ) -> dict[UpdateRule, list[Interval]] | None:
        """Return the bounds after a step; None if there are none."""
        given = self._by_name([(each, each) for each in numbers])
        after: dict[UpdateRule, list[Interval]] = {}
        for rule, (bounds, _) in self._rules.items():
            found = bounds.after_step(before[rule], _GRADIENTS, given)
            if found is None:
                return None
            after[rule] = found
        return after

    def _by_name(self, numbers: list[Interval]) -> dict[str, Interval]:
        return dict(zip(self._names, numbers, strict=True)) | {GRADIENT_SCALE: (0.0, 1.0)}

    def _measured(self, *, exactly: bool = True) -> dict[UpdateRule, list[Interval]]:
        """Return bounds of what the arrays hold now, at once or exactly."""
        optimizer, found = self._graph.optimizer, dict[UpdateRule, list[Interval]]()
        assert optimizer is not None
        if not self._rules:
            for parameter in self._graph.parameters:
                rule: UpdateRule = optimizer.rule(parameter)
                if rule not in self._rules:
                    self._rules[rule] = RuleBounds(rule), []
                self._rules[rule][1].append(parameter)
        pairs = [(rule, parameter) for rule, (_, parameters) in self._rules.items() for parameter in parameters]

        def bounds(pair: tuple[UpdateRule, Parameter]) -> list[Interval]:
            rule, parameter = pair
            state = optimizer.state_of(parameter)
            arrays = {"": bound_array(parameter)} | {name: state[name] for name in rule.state}
            if AVERAGE in state:  # it stays between itself and the parameter
                arrays[AVERAGE] = state[AVERAGE]
            if exactly:
                found = [bounds_of(array) for array in arrays.values()]
            else:
                found = [norm_bounds(array, name not in rule.squares) for name, array in arrays.items()]
            return [hull(found[0], found[-1]), *found[1:-1]] if AVERAGE in arrays else found

        if sum(bound_array(parameter).nbytes for _, parameter in pairs) < _LARGE:
            every = list(map(bounds, pairs))
        else:
            with ThreadPoolExecutor(processors()) as pool:
                every = list(pool.map(bounds, pairs))
        for (rule, _), each in zip(pairs, every, strict=True):
            found[rule] = [hull(*pair) for pair in zip(found.get(rule, each), each, strict=True)]
        return found


def _around(number: float) -> Interval:
    """Return an interval around a number, which is at most 1 if the number is."""
    near, far = number / _SPREAD, number * _SPREAD
    if number < 0.0:
        return far, near
    return near, min(far, 1.0) if number <= 1.0 else far
