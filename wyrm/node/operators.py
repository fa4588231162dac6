"""The operators of nodes, as the type checker sees them.

Written by `python -m wyrm.declare` from the ops, which bind the methods themselves; edit those, not this file. A class
is called like the one that inherits it, for mypy's messages name the class that declares a method.
"""

# mypy: disable-error-code="overload-overlap, misc, override"
# (the overload for an unknown shape overlaps with those for known ones, and stands first on purpose; that only nodes
# inherit these methods, the types of `self` do not know; `==` makes a mask of a node or a number, where that of
# `object` takes anything and gives a bool)
from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import EllipsisType
    from typing import Any, overload

    from wyrm.node.leaves import Constant
    from wyrm.ops.arithmetic import Absolute, Add, Divide, Multiply, Negative, Power, Subtract
    from wyrm.ops.comparison import (
        Equal,
        Greater,
        GreaterEqual,
        Less,
        LessEqual,
        LogicalAnd,
        LogicalNot,
        LogicalOr,
        NotEqual,
    )
    from wyrm.ops.elementwise import L, R, S
    from wyrm.ops.product import MatMul
    from wyrm.ops.slicing import All, Key_, Slice
    from wyrm.types.dims import One
    from wyrm.types.typing import A, Array, AtLeast1D, Bs, FittingShape, K, M, N, Number, Shaped


