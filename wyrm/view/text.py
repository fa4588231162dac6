"""A graph as text: one line a node, in the order of computation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.node.base import BaseNode, format_dims
from wyrm.node.leaves import Constant
from wyrm.node.storage import is_leaf, stored
from wyrm.schedule.schedule import Schedule

# Longer constants are shown by shape alone.
_SHOWN_ELEMENTS = 4


def _names(schedule: Schedule) -> dict[BaseNode[Any, Any], str]:
    """A name for every node: its own where it has one that is free, else a number; small constants by value."""
    names: dict[BaseNode[Any, Any], str] = {}
    taken: set[str] = set()
    for number, node in enumerate(schedule.nodes):
        array = stored(node).array if isinstance(node, Constant) else None
        if array is not None and node.name is None and array.size <= _SHOWN_ELEMENTS:
            names[node] = repr(array.tolist())
            continue
        name = node.name if node.name is not None and node.name not in taken else f"%{number}"
        taken.add(name)
        names[node] = name
    return names


def _attributes(node: BaseNode[Any, Any]) -> str:
    return "".join(f", {name}={_shown(value)}" for name, value in node.attribute_values().items())


def _shown(value: object) -> str:
    return str(value) if isinstance(value, np.dtype) else repr(value)


def to_text(outputs: BaseNode[Any, Any] | Sequence[BaseNode[Any, Any]]) -> str:
    """The graph as it will be computed: repeated operations once, each line with axes, dtype and the line that made it.

    >>> x = wy.Input(name="x")
    >>> print(to_text((2.0 * x).tanh()))  # doctest: +ELLIPSIS
    x   = input             () float32
    %2  = multiply(2.0, x)  () float32  # ...
    %3  = tanh(%2)          () float32  # ...
    """
    schedule = Schedule([outputs] if isinstance(outputs, BaseNode) else list(outputs))
    names = _names(schedule)
    rows = []
    for node in schedule.nodes:
        if is_leaf(node):
            if names[node] == node.name or not isinstance(node, Constant):
                rows.append((names[node], type(node).__name__.lower(), node, ""))
            continue
        operands = ", ".join(names[parent] for parent in schedule.parents(node))
        line = f"  # {node.site} {node.site.source}".rstrip()
        rows.append((names[node], f"{node.op_name()}({operands}{_attributes(node)})", node, line))
    left = max((len(name) for name, *_ in rows), default=0)
    middle = max((len(text) for _, text, *_ in rows), default=0)
    return "\n".join(
        f"{name:<{left + 1}} = {text:<{middle + 1}} {format_dims(node.dims)} {node.dtype}{line}"
        for name, text, node, line in rows
    )


def to_dot(outputs: BaseNode[Any, Any] | Sequence[BaseNode[Any, Any]]) -> str:
    """The graph in Graphviz's language: leaves as boxes, operations as ellipses.

    >>> print(to_dot(wy.Input(name="x").tanh()).count("->"))
    1
    """
    schedule = Schedule([outputs] if isinstance(outputs, BaseNode) else list(outputs))
    names = _names(schedule)
    position = {node: number for number, node in enumerate(schedule.nodes)}
    lines = []
    for node, number in position.items():
        leaf = is_leaf(node)
        title = names[node] if leaf or node.name is not None else node.op_name()
        escaped = title.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  n{number} [label="{escaped}\\n{format_dims(node.dims)}"{", shape=box" if leaf else ""}];')
        lines += [f"  n{position[parent]} -> n{number};" for parent in schedule.parents(node)]
    return "\n".join(["digraph {", *lines, "}"])
