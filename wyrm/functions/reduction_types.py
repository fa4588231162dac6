"""The types of functions that reduce axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol, cast, overload

from wyrm.functions.operands import Operand
from wyrm.graph.axes import AxisLike
from wyrm.graph.node import Node
from wyrm.graph.typing import AtLeast1D, Bs, N, Shaped
from wyrm.ops.elementwise.elementwise import L, S


class Reduction(Protocol):
    """A function that reduces the axes `axis`, all by default."""

    @overload
    def __call__(
        self, a: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False
    ) -> Node[Any, tuple[()]]: ...
    @overload
    def __call__(self, a: Shaped[L, AtLeast1D], axis: AxisLike = None, keepdims: bool = False) -> Node: ...
    @overload
    def __call__(
        self, a: Shaped[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False
    ) -> Node[Any, tuple[*Bs]]: ...
    @overload
    def __call__(
        self, a: Shaped[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False
    ) -> Node[Any, tuple[*Bs]]: ...
    @overload
    def __call__(self, a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node: ...


def reduction(function: Callable[[Operand, AxisLike, bool], Node]) -> Reduction:
    """Declare that a function reduces axes: for the axes that a type checker knows, it knows those of the result."""
    return cast(Reduction, function)
