"""Lowering for functions that JAX differentiates: derivatives are those of the graph, checkpoints are recomputed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from wyrm.engines.jax.host import evaluated_in_numpy, must_call
from wyrm.engines.jax.lower import Lowerer, dense
from wyrm.errors import NotDifferentiable
from wyrm.graph.axes import resolve
from wyrm.graph.base import BaseNode, Undefined, explain, label
from wyrm.graph.index_leaves import IndexConstant, IndexInput
from wyrm.graph.jax_form import JAX
from wyrm.graph.leaves import Constant, Input
from wyrm.graph.schedule import Schedule
from wyrm.ops.elementwise.formula import parse
from wyrm.ops.kernels.loops_jax import varying_as
from wyrm.ops.random.philox import Counter
from wyrm.support.imports import jax, jnp

# Functions made of pieces: where two meet, JAX may choose another derivative than wyrm; where one is infinite, NaN.
_PIECEWISE = frozenset([
    "abs", "copysign", "floor_divide", "fmod", "hypot", "maximum", "minimum", "power", "remainder", "sign", "where",
])  # fmt: skip


class DifferentiableLowerer(Lowerer):
    """Lowers nodes to code whose derivatives by JAX are those of the graph, to any order.

    JAX differentiates most ops to the same values. Elementwise ops made of pieces, such as `relu`, get a `custom_jvp`
    with wyrm's derivative; ops whose form asks for it (`own_gradient`) get one too where `own_tangent` says so, else a
    `custom_vjp`, for reverse mode alone, as those that JAX cannot trace do.
    """

    @property
    def differentiable(self) -> bool:
        """Whether JAX may differentiate the function."""
        return True

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
                elif JAX.of(node).recomputes:
                    leaves = {node: values[j] for j, node in enumerate(schedule.nodes[:i]) if node.is_leaf}
                    values[i] = self._recomputed(node, [values[p] for p in parents[1:]], leaves)
                else:
                    values[i] = self.value(node, [values[p] for p in parents])
        return [dense(values[schedule.position[output]]) for output in schedule.outputs]

    def value(self, node: BaseNode, operands: list[Any]) -> Any:
        """Return the value of a node from those of its parents."""
        if self._calls_numpy(node, operands):
            return self._with_own_gradient(node, operands)
        if (form := JAX.of(node)).own_gradient(node):
            with_own = self._with_own_tangent if form.own_tangent else self._with_own_gradient
            return with_own(node, operands)
        if node.formula and node.dtype.kind == "f" and _is_piecewise(node.formula):
            return self._with_own_derivative(node, operands)
        return super().value(node, operands)

    def _calls_numpy(self, node: BaseNode, operands: Sequence[Any]) -> bool:
        """Return whether the value is computed by NumPy code, which JAX cannot differentiate."""
        if type(node).__module__.startswith("wyrm.") or not evaluated_in_numpy(node):
            return False
        return must_call(node, [dense(x) for x in operands], resolve(node.dims, self.sizes), self)

    def _recomputed(self, node: BaseNode, used: list[Any], leaves: dict[BaseNode, Any]) -> Any:
        """Return the value of a `wy.checkpoint`, which the backward pass computes again."""
        result, *inputs = node.parents

        def function(*values: Any) -> Any:
            return self.outputs([result], {**leaves, **dict(zip(inputs, values, strict=True))})[0]

        return jax.checkpoint(function)(*used)

    def _with_own_derivative(self, node: BaseNode, operands: list[Any]) -> Any:
        """Return the value of an elementwise node, whose derivative is that of its `vjp`."""

        def plain(*values: Any) -> Any:
            return Lowerer.value(self, node, list(values))

        function: Any = jax.custom_jvp(plain)

        def derivative(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            value = function(*primals)
            total = jnp.zeros_like(value)
            twin, gradient = _twin(node)
            parts = twin.vjp(gradient)
            for parent, part, tangent in zip(node.parents, parts, tangents, strict=True):
                if isinstance(tangent, jax.custom_derivatives.SymbolicZero) or parent.dtype.kind != "f":
                    continue
                if isinstance(part, Undefined):
                    raise NotDifferentiable(explain(node, f"no gradient for {label(parent)}: {part.reason}"))
                if isinstance(part, BaseNode):
                    # Elementwise Jacobians are diagonal, so the vjp is also the jvp.
                    known = {**dict(zip(twin.parents, primals, strict=True)), twin: value}
                    known[gradient] = jnp.broadcast_to(tangent, value.shape)
                    total += self.outputs([part], known)[0]
            return value, total

        function.defjvp(derivative, symbolic_zeros=True)
        return function(*operands)

    def _with_own_gradient(self, node: BaseNode, operands: list[Any]) -> Any:
        """Return the value of a node whose gradient is that of its `vjp`."""
        twin, gradient = _twin(node)
        parts = twin.vjp(gradient)

        def plain(*values: Any) -> Any:
            return Lowerer.value(self, node, list(values))

        function: Any = jax.custom_vjp(plain)

        def forward(*primals: Any) -> tuple[Any, Any]:
            for parent, primal, part in zip(node.parents, primals, parts, strict=True):
                perturbed = any(each.perturbed for each in jax.tree.leaves(primal, is_leaf=_is_primal))
                if perturbed and isinstance(part, Undefined):
                    raise NotDifferentiable(explain(node, f"no gradient for {label(parent)}: {part.reason}"))
            values = jax.tree.map(lambda primal: primal.value, primals, is_leaf=_is_primal)
            value = function(*values)
            return value, (values, value)

        def backward(kept: Any, cotangent: Any) -> tuple[Any, ...]:
            values, value = kept
            nodes = {i: part for i, part in enumerate(parts) if isinstance(part, BaseNode)}
            known = {
                **dict(zip(twin.parents, values, strict=True)),
                twin: value,
                gradient: dense(jax.tree.map(_materialized, cotangent)),
            }
            found = dict(zip(nodes, self.outputs(list(nodes.values()), known), strict=True))
            return tuple(found.get(i) for i in range(len(values)))

        function.defvjp(forward, backward, symbolic_zeros=True)
        return function(*operands)

    def _with_own_tangent(self, node: BaseNode, operands: list[Any]) -> Any:
        """Return the value of a node whose gradient is that of its `vjp`, and whose tangent JAX knows too.

        The tangent is the transpose of the `vjp`, which is linear in the cotangent.
        """
        twin, gradient = _twin(node)
        parts = twin.vjp(gradient)

        def plain(*values: Any) -> Any:
            return Lowerer.value(self, node, list(values))

        function: Any = jax.custom_jvp(plain)

        def derivative(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
            value = function(*primals)
            moving: dict[int, BaseNode] = {}
            for i, (parent, part, tangent) in enumerate(zip(node.parents, parts, tangents, strict=True)):
                if isinstance(tangent, jax.custom_derivatives.SymbolicZero):
                    continue
                if isinstance(part, Undefined):
                    raise NotDifferentiable(explain(node, f"no gradient for {label(parent)}: {part.reason}"))
                if isinstance(part, BaseNode) and parent.dtype.kind == "f":
                    moving[i] = part

            def pulled_back(cotangent: Any) -> list[Any]:
                known = {**dict(zip(twin.parents, primals, strict=True)), twin: value, gradient: dense(cotangent)}
                return self.outputs(list(moving.values()), known)

            if not moving:
                return value, jax.tree.map(jnp.zeros_like, value)
            zero = jax.tree.map(jnp.zeros_like, value)
            pulled, transposed = jax.vjp(pulled_back, zero)
            (tangent,) = transposed(list(map(varying_as, (tangents[i] for i in moving), pulled)))
            return value, tangent

        function.defjvp(derivative, symbolic_zeros=True)
        return function(*operands)


def _is_primal(x: Any) -> bool:
    """Return whether this is an argument of a function with its own gradient; arrays of one operand are several."""
    return hasattr(x, "perturbed")


def _materialized(cotangent: Any) -> Any:
    """Return a cotangent as an array, also one that JAX knows to be zero."""
    if isinstance(cotangent, jax.custom_derivatives.SymbolicZero):
        zero: Any = cotangent
        return jnp.zeros(zero.shape, zero.dtype)
    return cotangent


@cache
def _is_piecewise(formula: str) -> bool:
    """Return whether JAX's derivative of a formula may differ from wyrm's."""
    functions = [call.function for call in parse(formula)]
    return functions != ["where"] and not _PIECEWISE.isdisjoint(functions)


def _needed(schedule: Schedule, given: Mapping[int, Any]) -> set[int]:
    """Return the positions of nodes that the outputs need, given the values at some positions.

    A checkpoint does not need its first parent, the result, which it computes itself.
    """
    needed = {schedule.position[output] for output in schedule.outputs}
    for i in range(len(schedule.nodes) - 1, -1, -1):
        if i in needed and i not in given:
            needed.update(schedule.parent_positions[i][JAX.of(schedule.nodes[i]).recomputes :])
    return needed


def _twin(node: BaseNode) -> tuple[BaseNode, Any]:
    """Return a copy of the node whose parents are placeholders or constants, and a placeholder for its cotangent.

    The key of a draw stays as it is: no leaf has its dtype.
    """
    parents = tuple(
        parent if isinstance(parent, Constant | IndexConstant | Counter) or parent.dtype == np.uint32
        else IndexInput(dims=parent.dims) if parent.dtype.kind in "iu"
        else Input(dims=parent.dims, dtype=parent.dtype, finite=False)
        for parent in node.parents
    )  # fmt: skip
    gradient: Any = Input(dims=node.dims, dtype=np.dtype(node.dtype), finite=False)
    return node.rebuild(parents), gradient
