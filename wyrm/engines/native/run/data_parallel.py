"""Data-parallel steps: each thread computes gradients for a part of the batch; every run gives the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.combination import Combination, combinations_of
from wyrm.engines.graph import gradients_of, simplified
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.engines.native.stages.loops import ArrayBuffer
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.engines.native.stages.write import Head
from wyrm.engines.optimizer import GradientArray, OptimizerInterface, step_by
from wyrm.graph.base import BaseNode
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import bound_array, store, stored
from wyrm.ops.control.updating import updates_of
from wyrm.ops.random.philox import PlacesBefore

# Runs functions in parallel and returns when all have finished.
RunParallel = Callable[[Sequence[Callable[[], None]]], None]


class DataParallelStep:
    """The compiled gradients of a loss, run on parts of a batch and combined in a fixed order."""

    def __init__(self, loss: BaseNode, *metrics: BaseNode, optimizer: Any, compute_dtype: str | None = None) -> None:
        self.optimizer: OptimizerInterface = optimizer
        self._loss, self._metrics = loss, metrics
        # The metrics of the last step, and how each combines from those of the parts.
        self.metrics: list[float] = []
        self._kinds: list[Combination] = []
        self._combinations: dict[frozenset[BaseNode], tuple[Combination, list[Combination]]] = {}
        dense, sparse = gradients_of(loss, optimizer)
        self._dense = list(dense)
        self._sparse = {parameter: len(pairs) for parameter, pairs in sparse.items()}
        pairs = [node for touched in sparse.values() for pair in touched for node in pair]
        updates = updates_of([loss, *metrics])
        self._buffers = list(updates)
        self._buffer_values: list[np.ndarray] = []
        self.runner: NativeRunner = NativeRunner(
            NativeGraph([loss, *dense.values(), *updates.values(), *pairs, *metrics], None), "auto", training=True,
            compute_dtype=compute_dtype,
        )  # fmt: skip

    @property
    def allocated_bytes(self) -> int:
        """The bytes of the runner's arrays and of the combined gradients."""
        held = self.runner.allocated_bytes
        return held + sum(bound_array(parameter).nbytes for parameter in self._dense) if held else 0

    @cached_property
    def _counted(self) -> list[tuple[PlacesBefore, ArrayBuffer]]:
        """What counts the rows or entries of a batch before a part of it, with its array."""
        buffers = self.runner.graph.tree.buffers
        return [(leaf, buffer) for leaf, buffer in buffers.items() if isinstance(leaf, PlacesBefore)]

    def combination(self, columns: Iterable[BaseNode]) -> Combination:
        """Return how the loss and gradients of a batch combine from those of its parts; `columns` are split by rows.

        `MIXED` also if a metric does not combine, or a buffer's new value is not the mean of those for the parts.
        """
        key = frozenset(columns)
        if key not in self._combinations:
            scalars = [self._loss, *self._metrics]
            found = combinations_of([*scalars, *updates_of(scalars).values()], key, simplified)
            loss, kinds, updates = found[0], found[1 : len(scalars)], found[len(scalars) :]
            combine = all(update in (Combination.SAME, Combination.MEAN) for update in updates)
            combine = combine and Combination.MIXED not in kinds
            self._combinations[key] = loss if combine else Combination.MIXED, kinds
        combination, self._kinds = self._combinations[key]
        return combination

    def gradients(
        self,
        bindings: Sequence[Binding],
        columns: Mapping[BaseNode, np.ndarray],
        parts: Sequence[NDArray[np.int64]],
        step: int,
        run_parallel: RunParallel,
        combination: Combination,
        weight: float = 1.0,
    ) -> tuple[float, dict[BaseNode, GradientArray]]:
        """Return the loss over the rows of all parts and its gradients times `weight`: none if it is not finite."""

        def work(thread: int) -> None:
            totals, rows = np.zeros(1), parts[thread]
            self.runner.call(bindings[thread], columns, Head(0, 1, len(rows), step, rows, totals, np.zeros((1, 0))))

        for leaf, buffer in self._counted:
            before = 0
            for binding, rows in zip(bindings, parts, strict=True):
                binding.array(buffer)[...] = before
                before += len(rows) if leaf.entries is None else binding.sizes[leaf.entries]
        run_parallel([partial(work, thread) for thread in range(len(parts))])
        count = sum(map(len, parts))
        means = [len(rows) / count for rows in parts]

        def weights_of(kind: Combination) -> list[float]:
            return [1.0] * len(parts) if kind is Combination.SUM else means

        weights = weights_of(combination)
        outputs = [[binding.array(buffer) for buffer in self.runner.graph.tree.outputs] for binding in bindings]
        loss = float(sum(part_weight * float(arrays[0]) for part_weight, arrays in zip(weights, outputs, strict=True)))
        if not np.isfinite(loss):
            return loss, {}
        self.metrics = [
            float(sum(w * float(arrays[i]) for w, arrays in zip(weights_of(kind), outputs, strict=True)))
            for i, kind in enumerate(self._kinds, len(outputs[0]) - len(self._kinds))
        ]
        first = 1 + len(self._dense)
        self._buffer_values = [_weighted(outputs, first + i, means) for i in range(len(self._buffers))]
        return loss, self._combined(outputs, [part_weight * weight for part_weight in weights])

    def move_buffers(self) -> None:
        """Store the new values of buffers after `gradients`: the means over the parts, weighted by their rows."""
        for buffer, array in zip(self._buffers, self._buffer_values, strict=True):
            store(stored(buffer), array)

    def apply(self, gradients: Mapping[BaseNode, GradientArray]) -> None:
        """Do a step of the optimizer with these gradients."""
        step_by(self.optimizer, gradients)

    def _combined(
        self, outputs: Sequence[Sequence[np.ndarray]], weights: Sequence[float]
    ) -> dict[BaseNode, GradientArray]:
        gradients: dict[BaseNode, GradientArray] = {}
        for position, parameter in enumerate(self._dense, 1):
            gradients[parameter] = _weighted(outputs, position, weights)
        position = 1 + len(self._dense) + len(self._buffers)
        for parameter, count in self._sparse.items():
            shape, dtype = bound_array(parameter).shape, parameter.dtype.type
            lookups = list[RowSparse]()
            for part_weight, arrays in zip(weights, outputs, strict=True):
                for pair in range(position, position + 2 * count, 2):
                    rows = arrays[pair + 1].reshape(-1)
                    values = arrays[pair].reshape(rows.size, *shape[1:]) * dtype(part_weight)
                    lookups.append(RowSparse(rows, values, shape))
            gradients[parameter] = RowSparse.total(lookups)
            position += 2 * count
        return gradients


def parts_of(rows: NDArray[np.int64], threads: int, combination: Combination) -> list[NDArray[np.int64]]:
    """Split the rows of a batch into a part per thread, or a single part if the loss does not combine from parts."""
    count = 1 if combination is Combination.MIXED else threads
    return [part for part in np.array_split(rows, count) if len(part)]


def _weighted(outputs: Sequence[Sequence[np.ndarray]], position: int, weights: Sequence[float]) -> np.ndarray:
    """Return the weighted sum of one output over all parts."""
    dtype = outputs[0][position].dtype.type
    total = np.asarray(outputs[0][position] * dtype(weights[0]))  # an array even of a scalar
    for part_weight, arrays in zip(weights[1:], outputs[1:], strict=True):
        total += arrays[position] * dtype(part_weight)
    return total
