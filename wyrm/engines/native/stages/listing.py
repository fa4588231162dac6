"""The results of compiler stages as text."""

from __future__ import annotations

from collections.abc import Iterator

from wyrm.engines.native.stages.deduplicate import Scheduled
from wyrm.engines.native.stages.differentiate import Targets
from wyrm.engines.native.stages.loops import Block, Item, KernelCall, Loop, ScalarBlock, Statement
from wyrm.engines.native.stages.lower import Lowering
from wyrm.graph.base import BaseNode, format_dims, label
from wyrm.graph.text import text_of
from wyrm.graph.traversal import topological_order


def nodes(value: Targets | Scheduled) -> str:
    """Return a line for each node, with the user's line of code that made it."""
    if isinstance(value, Scheduled):
        return text_of(value.schedule.nodes, value.schedule.parents)
    return text_of(topological_order(value.nodes), _parents)


def _parents(node: BaseNode) -> tuple[BaseNode, ...]:
    parents: tuple[BaseNode, ...] = node.parents
    return parents


def loops(lowering: Lowering) -> str:
    """Return the tree of loops: a line for each loop, kernel call and node computed in a loop."""
    items = [*lowering.early, *lowering.root.items]
    return "\n".join(line for item in items for line in _lines(item))


def _lines(item: Item) -> Iterator[str]:
    if isinstance(item, Loop | ScalarBlock):
        if not item.items:
            return
        yield f"for {item.axis!r}:" if isinstance(item, Loop) else "once:"
    if isinstance(item, Block):
        for each in item.items:
            yield from (f"    {line}" for line in _lines(each))
    elif isinstance(item, KernelCall):
        yield f"{item.out.name} {'+=' if item.adds else '='} {_named(item.node)}"
    elif isinstance(item, Statement) and item.node is not None:
        verb = {"reduce": "reduce ", "write": "write ", "copy": "copy ", "rows": "add to rows "}.get(item.kind, "")
        yield f"{verb}{_named(item.node)}"


def _named(node: BaseNode) -> str:
    return f"{node.op_name()} {format_dims(node.dims)}  # {node.location} {node.location.source}".rstrip()


def stored_arrays(lowering: Lowering) -> str:
    """Return the arrays that store values, and the nodes that no array stores."""
    lines = [
        f"{value.buffer.name}: {format_dims(value.buffer.dims)} {value.buffer.dtype}"
        for value in lowering.values.values()
        if value.stored
    ]
    never = sorted({label(value.node) for value in lowering.values.values() if not value.stored})
    return "\n".join([*lines, f"in variables only: {', '.join(never) or 'none'}"])
