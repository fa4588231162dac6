"""Outputs for inputs of fixed shapes: what a call costs besides the work is kept small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engine.native.binding import Binding
from wyrm.engine.native.feeding import as_column, check_ranges
from wyrm.engine.native.runner import Graph, Runner
from wyrm.node.base import BaseNode

_NOTHING = np.zeros((1, 0))


class Direct:
    """A program that computes outputs, called with one array for each of its inputs, whose axes all have sizes."""

    def __init__(
        self,
        outputs: Sequence[BaseNode[Any, Any]],
        inputs: Sequence[BaseNode[Any, Any]],
    ) -> None:
        self.runner = Runner(Graph(outputs, None), "auto")
        read = set(self.runner.graph.inputs)
        self._read = [(position, leaf) for position, leaf in enumerate(inputs) if leaf in read]
        self._shapes = {leaf: leaf.shape for _, leaf in self._read}
        self._order = np.zeros(1, np.int64)
        self._totals = np.zeros(1)
        self._binding: Binding | None = None
        # Whether there are random nodes, which draw for a step.
        self.draws = self.runner.graph.draws

    @property
    def source(self) -> str:
        """The generated source."""
        return self.runner.text

    def prepare(self) -> None:
        """Compile it, or load it; `CompileError` where that cannot be done."""
        binding = self.runner.binding(self._shapes)
        self.runner.prepare(binding, {leaf: np.empty((1, 1), leaf.dtype) for leaf in binding.columns})

    def release(self) -> None:
        """Free all arrays; the next call makes them anew."""
        self._binding = None
        self.runner._bindings.clear()

    def __call__(self, arrays: Sequence[NDArray[Any]], step: int = 0) -> list[NDArray[Any]]:
        """The outputs; the arrays have the shapes and dtypes of the inputs and are in row-major order."""
        binding = self._binding
        if binding is None or not binding.is_current():
            binding = self._binding = self.runner.binding(self._shapes)
        if self.runner.graph.ranges.limits:
            check_ranges(self.runner.graph.ranges.limits, {leaf: arrays[position] for position, leaf in self._read}, {})
        # An array as a whole is a column of one row.
        columns = {leaf: as_column(arrays[position][None]) for position, leaf in self._read}
        self.runner.call(binding, columns, 0, 1, 0, step, self._order, self._totals, _NOTHING)
        return [np.array(binding.array(slot)) for slot in self.runner.graph.lowering.outputs]
