"""Replaces composite ops by simpler ones, which fuse with the nodes around them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from wyrm.engines.native.stages.differentiate import Targets
from wyrm.graph.base import BaseNode
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.source_location import located_at
from wyrm.graph.traversal import topological_order


def decompose(targets: Targets) -> Targets:
    """Return the targets with composite ops replaced by simpler ones."""
    rows = {
        table: [(LOOPS.of(node).gradient_of_rows(node, indices, table), indices) for node, indices in pairs]
        for table, pairs in targets.rows.items()
    }
    simpler = replace(targets, rows=rows)
    replacements = expand(simpler.nodes)
    return replace(simpler.replaced(replacements.__getitem__), original=targets.nodes, simpler=replacements)


def share_residuals(targets: Targets) -> Targets:
    """Return the targets with nodes replaced by parts of residuals that the targets compute anyway."""
    return targets.replaced(expand(targets.nodes, lambda node: None).__getitem__)


def _simpler(node: BaseNode) -> BaseNode | None:
    return LOOPS.of(node).decompose(node)


def expand(
    outputs: Sequence[BaseNode], simpler: Callable[[BaseNode], BaseNode | None] = _simpler
) -> dict[BaseNode, BaseNode]:
    """Return the replacement of every node that the outputs depend on; `simpler` returns that of a composite op."""
    replacements: dict[BaseNode, BaseNode] = {}
    order = topological_order(outputs)
    nodes, present = set(order), {_key(node) for node in order if not node.is_leaf}
    for node in order:
        with located_at(node.origin):
            part = LOOPS.of(node).part_of_residuals(node)
        if part is not None and any(_key(other) in present for other in topological_order([part], nodes)):
            _expand([part], replacements, simpler)
            replacements[node] = replacements[part]
    _expand(outputs, replacements, simpler)
    return replacements


def _key(node: BaseNode) -> Hashable:
    """Return a key that is equal for nodes that compute the same function of the same parents."""
    return type(node), tuple(map(id, node.parents)), repr(node.attribute_values()) if node.parents else id(node)


def _expand(
    outputs: Sequence[BaseNode],
    replacements: dict[BaseNode, BaseNode],
    simpler: Callable[[BaseNode], BaseNode | None],
) -> None:
    for node in topological_order(outputs):
        if node in replacements:
            continue
        same = all(replacements[parent] is parent for parent in node.parents)
        with located_at(node.origin):
            if node.is_leaf or same:
                copy = node
            else:
                parents = tuple(replacements[parent] for parent in node.parents)
                copy = type(node).rebuild(parents, node.attribute_values(), node.name)
            parts = simpler(copy)
            if parts is not None:
                _expand([parts], replacements, simpler)
                copy = replacements[parts]
        replacements[node] = replacements[copy] = copy
