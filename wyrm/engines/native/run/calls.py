"""Single steps of a program: native code runs on inputs as a whole."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.epoch_position import Done
from wyrm.engines.feeding import check_ranges
from wyrm.engines.native.run.repeated_call import RepeatedCall
from wyrm.engines.native.run.runner import NativeRunner, Own
from wyrm.engines.native.stages.pipeline import Graph
from wyrm.engines.totals import Totals
from wyrm.errors import Diverged
from wyrm.graph.base import BaseNode
from wyrm.graph.storage import stored, touch
from wyrm.support.interrupts import deferred

Leaf = BaseNode
# The order of the only row of a step that takes its inputs as a whole.
_ALONE = np.zeros(1, np.int64)


class Calls:
    """Runs a program on inputs as a whole: one forward pass, or with an optimizer one step."""

    def __init__(self, graph: Graph, runner: NativeRunner) -> None:
        self.graph, self.runner = graph, runner
        # What the outputs for batches are for all rows.
        self.totals = Totals(graph.outputs)
        self.steps = 0
        self._totals, self._numbers = np.zeros(1 + len(graph.outputs)), np.zeros((1, len(graph.source.hyperparameters)))
        # The arguments of a step, and the arrays of the last one.
        self._own: Own = (0, 1, 0, 0, _ALONE, self._totals, self._numbers)
        self._repeated_call: RepeatedCall | None = None

    def own_rows(self) -> AbstractContextManager[Done]:
        """Return a context for one epoch in several calls of `epoch`, which gives what was done of it: nothing."""
        return nullcontext(Done.nothing(len(self.graph.outputs)))

    def call(self, given: dict[Leaf, np.ndarray]) -> list[np.ndarray]:
        """Return the outputs for these inputs; with an optimizer, also do one step."""
        graph, optimizer = self.graph, self.graph.optimizer
        shapes = self._shapes(given)
        binding = self.runner.binding(shapes)
        check_ranges(graph.ranges.limits, given, binding.sizes)
        complete = self._complete(given)
        for leaf, buffer in graph.source.fed:
            np.copyto(binding.array(buffer), complete[leaf])
        self._set_step_numbers()
        with nullcontext() if optimizer is None else deferred:
            done = self.runner.call(binding, graph.no_columns, self._own)
            if optimizer is not None and done == 0:
                loss = float(binding.array(graph.lowering.outputs[0]))
                raise Diverged(
                    f"the loss is {loss} in step {optimizer.steps + 1} at learning rate {optimizer.learning_rate:g}; "
                    f"no parameter has moved"
                )
            self._count(1)
        if self._repeated_call is None or self._repeated_call.binding is not binding:
            self._repeated_call = RepeatedCall(graph, binding)
        return self._repeated_call.outputs()

    def repeat(self, feed: object) -> list[np.ndarray] | None:
        """Do what `once` does if nothing is trained and the data has the last call's shapes and dtypes; else None."""
        last = self._repeated_call
        if last is None or self.graph.optimizer is not None or not last.take(feed):
            return None
        self._set_step_numbers()
        if self.runner.repeat(last.binding, self._own, last.columns) is None:
            return None
        self.steps += 1
        return last.outputs()

    def _set_step_numbers(self) -> None:
        """Set the optimizer's numbers and the step number; programs without random nodes do not need the latter."""
        if self.graph.source.hyperparameters:
            self._hyperparameters(1, self._numbers)
        if self.graph.draws:
            self._own = (*self._own[:3], self.steps, *self._own[4:])

    def _complete(self, given: dict[Leaf, np.ndarray]) -> dict[Leaf, np.ndarray]:
        """Return the data of all inputs: the given arrays, else those that the inputs hold."""
        return {leaf: given.get(leaf, stored(leaf).array) for leaf in self.graph.inputs}  # type: ignore[misc]  # checked before

    def _shapes(self, given: dict[Leaf, np.ndarray]) -> dict[Leaf, tuple[int, ...]]:
        return {leaf: array.shape for leaf, array in self._complete(given).items()}

    def _hyperparameters(self, count: int, out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """Return the numbers of the rule for the next steps, of shape (steps, numbers), written to `out` if given."""
        names, optimizer = self.graph.source.hyperparameters, self.graph.optimizer
        if optimizer is None or not names:
            return np.zeros((count, 0))
        numbers = optimizer.numbers(count, self.graph.parameters)
        result = np.empty((count, len(names))) if out is None else out
        for position, name in enumerate(names):
            result[:, position] = numbers[name]
        return result

    def _count(self, count: int) -> None:
        """Count finished steps, or take them back if `count` is negative, and mark the parameters as changed."""
        self.steps += count
        optimizer = self.graph.optimizer
        if optimizer is None:
            return
        optimizer.advance(count, self.graph.parameters)
        for leaf in (*self.graph.parameters, *self.graph.buffers):
            touch(stored(leaf))
