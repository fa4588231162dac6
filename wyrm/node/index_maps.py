"""The expressions that an index is made of: integers that say where an element is along an axis.

They are built with `+`, `-` and `*`. A number in front that changes nothing, as in `0 + entry` and `1 * entry`, is left
out; nothing else is worked out, so what an op writes is what a program does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, TypeAlias

from wyrm.types.dims import Axis
from wyrm.types.records import Record


class IndexExpression(Record):
    """An integer, by what it is made of."""

    __slots__ = ()
    # Whether its text needs no parentheses in a larger one.
    single: ClassVar[bool] = True

    def __add__(self, other: IndexExpression | int) -> IndexExpression:
        return IndexSum(self, _entry(other))

    def __radd__(self, other: int) -> IndexExpression:
        return IndexSum(IndexLiteral(other), self) if other else self

    def __sub__(self, other: IndexExpression | int) -> IndexExpression:
        return IndexDifference(self, _entry(other))

    def __mul__(self, other: IndexExpression | int) -> IndexExpression:
        return IndexProduct(self, _entry(other))

    def __rmul__(self, other: int) -> IndexExpression:
        return self if other == 1 else IndexProduct(IndexLiteral(other), self)

    def leaves(self) -> Iterator[IndexExpression]:
        """The entries at its ends, in the order in which they are written."""
        yield self

    def loops(self) -> int:
        """How many loops, one in another, it takes to know its value; 0 where that is the same in all of them."""
        return 0

    def replaced(self, becomes: Callable[[IndexExpression], IndexExpression]) -> IndexExpression:
        """The same of what its leaves become."""
        return becomes(self)


IndexMap: TypeAlias = tuple[IndexExpression, ...]


class LoopIndex(IndexExpression):
    """Where the loop at a depth stands; the outermost one has depth 0."""

    __slots__ = ("depth",)
    depth: int

    def loops(self) -> int:
        return self.depth + 1

    def __str__(self) -> str:
        return f"i{self.depth}"


class IndexLiteral(IndexExpression):
    """A number."""

    __slots__ = ("value",)
    value: int

    def __str__(self) -> str:
        return str(self.value)


class AxisLength(IndexExpression):
    """The number of elements along an axis, which only the data of a run may give."""

    __slots__ = ("axis",)
    axis: Axis

    def __str__(self) -> str:
        return f"size({self.axis!r})"


class IndexLoad(IndexExpression):
    """The integer that the parent at this number has at `position`."""

    __slots__ = ("parent", "position")
    parent: int
    position: IndexMap

    def __str__(self) -> str:
        return f"parent{self.parent}[{', '.join(map(str, self.position))}]"


class IndexPair(IndexExpression):
    """An entry that is made of two others."""

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


class IndexSum(IndexPair):
    """Two entries added up."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.left} + {self.right}"


class IndexDifference(IndexPair):
    """An entry less another."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.left} - {_grouped(self.right)}"


class IndexProduct(IndexPair):
    """Two entries multiplied."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{_grouped(self.left)} * {_grouped(self.right)}"


def _entry(value: IndexExpression | int) -> IndexExpression:
    return value if isinstance(value, IndexExpression) else IndexLiteral(value)


def _grouped(entry: IndexExpression) -> str:
    return str(entry) if entry.single else f"({entry})"


def flat(index: IndexMap, sizes: Sequence[IndexExpression | int]) -> IndexExpression:
    """The place of an element among all of an array of these sizes, in row-major order.

    >>> print(flat((LoopIndex(0), LoopIndex(1), IndexLiteral(2)), (4, 5, 6)))
    (i0 * 5 + i1) * 6 + 2
    """
    place: IndexExpression | None = None
    for entry, size in zip(index, sizes, strict=True):
        place = entry if place is None else place * size + entry
    return IndexLiteral(0) if place is None else place