class Node:
    """What ops give to `Node`, which is the `x` of these descriptions."""

    __slots__ = ()

    if TYPE_CHECKING:

        @overload
        def __add__(self: Shaped[L, S], other: Number | Array) -> Add[L, Constant[Any], S]: ...

        @overload
        def __add__(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> Add[L, R, Any]: ...

        @overload
        def __add__(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> Add[L, R, S]: ...

        @overload
        def __add__(
            self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
        ) -> Add[L, R, tuple[*Bs, N]]: ...

        @overload
        def __add__(
            self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
        ) -> Add[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __add__(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> Add[L, R, S]: ...

        @overload
        def __add__(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> Add[L, R, tuple[*Bs, N]]: ...

        @overload
        def __add__(self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]) -> Add[L, R, tuple[*Bs, N]]: ...

        @overload
        def __add__(
            self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
        ) -> Add[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __add__(
            self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
        ) -> Add[L, R, Any]: ...

        @overload
        def __add__(
            self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]
        ) -> Add[L, R, Any]: ...

        def __add__(self, other: Any) -> Any:
            """`x + y`."""

        def __radd__(self: Shaped[L, S], other: Number | Array) -> Add[Constant[Any], L, S]:
            """`x + y`."""

        @overload
        def __sub__(self: Shaped[L, S], other: Number | Array) -> Subtract[L, Constant[Any], S]: ...

        @overload
        def __sub__(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> Subtract[L, R, Any]: ...

        @overload
        def __sub__(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> Subtract[L, R, S]: ...

        @overload
        def __sub__(
            self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
        ) -> Subtract[L, R, tuple[*Bs, N]]: ...

        @overload
        def __sub__(
            self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
        ) -> Subtract[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __sub__(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> Subtract[L, R, S]: ...

        @overload
        def __sub__(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> Subtract[L, R, tuple[*Bs, N]]: ...

        @overload
        def __sub__(
            self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]
        ) -> Subtract[L, R, tuple[*Bs, N]]: ...

        @overload
        def __sub__(
            self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
        ) -> Subtract[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __sub__(
            self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
        ) -> Subtract[L, R, Any]: ...

        @overload
        def __sub__(
            self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]
        ) -> Subtract[L, R, Any]: ...

        def __sub__(self, other: Any) -> Any:
            """`x - y`."""

        def __rsub__(self: Shaped[L, S], other: Number | Array) -> Subtract[Constant[Any], L, S]:
            """`x - y`."""

        @overload
        def __mul__(self: Shaped[L, S], other: Number | Array) -> Multiply[L, Constant[Any], S]: ...

        @overload
        def __mul__(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> Multiply[L, R, Any]: ...

        @overload
        def __mul__(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> Multiply[L, R, S]: ...

        @overload
        def __mul__(
            self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
        ) -> Multiply[L, R, tuple[*Bs, N]]: ...

        @overload
        def __mul__(
            self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
        ) -> Multiply[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __mul__(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> Multiply[L, R, S]: ...

        @overload
        def __mul__(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> Multiply[L, R, tuple[*Bs, N]]: ...

        @overload
        def __mul__(
            self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]
        ) -> Multiply[L, R, tuple[*Bs, N]]: ...

        @overload
        def __mul__(
            self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
        ) -> Multiply[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __mul__(
            self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
        ) -> Multiply[L, R, Any]: ...

        @overload
        def __mul__(
            self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]
        ) -> Multiply[L, R, Any]: ...

        def __mul__(self, other: Any) -> Any:
            """`x * y`."""

        def __rmul__(self: Shaped[L, S], other: Number | Array) -> Multiply[Constant[Any], L, S]:
            """`x * y`."""

        @overload
        def __truediv__(self: Shaped[L, S], other: Number | Array) -> Divide[L, Constant[Any], S]: ...

        @overload
        def __truediv__(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> Divide[L, R, Any]: ...

        @overload
        def __truediv__(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> Divide[L, R, S]: ...

        @overload
        def __truediv__(
            self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
        ) -> Divide[L, R, tuple[*Bs, N]]: ...

        @overload
        def __truediv__(
            self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
        ) -> Divide[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __truediv__(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> Divide[L, R, S]: ...

        @overload
        def __truediv__(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> Divide[L, R, tuple[*Bs, N]]: ...

        @overload
        def __truediv__(
            self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]
        ) -> Divide[L, R, tuple[*Bs, N]]: ...

        @overload
        def __truediv__(
            self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
        ) -> Divide[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __truediv__(
            self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
        ) -> Divide[L, R, Any]: ...

        @overload
        def __truediv__(
            self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]
        ) -> Divide[L, R, Any]: ...

        def __truediv__(self, other: Any) -> Any:
            """`x / y`."""

        def __rtruediv__(self: Shaped[L, S], other: Number | Array) -> Divide[Constant[Any], L, S]:
            """`x / y`."""

        @overload
        def __pow__(self: Shaped[L, S], other: Number | Array) -> Power[L, Constant[Any], S]: ...

        @overload
        def __pow__(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> Power[L, R, Any]: ...

        @overload
        def __pow__(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> Power[L, R, S]: ...

        @overload
        def __pow__(
            self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
        ) -> Power[L, R, tuple[*Bs, N]]: ...

        @overload
        def __pow__(
            self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
        ) -> Power[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __pow__(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> Power[L, R, S]: ...

        @overload
        def __pow__(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> Power[L, R, tuple[*Bs, N]]: ...

        @overload
        def __pow__(
            self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]
        ) -> Power[L, R, tuple[*Bs, N]]: ...

        @overload
        def __pow__(
            self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
        ) -> Power[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __pow__(
            self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
        ) -> Power[L, R, Any]: ...

        @overload
        def __pow__(
            self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]
        ) -> Power[L, R, Any]: ...

        def __pow__(self, other: Any) -> Any:
            """`x ** y`. By `x` the derivative at `y = 0` is 0; by `y` that at `x = 0` is 0 for `y >= 0`, else -inf."""

        def __rpow__(self: Shaped[L, S], other: Number | Array) -> Power[Constant[Any], L, S]:
            """`x ** y`. By `x` the derivative at `y = 0` is 0; by `y` that at `x = 0` is 0 for `y >= 0`, else -inf."""

        def __neg__(self: Shaped[L, S]) -> Negative[L, S]:
            """`-x`."""

        def __abs__(self: Shaped[L, S]) -> Absolute[L, S]:
            """`|x|`; its derivative at 0 is 0."""

        @overload
        def __lt__(self: Shaped[L, S], other: Number | Array) -> Less[L, Constant[Any], S]: ...

        @overload
        def __lt__(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> Less[L, R, Any]: ...

        @overload
        def __lt__(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> Less[L, R, S]: ...

        @overload
        def __lt__(
            self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
        ) -> Less[L, R, tuple[*Bs, N]]: ...

        @overload
        def __lt__(
            self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
        ) -> Less[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __lt__(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> Less[L, R, S]: ...

        @overload
        def __lt__(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> Less[L, R, tuple[*Bs, N]]: ...

        @overload
        def __lt__(self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]) -> Less[L, R, tuple[*Bs, N]]: ...

        @overload
        def __lt__(
            self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
        ) -> Less[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __lt__(
            self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
        ) -> Less[L, R, Any]: ...

        @overload
        def __lt__(
            self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]
        ) -> Less[L, R, Any]: ...

        def __lt__(self, other: Any) -> Any:
            """`x < y`."""

        @overload
        def __le__(self: Shaped[L, S], other: Number | Array) -> LessEqual[L, Constant[Any], S]: ...

        @overload
        def __le__(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> LessEqual[L, R, Any]: ...

        @overload
        def __le__(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> LessEqual[L, R, S]: ...

        @overload
        def __le__(
            self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
        ) -> LessEqual[L, R, tuple[*Bs, N]]: ...

        @overload
        def __le__(
            self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
        ) -> LessEqual[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __le__(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> LessEqual[L, R, S]: ...

        @overload
        def __le__(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> LessEqual[L, R, tuple[*Bs, N]]: ...

        @overload
        def __le__(
            self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]
        ) -> LessEqual[L, R, tuple[*Bs, N]]: ...

        @overload
        def __le__(
            self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
        ) -> LessEqual[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __le__(
            self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
        ) -> LessEqual[L, R, Any]: ...

        @overload
        def __le__(
            self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]
        ) -> LessEqual[L, R, Any]: ...

        def __le__(self, other: Any) -> Any:
            """`x <= y`."""

        @overload
        def __gt__(self: Shaped[L, S], other: Number | Array) -> Greater[L, Constant[Any], S]: ...

        @overload
        def __gt__(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> Greater[L, R, Any]: ...

        @overload
        def __gt__(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> Greater[L, R, S]: ...

        @overload
        def __gt__(
            self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
        ) -> Greater[L, R, tuple[*Bs, N]]: ...

        @overload
        def __gt__(
            self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
        ) -> Greater[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __gt__(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> Greater[L, R, S]: ...

        @overload
        def __gt__(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> Greater[L, R, tuple[*Bs, N]]: ...

        @overload
        def __gt__(
            self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]
        ) -> Greater[L, R, tuple[*Bs, N]]: ...

        @overload
        def __gt__(
            self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
        ) -> Greater[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __gt__(
            self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
        ) -> Greater[L, R, Any]: ...

        @overload
        def __gt__(
            self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]
        ) -> Greater[L, R, Any]: ...

        def __gt__(self, other: Any) -> Any:
            """`x > y`."""

        @overload
        def __ge__(self: Shaped[L, S], other: Number | Array) -> GreaterEqual[L, Constant[Any], S]: ...

        @overload
        def __ge__(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> GreaterEqual[L, R, Any]: ...

        @overload
        def __ge__(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> GreaterEqual[L, R, S]: ...

        @overload
        def __ge__(
            self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
        ) -> GreaterEqual[L, R, tuple[*Bs, N]]: ...

        @overload
        def __ge__(
            self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
        ) -> GreaterEqual[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __ge__(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> GreaterEqual[L, R, S]: ...

        @overload
        def __ge__(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> GreaterEqual[L, R, tuple[*Bs, N]]: ...

        @overload
        def __ge__(
            self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]
        ) -> GreaterEqual[L, R, tuple[*Bs, N]]: ...

        @overload
        def __ge__(
            self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
        ) -> GreaterEqual[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __ge__(
            self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
        ) -> GreaterEqual[L, R, Any]: ...

        @overload
        def __ge__(
            self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]
        ) -> GreaterEqual[L, R, Any]: ...

        def __ge__(self, other: Any) -> Any:
            """`x >= y`."""

        @overload
        def __eq__(self: Shaped[L, S], other: Number | Array) -> Equal[L, Constant[Any], S]: ...

        @overload
        def __eq__(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> Equal[L, R, Any]: ...

        @overload
        def __eq__(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> Equal[L, R, S]: ...

        @overload
        def __eq__(
            self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
        ) -> Equal[L, R, tuple[*Bs, N]]: ...

        @overload
        def __eq__(
            self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
        ) -> Equal[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __eq__(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> Equal[L, R, S]: ...

        @overload
        def __eq__(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> Equal[L, R, tuple[*Bs, N]]: ...

        @overload
        def __eq__(self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]) -> Equal[L, R, tuple[*Bs, N]]: ...

        @overload
        def __eq__(
            self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
        ) -> Equal[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __eq__(
            self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
        ) -> Equal[L, R, Any]: ...

        @overload
        def __eq__(
            self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]
        ) -> Equal[L, R, Any]: ...

        def __eq__(self, other: Any) -> Any:
            """`x == y`."""

        @overload
        def __ne__(self: Shaped[L, S], other: Number | Array) -> NotEqual[L, Constant[Any], S]: ...

        @overload
        def __ne__(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> NotEqual[L, R, Any]: ...

        @overload
        def __ne__(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> NotEqual[L, R, S]: ...

        @overload
        def __ne__(
            self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
        ) -> NotEqual[L, R, tuple[*Bs, N]]: ...

        @overload
        def __ne__(
            self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
        ) -> NotEqual[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __ne__(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> NotEqual[L, R, S]: ...

        @overload
        def __ne__(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> NotEqual[L, R, tuple[*Bs, N]]: ...

        @overload
        def __ne__(
            self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]
        ) -> NotEqual[L, R, tuple[*Bs, N]]: ...

        @overload
        def __ne__(
            self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
        ) -> NotEqual[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __ne__(
            self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
        ) -> NotEqual[L, R, Any]: ...

        @overload
        def __ne__(
            self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]
        ) -> NotEqual[L, R, Any]: ...

        def __ne__(self, other: Any) -> Any:
            """`x != y`."""

        @overload
        def __and__(self: Shaped[L, S], other: Number | Array) -> LogicalAnd[L, Constant[Any], S]: ...

        @overload
        def __and__(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> LogicalAnd[L, R, Any]: ...

        @overload
        def __and__(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> LogicalAnd[L, R, S]: ...

        @overload
        def __and__(
            self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
        ) -> LogicalAnd[L, R, tuple[*Bs, N]]: ...

        @overload
        def __and__(
            self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
        ) -> LogicalAnd[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __and__(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> LogicalAnd[L, R, S]: ...

        @overload
        def __and__(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> LogicalAnd[L, R, tuple[*Bs, N]]: ...

        @overload
        def __and__(
            self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]
        ) -> LogicalAnd[L, R, tuple[*Bs, N]]: ...

        @overload
        def __and__(
            self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
        ) -> LogicalAnd[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __and__(
            self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
        ) -> LogicalAnd[L, R, Any]: ...

        @overload
        def __and__(
            self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]
        ) -> LogicalAnd[L, R, Any]: ...

        def __and__(self, other: Any) -> Any:
            """Both masks."""

        def __rand__(self: Shaped[L, S], other: Number | Array) -> LogicalAnd[Constant[Any], L, S]:
            """Both masks."""

        @overload
        def __or__(self: Shaped[L, S], other: Number | Array) -> LogicalOr[L, Constant[Any], S]: ...

        @overload
        def __or__(self: Shaped[L, S], other: Shaped[R, FittingShape]) -> LogicalOr[L, R, Any]: ...

        @overload
        def __or__(self: Shaped[L, S], other: Shaped[R, S] | Shaped[R, tuple[()]]) -> LogicalOr[L, R, S]: ...

        @overload
        def __or__(
            self: Shaped[L, tuple[*Bs, N]], other: Shaped[R, tuple[N]] | Shaped[R, tuple[*Bs, One]]
        ) -> LogicalOr[L, R, tuple[*Bs, N]]: ...

        @overload
        def __or__(
            self: Shaped[L, tuple[*Bs, M, N]], other: Shaped[R, tuple[M, N]]
        ) -> LogicalOr[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __or__(self: Shaped[L, tuple[()]], other: Shaped[R, S]) -> LogicalOr[L, R, S]: ...

        @overload
        def __or__(self: Shaped[L, tuple[N]], other: Shaped[R, tuple[*Bs, N]]) -> LogicalOr[L, R, tuple[*Bs, N]]: ...

        @overload
        def __or__(
            self: Shaped[L, tuple[*Bs, One]], other: Shaped[R, tuple[*Bs, N]]
        ) -> LogicalOr[L, R, tuple[*Bs, N]]: ...

        @overload
        def __or__(
            self: Shaped[L, tuple[M, N]], other: Shaped[R, tuple[*Bs, M, N]]
        ) -> LogicalOr[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __or__(
            self: Shaped[L, S], other: Shaped[R, tuple[One, M, *Bs]] | Shaped[R, tuple[A, One, M, *Bs]]
        ) -> LogicalOr[L, R, Any]: ...

        @overload
        def __or__(
            self: Shaped[L, tuple[One, M, *Bs]] | Shaped[L, tuple[A, One, M, *Bs]], other: Shaped[R, S]
        ) -> LogicalOr[L, R, Any]: ...

        def __or__(self, other: Any) -> Any:
            """Either mask."""

        def __ror__(self: Shaped[L, S], other: Number | Array) -> LogicalOr[Constant[Any], L, S]:
            """Either mask."""

        def __invert__(self: Shaped[L, S]) -> LogicalNot[L, S]:
            """The other elements."""

        @overload
        def __matmul__(self: Shaped[L, AtLeast1D], other: Shaped[R, S]) -> MatMul[L, R, Any]: ...

        @overload
        def __matmul__(self: Shaped[L, tuple[*Bs, K]], other: Shaped[R, FittingShape]) -> MatMul[L, R, Any]: ...

        @overload
        def __matmul__(
            self: Shaped[L, tuple[*Bs, K]], other: Shaped[R, tuple[K, N]]
        ) -> MatMul[L, R, tuple[*Bs, N]]: ...

        @overload
        def __matmul__(self: Shaped[L, tuple[*Bs, K]], other: Shaped[R, tuple[K]]) -> MatMul[L, R, tuple[*Bs]]: ...

        @overload
        def __matmul__(
            self: Shaped[L, tuple[*Bs, M, K]], other: Shaped[R, tuple[*Bs, K, N]]
        ) -> MatMul[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __matmul__(
            self: Shaped[L, tuple[K]], other: Shaped[R, tuple[*Bs, K, N]]
        ) -> MatMul[L, R, tuple[*Bs, N]]: ...

        @overload
        def __matmul__(
            self: Shaped[L, tuple[M, K]], other: Shaped[R, tuple[*Bs, K, N]]
        ) -> MatMul[L, R, tuple[*Bs, M, N]]: ...

        @overload
        def __matmul__(
            self: Shaped[L, tuple[A, *Bs, M, K]], other: Shaped[R, tuple[*Bs, K, N]]
        ) -> MatMul[L, R, tuple[A, *Bs, M, N]]: ...

        @overload
        def __matmul__(
            self: Shaped[L, tuple[*Bs, M, K]], other: Shaped[R, tuple[A, *Bs, K, N]]
        ) -> MatMul[L, R, tuple[A, *Bs, M, N]]: ...

        @overload
        def __matmul__(self: Shaped[L, tuple[*Bs, K]], other: Array) -> MatMul[L, Constant[Any], Any]: ...

        def __matmul__(self, other: Any) -> Any:
            """The matrix product, for every pair of ranks from 1; leading axes broadcast as in NumPy."""

        def __rmatmul__(self: Shaped[L, S], other: Array) -> MatMul[Constant[Any], L, Any]:
            """The matrix product of an array and a node."""

        @overload
        def __getitem__(self: Shaped[L, AtLeast1D], key: Key_) -> Slice[L, Any]: ...

        @overload
        def __getitem__(self: Shaped[L, tuple[N, *Bs]], key: int) -> Slice[L, tuple[*Bs]]: ...

        @overload
        def __getitem__(self: Shaped[L, tuple[N, *Bs]], key: slice) -> Slice[L, tuple[Any, *Bs]]: ...

        @overload
        def __getitem__(self: Shaped[L, tuple[*Bs]], key: None) -> Slice[L, tuple[One, *Bs]]: ...

        @overload
        def __getitem__(self: Shaped[L, tuple[M, *Bs]], key: tuple[All, None]) -> Slice[L, tuple[M, One, *Bs]]: ...

        @overload
        def __getitem__(self: Shaped[L, tuple[M, *Bs]], key: tuple[None, All]) -> Slice[L, tuple[One, M, *Bs]]: ...

        @overload
        def __getitem__(self: Shaped[L, tuple[*Bs]], key: tuple[EllipsisType, None]) -> Slice[L, tuple[*Bs, One]]: ...

        @overload
        def __getitem__(self: Shaped[L, tuple[M, N, *Bs]], key: tuple[int, All]) -> Slice[L, tuple[N, *Bs]]: ...

        @overload
        def __getitem__(self: Shaped[L, tuple[M, N, *Bs]], key: tuple[All, slice]) -> Slice[L, tuple[M, Any, *Bs]]: ...

        @overload
        def __getitem__(
            self: Shaped[L, tuple[M, N, K, *Bs]], key: tuple[All, All, int]
        ) -> Slice[L, tuple[M, N, *Bs]]: ...

        @overload
        def __getitem__(self: Shaped[L, tuple[M, N, *Bs]], key: tuple[int, int]) -> Slice[L, tuple[*Bs]]: ...

        @overload
        def __getitem__(self: Shaped[L, tuple[M, N, *Bs]], key: tuple[All, int]) -> Slice[L, tuple[M, *Bs]]: ...

        @overload
        def __getitem__(self: Shaped[L, tuple[*Bs, N]], key: tuple[EllipsisType, int]) -> Slice[L, tuple[*Bs]]: ...

        @overload
        def __getitem__(
            self: Shaped[L, tuple[*Bs, N]], key: tuple[EllipsisType, slice]
        ) -> Slice[L, tuple[*Bs, Any]]: ...

        @overload
        def __getitem__(self: Shaped[L, tuple[N, *Bs]], key: Key_) -> Slice[L, Any]: ...

        @overload
        def __getitem__(self: Shaped[L, tuple[()]], key: EllipsisType) -> Slice[L, Any]: ...

        def __getitem__(self, key: Any) -> Any:
            """A part of the node by numbers, ranges, `None` and `...`, as in NumPy; rows by indices are `take`."""
