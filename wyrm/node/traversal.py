"""Walking a graph without recursion: a chain of any length works."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from wyrm.node.source_location import located_at

if TYPE_CHECKING:
    from wyrm.node.base import BaseNode


def topological_order(outputs: Iterable[BaseNode], known: Collection[BaseNode] = ()) -> list[BaseNode]:
    """Every node that `outputs` depend on, themselves included, parents before children, each once.

    Those that are `known` are left out, and what only they depend on.
    """
    order: list[BaseNode] = []
    done: set[BaseNode] = set(known)
    # The way from an output to where the walk is, and for each node on it the parents that are left to look at.
    way: list[BaseNode] = []
    left: list[Iterator[BaseNode]] = []
    for output in outputs:
        if output not in done:
            way.append(output)
            left.append(iter(output.parents))
        while way:
            for parent in left[-1]:
                if parent not in done:
                    parents = parent.parents
                    if parents:
                        way.append(parent)
                        left.append(iter(parents))
                        break
                    done.add(parent)
                    order.append(parent)
            else:
                left.pop()
                node = way.pop()
                done.add(node)
                order.append(node)
    return order


def replaced(outputs: Iterable[BaseNode], others: Mapping[BaseNode, BaseNode]) -> list[BaseNode]:
    """The outputs, computed from other nodes in place of some."""
    wanted = list(outputs)
    standing = dict(others)
    for node in topological_order(wanted, others):
        parents = tuple(standing[parent] for parent in node.parents)
        if all(parent is own for parent, own in zip(parents, node.parents, strict=True)):
            standing[node] = node
        else:
            with located_at(node.origin):
                standing[node] = type(node).rebuild(parents, node.attribute_values(), node.name)
    return [standing[node] for node in wanted]


def shallow_first(outputs: Iterable[BaseNode]) -> list[BaseNode]:
    """The outputs in the order of how long the longest way to a leaf is."""
    wanted = list(outputs)
    depth: dict[BaseNode, int] = {}
    for node in topological_order(wanted):
        depth[node] = 1 + max((depth[parent] for parent in node.parents), default=0)
    return sorted(wanted, key=depth.__getitem__)
