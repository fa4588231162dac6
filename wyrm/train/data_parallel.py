"""Steps whose gradient is put together from those of parts of a batch, one thread each: the same bits in every run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wyrm.compiler.arguments import Binding
from wyrm.compiler.decompose import expand
from wyrm.compiler.differentiate import gradients_of
from wyrm.compiler.pipeline import Graph
from wyrm.node.base import BaseNode
from wyrm.node.leaves import Parameter
from wyrm.node.storage import bound_array, store, stored
from wyrm.ops.updating import updates_of
from wyrm.schedule.parts import Combination, combinations_of
from wyrm.train.runner import NativeRunner
from wyrm.types.rows import RowSparse

Leaf = BaseNode
Gradient = np.ndarray | RowSparse
# Runs functions side by side, and returns when all are done.
Together = Callable[[Sequence[Callable[[], None]]], None]


class Stepper(Protocol):
    """An optimizer that moves its parameters by the gradients that they hold."""

    parameters: list[Parameter]

    def step(self) -> None:
        """Move every parameter that has a gradient."""


class DataParallelStep:
    """The gradients of a loss as a program of their own, run on parts of a batch and brought together in order."""

    def __init__(self, loss: BaseNode, optimizer: Any) -> None:
        self.optimizer: Stepper = optimizer
        self._loss = loss
        self._wholes: dict[frozenset[Leaf], Combination] = {}
        dense, sparse = gradients_of(loss, optimizer)
        self._dense = list(dense)
        self._sparse = {parameter: len(pairs) for parameter, pairs in sparse.items()}
        pairs = [node for touched in sparse.values() for pair in touched for node in pair]
        moving = updates_of([loss])
        self._buffers = list(moving)
        self._moved: list[np.ndarray] = []
        self.runner = NativeRunner(Graph([loss, *dense.values(), *moving.values(), *pairs], None), "auto")

    @property
    def held_bytes(self) -> int:
        """The bytes that its runs work with, and those of the gradients that they are brought together in."""
        held = self.runner.held_bytes
        return held + sum(bound_array(parameter).nbytes for parameter in self._dense) if held else 0

    def whole(self, columns: Iterable[Leaf]) -> Combination:
        """How the loss of a batch, and its gradients, are put together from those of parts of these columns.

        They are not where a buffer does not become the mean of what it becomes by the parts.
        """
        key = frozenset(columns)
        if key not in self._wholes:
            loss, *moving = combinations_of([self._loss, *updates_of([self._loss]).values()], key, expand)
            moves = all(each in (Combination.SAME, Combination.MEAN) for each in moving)
            self._wholes[key] = loss if moves else Combination.MIXED
        return self._wholes[key]

    def gradients(
        self,
        bindings: Sequence[Binding],
        columns: Mapping[Leaf, np.ndarray],
        parts: Sequence[NDArray[np.int64]],
        step: int,
        together: Together,
        whole: Combination,
        weight: float = 1.0,
    ) -> tuple[float, dict[Leaf, Gradient]]:
        """The loss of the rows of all parts, and its gradients times `weight`: none where it is not finite."""

        def work(thread: int) -> None:
            totals, rows = np.zeros(1), parts[thread]
            self.runner.call(bindings[thread], columns, (0, 1, len(rows), step, rows, totals, np.zeros((1, 0))))

        together([partial(work, thread) for thread in range(len(parts))])
        count = sum(map(len, parts))
        means = [len(rows) / count for rows in parts]
        shares = [1.0] * len(parts) if whole is Combination.SUM else means
        outputs = [[binding.array(buffer) for buffer in self.runner.graph.lowering.outputs] for binding in bindings]
        loss = float(sum(share * float(arrays[0]) for share, arrays in zip(shares, outputs, strict=True)))
        if not np.isfinite(loss):
            return loss, {}
        first = 1 + len(self._dense)
        self._moved = [_weighted(outputs, first + i, means) for i in range(len(self._buffers))]
        return loss, self._brought_together(outputs, [share * weight for share in shares])

    def move_buffers(self) -> None:
        """Give the buffers what the last gradients came with, the mean over the parts of the batch."""
        for buffer, array in zip(self._buffers, self._moved, strict=True):
            store(stored(buffer), array)

    def step(
        self,
        bindings: Sequence[Binding],
        columns: Mapping[Leaf, np.ndarray],
        parts: Sequence[NDArray[np.int64]],
        step: int,
        together: Together,
        whole: Combination,
    ) -> float:
        """One step on the rows of all parts; the loss. The parameters do not move where it is not finite."""
        loss, gradients = self.gradients(bindings, columns, parts, step, together, whole)
        if not gradients:
            return loss
        # Parameters that the loss does not depend on stay, whatever gradients they hold.
        held = {storage: storage.gradient for storage in map(stored, self.optimizer.parameters)}
        try:
            for storage in held:
                storage.gradient = None
            for parameter, gradient in gradients.items():
                stored(parameter).gradient = gradient
            self.optimizer.step()
            self.move_buffers()
        finally:
            for storage, before in held.items():
                storage.gradient = before
        return loss

    def _brought_together(
        self, outputs: Sequence[Sequence[np.ndarray]], shares: Sequence[float]
    ) -> dict[Leaf, Gradient]:
        found: dict[Leaf, Gradient] = {}
        for position, parameter in enumerate(self._dense, 1):
            found[parameter] = _weighted(outputs, position, shares)
        position = 1 + len(self._dense) + len(self._buffers)
        for parameter, count in self._sparse.items():
            shape, dtype = parameter.shape, parameter.dtype.type
            rows, values = [], []
            for share, arrays in zip(shares, outputs, strict=True):
                for pair in range(position, position + 2 * count, 2):
                    rows.append(arrays[pair + 1].reshape(-1))
                    values.append(arrays[pair].reshape(rows[-1].size, *shape[1:]) * dtype(share))
            found[parameter] = RowSparse(np.concatenate(rows), np.concatenate(values), shape)
            position += 2 * count
        return found


def parts_of(rows: NDArray[np.int64], threads: int, whole: Combination) -> list[NDArray[np.int64]]:
    """The rows of a batch in a part for each thread, or all in one where the loss is not put together from parts."""
    count = 1 if whole is Combination.MIXED else threads
    return [part for part in np.array_split(rows, count) if len(part)]


def _weighted(outputs: Sequence[Sequence[np.ndarray]], position: int, shares: Sequence[float]) -> np.ndarray:
    """The sum of one output of all parts, each times its share."""
    dtype = outputs[0][position].dtype.type
    total: np.ndarray = outputs[0][position] * dtype(shares[0])
    for share, arrays in zip(shares[1:], outputs[1:], strict=True):
        total += arrays[position] * dtype(share)
    return total
