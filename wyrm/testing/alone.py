"""An op alone: a copy of a node on leaves that hold its operands' values, in one float type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from wyrm.engines.numpy.reference import ReferenceRunner
from wyrm.errors import WyrmError
from wyrm.graph.base import BaseNode
from wyrm.graph.index_leaves import IndexConstant, IndexInput
from wyrm.graph.jax_form import JAX
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.parameters import Parameter
from wyrm.graph.traversal import replaced, topological_order
from wyrm.ops.random.philox import COUNTERS

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
        return not COUNTERS.isdisjoint(topological_order([self.node]))


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
        elif isinstance(parent, _DATA) and parent not in COUNTERS:
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
    return Alone(original, type(node).rebuild(tuple(parents), node.attribute_values()), tuple(used))


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
