"""What outputs are for all rows of a data set, computed from their values for batches.

A mean over the rows is the mean of its values for batches, weighted by their rows; a sum is the sum of its values. A
function of means and sums, such as the weighted mean `(w * l).sum() / w.sum()`, is neither: the mean of quotients is
not the quotient of the means. So the means and sums are accumulated, and the function is computed at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.parts import Combination, RowDependence, dependences_of
from wyrm.graph.axes import Dim, axis_size
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexConstant, IndexInput
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.storage import bound_array, stored
from wyrm.graph.traversal import topological_order
from wyrm.ops.elementwise.formula import formula_value

# Returns for every node one that is made of simpler ops.
Simplified = Callable[[list[BaseNode]], dict[BaseNode, BaseNode]]


class _Unknown(Exception):
    """An output is no function of means and sums over the rows."""


class Totals:
    """How the values of outputs for batches give those for all rows.

    `nodes` are the outputs, and behind them the means and sums that some of them are functions of: their values for the
    batches are to be added up with the weights that `weights` gives. An output for which no such function is known, as
    of one in which rows depend on each other, is taken for a mean over the rows.
    """

    def __init__(
        self,
        outputs: Sequence[BaseNode],
        columns: Collection[BaseNode] = (),
        simplified: Simplified | None = None,
        *,
        only_scalars: bool = False,
    ) -> None:
        self.columns, self._outputs, self._simplified = frozenset(columns), list(outputs), simplified
        self._only_scalars = only_scalars
        self.nodes = list(outputs)
        # How each node combines from its values for batches: a mean, a sum, or neither, which is taken for a mean.
        self._kinds = [Combination.MIXED] * len(self.nodes)
        # The nodes of the function of an output, parents first; None if the output's own total is its value.
        self._functions: list[list[BaseNode] | None] = [None] * len(self.nodes)
        # Means of an op over its rows: the sums of the losses and of the weights that it divides.
        self._quotients: dict[BaseNode, tuple[BaseNode, BaseNode]] = {}
        self._others: dict[frozenset[BaseNode], Totals] = {}
        if columns and simplified is not None:
            self._analyse(simplified)
        sums = np.array([kind is Combination.SUM for kind in self._kinds], np.float64)
        self._weights = sums, 1.0 - sums

    def _analyse(self, simplified: Simplified) -> None:
        known = dependences_of(self._outputs, self.columns, simplified)
        if known is None:
            return
        self._known, self._batch = known
        constant: dict[BaseNode, bool] = {}
        for node in topological_order(self._outputs):
            is_constant = isinstance(node, Constant | IndexConstant)
            constant[node] = is_constant if node.is_leaf else all(constant[parent] for parent in node.parents)
        for position, output in enumerate(self._outputs):
            if output.dims:
                continue
            if self._known[output] is Combination.MIXED:
                with suppress(_Unknown):
                    parts, self._functions[position] = self._function(output, constant)
                    present = set(self.nodes)
                    new = [part for part in parts if part not in present]
                    self.nodes += new
                    self._kinds += [parts[part] for part in new]
            else:
                self._kinds[position] = _kind(self._known[output])

    def _function(
        self, output: BaseNode, constant: dict[BaseNode, bool]
    ) -> tuple[dict[BaseNode, Combination], list[BaseNode]]:
        """Return the means and sums that an output is a function of, and the nodes of the function, parents first."""
        parts: dict[BaseNode, Combination] = {}
        inside: set[BaseNode] = set()
        waiting = [output]
        while waiting:
            node = waiting.pop()
            if node in inside or node in parts:
                continue
            kind = self._known[node]
            if isinstance(kind, int):
                raise _Unknown
            if constant[node]:
                inside.add(node)
                waiting += node.parents
            elif kind is not Combination.MIXED:
                parts[self._checked(node)] = _kind(kind)
            elif (quotient := self._quotient(node)) is not None:
                inside.add(node)
                parts |= dict.fromkeys(quotient, Combination.SUM)
            elif node.is_leaf or node.shape_only or self._has_rows(node) or not _sized(node):
                raise _Unknown
            else:
                inside.add(node)
                waiting += node.parents[:1] if node.same_value else node.parents
        return parts, [node for node in topological_order([output], parts) if node in inside]

    def _quotient(self, node: BaseNode) -> tuple[BaseNode, BaseNode] | None:
        """Return the sums that a mean over weighted rows divides, if the node is an op of such a mean."""
        if node in self._quotients:
            return self._quotients[node]
        weight = node.weight_of_rows()
        if weight is None:
            return None
        found = dependences_of([weight], self.columns, self._simplified or (lambda _: {}))
        if found is None or found[0][weight] is not Combination.SUM:
            return None
        total: Any = node
        self._quotients[node] = self._checked(total * weight), weight
        return self._quotients[node]

    def _has_rows(self, node: BaseNode) -> bool:
        return any(type(axis) in self._batch for axis in node.dims)

    def _checked(self, part: BaseNode) -> BaseNode:
        """Return a mean or sum if its values can be added up."""
        if not _sized(part) or (self._only_scalars and (part.dims or part.dtype.kind != "f")):
            raise _Unknown
        return part

    def for_columns(self, columns: Iterable[BaseNode], singly: bool) -> Totals:
        """Return the totals of the same nodes where other inputs have rows: if they differ, all nodes are means.

        So are they if batches are single rows, without an axis for them (`singly`).
        """
        given: frozenset[BaseNode] = frozenset() if singly else frozenset(columns)
        if given == self.columns or self._simplified is None:
            return self
        if given not in self._others:
            plain = Totals(self.nodes)
            plain._outputs = self._outputs
            found = dependences_of(self.nodes, given, self._simplified)
            totals = {total for total, _ in self._quotients.values()}
            same = (
                bool(given)
                and found is not None
                and all(
                    kind is Combination.MIXED or node in totals or _kind(found[0][node]) is kind
                    for node, kind in zip(self.nodes, self._kinds, strict=True)
                )
            )
            self._others[given] = self if same else plain
        return self._others[given]

    def weights(self, rows: int) -> NDArray[np.float64]:
        """Return by what the values of the nodes for a batch of these rows are multiplied before they are added up."""
        of_sums, of_means = self._weights
        return of_sums + rows * of_means

    def of_all_rows(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs, given the sums of the nodes' weighted values, divided by `weights` of all rows."""
        results = list(values[: len(self._outputs)])
        parts = dict(zip(self.nodes, values, strict=True))
        for position, function in enumerate(self._functions):
            if function is not None:
                with np.errstate(all="ignore"):
                    results[position] = self._computed(function, dict(parts))
        return results

    def _computed(self, function: Sequence[BaseNode], values: dict[BaseNode, Any]) -> float:
        """Return the value of the last node of a function in float64, given the values of means and sums."""
        for node in function:
            if node in self._quotients:
                total, weight = (values[part] for part in self._quotients[node])
                values[node] = total / weight if weight else np.float64(0.0)
                continue
            if node.is_leaf:
                array = np.asarray(bound_array(node))
                values[node] = array.astype(np.float64) if array.dtype.kind == "f" else array
                continue
            operands = [np.asarray(values[parent]) for parent in node.parents if parent in values]
            if node.same_value:
                values[node] = operands[0]
            elif node.formula is not None:
                values[node] = formula_value(np, node, operands)
            else:
                shape = tuple(size for axis in node.dims if (size := axis_size(axis)) is not None)
                values[node] = node.evaluate(np, *operands, shape=shape)
        return float(values[function[-1]])


def _kind(dependence: RowDependence) -> Combination:
    """Return whether a node is a mean or a sum; what is the same in all batches is the mean of its values."""
    if isinstance(dependence, int) or dependence is Combination.MIXED:
        return Combination.MIXED
    return Combination.SUM if dependence is Combination.SUM else Combination.MEAN


def _sized(node: BaseNode) -> bool:
    return all(axis_size(axis) is not None for axis in node.dims)


def likely_columns(outputs: Sequence[BaseNode]) -> list[BaseNode]:
    """Return the inputs that probably have a row for each row of a data set: those with an axis for it.

    Inputs that hold data are columns only if all do.
    """
    inputs: list[BaseNode] = [
        leaf
        for leaf in topological_order(outputs)
        if isinstance(leaf, Input | IndexInput) and leaf.dims and isinstance(leaf.dims[0], Dim)
    ]
    empty = [leaf for leaf in inputs if stored(leaf).array is None]
    return empty or inputs
