"""A compiled program as data for the graph page: loops and kernels with their nodes, and arrays in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from wyrm.engines.native.stages.loops import ArrayBuffer, Invocation, Item, KernelCall, Loop, PythonCall, nodes_of
from wyrm.engines.native.stages.memory import lifetimes
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.errors import ShapeError
from wyrm.graph.axes import Axis, Dim, resolve
from wyrm.graph.base import BaseNode, label
from wyrm.graph.traversal import topological_order
from wyrm.view.model_summary import has_products, multiply_adds

# Operations that the name of a loop lists.
_LISTED = 4


def program_data(
    graph: NativeGraph, sizes: Mapping[type[Dim], int], position: Mapping[BaseNode, int], backward: int
) -> dict[str, Any]:
    """Return the stages and the buffers of a step, as the graph page reads them.

    `position` has the positions of the shown nodes; from position `backward` on they are of the backward pass. Bytes
    and FLOPs that depend on sizes of the data that `sizes` does not have are -1.
    """
    owners = _owners(graph, position)
    calls = graph.source.calls
    computed: dict[ArrayBuffer, list[int]] = {}
    for node, value in graph.tree.values.items():
        if value in graph.loops.stored:
            computed.setdefault(value.buffer.root, []).extend(owners.get(node, ()))
    # Updates of parameters and buffers follow the invocations.
    end = len(graph.source.invocations)
    return {
        "stages": [_stage(call, sizes, owners, backward) for call in calls],
        "buffers": [
            {
                "name": buffer.name,
                "bytes": _bytes(buffer, sizes),
                "first": first,
                "last": last if last < end else len(calls) - 1,
                "nodes": sorted(set(computed.get(buffer, ()))),
            }
            for buffer, (first, last) in lifetimes(graph.source).items()
        ],
    }


def _owners(graph: NativeGraph, position: Mapping[BaseNode, int]) -> dict[BaseNode, list[int]]:
    """Return the positions of the shown nodes that each node of the schedule computes, wholly or in part."""
    simpler, representative = graph.targets.simpler, graph.schedule.representative
    parts: dict[BaseNode, int] = {}
    found: dict[BaseNode, dict[int, None]] = {}
    for node, number in position.items():
        final = simpler.get(node)
        if final is None or final not in representative:
            continue
        # The nodes that replace a composite node; its operands are known already.
        for part in topological_order([final], known=parts):
            parts[part] = number
        found.setdefault(representative[final], {})[number] = None
    for part, number in parts.items():
        if part in representative:
            found.setdefault(representative[part], {})[number] = None
    return {node: list(numbers) for node, numbers in found.items()}


def _stage(
    call: Invocation, sizes: Mapping[type[Dim], int], owners: Mapping[BaseNode, list[int]], backward: int
) -> dict[str, Any]:
    nodes = [] if call.item is None else list(nodes_of(call.item))
    kind = _kind(call)
    computed = nodes if call.updated is None else [call.updated]
    shown = sorted({number for node in computed for number in owners.get(node, ())})
    bytes_used = [_bytes(buffer, sizes) for buffer in {buffer.root for buffer in call.buffers}]
    products = [0 if kind == "check" else multiply_adds(node, sizes) for node in nodes]
    known = [count for count in products if count is not None]
    return {
        "name": _name(call, kind, nodes),
        "kind": kind,
        "nodes": shown,
        "part": int(kind == "update" or (bool(shown) and min(shown) >= backward)),
        "bytes": -1 if -1 in bytes_used else sum(bytes_used),
        "flops": 2 * sum(known) if len(known) == len(products) else -1,
    }


def _kind(call: Invocation) -> str:
    item = call.item
    if not isinstance(item, KernelCall):
        return "update" if item is None else "loop" if isinstance(item, Loop) else "scalars"
    if call.buffers != {item.out, *item.operands}:
        return "check"
    if isinstance(call.function, PythonCall):
        return "Python"
    return "scan" if call.scan is not None else "product" if has_products(item.node) else "kernel"


def _name(call: Invocation, kind: str, nodes: Sequence[BaseNode]) -> str:
    if kind == "update":
        return f"update {label(call.updated)}" if call.updated is not None else "norm of the gradients"
    names = list(dict.fromkeys(node.op_name() for node in nodes))
    listed = ", ".join(names[:_LISTED]) + (f" and {len(names) - _LISTED} more" if len(names) > _LISTED else "")
    if isinstance(call.item, Loop):
        return f"loop over {', '.join(_axes(call.item))}: {listed}"
    return {"check": f"check the indices of {listed}", "scalars": f"scalars: {listed}"}.get(kind, listed)


def _axes(loop: Loop) -> Iterator[str]:
    """Yield the axes of a loop and of the longest chain of loops inside."""
    item: Item | None = loop
    while isinstance(item, Loop):
        yield _axis_name(item.axis)
        item = next((inner for inner in item.items if isinstance(inner, Loop)), None)


def _axis_name(axis: Axis) -> str:
    return type(axis).__name__ if isinstance(axis, Dim) else str(axis)


def _bytes(buffer: ArrayBuffer, sizes: Mapping[type[Dim], int]) -> int:
    try:
        return math.prod(resolve(buffer.dims, sizes)) * buffer.dtype.itemsize
    except ShapeError:
        return -1
