"""A node with a user-defined gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wyrm.errors import NotDifferentiable
from wyrm.graph.base import ZERO, BaseNode, Gradient, S, Undefined, explain
from wyrm.graph.jax_form import JAX
from wyrm.graph.node import Node
from wyrm.ops.control.custom_jax import CustomForm
from wyrm.ops.control.pass_through import Transparent


class GradientRule:
    """A callable that maps the parents and the cotangent to the gradients of the function called `name`."""

    def __init__(self, name: str, function: Callable[[tuple[Any, ...], Node], object]) -> None:
        self.name, self.function = name, function

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


JAX.register(Custom)(CustomForm)
