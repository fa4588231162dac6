"""Compares what engines compute for each op alone, on operands that the reference engine computes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wyrm.engines.engine import Engine
from wyrm.engines.numpy.reference import ReferenceRunner
from wyrm.engines.registry import engine_class, names
from wyrm.errors import WyrmError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexInput
from wyrm.graph.leaves import Input
from wyrm.graph.traversal import replaced, topological_order
from wyrm.ops.random.philox import COUNTERS
from wyrm.train.compiling import compile as compile_program

# The allowed difference relative to the largest element, as of sums of thousands of terms in another order.
_TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-4}


class EngineError(WyrmError, AssertionError):
    """An engine that computes other numbers for an op than the reference engine."""


class _Alone(NamedTuple):
    """A copy of an op on leaves that hold its operands' values, and its value in the reference engine."""

    original: BaseNode
    node: BaseNode
    expected: np.ndarray


def compare_engines(outputs: Sequence[BaseNode], engines: Sequence[str] | None = None) -> None:
    """Compare what engines compute for the ops among `outputs` and their ancestors that wyrm does not define.

    Raise `EngineError` for the first op for which an engine and the reference engine differ. An op that draws random
    numbers is left out.
    """
    chosen = installed_engines() if engines is None else engines
    every = [engine_class(name) for name in names()]
    nodes = [node for node in topological_order(outputs) if not node.is_leaf and _is_foreign(node, every)]
    if not chosen or not nodes:
        return
    alone = _each_alone(_distinct(nodes))
    for engine in chosen:
        together = [each for each in alone if not (engines is None and engine_class(engine).may_refuse(each.node))]
        for each, found in zip(together, _computed(together, engine), strict=True):
            _check(each, found, engine)
        for each in alone:
            if engines is None and engine_class(engine).may_refuse(each.node):
                try:
                    (found,) = _computed([each], engine)
                except Exception:  # JAX cannot trace it: tracing raises what `evaluate` raises
                    continue
                _check(each, found, engine)


def installed_engines() -> list[str]:
    """Return the engines that compile programs here, besides the reference engine."""
    return [name for name in names() if engine_class(name).is_installed()]


def _is_foreign(node: BaseNode, engines: Iterable[type[Engine]]) -> bool:
    """Return whether the op, or an engine's rule for it, is defined outside of wyrm."""
    rules = [engine.rule(node) for engine in engines]
    return any(not type(each).__module__.startswith("wyrm.") for each in (node, *rules) if each is not None)


def _distinct(nodes: Iterable[BaseNode]) -> list[BaseNode]:
    """Return one node of each op with the same attributes, axes and dtypes of operands."""
    found: dict[object, BaseNode] = {}
    for node in nodes:
        operands = tuple((parent.dims, parent.dtype) for parent in node.parents)
        found.setdefault((type(node), repr(node.attribute_values()), operands), node)
    return list(found.values())


def _each_alone(nodes: Sequence[BaseNode]) -> list[_Alone]:
    """Return each op on leaves, with its value."""
    parents = [parent for node in nodes for parent in node.parents if not parent.is_leaf]
    plan = ReferenceRunner([*nodes, *parents]).run()
    leaves: dict[BaseNode, BaseNode] = {}
    for parent in parents:
        value = plan.value(parent)
        # The residuals of a loop and rows of a table are not arrays, so the op that computes them stays.
        if isinstance(value, np.ndarray | np.generic):
            leaves[parent] = _leaf(parent, np.asarray(value))
    found = []
    for node in nodes:
        (copy,) = replaced([node], {parent: leaf for parent, leaf in leaves.items() if parent is not node})
        if COUNTERS.isdisjoint(topological_order([copy])):
            found.append(_Alone(node, copy, np.asarray(plan.value(node))))
    return found


def _leaf(node: BaseNode, value: np.ndarray) -> BaseNode:
    """Return a leaf with a node's axes and dtype, set to its value."""
    leaf: IndexInput | Input
    if node.dtype.kind == "i":
        leaf = IndexInput(dims=node.dims)
    else:
        leaf = Input(dims=node.dims, dtype=node.dtype, finite=False)
    leaf.set(value)
    return leaf


def _computed(group: Sequence[_Alone], engine: str) -> list[np.ndarray]:
    """Return the values of the copies, computed by one program of an engine."""
    nodes: list[Any] = [each.node for each in group]
    data = {leaf: leaf.value for leaf in topological_order(nodes) if isinstance(leaf, Input | IndexInput)}
    return compile_program(nodes, engine=engine)(data) if nodes else []


def _check(each: _Alone, found: np.ndarray, engine: str) -> None:
    want = each.expected
    if found.shape != want.shape or found.dtype != want.dtype:
        raise EngineError(_text(each, engine, f"{found.dtype} {found.shape}", f"{want.dtype} {want.shape}"))
    largest = float(np.abs(want[np.isfinite(want)]).max(initial=1.0)) if want.dtype.kind == "f" else 0.0
    near = np.isclose(found, want, rtol=0.0, atol=_TOLERANCE.get(want.dtype, 0.0) * largest, equal_nan=True)
    if not near.all():
        place = tuple(map(int, np.argwhere(~near)[0]))
        at = f" at {place}" if place else ""
        raise EngineError(_text(each, engine, f"{found[place]:.12g}{at}", f"{want[place]:.12g}"))


def _text(each: _Alone, engine: str, found: str, expected: str) -> str:
    rule = engine_class(engine).rule_name(each.node) or _meaning(each.node)
    return (
        f"{describe(each.original)}: the engine {engine!r} computes {found} by {rule}, the "
        f"reference engine {expected} by {_meaning(each.node)}: both must compute the same"
    )


def _meaning(node: BaseNode) -> str:
    """Return by what the reference engine computes an op."""
    op = type(node).__name__
    return f"{op}.evaluate" if node.formula is None else f"the formula of {op}, {node.formula!r}"
