"""Walks through graphs without recursion, so that a chain of any length works: orders, rebuilding, copies, pickles.

A pickle holds a graph as a flat list. Leaves are pickled as themselves and stay shared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from wyrm.graph.source_location import Origin, located_at, portable
from wyrm.graph.weak_types import Portable, is_weak

if TYPE_CHECKING:
    from wyrm.graph.base import BaseNode


def topological_order(outputs: Iterable[BaseNode], known: Collection[BaseNode] = ()) -> list[BaseNode]:
    """Return every node that `outputs` depend on, themselves included, parents before children, each once.

    Nodes in `known` are left out, and so are those that only they depend on.
    """
    order: list[BaseNode] = []
    # `known` is often most of a large graph and the walk short, so it is not copied.
    left_out = known if isinstance(known, set | dict) else set(known)
    done: set[BaseNode] = set()
    # The path from an output to the current node, and for each node on it the parents that are still to visit.
    path: list[BaseNode] = []
    unvisited: list[Iterator[BaseNode]] = []
    for output in outputs:
        if output not in done and output not in left_out:
            path.append(output)
            unvisited.append(iter(output.parents))
        while path:
            for parent in unvisited[-1]:
                if parent not in done and parent not in left_out:
                    parents = parent.parents
                    if parents:
                        path.append(parent)
                        unvisited.append(iter(parents))
                        break
                    done.add(parent)
                    order.append(parent)
            else:
                unvisited.pop()
                node = path.pop()
                done.add(node)
                order.append(node)
    return order


def has_more_nodes(outputs: Iterable[BaseNode], limit: int) -> bool:
    """Return whether `outputs` depend on more than `limit` nodes, themselves included, without visiting many more."""
    seen: set[BaseNode] = set(outputs)
    unvisited = list(seen)
    while unvisited and len(seen) <= limit:
        new = [parent for parent in unvisited.pop().parents if parent not in seen]
        seen.update(new)
        unvisited += new
    return len(seen) > limit


def replaced(outputs: Iterable[BaseNode], others: Mapping[BaseNode, BaseNode]) -> list[BaseNode]:
    """Return the outputs rebuilt with some nodes replaced."""
    nodes = list(outputs)
    replacements = dict(others)
    for node in topological_order(nodes, others):
        parents = tuple(replacements[parent] for parent in node.parents)
        if all(parent is own for parent, own in zip(parents, node.parents, strict=True)):
            replacements[node] = node
        else:
            with located_at(node.origin):
                replacements[node] = node.rebuild(parents)
    return [replacements[node] for node in nodes]


def shallow_first(outputs: Iterable[BaseNode]) -> list[BaseNode]:
    """Return the outputs sorted by the length of their longest path to a leaf."""
    nodes = list(outputs)
    depth: dict[BaseNode, int] = {}
    for node in topological_order(nodes):
        depth[node] = 1 + max((depth[parent] for parent in node.parents), default=0)
    return sorted(nodes, key=depth.__getitem__)


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
                memo[id(node)] = node.rebuild(memo[id(parent)] for parent in node.parents)
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
            nodes.append(cls.construct(tuple(nodes[i] for i in parents), attributes, name))
    return nodes
