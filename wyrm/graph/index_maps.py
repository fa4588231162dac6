"""Index expressions: integers that give the position of an element along an axis.

They are built with `+`, `-` and `*`. `0 + entry` and `1 * entry` are simplified to `entry`; nothing else is, so that a
program computes what an op writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, TypeAlias

from wyrm.graph.axes import Axis
from wyrm.support.records import Record


class IndexExpression(Record):
    """An integer expression."""

    __slots__ = ()
    # Whether its text needs no parentheses inside a larger expression.
    single: ClassVar[bool] = True

    def __add__(self, other: IndexExpression | int) -> IndexExpression:
        return SumOfIndices(self, _as_expression(other))

    def __radd__(self, other: int) -> IndexExpression:
        return SumOfIndices(IndexLiteral(other), self) if other else self

    def __sub__(self, other: IndexExpression | int) -> IndexExpression:
        return DifferenceOfIndices(self, _as_expression(other))

    def __mul__(self, other: IndexExpression | int) -> IndexExpression:
        return ProductOfIndices(self, _as_expression(other))

    def __rmul__(self, other: int) -> IndexExpression:
        return self if other == 1 else ProductOfIndices(IndexLiteral(other), self)

    def leaves(self) -> Iterator[IndexExpression]:
        """Yield the leaves of the expression, in the order in which they are written."""
        yield self

    def loops(self) -> int:
        """Return the number of nested loops in which its value is known; 0 if it is the same in all iterations."""
        return 0

    def replaced(self, becomes: Callable[[IndexExpression], IndexExpression]) -> IndexExpression:
        """Return the expression in which `becomes` maps every leaf."""
        return becomes(self)


IndexMap: TypeAlias = tuple[IndexExpression, ...]


class LoopIndex(IndexExpression):
    """The current index of the loop at a depth; the outermost loop has depth 0."""

    __slots__ = ("depth",)
    depth: int

    def loops(self) -> int:
        return self.depth + 1

    def __str__(self) -> str:
        return f"i{self.depth}"


class IndexLiteral(IndexExpression):
    """A constant."""

    __slots__ = ("value",)
    value: int

    def __str__(self) -> str:
        return str(self.value)


class AxisLength(IndexExpression):
    """The size of an axis, which may come from the data of a run."""

    __slots__ = ("axis",)
    axis: Axis

    def __str__(self) -> str:
        return f"size({self.axis!r})"


class IndexLoad(IndexExpression):
    """The integer at `position` of the parent with this number."""

    __slots__ = ("parent", "position")
    parent: int
    position: IndexMap

    def __str__(self) -> str:
        return f"parent{self.parent}[{', '.join(map(str, self.position))}]"


class IndexPair(IndexExpression):
    """An operation on two expressions."""

    __slots__ = ("left", "right")
    left: IndexExpression
    right: IndexExpression
    single = False

    def leaves(self) -> Iterator[IndexExpression]:
        yield from self.left.leaves()
        yield from self.right.leaves()

    def loops(self) -> int:
        return max(self.left.loops(), self.right.loops())

    def replaced(self, becomes: Callable[[IndexExpression], IndexExpression]) -> IndexExpression:
        return type(self)(self.left.replaced(becomes), self.right.replaced(becomes))


class SumOfIndices(IndexPair):
    """The sum of two expressions."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.left} + {self.right}"


class DifferenceOfIndices(IndexPair):
    """The difference of two expressions."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.left} - {_grouped(self.right)}"


class ProductOfIndices(IndexPair):
    """The product of two expressions."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{_grouped(self.left)} * {_grouped(self.right)}"


def _as_expression(value: IndexExpression | int) -> IndexExpression:
    return value if isinstance(value, IndexExpression) else IndexLiteral(value)


def _grouped(entry: IndexExpression) -> str:
    return str(entry) if entry.single else f"({entry})"


def loop_indices(rank: int) -> IndexMap:
    """Return the position inside one loop for each of `rank` axes.

    >>> [str(entry) for entry in loop_indices(2)]
    ['i0', 'i1']
    """
    return tuple(map(LoopIndex, range(rank)))


def flat(index: IndexMap, sizes: Sequence[IndexExpression | int]) -> IndexExpression:
    """Return the flat index of an element of an array of these sizes, in row-major order.

    >>> print(flat((LoopIndex(0), LoopIndex(1), IndexLiteral(2)), (4, 5, 6)))
    (i0 * 5 + i1) * 6 + 2
    """
    offset: IndexExpression | None = None
    for entry, size in zip(index, sizes, strict=True):
        offset = entry if offset is None else offset * size + entry
    return IndexLiteral(0) if offset is None else offset
