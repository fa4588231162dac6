"""Nodes as text: one line each, in the order of computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wyrm.graph.axes import Dim, Dims
from wyrm.graph.base import BaseNode, format_dims
from wyrm.graph.leaves import Constant
from wyrm.graph.storage import stored
from wyrm.support.texts import cut, encodable, terminal_columns

# Larger constants are shown by shape alone.
_SHOWN_ELEMENTS = 4


def names_of(nodes: Sequence[BaseNode]) -> dict[BaseNode, str]:
    """Return a name for every node: its own if that is free, else a number; small constants are named by value."""
    names: dict[BaseNode, str] = {}
    taken: set[str] = set()
    for number, node in enumerate(nodes):
        array = stored(node).array if isinstance(node, Constant) else None
        if array is not None and node.name is None and array.size <= _SHOWN_ELEMENTS:
            names[node] = repr(array.tolist())
            continue
        name = node.name if node.name is not None and node.name not in taken else f"%{number}"
        taken.add(name)
        names[node] = name
    return names


def _attributes(node: BaseNode) -> str:
    return "".join(f", {name}={_shown(value)}" for name, value in node.attribute_values().items())


def _shown(value: object) -> str:
    return str(value) if isinstance(value, np.dtype) else repr(value)


def text_of(nodes: Sequence[BaseNode], parents: Callable[[BaseNode], Sequence[BaseNode]]) -> str:
    """Return a line for each node except constants: op and operands, axes, dtype, and the user's line of code.

    Lines fit the terminal; in a file they are whole.
    """
    names = names_of(nodes)
    rows = []
    for node in nodes:
        if node.is_leaf:
            if names[node] == node.name or not isinstance(node, Constant):
                rows.append((names[node], type(node).__name__.lower(), node, ""))
            continue
        operands = ", ".join(names[parent] for parent in parents(node))
        line = f"  # {node.location} {node.location.source}".rstrip()
        rows.append((names[node], f"{node.op_name()}({operands}{_attributes(node)})", node, line))
    left = max((len(name) for name, *_ in rows), default=0)
    middle = max((len(text) for _, text, *_ in rows), default=0)
    width = terminal_columns()
    if width:  # half of it for the axes, the dtype and the line of code
        middle = min(middle, max(width // 2 - left, 20))
    lines = [
        f"{name:<{left + 1}} = {cut(text, middle):<{middle + 1}} {format_dims(node.dims)} {node.dtype}{line}"
        for name, text, node, line in rows
    ]
    return encodable("\n".join(cut(line, width) if width else line for line in lines))


def show_axes_as_tables(shell: Any, table: Callable[[Dims], str]) -> None:
    """Let a shell of IPython display tuples of axes as tables, unless the user has a format for tuples.

    Tuples have no `_repr_mimebundle_`, which other values of wyrm have for notebooks.
    """

    def shown(value: tuple[Any, ...]) -> str | None:
        if not any(isinstance(axis, Dim) for axis in value) or not all(isinstance(axis, Dim | int) for axis in value):
            return None  # as text
        return table(value)

    display = getattr(shell, "display_formatter", None)
    formatter = None if display is None else display.formatters.get("text/html")
    if formatter is not None and tuple not in formatter:
        formatter.for_type(tuple, shown)
