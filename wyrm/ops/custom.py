"""A value with a gradient that its author has written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wyrm.errors import NotDifferentiable
from wyrm.node.base import ZERO, BaseNode, Gradient, S, Undefined, explain
from wyrm.node.node import Node
from wyrm.ops.pass_through import Transparent


class GradientRule:
    """What computes the gradients of the function called `name`: of its parents and the gradient by its result."""

    def __init__(self, name: str, function: Callable[[tuple[Any, ...], Node], object]) -> None:
        self.name, self.function = name, function

    def __call__(self, parents: tuple[BaseNode, ...], gradient: Node) -> object:
        return self.function(parents, gradient)

    def __repr__(self) -> str:
        return f"<derivative of {self.name}>"


class Custom(Transparent[S]):
    """The first parent, whose gradient by the `count` parents after it is `rule(parents, gradient)`.

    Parents after those are what the rule keeps of the forward pass, to which nothing flows, and last `outside` nodes
    that the function closes over, by which there is no gradient.
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

    def _own(self) -> Custom[S]:
        return self

    def batched(self, operands: Sequence[Node], mapped: Sequence[bool]) -> Node | None:
        return None  # the derivative is that of one row

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        used = len(self.parents) - self.outside
        found = self.rule(self.parents[1:used], gradient)
        if not isinstance(found, tuple) or len(found) != self.count:
            raise NotDifferentiable(
                explain(self, f"the custom derivative returned {found!r}; return a tuple of {self.count} gradients")
            )
        closed = Undefined("a function with a custom derivative closes over it; hand it over as an argument")
        return ZERO, *found, *[ZERO] * (used - 1 - self.count), *[closed] * self.outside
