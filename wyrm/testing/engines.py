"""Compares what engines compute for each op alone, on copies of its node whose leaves hold the operands' values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from wyrm.engines.engine import Engine
from wyrm.engines.jax.host import without_warnings
from wyrm.engines.numpy.reference import ReferenceRunner
from wyrm.engines.registry import engine_class, names
from wyrm.errors import WyrmError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexConstant, IndexInput
from wyrm.graph.jax_form import JAX
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.parameters import Parameter
from wyrm.graph.traversal import replaced, topological_order
from wyrm.ops.composed import Composed
from wyrm.ops.random.philox import Counter
from wyrm.train.compiling import compile as compile_program

# The float types in which an op is checked, the more exact one first.
FLOAT_TYPES = (np.dtype(np.float64), np.dtype(np.float32))
# The allowed difference relative to the largest element, as of sums of thousands of terms in another order.
TOLERANCE: Final[dict[np.dtype, float]] = {FLOAT_TYPES[0]: 1e-10, FLOAT_TYPES[1]: 1e-4}
_CONSTANTS = (Constant, IndexConstant)
_DATA = (Parameter, Input, Constant, IndexInput, IndexConstant)


class Alone(NamedTuple):
    """A copy of the op of `original`; `leaves` are its operands, apart from those that hold no data of a user."""

    original: BaseNode
    node: BaseNode
    leaves: tuple[Any, ...]

    @property
    def floats(self) -> list[Any]:
        """The operands that are floats."""
        return [leaf for leaf in self.leaves if leaf.dtype.kind == "f"]

    @property
    def data(self) -> dict[BaseNode, np.ndarray]:
        """The arrays of the operands."""
        return {leaf: np.array(leaf.value) for leaf in self.leaves}

    def at(self, data: Mapping[BaseNode, np.ndarray]) -> np.ndarray:
        """Return the value that the reference engine computes for other arrays of the operands."""
        held = self.data
        try:
            for leaf in self.leaves:
                leaf.set(data.get(leaf, held[leaf]))
            return reference([self.node])[0]
        finally:
            for leaf in self.leaves:
                leaf.set(held[leaf])

    @property
    def draws(self) -> bool:
        """Whether the value depends on random numbers."""
        return any(isinstance(node, Counter) for node in topological_order([self.node]))


def reference(nodes: Sequence[BaseNode]) -> list[np.ndarray]:
    """Return new arrays of the values that the reference engine computes."""
    plan = ReferenceRunner(nodes).run()
    return [np.array(plan.value(node)) for node in nodes]


def alone(nodes: Sequence[BaseNode], dtype: np.dtype | None = None) -> list[Alone]:
    """Return the op of each node on leaves, of a float type if one is given.

    Raise what an op raises that does not take that type.
    """
    computed = list({p: None for node in nodes for p in node.parents if not p.is_leaf})
    plan = ReferenceRunner(computed).run() if computed else None
    values: dict[BaseNode, np.ndarray] = {}
    for parent in {p: None for node in nodes for p in node.parents}:
        value: Any = None
        if not parent.is_leaf:
            assert plan is not None
            value = plan.value(parent)
        elif isinstance(parent, _DATA) and not isinstance(parent, Counter):
            value = parent.value
        # The residuals of a loop and rows of a table are not arrays, and a buffer is a part of the op.
        if isinstance(value, np.ndarray | np.generic):
            array = np.array(value)
            values[parent] = array if dtype is None or array.dtype.kind != "f" else array.astype(dtype)
    found = []
    for node in nodes:
        try:
            found.append(_on_leaves(node, values))
        except (WyrmError, TypeError, ValueError):  # an op whose axes depend on integers that are known
            if not any(isinstance(parent, IndexConstant) for parent in node.parents):
                raise
            found.append(_on_leaves(node, {p: x for p, x in values.items() if not isinstance(p, IndexConstant)}))
    return found


def _on_leaves(node: BaseNode, values: Mapping[BaseNode, np.ndarray]) -> Alone:
    """Return the op with a leaf for each operand that has a value, also where two operands are the same node."""
    keeps = _CONSTANTS if JAX.of(node).reads_constants else ()
    leaves = [
        leaf_like(parent.dims, values[parent]) if parent in values and not isinstance(parent, keeps) else None
        for parent in node.parents
    ]
    return on_operands(node, node, leaves)


def on_operands(original: BaseNode, node: BaseNode, leaves: Sequence[Any]) -> Alone:
    """Return the op of a node on leaves in place of its operands; None keeps an operand.

    Operands that are functions of others, such as the residuals of a factorization, are computed from their leaves.
    """
    own = {p: x for i, (p, x) in enumerate(zip(node.parents, leaves, strict=True)) if i not in node.residual_parents}
    others = {parent: leaf for parent, leaf in own.items() if leaf is not None}
    parents: list[BaseNode] = []
    used: list[Any] = []
    for i, (parent, leaf) in enumerate(zip(node.parents, leaves, strict=True)):
        if i in node.residual_parents and not parent.is_leaf:
            parents += replaced([parent], others)
        elif leaf is None:
            parents.append(parent)
        else:
            parents.append(leaf)
            used.append(leaf)
    return Alone(original, node.rebuild(parents), tuple(used))


def leaf_like(dims: Any, value: np.ndarray) -> Any:
    """Return an input with these axes, set to a value."""
    leaf: IndexInput | Input
    leaf = IndexInput(dims=dims) if value.dtype.kind == "i" else Input(dims=dims, dtype=value.dtype, finite=False)
    leaf.set(value)
    return leaf


def difference(found: np.ndarray, want: np.ndarray, tolerance: float | None = None) -> tuple[str, str] | None:
    """Return what differs, as texts of both sides; None if nothing does."""
    if found.shape != want.shape or found.dtype != want.dtype:
        return f"{found.dtype} {found.shape}", f"{want.dtype} {want.shape}"
    largest = float(np.abs(want[np.isfinite(want)]).max(initial=1.0)) if want.dtype.kind == "f" else 0.0
    allowed = (TOLERANCE.get(want.dtype, 0.0) if tolerance is None else tolerance) * largest
    near = np.isclose(found, want, rtol=0.0, atol=allowed, equal_nan=True)
    if near.all():
        return None
    place = tuple(map(int, np.argwhere(~near)[0]))
    at = f" at {place}" if place else ""
    return f"{found[place]:.12g}{at}", f"{want[place]:.12g}"


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
        values = computed([task.node for task in tasks], _joined_results(tasks), engine)
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


def _joined_results(tasks: Sequence[Task]) -> dict[BaseNode, np.ndarray]:
    return {leaf: array for task in tasks for leaf, array in task.data.items()}


def installed_engines() -> list[str]:
    """Return the engines that compile programs here, besides the reference engine."""
    return [name for name in names() if engine_class(name).is_installed()]


def foreign(outputs: Iterable[BaseNode]) -> list[BaseNode]:
    """Return one node of each op among outputs and their ancestors that wyrm does not define; see `distinct`."""
    every = [engine_class(name) for name in names()]
    nodes = (node for node in topological_order(outputs) if not node.is_leaf and not node.holds_bits)
    return distinct(node for node in nodes if _is_foreign(node, every))


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
    if isinstance(node, Composed):
        return f"{op}.compose"
    return f"the formula of {op}, {node.formula!r}" if node.formula else f"{op}.evaluate"
