"""Lowering for functions that JAX differentiates: it keeps user-defined gradients and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wyrm.backends.xla.lower import Lowerer, dense
from wyrm.errors import NotDifferentiable
from wyrm.node.base import BaseNode, Undefined, explain, label
from wyrm.node.index_leaves import IndexConstant, IndexInput
from wyrm.node.jax_form import JAX
from wyrm.node.leaves import Constant, Input
from wyrm.ops.checkpoint import Checkpoint
from wyrm.ops.comparison import StopGradient
from wyrm.ops.composite_gradient import composite_vjp
from wyrm.ops.custom import Custom
from wyrm.ops.philox import COUNTERS
from wyrm.schedule.schedule import Schedule


class DifferentiableLowerer(Lowerer):
    """Lowers nodes to code whose derivatives by JAX are those of wyrm, to any order."""

    def run(self, schedule: Schedule, known: Mapping[BaseNode, Any]) -> list[Any]:
        """Return the values of a schedule's outputs, given values of some nodes."""
        given = {schedule.position[node]: value for node, value in known.items() if node in schedule.position}
        needed = _needed(schedule, given)
        values: list[Any] = [None] * len(schedule.nodes)
        for i, (node, parents) in enumerate(zip(schedule.nodes, schedule.parent_positions, strict=True)):
            if i in given:
                values[i] = given[i]
            elif i in needed:
                if node.is_leaf:
                    values[i] = self.leaf(node)
                elif isinstance(node, Checkpoint):
                    leaves = {node: values[j] for j, node in enumerate(schedule.nodes[:i]) if node.is_leaf}
                    values[i] = self._recomputed(node, [values[p] for p in parents[1:]], leaves)
                else:
                    values[i] = self.value(node, [values[p] for p in parents])
        return [dense(values[schedule.position[output]]) for output in schedule.outputs]

    def value(self, node: BaseNode, operands: list[Any]) -> Any:
        """Return the value of a node from those of its parents."""
        from jax import lax

        if isinstance(node, StopGradient):
            return lax.stop_gradient(super().value(node, operands))
        if isinstance(node, Custom):
            # The gradient with respect to the result that the rule replaces is zero.
            return self._with_own_vjp(node, [lax.stop_gradient(operands[0]), *operands[1:]])
        if JAX.of(node).own_gradient:
            return self._with_own_vjp(node, [dense(operand) for operand in operands])
        return super().value(node, operands)

    def _recomputed(self, node: Checkpoint[Any], used: list[Any], leaves: dict[BaseNode, Any]) -> Any:
        """Return the value of a part of the graph that the backward pass computes again."""
        import jax

        result, *inputs = node.parents

        def function(*values: Any) -> Any:
            return self.outputs([result], {**leaves, **dict(zip(inputs, values, strict=True))})[0]

        return jax.checkpoint(function)(*used)

    def _with_own_vjp(self, node: BaseNode, operands: list[Any]) -> Any:
        """Return the value of a node whose gradient is that of its `vjp`."""
        import jax

        twin, placeholders = _twin(node)
        gradient: Any = Input(dims=node.dims, dtype=node.dtype, finite=False)
        parts = twin.vjp(gradient) if node.dtype.kind == "f" else ()
        operands = [
            _undefined(operand, explain(node, f"no gradient with respect to {label(parent)}: {part.reason}"))
            if isinstance(part, Undefined) else operand
            for part, operand, parent in zip(parts or [None] * len(operands), operands, node.parents, strict=True)
        ]  # fmt: skip
        wanted = [
            i for i, part in enumerate(parts)
            if isinstance(part, BaseNode) and node.parents[i].dtype.kind == "f" and twin.parents[i] in placeholders
        ]  # fmt: skip

        def forward(*values: Any) -> tuple[Any, Any]:
            value = Lowerer.value(self, node, list(values))
            return value, (values, value)

        def backward(kept: Any, cotangent: Any) -> tuple[Any, ...]:
            values, value = kept
            found: list[Any] = [_zero(each) for each in values]
            gradients = composite_vjp(twin, gradient, [twin.parents[i] for i in wanted])
            nodes = [(i, part) for i, part in zip(wanted, gradients, strict=True) if isinstance(part, BaseNode)]
            known = {**dict(zip(twin.parents, values, strict=True)), twin: value, gradient: cotangent}
            for (i, _), array in zip(nodes, self.outputs([part for _, part in nodes], known), strict=True):
                found[i] = array
            return tuple(found)

        function = jax.custom_vjp(lambda *values: forward(*values)[0])
        function.defvjp(forward, backward)
        return function(*operands)


def _needed(schedule: Schedule, given: Mapping[int, Any]) -> set[int]:
    """Return the positions of nodes that the outputs need, where the nodes at `given` positions are known.

    A checkpoint does not need its result, which it computes itself.
    """
    needed = {schedule.position[output] for output in schedule.outputs}
    for i in range(len(schedule.nodes) - 1, -1, -1):
        if i in needed and i not in given:
            needed.update(schedule.parent_positions[i][isinstance(schedule.nodes[i], Checkpoint) :])
    return needed


def _twin(node: BaseNode) -> tuple[BaseNode, set[BaseNode]]:
    """Return the node on placeholders for its parents, and the placeholders; constants are parents of both."""
    parents = tuple(
        parent if isinstance(parent, Constant | IndexConstant) or parent in COUNTERS
        else IndexInput(dims=parent.dims) if parent.dtype.kind in "iu"
        else Input(dims=parent.dims, dtype=parent.dtype, finite=False)
        for parent in node.parents
    )  # fmt: skip
    return type(node).rebuild(parents, node.attribute_values()), set(parents) - set(node.parents)


def _zero(value: Any) -> Any:
    """Return the cotangent of a value that has no gradient."""
    import jax
    import jax.numpy as jnp

    if jnp.issubdtype(value.dtype, jnp.floating):
        return jnp.zeros_like(value)
    return np.zeros(value.shape, jax.dtypes.float0)


def _undefined(value: Any, reason: str) -> Any:
    """Return the value; differentiating with respect to it raises `NotDifferentiable`."""
    import jax

    def refuse(_: None, __: Any) -> Sequence[Any]:
        raise NotDifferentiable(reason)

    function = jax.custom_vjp(lambda x: x)
    function.defvjp(lambda x: (x, None), refuse)
    return function(value)
