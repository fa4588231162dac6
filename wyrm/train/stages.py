"""A program as text after each stage of its compilation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wyrm.node.base import BaseNode
from wyrm.node.traversal import topological_order
from wyrm.schedule.text import text_of
from wyrm.train.runner import Graph, Runner


def stages(runner: Runner) -> dict[str, str]:
    """What a program is after each stage, by the names of the stages, in order."""
    graph = runner.graph
    found = {name: stage(graph) for name, stage in _OF_NODES.items()}
    found["loops"] = runner.text
    machine = runner.listing()
    found["loop program"] = "\n\n".join(machine.loop_programs)
    found["llvm"] = machine.llvm
    return found


def _parents(node: BaseNode[Any, Any]) -> tuple[BaseNode[Any, Any], ...]:
    parents: tuple[BaseNode[Any, Any], ...] = node.parents
    return parents


def _graph(graph: Graph) -> str:
    return text_of(topological_order(graph.outputs), _parents)


def _differentiated(graph: Graph) -> str:
    return text_of(topological_order(graph.wanted), _parents)


def _decomposed(graph: Graph) -> str:
    return text_of(topological_order(graph.simpler), _parents)


def _deduplicated(graph: Graph) -> str:
    return text_of(graph.schedule.nodes, graph.schedule.parents)


_OF_NODES: dict[str, Callable[[Graph], str]] = {
    "graph": _graph, "differentiate": _differentiated, "decompose": _decomposed, "deduplicate": _deduplicated
}  # fmt: skip
