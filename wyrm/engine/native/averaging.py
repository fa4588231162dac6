"""Steps whose gradient is the mean over the parts of a batch, one thread each: the same bits in every run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wyrm.engine.native.binding import Binding
from wyrm.engine.native.runner import Graph, Runner, gradients_of
from wyrm.node.base import BaseNode
from wyrm.node.storage import Storage, stored
from wyrm.types.rows import RowSparse

Leaf = BaseNode[Any, Any]
# Runs functions side by side, and returns when all are done.
Together = Callable[[Sequence[Callable[[], None]]], None]


class Stepper(Protocol):
    """An optimizer that moves its parameters by the gradients that they hold."""

    def step(self) -> None:
        """Move every parameter that has a gradient."""


class Averager:
    """The gradients of a loss as a program of their own, run on parts of a batch and brought together in order."""

    def __init__(self, loss: BaseNode[Any, Any], optimizer: Any) -> None:
        self.optimizer: Stepper = optimizer
        dense, sparse = gradients_of(loss, optimizer)
        self._dense = list(dense)
        self._sparse = {parameter: len(pairs) for parameter, pairs in sparse.items()}
        pairs = [node for touched in sparse.values() for pair in touched for node in pair]
        self.runner = Runner(Graph([loss, *dense.values(), *pairs], None), "auto")

    def step(
        self,
        bindings: Sequence[Binding],
        columns: Mapping[Leaf, NDArray[Any]],
        parts: Sequence[NDArray[np.int64]],
        step: int,
        together: Together,
    ) -> float:
        """One step on the rows of all parts; the mean loss. The parameters do not move where it is not finite."""

        def work(thread: int) -> None:
            totals, rows = np.zeros(1), parts[thread]
            self.runner.call(bindings[thread], columns, 0, 1, len(rows), step, rows, totals, np.zeros((1, 0)))

        together([_bound(work, thread) for thread in range(len(parts))])
        count = sum(map(len, parts))
        shares = [len(rows) / count for rows in parts]
        outputs = [[binding.array(slot) for slot in self.runner.graph.lowering.outputs] for binding in bindings]
        loss = float(sum(share * float(arrays[0]) for share, arrays in zip(shares, outputs, strict=True)))
        if not np.isfinite(loss):
            return loss
        storages = {parameter: stored(parameter) for parameter in (*self._dense, *self._sparse)}
        held = {storage: storage.gradient for storage in storages.values()}
        try:
            self._bring_together(storages, outputs, shares)
            self.optimizer.step()
        finally:
            for storage, gradient in held.items():
                storage.gradient = gradient
        return loss

    def _bring_together(
        self, storages: Mapping[Leaf, Storage], outputs: Sequence[Sequence[NDArray[Any]]], shares: Sequence[float]
    ) -> None:
        for position, parameter in enumerate(self._dense, 1):
            dtype = parameter.dtype.type
            total = outputs[0][position] * dtype(shares[0])
            for share, arrays in zip(shares[1:], outputs[1:], strict=True):
                total += arrays[position] * dtype(share)
            storages[parameter].gradient = total
        position = 1 + len(self._dense)
        for parameter, count in self._sparse.items():
            shape, dtype = parameter.shape, parameter.dtype.type
            rows, values = [], []
            for share, arrays in zip(shares, outputs, strict=True):
                for pair in range(position, position + 2 * count, 2):
                    rows.append(arrays[pair + 1].reshape(-1))
                    values.append(arrays[pair].reshape(-1, *shape[1:]) * dtype(share))
            storages[parameter].gradient = RowSparse(np.concatenate(rows), np.concatenate(values), shape)
            position += 2 * count


def _bound(work: Callable[[int], None], thread: int) -> Callable[[], None]:
    return lambda: work(thread)
