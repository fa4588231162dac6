"""Programs for inputs of fixed shapes, with little overhead per call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.engines.feeding import check_ranges
from wyrm.engines.native.run.runner import NativeRunner, Own
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.pipeline import Graph
from wyrm.graph.base import BaseNode

_NOTHING = np.zeros((1, 0))


class FixedShapeProgram:
    """A program without an optimizer whose input axes all have sizes; a call takes one array for each input."""

    def __init__(
        self,
        outputs: Sequence[BaseNode],
        inputs: Sequence[BaseNode],
    ) -> None:
        self.runner = NativeRunner(Graph(outputs, None), "auto")
        read = set(self.runner.graph.inputs)
        self._read = [(position, leaf) for position, leaf in enumerate(inputs) if leaf in read]
        self._shapes = {leaf: leaf.shape for _, leaf in self._read}
        # The arguments of a call; only the step number of random nodes changes.
        self._own: Own = (0, 1, 0, 0, np.zeros(1, np.int64), np.zeros(1), _NOTHING)
        self._binding: Binding | None = None
        # The binding's arrays that arguments are copied to, its outputs, and its columns, which have no rows.
        self._targets: list[tuple[int, np.ndarray]] = []
        self._outputs: list[np.ndarray] = []
        self._columns: list[np.ndarray] = []
        self._limits = self.runner.graph.ranges.limits
        # Whether there are random nodes, which need a step number.
        self.draws = self.runner.graph.draws

    @property
    def source(self) -> str:
        """The generated source."""
        return self.runner.text

    def prepare(self) -> None:
        """Compile or load the program; raise `CompileError` if that fails."""
        self.runner.prepare(self._bound(), self.runner.graph.no_columns)

    def release(self) -> None:
        """Free all arrays; the next call allocates them again."""
        self._binding, self._targets, self._outputs = None, [], []
        self.runner.release()

    def __call__(self, arrays: Sequence[np.ndarray | float], step: int = 0) -> list[Any]:
        """Return the outputs, scalars as numbers; `arrays` must have the shapes and dtypes of the inputs."""
        binding = self._bound()
        if self._limits:
            check_ranges(self._limits, {leaf: np.asarray(arrays[position]) for position, leaf in self._read}, {})
        for position, target in self._targets:
            target[...] = arrays[position]
        if step != self._own[3]:
            self._own = (*self._own[:3], step, *self._own[4:])
        if self.runner.repeat(binding, self._own, self._columns) is None:
            self.runner.call(binding, self.runner.graph.no_columns, self._own)
        return [array.copy("K") if array.shape else array[()] for array in self._outputs]

    def _bound(self) -> Binding:
        """Return the program's arrays, rebuilt if a leaf has a new array."""
        binding = self._binding
        if binding is None or not binding.is_current():
            binding = self._binding = self.runner.binding(self._shapes)
            positions = {leaf: position for position, leaf in self._read}
            graph = self.runner.graph
            self._targets = [(positions[leaf], binding.array(buffer)) for leaf, buffer in graph.source.fed]
            self._outputs = [binding.array(buffer) for buffer in graph.lowering.outputs]
            self._columns = [graph.no_columns[leaf] for leaf in binding.columns]
        return binding
