"""A graph with the ops that are made of simpler ones taken apart, to be fused with what is around them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from wyrm.compiler.differentiate import Wanted
from wyrm.node.base import BaseNode
from wyrm.node.loop_form import LOOPS
from wyrm.node.source_location import located_at
from wyrm.node.traversal import topological_order


def decompose(wanted: Wanted) -> Wanted:
    """The same made of simpler ops, where an op is made of such."""
    rows = {
        table: [(LOOPS.of(node).gradient_of_rows(node, indices, table), indices) for node, indices in pairs]
        for table, pairs in wanted.rows.items()
    }
    simpler = replace(wanted, rows=rows)
    return replace(simpler.replaced(expand(simpler.nodes).__getitem__), written=wanted.nodes)


def expand(outputs: Sequence[BaseNode]) -> dict[BaseNode, BaseNode]:
    """For every node that the outputs need, the node that stands for it."""
    standing: dict[BaseNode, BaseNode] = {}
    order = topological_order(outputs)
    nodes, present = set(order), {_key(node) for node in order if not node.is_leaf}
    for node in order:
        part = LOOPS.of(node).part_of_residuals(node)
        if part is not None and any(_key(other) in present for other in topological_order([part], nodes)):
            _expand([part], standing)
            standing[node] = standing[part]
    _expand(outputs, standing)
    return standing


def _key(node: BaseNode) -> Hashable:
    """What two nodes have in common that compute the same of the same parents."""
    return type(node), tuple(map(id, node.parents)), repr(node.attribute_values()) if node.parents else id(node)


def _expand(outputs: Sequence[BaseNode], standing: dict[BaseNode, BaseNode]) -> None:
    for node in topological_order(outputs):
        if node in standing:
            continue
        same = all(standing[parent] is parent for parent in node.parents)
        with located_at(node.origin):
            if node.is_leaf or same:
                copy = node
            else:
                parents = tuple(standing[parent] for parent in node.parents)
                copy = type(node).rebuild(parents, node.attribute_values(), node.name)
            simpler = LOOPS.of(copy).decompose(copy)
            if simpler is not None:
                _expand([simpler], standing)
                copy = standing[simpler]
        standing[node] = standing[copy] = copy
