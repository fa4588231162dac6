"""`Snapshot`: a copy of what a training changes, for an epoch that diverges to go back to."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.graph.base import BaseNode
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.storage import bound_array
from wyrm.support.frozen import frozen
from wyrm.support.memory import aligned_empty

# Rows scattered over a table are copied one by one, at several times the price of a row among its neighbours.
_SCATTERED = 4
# A smaller table is copied whole in less time than it takes to look which of its rows are used.
_LARGE = 2**22


@frozen
class _Copy:
    """An array, or some of its rows, which may be listed twice, and a copy of it."""

    array: np.ndarray
    rows: NDArray[np.int64] | None
    copy: np.ndarray

    def take(self, into: np.ndarray) -> None:
        """Copy the array's values now into an array like `copy`."""
        if self.rows is None:
            np.copyto(into, self.array)
        else:  # negative indices count from the end, which `wrap` does without a second copy
            self.array.take(self.rows, axis=0, out=into, mode="wrap")

    def restore(self) -> None:
        """Write the copy back."""
        self.array[... if self.rows is None else self.rows] = self.copy

    def is_finite(self) -> bool:
        """Return whether the array's values are finite now."""
        values = self.array
        if self.rows is not None:
            values = np.empty_like(self.copy)
            self.take(values)
        with np.errstate(over="ignore", invalid="ignore"):
            return math.isfinite(values.sum()) or bool(np.isfinite(values).all())


class Snapshot:
    """A copy of the parameters, the buffers and the optimizer's state; of a table in `touched`, only of these rows."""

    def __init__(self, graph: NativeGraph, touched: Mapping[BaseNode, NDArray[np.int64]] | None = None) -> None:
        optimizer = graph.optimizer
        assert optimizer is not None
        self._copies: list[_Copy] = []
        for parameter in graph.parameters:
            table, rows = bound_array(parameter), None if touched is None else touched.get(parameter)
            for array in (table, *optimizer.state_of(parameter).values()):
                self._keep(array, rows if array.shape[:1] == table.shape[:1] else None)
        for buffer in graph.buffers:
            self._keep(bound_array(buffer))
        self._leaves = [(leaf, bound_array(leaf)) for leaf in (*graph.parameters, *graph.buffers)]
        self.cost: float = 0.0
        self.taken: float = 0.0

    def _keep(self, array: np.ndarray, rows: NDArray[np.int64] | None = None) -> None:
        shape = array.shape if rows is None else (len(rows), *array.shape[1:])
        self._copies.append(_Copy(array, rows, aligned_empty(shape, array.dtype)))

    def take(self) -> None:
        """Copy everything."""
        start = time.perf_counter()
        for each in self._copies:
            each.take(each.copy)
        self.taken = time.perf_counter()
        self.cost = self.taken - start

    def is_finite(self) -> bool:
        """Return whether all values are finite."""
        return all(each.is_finite() for each in self._copies)

    def is_current(self) -> bool:
        """Return whether these are still the arrays of the parameters and buffers."""
        return all(bound_array(leaf) is array for leaf, array in self._leaves)

    def restore(self) -> None:
        """Write the copy back."""
        for each in self._copies:
            each.restore()

    @property
    def pairs(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Each array with its copy; the copy is shorter where only some rows are copied."""
        return [(each.array, each.copy) for each in self._copies]


def touched_rows(graph: NativeGraph, columns: Mapping[BaseNode, np.ndarray]) -> dict[BaseNode, NDArray[np.int64]]:
    """Return the rows that an epoch over these columns changes, for large tables of which it changes few.

    Rows that a step computes or draws are not known, and an average of the parameters changes in all rows.
    """
    few: dict[BaseNode, NDArray[np.int64]] = {}
    if graph.optimizer is None or graph.optimizer.average is not None:
        return few
    for sums in graph.tree.rows:
        table = bound_array(sums.parameter)
        if table.nbytes < _LARGE:
            continue
        pairs = [(node, LOOPS.of(node).same_indices(node)) for node in sums.indices]
        given = [columns[leaf] for pair in pairs for leaf in pair if leaf in columns]
        if len(given) == len(pairs) and _SCATTERED * sum(column.size for column in given) < len(table):
            few[sums.parameter] = np.concatenate([column.reshape(-1) for column in given])
    return few
