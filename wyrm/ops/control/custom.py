"""A node with a user-defined gradient, and its form for JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wyrm.errors import NotDifferentiable
from wyrm.graph.base import ZERO, BaseNode, Gradient, S, Undefined, explain, label
from wyrm.graph.jax_form import JAX, JaxForm, Lowering
from wyrm.graph.leaves import Constant
from wyrm.graph.node import Node
from wyrm.graph.traversal import topological_order
from wyrm.ops.control.pass_through import Transparent
from wyrm.ops.subgraph import placeholder_like
from wyrm.support.imports import jax


class GradientRule:
    """A callable that maps the parents and the cotangent to the gradients of the function called `name`."""

    def __init__(self, name: str, function: Callable[[tuple[Any, ...], Node], object]) -> None:
        self.name = name
        self.function = function

    def __call__(self, parents: tuple[BaseNode, ...], gradient: Node) -> object:
        return self.function(parents, gradient)

    def __repr__(self) -> str:
        return f"<gradient rule of {self.name}>"


class Custom(Transparent[S]):
    """The first parent; `rule(parents, gradient)` is the gradient with respect to the `count` parents after it.

    The next parents are residuals, whose gradient is zero. The last `outside` parents are nodes that the function
    closes over; a gradient with respect to them is an error.
    """

    __slots__ = ("count", "outside", "rule")
    count: int
    outside: int
    rule: Callable[[tuple[Any, ...], Node], object]

    def __init__(
        self,
        result: BaseNode,
        *parents: Node,
        count: int,
        rule: Callable[[tuple[Any, ...], Node], object],
        outside: int = 0,
    ) -> None:
        self._construct((result, *parents), count=count, rule=rule, outside=outside)

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        return None  # the rule is written for one row

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        used = len(self.parents) - self.outside
        gradients = self.rule(self.parents[1:used], gradient)
        if not isinstance(gradients, tuple) or len(gradients) != self.count:
            raise NotDifferentiable(
                explain(self, f"the custom derivative must return a tuple of {self.count} gradients, not {gradients!r}")
            )
        undefined = Undefined("a function with a custom derivative closes over it; pass it as an argument")
        return ZERO, *gradients, *[ZERO] * (used - 1 - self.count), *[undefined] * self.outside


@JAX.register(Custom)
class _CustomForm(JaxForm):
    """The first parent, whose gradient is that of the rule also where JAX computes it."""

    def lower(self, node: Any, operands: Sequence[Any], shape: tuple[int, ...], lowering: Lowering) -> Any:
        def forward(value: Any, *parents: Any) -> tuple[Any, tuple[Any, ...]]:
            used = len(parents) - node.outside
            for parent, primal in zip(node.parents[1 + used :], parents[used:], strict=True):
                if primal.perturbed:
                    text = f"it closes over {label(parent)}, whose gradient its rule leaves out; pass it as an argument"
                    raise NotDifferentiable(explain(node, text))
            return value.value, tuple(parent.value for parent in parents)

        def backward(parents: tuple[Any, ...], cotangent: Any) -> tuple[Any, ...]:
            return None, *_gradients_of_rule(node, parents, cotangent, lowering)

        wrapped = jax.custom_vjp(lambda value, *_: value)
        wrapped.defvjp(forward, backward, symbolic_zeros=True)
        return wrapped(jax.lax.stop_gradient(operands[0]), *operands[1:])


def _gradients_of_rule(node: Any, parents: Sequence[Any], cotangent: Any, lowering: Lowering) -> list[Any]:
    """Return the gradients that the rule of a `Custom` gives for the values of its parents, None for zero."""
    if isinstance(cotangent, jax.custom_derivatives.SymbolicZero):
        return [None] * len(parents)
    gradient: Node = placeholder_like(node, node.dims, "gradient")
    inputs = [placeholder_like(parent, parent.dims, label(parent)) for parent in node.parents]
    known: dict[BaseNode, Any] = dict(zip([gradient, *inputs[1:]], [cotangent, *parents], strict=True))
    found = node.rebuild(inputs).vjp(gradient)[1:]
    outputs = [x for x in found if isinstance(x, Node)]
    for leaf in topological_order(outputs):
        if leaf.is_leaf and leaf not in known and not isinstance(leaf, Constant):
            text = f"its rule closes over {label(leaf)}, which JAX cannot follow; pass it as an argument or a residual"
            raise NotDifferentiable(explain(node, text))
    values = iter(lowering.outputs(outputs, known))
    return [next(values) if isinstance(x, Node) else None for x in found]
