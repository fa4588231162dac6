"""Walking a graph without recursion: a chain of any length works."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wyrm.node.base import BaseNode


def topological_order(outputs: Iterable[BaseNode[Any, Any]]) -> list[BaseNode[Any, Any]]:
    """Every node that `outputs` depend on, themselves included, parents before children, each once."""
    order: list[BaseNode[Any, Any]] = []
    done: set[BaseNode[Any, Any]] = set()
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
