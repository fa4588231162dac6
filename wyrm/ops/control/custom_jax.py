"""Nodes with a user-defined gradient as JAX computes and differentiates them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wyrm.errors import NotDifferentiable
from wyrm.graph.base import BaseNode, explain, label
from wyrm.graph.jax_form import JaxForm, Lowering
from wyrm.graph.leaves import Constant
from wyrm.graph.node import Node
from wyrm.graph.traversal import topological_order
from wyrm.ops.control.loop_body import placeholder_like


class CustomForm(JaxForm):
    """The lowering of `Custom`; the gradient that JAX computes of the value is that of the rule too."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        import jax

        def forward(value: Any, *parents: Any) -> tuple[Any, tuple[Any, ...]]:
            used = len(parents) - node.outside
            for parent, primal in zip(node.parents[1 + used :], parents[used:], strict=True):
                if primal.perturbed:
                    text = f"it closes over {label(parent)}, whose gradient its rule leaves out; pass it as an argument"
                    raise NotDifferentiable(explain(node, text))
            return value.value, tuple(parent.value for parent in parents)

        def backward(parents: tuple[Any, ...], cotangent: Any) -> tuple[Any, ...]:
            return None, *_gradients(node, parents, cotangent, lowering)

        wrapped = jax.custom_vjp(lambda value, *_: value)
        wrapped.defvjp(forward, backward, symbolic_zeros=True)
        return wrapped(jax.lax.stop_gradient(operands[0]), *operands[1:])


def _gradients(node: Any, parents: Sequence[Any], cotangent: Any, lowering: Lowering) -> list[Any]:
    """Return the gradients that the rule of a `Custom` gives for the values of its parents, None for zero."""
    import jax

    if isinstance(cotangent, jax.custom_derivatives.SymbolicZero):
        return [None] * len(parents)
    gradient: Node = placeholder_like(node, node.dims, "gradient")
    inputs = [placeholder_like(parent, parent.dims, label(parent)) for parent in node.parents]
    known: dict[BaseNode, Any] = dict(zip([gradient, *inputs[1:]], [cotangent, *parents], strict=True))
    found = type(node).rebuild(tuple(inputs), node.attribute_values(), node.name).vjp(gradient)[1:]
    outputs = [x for x in found if isinstance(x, Node)]
    for leaf in topological_order(outputs):
        if leaf.is_leaf and leaf not in known and not isinstance(leaf, Constant):
            text = f"its rule closes over {label(leaf)}, which JAX cannot follow; pass it as an argument or a residual"
            raise NotDifferentiable(explain(node, text))
    values = iter(lowering.outputs(outputs, known))
    return [next(values) if isinstance(x, Node) else None for x in found]


__all__ = ["CustomForm"]
