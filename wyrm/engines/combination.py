"""Whether the value of a node for a batch is the mean or the sum of its values for parts of the rows, or neither.

Threads that divide a batch, and totals over batches, need that. A loss that is a mean over rows is the mean of the
parts' losses, weighted by their rows; a sum is their sum; it is neither if rows meet, as in a softmax over the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from enum import Enum

from wyrm.graph.axes import Derived, Dim, Dims, axis_size, open_axes
from wyrm.graph.base import BaseNode
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.quotients import Least, Quotient
from wyrm.graph.traversal import topological_order
from wyrm.reach.rules import ways_of
from wyrm.reach.ways import How, entries_of


class Combination(Enum):
    """How the value for a batch follows from the values for parts of its rows."""

    SAME = "the same in all parts"
    MEAN = "the mean, each part by its share of the rows"
    SUM = "the sum"
    MIXED = "neither: rows depend on each other"


# How a node depends on the rows: the axis with an element for each row, or else how values for parts combine.
RowDependence = int | Combination

_SUMS = ("x + y", "x - y")
_LINEAR_IN_X = {"x * y": True, "x / y": False}  # and whether in y too


def combinations_of(
    outputs: Iterable[BaseNode],
    columns: Collection[BaseNode],
    simplified: Callable[[list[BaseNode]], dict[BaseNode, BaseNode]],
) -> list[Combination]:
    """Return how values of each output for parts of the rows of `columns` combine.

    `simplified` maps every node to one that is made of simpler ops.
    """
    nodes = list(outputs)
    first = [leaf.dims[0] if leaf.dims else 1 for leaf in columns]
    if any(axis_size(axis) is not None or isinstance(axis, Derived) for axis in first):
        return [Combination.MIXED] * len(nodes)  # a batch of fixed size, or of a multiple of another, has no parts
    found = dependences_of(nodes, columns, simplified)
    results = [Combination.MIXED if found is None else found[0][output] for output in nodes]
    return [dependence if isinstance(dependence, Combination) else Combination.MIXED for dependence in results]


def dependences_of(
    outputs: Iterable[BaseNode],
    columns: Collection[BaseNode],
    simplified: Callable[[list[BaseNode]], dict[BaseNode, BaseNode]],
) -> tuple[dict[BaseNode, RowDependence], set[type[Dim]]] | None:
    """Return how the outputs and all nodes before them depend on the rows of `columns`, and the axes of rows.

    Return None if the first axis of a column has no name. For `simplified`, see `combinations_of`.
    """
    nodes = list(outputs)
    batch = {type(leaf.dims[0]) for leaf in columns if leaf.dims and isinstance(leaf.dims[0], Dim)}
    if any(not leaf.dims or not isinstance(leaf.dims[0], Dim) for leaf in columns):
        return None
    replacements = simplified(nodes)
    found = _found_for([replacements[node] for node in topological_order(nodes)], {}, columns, batch)
    return {node: found[replacement] for node, replacement in replacements.items() if replacement in found}, batch


def _found_for(
    outputs: Iterable[BaseNode],
    known: dict[BaseNode, RowDependence],
    columns: Collection[BaseNode],
    batch: set[type[Dim]],
) -> dict[BaseNode, RowDependence]:
    """Return how outputs and the nodes before them depend on rows, from how some `known` ones do."""
    found = dict(known)
    for node in topological_order(outputs, known):
        if node.is_leaf:
            found[node] = 0 if node in columns else Combination.SAME
        elif node.same_value:
            found[node] = found[node.parents[0]]
        else:
            found[node] = row_dependence(node, [found[parent] for parent in node.parents], batch)
    return found


def _row_axes(dims: Dims, batch: set[type[Dim]]) -> list[int]:
    """Return the axes whose size depends on the number of rows."""
    return [
        position
        for position, axis in enumerate(dims)
        if type(axis) in batch or not batch.isdisjoint(open_axes((axis,)))
    ]


def row_dependence(node: BaseNode, parents: list[RowDependence], batch: set[type[Dim]]) -> RowDependence:
    """Return how a node depends on the rows from how its parents do; `batch` are the axes of rows."""
    axes = _row_axes(node.dims, batch)
    if len(axes) > 1 or Combination.MIXED in parents:
        return Combination.MIXED
    if any(isinstance(node.dims[axis], Quotient | Least) for axis in axes):
        return Combination.MIXED  # the parts of the batches do not make up that part of all rows
    if all(parent is Combination.SAME for parent in parents):
        if node.shape_only and any(_row_axes(parent.dims, batch) for parent in node.parents):
            return Combination.MIXED  # such as the number of rows
        form = LOOPS.of(node)
        if form.counts_rows and axes != [0] and (axes or any(open_axes(node.dims[:1]))):
            return Combination.MIXED  # random numbers along an open first axis, or along rows that come later
        if axes and form.by_flat_index is not None and not form.counts_rows:
            return Combination.MIXED  # the positions of the rows
        return axes[0] if axes else Combination.SAME
    if any(isinstance(parent, int) for parent in parents):
        return _of_rows(node, parents, axes, batch)
    return _of_totals(node, parents) if not axes else Combination.MIXED


def _of_totals(node: BaseNode, parents: list[RowDependence]) -> RowDependence:
    """Return how a function of means or sums over rows combines: as they do, if it is linear in them."""
    kinds = {parent for parent in parents if parent is not Combination.SAME}
    if len(kinds) != 1:
        return Combination.MIXED
    (kind,) = kinds
    if node.formula in _SUMS:
        return kind if kind is Combination.MEAN or Combination.SAME not in parents else Combination.MIXED
    if node.formula in _LINEAR_IN_X and len(parents) == 2:
        by_number = parents[1] is Combination.SAME or (_LINEAR_IN_X[node.formula] and parents[0] is Combination.SAME)
        return kind if by_number else Combination.MIXED
    passes = len(parents) == 1 and (node.formula == "-x" or entries_of(node) is not None)
    return kind if passes or node.same_elements else Combination.MIXED


def _of_rows(node: BaseNode, parents: list[RowDependence], axes: list[int], batch: set[type[Dim]]) -> RowDependence:
    """Return how a node depends on the rows if some of its operands have an element for each row."""
    if any(parent in (Combination.MEAN, Combination.SUM) for parent in parents):
        return Combination.MIXED
    if node.formula:
        return axes[0] if axes else Combination.MIXED
    if node.same_elements and parents[0] == 0 and axes[:1] == [0]:
        return 0  # rows stay in order if their axis is the outermost one, before and after
    ways = ways_of(node)
    if ways is None:
        composition = node.composition()
        inputs = node.parents if composition is None else composition.inputs
        output = LOOPS.of(node).decompose(node) if composition is None else composition.outputs[0]
        if output is None:
            return Combination.MIXED
        return _found_for([output], dict(zip(inputs, parents, strict=True)), (), batch)[output]
    own = {(k, row) for k, row in enumerate(parents) if isinstance(row, int)}
    met = [way for way in ways if not own.isdisjoint(way.operands)]
    if len(met) != 1:
        return Combination.MIXED
    (way,) = met
    if way.how in (How.SAME, How.DRAWN):
        return axes[0] if axes and axes == [way.result] else Combination.MIXED
    if way.how is How.AVERAGED and not axes:
        return Combination.MEAN
    reducer = LOOPS.of(node).reducer
    is_sum = reducer is not None and reducer.step.startswith("total + ") and reducer.start == 0.0 and not reducer.finish
    return Combination.SUM if is_sum and way.how is How.REDUCED and not axes else Combination.MIXED
