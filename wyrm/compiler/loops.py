"""The tree of loops that a schedule becomes, and the arrays that they read and write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from wyrm.node.base import BaseNode
from wyrm.node.index_maps import IndexExpression, IndexLiteral, IndexMap, IndexPair, LoopIndex
from wyrm.types.dims import Axis, Dims, axis_size

if TYPE_CHECKING:
    from wyrm.compiler.source import Source


# A loop over so few elements takes no longer than a function like `exp` of a few numbers.
_SHORT = 64


@dataclass(eq=False)
class ArrayBuffer:
    """An array that generated code works on: a leaf's, a view of another slot by `view`, or else a buffer.

    `fixed` is a node whose value depends on sizes alone and is computed when these are bound.
    """

    name: str
    dims: Dims
    dtype: np.dtype
    leaf: BaseNode | None = None
    base: ArrayBuffer | None = None
    view: BaseNode | None = None
    fixed: BaseNode | None = None

    @property
    def root(self) -> ArrayBuffer:
        """The slot whose memory this one shows."""
        return self if self.base is None else self.base.root


@dataclass(eq=False)
class Value:
    """A computed node: a variable within the loops of `chain`, and an array where anything else reads it.

    `chain` leads from the root to the item after which the value is complete; `domain` has the positions of the axes
    that are looped over, those of size 1 left out.
    """

    node: BaseNode
    buffer: ArrayBuffer
    chain: list[Item]
    domain: tuple[int, ...]
    register: bool
    stored: bool = False


@dataclass(eq=False)
class Placed:
    """A node whose elements are computed from their places, where they are read, and the numbers in its parent."""

    node: BaseNode
    name: str
    operands: list[Reference]


@dataclass(eq=False)
class Reference:
    """An element that an expression reads: of an array or of a computed value, or computed from its place.

    `casts` are applied to the element.
    """

    target: ArrayBuffer | Value | Placed
    index: IndexMap
    casts: tuple[np.dtype, ...] = ()
    # The value that a view of its array stands for, which has to be complete.
    whole: Value | None = None


class Read(IndexExpression):
    """The integer that a reference reads; `inside` where it is known to be in range of what it chooses from."""

    __slots__ = ("inside", "reference")
    inside: bool
    reference: Reference


class Checked(IndexPair):
    """An integer, which is found to be in range before it is used, and the size that it stays below."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"checked({self.left}, {self.right})"


@dataclass(eq=False)
class Item:
    """A part of a block of code, at `position` in it."""

    position: int = -1


@dataclass(eq=False)
class Statement(Item):
    """One element of a node: computed, folded into a total, written to a place, or added to a row's sum."""

    node: BaseNode | None = None
    kind: str = "element"
    operands: list[Reference] = field(default_factory=list)
    value: Value | None = None
    place: IndexMap = ()
    adds: bool = False
    rows: RowSums | None = None


@dataclass(eq=False)
class Block(Item):
    """Items in order; at the root one without an axis holds what is computed once."""

    items: list[Item] = field(default_factory=list)

    def append(self, item: Item) -> None:
        """Put an item at the end."""
        item.position = len(self.items)
        self.items.append(item)


@dataclass(eq=False)
class Loop(Block):
    """A loop over one axis; `starts` are the folds that it accumulates, `fills` arrays to set to zero.

    A `vector` one has no loops in it, so that what takes long for one number is done for a vector of them.
    """

    axis: Axis = 0
    starts: list[Accumulator] = field(default_factory=list)
    fills: list[ArrayBuffer] = field(default_factory=list)
    vector: bool = False

    def has_short_loops(self) -> bool:
        """Whether what it does for one element is little, though there are loops in it."""
        sizes = [axis_size(item.axis) for item in self.items if isinstance(item, Loop)]
        return any(size is not None and size <= _SHORT for size in sizes)


@dataclass(eq=False)
class Straight(Block):
    """Scalars that are computed one after another, outside any loop."""

    fills: list[ArrayBuffer] = field(default_factory=list)


@dataclass(eq=False)
class Accumulator:
    """A total that a loop accumulates: a variable, or the part of an array that `result_index` selects.

    None in `result_index` stands for a whole axis.

    `inner` is the innermost of the loops over the axes that are `reduced`, where these are one in another with no other
    loop between them.
    """

    value: Value
    reduced: list[Axis]
    result_index: tuple[IndexExpression | None, ...] | None  # None for a variable
    inner: Loop | None


@dataclass(eq=False)
class KernelCall(Item):
    """A node computed by its own kernel, or, without one, by `evaluate`; or added to what `out` holds."""

    node: BaseNode = None  # type: ignore[assignment]  # always given; a default follows that of the base
    operands: list[ArrayBuffer] = field(default_factory=list)
    out: ArrayBuffer = None  # type: ignore[assignment]  # as above
    adds: bool = False
    # The functions of a loop, where the node is one.
    loop: Source | None = None


@dataclass(eq=False)
class RowSums:
    """The row-sparse gradient of one parameter: the rows touched in a step and the sum of what each was given.

    `rows` names them, `buffers[row]` says where; `count` is how many there are, and what the places in `buffers` count
    from. Tables that are indexed by the same nodes have these in common. `sums` is zero between steps.
    """

    parameter: BaseNode
    positions: ArrayBuffer
    rows: ArrayBuffer
    count: ArrayBuffer
    sums: ArrayBuffer
    # The index nodes that name rows: what they can name together bounds the number of rows.
    indices: list[BaseNode]


def loop_axes(dims: Dims) -> tuple[int, ...]:
    """The positions of the axes that need a loop."""
    return tuple(i for i, axis in enumerate(dims) if axis_size(axis) != 1)


def loop_index(dims: Dims) -> IndexMap:
    """The index of an element under one loop for each axis that needs one."""
    positions = map(LoopIndex, range(len(dims)))
    return tuple(IndexLiteral(0) if axis_size(axis) == 1 else next(positions) for axis in dims)


def is_aligned(index: IndexMap, domain: Sequence[int], depth: int) -> bool:
    """Whether an element is read where the loop at this depth stands."""
    return depth < len(domain) and index[domain[depth]] == LoopIndex(depth)
