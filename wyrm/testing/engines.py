"""Compares what engines compute for each op alone, on operands that the reference engine computes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.engines.engine import Engine
from wyrm.engines.jax.host import without_warnings
from wyrm.engines.registry import engine_class, names
from wyrm.errors import WyrmError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.traversal import topological_order
from wyrm.testing.alone import alone, difference, reference
from wyrm.train.compiling import compile as compile_program


class EngineError(WyrmError, AssertionError):
    """An engine that computes other numbers for an op than the reference engine."""


class Task(NamedTuple):
    """A node to compute on some data, with the value that the reference engine computes for it.

    `original` is the user's node, and `op` the op whose rules compute it; `rule` names another one than the engine's.
    """

    original: BaseNode
    op: BaseNode
    node: BaseNode
    data: Mapping[BaseNode, np.ndarray]
    expected: np.ndarray
    rule: str = ""

    def by(self, engine: str) -> str:
        """Return the name of the rule by which an engine computes the node."""
        return self.rule or engine_class(engine).rule_name(self.op) or meaning(self.op)


class Difference(NamedTuple):
    """What an engine computes for a task, and what the reference engine does instead; or the error that it raises."""

    task: Task
    found: str
    expected: str
    error: Exception | None = None


def compare_engines(outputs: Sequence[BaseNode], engines: Sequence[str] | None = None) -> None:
    """Compare what engines compute for the ops among `outputs` and their ancestors that wyrm does not define.

    Raise `EngineError` for the first op for which an engine and the reference engine differ. An op that draws random
    numbers is left out.
    """
    chosen = installed_engines() if engines is None else engines
    tasks = alone_tasks(foreign(outputs)) if chosen else []
    for engine in chosen:
        for task, found, expected, error in differences(tasks, engine):
            if error is not None:
                raise error
            raise EngineError(
                f"{describe(task.original)}: the engine {engine!r} computes {found} by {task.by(engine)}, the "
                f"reference engine {expected} by {meaning(task.op)}: both must compute the same"
            )


def alone_tasks(nodes: Sequence[BaseNode]) -> list[Task]:
    """Return each op on leaves, without those that draw random numbers."""
    found = [each for each in alone(nodes) if not each.draws]
    values = reference([each.node for each in found]) if found else []
    return [Task(x.original, x.node, x.node, x.data, value) for x, value in zip(found, values, strict=True)]


def differences(tasks: Sequence[Task], engine: str) -> Iterator[Difference]:
    """Yield what an engine computes in another way; one program computes all tasks, unless one of them fails."""
    if not tasks:
        return
    try:
        values = computed([task.node for task in tasks], _joined(tasks), engine)
    except Exception as error:
        if len(tasks) == 1:
            yield Difference(tasks[0], "", "", error)
        else:
            for task in tasks:
                yield from differences([task], engine)
        return
    for task, value in zip(tasks, values, strict=True):
        differs = difference(value, task.expected)
        if differs is not None:
            yield Difference(task, *differs)


def computed(nodes: Sequence[BaseNode], data: Mapping[BaseNode, np.ndarray], engine: str) -> list[np.ndarray]:
    """Return the values of nodes by one program of an engine."""
    outputs: list[Any] = list(nodes)
    needed = set(topological_order(outputs))
    with without_warnings():
        program: Any = compile_program(outputs, engine=engine)
        values: list[np.ndarray] = program({leaf: array for leaf, array in data.items() if leaf in needed})
    return values


def _joined(tasks: Sequence[Task]) -> dict[BaseNode, np.ndarray]:
    return {leaf: array for task in tasks for leaf, array in task.data.items()}


def installed_engines() -> list[str]:
    """Return the engines that compile programs here, besides the reference engine."""
    return [name for name in names() if engine_class(name).is_installed()]


def foreign(outputs: Iterable[BaseNode]) -> list[BaseNode]:
    """Return one node of each op among outputs and their ancestors that wyrm does not define; see `distinct`."""
    every = [engine_class(name) for name in names()]
    return distinct(node for node in topological_order(outputs) if not node.is_leaf and _is_foreign(node, every))


def _is_foreign(node: BaseNode, engines: Iterable[type[Engine]]) -> bool:
    """Return whether the op, or an engine's rule for it, is defined outside of wyrm."""
    rules = [engine.rule(node) for engine in engines]
    return any(not type(each).__module__.startswith("wyrm.") for each in (node, *rules) if each is not None)


def distinct(nodes: Iterable[BaseNode]) -> list[BaseNode]:
    """Return one node of each op with the same attributes, axes and dtypes of operands."""
    found: dict[object, BaseNode] = {}
    for node in nodes:
        operands = tuple((parent.dims, parent.dtype) for parent in node.parents)
        found.setdefault((type(node), repr(node.attribute_values()), operands), node)
    return list(found.values())


def meaning(node: BaseNode) -> str:
    """Return by what the reference engine computes an op."""
    op = type(node).__name__
    return f"the formula of {op}, {node.formula!r}" if node.formula else f"{op}.evaluate"
