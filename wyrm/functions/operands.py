"""What functions share: operands, which are nodes, arrays or numbers; their errors and types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, cast, overload

from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import AxisLike
from wyrm.graph.base import describe
from wyrm.graph.leaves import Constant
from wyrm.graph.node import Node
from wyrm.graph.source_location import user_location
from wyrm.graph.typing import Array, AtLeast1D, Bs, N, Number, OfShape, Shaped
from wyrm.ops.elementwise.elementwise import L, operand

# The axes of an operand that is a node; for numbers, type checkers infer the default.
S = TypeVar("S", default=Any)
# Numbers that become a constant.
Numbers: TypeAlias = Number | Array | Sequence[float] | Sequence[Sequence[float]]
Operand: TypeAlias = Node[Any, S] | Numbers


def as_nodes(*operands: Operand) -> tuple[Node, ...]:
    """Return the operands as nodes; numbers, arrays and lists take the float dtype of the first node.

    Raise `TypeError` for an operand that does not hold numbers.
    """
    given = [
        as_array(each, f"operand {position}") if isinstance(each, list | tuple) else each
        for position, each in enumerate(operands)
    ]
    beside = next((each for each in given if isinstance(each, Node)), None)
    if beside is None:
        first: Any = given[0]
        beside = given[0] = Constant(first)
    return tuple(operand(each, beside) for each in given)


def as_node(operand: Operand) -> Node:
    """Return the operand as a node, as `as_nodes` does."""
    return as_nodes(operand)[0]


def shape_error(name: str, reason: str, operands: Sequence[Node]) -> ShapeError:
    """Return the error for operands that a function does not accept, with the user's line."""
    lines = [f"{name}: {reason}", *(f"  operand {i}  {describe(each)}" for i, each in enumerate(operands))]
    where = user_location()
    return ShapeError("\n".join([*lines, f"  at {where.filename}:{where.line}: {where.source}"]))


class ReductionFunction(Protocol):
    """A function that reduces the axes `axis`, all by default."""

    @overload
    def __call__(
        self, a: Shaped[L, S], axis: None = None, keepdims: Literal[False] = False
    ) -> Node[Any, tuple[()]]: ...
    @overload
    def __call__(self, a: Shaped[L, AtLeast1D], axis: AxisLike = None, keepdims: bool = False) -> Node: ...
    @overload
    def __call__(
        self, a: OfShape[L, tuple[*Bs, N]], axis: Literal[-1], keepdims: Literal[False] = False
    ) -> Node[Any, tuple[*Bs]]: ...
    @overload
    def __call__(
        self, a: OfShape[L, tuple[N, *Bs]], axis: Literal[0], keepdims: Literal[False] = False
    ) -> Node[Any, tuple[*Bs]]: ...
    @overload
    def __call__(self, a: Operand, axis: AxisLike = None, keepdims: bool = False) -> Node: ...


def reduction(function: Callable[[Operand, AxisLike, bool], Node]) -> ReductionFunction:
    """Declare that a function reduces axes: for the axes that a type checker knows, it knows those of the result."""
    return cast(ReductionFunction, function)
