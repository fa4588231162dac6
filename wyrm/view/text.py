"""A graph as text, one node per line, in order of computation."""

from __future__ import annotations

from collections.abc import Sequence

from wyrm.graph.base import BaseNode, format_dims
from wyrm.graph.schedule import Schedule, names_of, text_of
from wyrm.support.texts import encodable


def _schedule(outputs: BaseNode | Sequence[BaseNode]) -> Schedule:
    """Return the schedule of one node or several; raise `TypeError` for anything else, such as a module."""
    nodes = [outputs] if isinstance(outputs, BaseNode) else outputs
    if not isinstance(nodes, Sequence) or not all(isinstance(node, BaseNode) for node in nodes):
        raise TypeError(f"a graph is shown of a node or several, as of model(x), not of {type(outputs).__name__}")
    return Schedule(nodes)


def to_text(outputs: BaseNode | Sequence[BaseNode]) -> str:
    """Return the graph as it is computed, without duplicates; each line has axes, dtype and the user's line.

    >>> x = wy.Input(name="x")
    >>> print(to_text((2.0 * x).tanh()))  # doctest: +ELLIPSIS
    x   = input             () float32
    %2  = multiply(2.0, x)  () float32  # ...
    %3  = tanh(%2)          () float32  # ...
    """
    schedule = _schedule(outputs)
    return text_of(schedule.nodes, schedule.parents)


def to_dot(outputs: BaseNode | Sequence[BaseNode]) -> str:
    """Return the graph in Graphviz's DOT language, with leaves as boxes and operations as ellipses.

    >>> print(to_dot(wy.Input(name="x").tanh()).count("->"))
    1
    """
    schedule = _schedule(outputs)
    names = names_of(schedule.nodes)
    position = {node: number for number, node in enumerate(schedule.nodes)}
    lines = []
    for node, number in position.items():
        leaf = node.is_leaf
        title = names[node] if leaf or node.name is not None else node.op_name()
        escaped = title.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  n{number} [label="{escaped}\\n{format_dims(node.dims)}"{", shape=box" if leaf else ""}];')
        lines += [f"  n{position[parent]} -> n{number};" for parent in schedule.parents(node)]
    return encodable("\n".join(["digraph {", *lines, "}"]))
