"""A value with a gradient that its author has written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic

from typing_extensions import TypeVar

from wyrm.errors import NotDifferentiable
from wyrm.node.base import ZERO, explain
from wyrm.ops.passing import Transparent

S = TypeVar("S", bound=tuple[Any, ...], default=Any)


class Custom(Transparent[S], Generic[S]):
    """The first parent, whose gradient by the `count` parents after it is `rule(parents, gradient)`.

    Parents after those are what the rule keeps of the forward pass; nothing flows to them.
    """

    __slots__ = ("count", "rule")
    count: int
    rule: Callable[[tuple[Any, ...], Any], Any]

    def __init__(self, result: Any, *parents: Any, count: int, rule: Callable[..., Any]) -> None:
        self._construct((result, *parents), count=count, rule=rule)

    def _own(self) -> Custom[S]:
        return self

    def batched(self, operands: Sequence[Any], mapped: Sequence[bool]) -> Any:
        return None  # the derivative is that of one row

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        found = self.rule(self.parents[1:], gradient)
        if not isinstance(found, tuple) or len(found) != self.count:
            raise NotDifferentiable(
                explain(self, f"the custom derivative returned {found!r}; return a tuple of {self.count} gradients")
            )
        return ZERO, *found, *[ZERO] * (len(self.parents) - 1 - self.count)
