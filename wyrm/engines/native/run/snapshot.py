"""`Snapshot`: a copy of what a training changes, for an epoch that diverges to go back to."""

from __future__ import annotations

import math
import time

import numpy as np

from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.graph.storage import bound_array
from wyrm.support.memory import aligned_empty


class Snapshot:
    """A copy of the parameters, the buffers and the optimizer's state."""

    def __init__(self, graph: NativeGraph) -> None:
        optimizer = graph.optimizer
        assert optimizer is not None
        self.arrays: list[np.ndarray] = []
        for parameter in graph.parameters:
            self.arrays += [bound_array(parameter), *optimizer.state_of(parameter).values()]
        self.arrays += map(bound_array, graph.buffers)
        self._leaves = [(leaf, bound_array(leaf)) for leaf in (*graph.parameters, *graph.buffers)]
        self._copies = [aligned_empty(array.shape, array.dtype) for array in self.arrays]
        self.cost: float = 0.0
        self.taken: float = 0.0

    def take(self) -> None:
        """Copy everything."""
        start = time.perf_counter()
        for array, copy in zip(self.arrays, self._copies, strict=True):
            np.copyto(copy, array)
        self.taken = time.perf_counter()
        self.cost = self.taken - start

    def is_finite(self) -> bool:
        """Return whether all arrays are finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            if all(math.isfinite(array.sum()) for array in self.arrays):
                return True
        return all(bool(np.isfinite(array).all()) for array in self.arrays)

    def is_current(self) -> bool:
        """Return whether these are still the arrays of the parameters and buffers."""
        return all(bound_array(leaf) is array for leaf, array in self._leaves)

    def restore(self) -> None:
        """Write the copy back."""
        for array, copy in zip(self.arrays, self._copies, strict=True):
            np.copyto(array, copy)

    @property
    def pairs(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Each array with its copy."""
        return list(zip(self.arrays, self._copies, strict=True))
