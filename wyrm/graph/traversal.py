"""Graph traversal without recursion, so that a chain of any length works."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from wyrm.graph.source_location import located_at

if TYPE_CHECKING:
    from wyrm.graph.base import BaseNode


def topological_order(outputs: Iterable[BaseNode], known: Collection[BaseNode] = ()) -> list[BaseNode]:
    """Return every node that `outputs` depend on, themselves included, parents before children, each once.

    Nodes in `known` are left out, and so are those that only they depend on.
    """
    order: list[BaseNode] = []
    done: set[BaseNode] = set(known)
    # The path from an output to the current node, and for each node on it the parents that are still to visit.
    path: list[BaseNode] = []
    unvisited: list[Iterator[BaseNode]] = []
    for output in outputs:
        if output not in done:
            path.append(output)
            unvisited.append(iter(output.parents))
        while path:
            for parent in unvisited[-1]:
                if parent not in done:
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
                replacements[node] = type(node).rebuild(parents, node.attribute_values(), node.name)
    return [replacements[node] for node in nodes]


def shallow_first(outputs: Iterable[BaseNode]) -> list[BaseNode]:
    """Return the outputs sorted by the length of their longest path to a leaf."""
    nodes = list(outputs)
    depth: dict[BaseNode, int] = {}
    for node in topological_order(nodes):
        depth[node] = 1 + max((depth[parent] for parent in node.parents), default=0)
    return sorted(nodes, key=depth.__getitem__)
