"""Pickles a graph as a flat list, so that any depth works; leaves are pickled as themselves and stay shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from wyrm.graph.source_location import Origin, located_at, portable
from wyrm.graph.traversal import topological_order
from wyrm.graph.weak_types import Portable, is_weak

if TYPE_CHECKING:
    from wyrm.graph.base import BaseNode

_Record: TypeAlias = "tuple[type[BaseNode], tuple[int, ...], dict[str, Any], str | None, Origin]"
Records: TypeAlias = "list[BaseNode | _Record]"


def flatten(root: BaseNode) -> Records:
    """Return the graph under `root` as records whose parents are positions in the list."""
    return flatten_all([root])[0]


def flatten_all(roots: Sequence[BaseNode]) -> tuple[Records, list[int]]:
    """Return the graph under several roots, shared nodes once, and the positions of the roots."""
    order = topological_order(roots)
    position = {node: i for i, node in enumerate(order)}
    records: Records = []
    for node in order:
        if node.is_leaf:
            records.append(node)
        else:
            parents = tuple(position[parent] for parent in node.parents)
            attributes = {
                key: Portable(value.name) if is_weak(value) else value for key, value in node.attribute_values().items()
            }
            records.append((type(node), parents, attributes, node.name, portable(node.origin)))
    return records, [position[root] for root in roots]


def copied(root: BaseNode, memo: dict[int, Any]) -> BaseNode:
    """Return a copy of the graph under `root` with its own leaves; nodes that `memo` has are not copied again."""
    for node in topological_order([root]):
        if id(node) in memo:
            continue
        if node.is_leaf:
            make, arguments = node.__reduce__()
            memo[id(node)] = make(*arguments)
        else:
            with located_at(node.origin):
                parents = tuple(memo[id(parent)] for parent in node.parents)
                memo[id(node)] = type(node).rebuild(parents, node.attribute_values(), node.name)
    copy: BaseNode = memo[id(root)]
    return copy


def restore(records: Records) -> BaseNode:
    """Return the root of the graph that `flatten` wrote."""
    return restore_all(records)[-1]


def restore_all(records: Records) -> list[BaseNode]:
    """Return every node of the graphs that `flatten_all` wrote."""
    nodes: list[BaseNode] = []
    for record in records:
        if not isinstance(record, tuple):
            nodes.append(record)
            continue
        cls, parents, given, name, origin = record
        attributes = {key: value.dtype if isinstance(value, Portable) else value for key, value in given.items()}
        with located_at(origin):
            nodes.append(cls.rebuild(tuple(nodes[i] for i in parents), attributes, name))
    return nodes
