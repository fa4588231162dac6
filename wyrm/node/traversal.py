"""Walking a graph without recursion: a chain of any length works."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from wyrm.node.base import BaseNode


def topological_order(
    outputs: Iterable[BaseNode[Any, Any]], known: Collection[BaseNode[Any, Any]] = ()
) -> list[BaseNode[Any, Any]]:
    """Every node that `outputs` depend on, themselves included, parents before children, each once.

    Those that are `known` are left out, and what only they depend on.
    """
    order: list[BaseNode[Any, Any]] = []
    done: set[BaseNode[Any, Any]] = set(known)
    stack = list(outputs)
    stack.reverse()
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        pending = [parent for parent in node.parents if parent not in done]
        if pending:
            pending.reverse()
            stack += pending
        else:
            stack.pop()
            done.add(node)
            order.append(node)
    return order


def shallow_first(outputs: Iterable[BaseNode[Any, Any]]) -> list[BaseNode[Any, Any]]:
    """The outputs in the order of how long the longest way to a leaf is."""
    wanted = list(outputs)
    depth: dict[BaseNode[Any, Any], int] = {}
    for node in topological_order(wanted):
        depth[node] = 1 + max((depth[parent] for parent in node.parents), default=0)
    return sorted(wanted, key=depth.__getitem__)
