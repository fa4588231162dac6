"""Outputs for all rows of a data set, computed from their values for batches.

A mean over all rows is the mean of the batches' means, weighted by their rows; a sum is the sum of their sums. A
function of means and sums, such as the weighted mean `(w * l).sum() / w.sum()`, is neither, because the mean of
quotients is not the quotient of means. So means and sums are added up, and the function is computed at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.combination import Combination, RowDependence, dependences_of
from wyrm.graph.axes import Dim, axis_size
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexConstant, IndexInput
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.op import NUMPY
from wyrm.graph.storage import bound_array, stored
from wyrm.graph.traversal import topological_order
from wyrm.ops.elementwise.formula import formula_value

T = TypeVar("T")

# Maps every node to one that is made of simpler ops.
Simplified = Callable[[list[BaseNode]], dict[BaseNode, BaseNode]]


class _Unknown(Exception):
    """An output is no function of means and sums over the rows."""


class Totals:
    """Computes outputs for all rows from values for batches.

    `nodes` are the outputs, followed by the means and sums that some outputs are functions of. Their values for batches
    are added up, each times its element of `weights`. An output that is no function of means and sums counts as a mean.
    """

    def __init__(
        self,
        outputs: Sequence[BaseNode],
        columns: Collection[BaseNode] = (),
        simplified: Simplified | None = None,
        *,
        only_scalars: bool = False,
    ) -> None:
        self.columns: frozenset[BaseNode] = frozenset(columns)
        self._outputs = list(outputs)
        self._simplified = simplified
        self._only_scalars = only_scalars
        self.nodes: list[BaseNode] = list(outputs)
        # Whether each node is a mean, a sum, or neither, which counts as a mean.
        self._kinds = [Combination.MIXED] * len(self.nodes)
        # The nodes that compute an output from means and sums, parents first; None for an output that is itself one.
        self._functions: list[list[BaseNode] | None] = [None] * len(self.nodes)
        # By op that is a weighted mean: the sums of weighted values and of weights, whose quotient it is.
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
                    parts, self._functions[position] = self._parts_of_output(output, constant)
                    present = set(self.nodes)
                    new = [part for part in parts if part not in present]
                    self.nodes += new
                    self._kinds += [parts[part] for part in new]
            else:
                self._kinds[position] = _mean_or_sum(self._known[output])

    def _parts_of_output(
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
                parts[self._checked(node)] = _mean_or_sum(kind)
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
        """Return the two sums whose quotient the node is, if its op is a weighted mean over rows."""
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
        """Return a mean or sum; raise `_Unknown` if its values cannot be added up."""
        if not _sized(part) or (self._only_scalars and (part.dims or part.dtype.kind != "f")):
            raise _Unknown
        return part

    def for_columns(self, columns: Iterable[BaseNode], singly: bool) -> Totals:
        """Return the totals for data with these columns: `self`, or one that takes all nodes for means.

        The nodes count as means if they do not combine as expected, or if batches are single rows without a batch axis
        (`singly`).
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
                    kind is Combination.MIXED or node in totals or _mean_or_sum(found[0][node]) is kind
                    for node, kind in zip(self.nodes, self._kinds, strict=True)
                )
            )
            self._others[given] = self if same else plain
        return self._others[given]

    @property
    def mixed(self) -> list[BaseNode]:
        """The scalar outputs that are no function of means and sums over rows, if the rows are known."""
        known = zip(self._outputs, self._kinds, self._functions, strict=False)
        mixed = [node for node, kind, function in known if kind is Combination.MIXED and function is None]
        return [node for node in mixed if not node.dims] if self.columns else []

    @property
    def adds_up(self) -> bool:
        """Whether the first output is a sum over rows."""
        return self._kinds[0] is Combination.SUM

    def weights(self, rows: int | NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weight of each node's value for a batch of this many rows: 1 for a sum, `rows` for a mean.

        `rows` of several batches are of the shape (batches, 1).
        """
        of_sums, of_means = self._weights
        return of_sums + rows * of_means

    def of_all_rows(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs for all rows, given each node's weighted sum over batches divided by `weights(rows)`.

        Functions of means and sums are computed in float64.
        """
        with np.errstate(all="ignore"):
            found = self.outputs(dict(zip(self.nodes, values, strict=True)), _quotient_of, _leaf_value, _value)
        return [x if f is None else float(x) for x, f in zip(found, self._functions, strict=False)]

    def outputs(
        self,
        parts: Mapping[BaseNode, T],
        quotient: Callable[[T, T], T],
        leaf: Callable[[BaseNode], T],
        value: Callable[[BaseNode, list[T]], T],
    ) -> list[T]:
        """Return the outputs for all rows, given what stands for each of `nodes`.

        `quotient` gives what stands for a sum divided by a sum of weights, `leaf` for a constant, and `value` for
        another node, from what stands for its parents.
        """
        results = [parts[node] for node in self._outputs]
        for position, function in enumerate(self._functions):
            if function is None:
                continue
            values = dict(parts)
            for node in function:
                if node in self._quotients:
                    values[node] = quotient(*(values[part] for part in self._quotients[node]))
                elif node.is_leaf:
                    values[node] = leaf(node)
                elif node.same_value:
                    values[node] = values[node.parents[0]]
                else:
                    values[node] = value(node, [values[parent] for parent in node.parents])
            results[position] = values[function[-1]]
        return results


def _quotient_of(total: Any, weight: Any) -> Any:
    return total / weight if weight else np.float64(0.0)


def _leaf_value(leaf: BaseNode) -> Any:
    array = np.asarray(bound_array(leaf))
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _value(node: BaseNode, operands: Sequence[Any]) -> Any:
    given = list(map(np.asarray, operands))
    if node.formula:
        return formula_value(np, node, given)
    shape = tuple(size for axis in node.dims if (size := axis_size(axis)) is not None)
    return node.evaluate(NUMPY, *given, shape=shape)


def _mean_or_sum(dependence: RowDependence) -> Combination:
    """Return whether a node is a mean or a sum; a value that is the same in all batches is a mean."""
    if isinstance(dependence, int) or dependence is Combination.MIXED:
        return Combination.MIXED
    return Combination.SUM if dependence is Combination.SUM else Combination.MEAN


def _sized(node: BaseNode) -> bool:
    return all(axis_size(axis) is not None for axis in node.dims)


def likely_columns(outputs: Sequence[BaseNode]) -> list[BaseNode]:
    """Return the inputs that will probably be given as columns: those with a named first axis.

    Inputs that hold data are among them only if all do.
    """
    inputs: list[BaseNode] = [
        leaf
        for leaf in topological_order(outputs)
        if isinstance(leaf, Input | IndexInput) and leaf.dims and isinstance(leaf.dims[0], Dim)
    ]
    empty = [leaf for leaf in inputs if stored(leaf).array is None]
    return empty or inputs
