"""Pickling a graph as a flat list, so that depth costs nothing; leaves are pickled as themselves and stay shared."""

from __future__ import annotations

from typing import Any

from wyrm.node.base import BaseNode
from wyrm.node.site import Site, made_at
from wyrm.node.storage import is_leaf
from wyrm.node.traversal import topological_order

_Record = tuple[type[BaseNode[Any, Any]], tuple[int, ...], dict[str, Any], str | None, Site]


def flatten(root: BaseNode[Any, Any]) -> list[BaseNode[Any, Any] | _Record]:
    """The graph under `root` as records whose parents are positions in the list."""
    order = topological_order([root])
    position = {node: i for i, node in enumerate(order)}
    records: list[BaseNode[Any, Any] | _Record] = []
    for node in order:
        if is_leaf(node):
            records.append(node)
        else:
            parents = tuple(position[parent] for parent in node.parents)
            records.append((type(node), parents, node.attribute_values(), node.name, node.site))
    return records


def copied(root: BaseNode[Any, Any], memo: dict[int, Any]) -> BaseNode[Any, Any]:
    """The graph under `root` on leaves of its own; what `memo` has already is not copied again."""
    for node in topological_order([root]):
        if id(node) in memo:
            continue
        if is_leaf(node):
            make, arguments = node.__reduce__()
            memo[id(node)] = make(*arguments)
        else:
            with made_at(node.site):
                parents = tuple(memo[id(parent)] for parent in node.parents)
                memo[id(node)] = type(node).rebuild(parents, node.attribute_values(), node.name)
    copy: BaseNode[Any, Any] = memo[id(root)]
    return copy


def restore(records: list[BaseNode[Any, Any] | _Record]) -> BaseNode[Any, Any]:
    """The root of the graph that `flatten` wrote."""
    nodes: list[BaseNode[Any, Any]] = []
    for record in records:
        if isinstance(record, BaseNode):
            nodes.append(record)
            continue
        cls, parents, attributes, name, site = record
        with made_at(site):
            nodes.append(cls.rebuild(tuple(nodes[i] for i in parents), attributes, name))
    return nodes[-1]
