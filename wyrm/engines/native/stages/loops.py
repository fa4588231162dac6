"""The results of stages: the tree of loops, the arrays that loops read and write, and the calls of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from wyrm.engines.native.kernels.functions import Routine
from wyrm.graph.axes import Axis, Dims, axis_size
from wyrm.graph.base import BaseNode
from wyrm.graph.index_maps import IndexExpression, IndexLiteral, IndexMap, IndexPair, LoopIndex

if TYPE_CHECKING:
    from wyrm.engines.native.stages.write import ScanSource, Source

Rest = TypeVar("Rest", IndexExpression, None)

# A loop over at most this many elements takes no longer than a function like `exp` of a few numbers.
SHORT = 128


@dataclass(eq=False)
class ArrayBuffer:
    """An array of generated code: a leaf's array, a view of the buffer `base`, or a temporary buffer.

    `fixed` is a node that depends on sizes alone and is computed when sizes are bound.
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
        """The buffer that owns the memory of this one."""
        return self if self.base is None else self.base.root


@dataclass(eq=False)
class Computed:
    """A computed node: an array, or with `register` a variable within the loops of `chain`, which an array may store.

    `chain` leads from the root to the item that completes the value. `domain` holds the positions of the axes that are
    looped over, which leaves out axes of size 1.
    """

    node: BaseNode
    buffer: ArrayBuffer
    chain: list[Item]
    domain: tuple[int, ...]
    register: bool


@dataclass(eq=False)
class Generated:
    """A node whose elements are computed where they are read, from their flat index and the numbers in its parent."""

    node: BaseNode
    name: str
    operands: list[Reference]


@dataclass(eq=False)
class Reference:
    """An element that an expression reads from an array or a computed value, or computes from its flat index.

    `casts` are applied to the element.
    """

    target: ArrayBuffer | Computed | Generated
    index: IndexMap
    casts: tuple[np.dtype, ...] = ()
    # The value that the array views, which must be complete before the element is read.
    viewed: Computed | None = None


class Read(IndexExpression):
    """An integer that a reference reads; with `inside` it is known to be a valid index."""

    __slots__ = ("inside", "reference")
    inside: bool
    reference: Reference


class Checked(IndexPair):
    """An integer, and the size that it is checked against before it is used as an index."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"checked({self.left}, {self.right})"


@dataclass(eq=False)
class Item:
    """What a block of code lists, at `position` in it."""

    position: int = field(default=-1, kw_only=True)


@dataclass(eq=False)
class ElementStatement(Item):
    """One element of a node: computed, accumulated in a total, stored at an index, or added to a row's sum."""

    node: BaseNode
    kind: str = "element"
    operands: list[Reference] = field(default_factory=list)
    value: Computed | None = None
    target_index: IndexMap = ()
    adds: bool = False
    rows: RowSums | None = None


@dataclass(eq=False)
class Block(Item):
    """Items in order; the root block has no axis, and its items run once."""

    items: list[Item] = field(default_factory=list, kw_only=True)

    def append(self, item: Item) -> None:
        """Append an item."""
        item.position = len(self.items)
        self.items.append(item)


@dataclass(eq=False)
class Loop(Block):
    """A loop over one axis; it accumulates the totals `starts` and first sets the arrays `fills` to zero.

    Nested loops over `vector_axes` have nothing but the statements of the innermost inside, so that LLVM vectorizes
    functions that are slow for single numbers.
    """

    axis: Axis
    starts: list[Accumulator] = field(default_factory=list)
    fills: list[ArrayBuffer] = field(default_factory=list)
    vector_axes: tuple[Axis, ...] = ()

    def suits_vectors(self) -> bool:
        """Return whether functions of elements may be computed in SIMD registers here.

        A statement that adds to an element that integers choose prevents that, and a short inner loop, whose iterations
        do so little that a function of a single number takes longer.
        """
        sizes = [axis_size(item.axis) for item in self.items if isinstance(item, Loop)]
        short = any(size is not None and size <= SHORT for size in sizes)
        return not short and not any(isinstance(item, ElementStatement) and item.adds for item in self.items)


@dataclass(eq=False)
class ScalarBlock(Block):
    """Scalars computed one after another, outside any loop."""

    fills: list[ArrayBuffer] = field(default_factory=list)


@dataclass(eq=False)
class Accumulator:
    """The total of a reduction: a variable, or the part of an array that `result_index` selects.

    None in `result_index` stands for a whole axis. `inner` is the innermost loop over the `reduced` axes if these loops
    are nested without another loop between them.
    """

    value: Computed
    reduced: list[Axis]
    result_index: tuple[IndexExpression | None, ...] | None  # None for a variable
    inner: Loop | None


@dataclass(eq=False)
class KernelCall(Item):
    """A node computed by its own kernel, or else by `evaluate`; with `adds` the kernel adds to what `out` holds."""

    node: BaseNode
    operands: list[ArrayBuffer]
    out: ArrayBuffer
    adds: bool = False


@dataclass(eq=False)
class RowSums:
    """The row-sparse gradient of one parameter: the rows that a step touches, and the sum of gradients for each.

    `rows` lists the touched rows; `count` holds their number and an offset. `positions[row]` minus the offset is the
    row's position in `rows` and `sums`. Tables indexed by the same nodes share these three. `sums` is zero between
    steps.
    """

    parameter: BaseNode
    positions: ArrayBuffer
    rows: ArrayBuffer
    count: ArrayBuffer
    sums: ArrayBuffer
    # The index nodes that select rows; their total size bounds the number of rows.
    indices: list[BaseNode]

    @property
    def buffers(self) -> tuple[ArrayBuffer, ArrayBuffer, ArrayBuffer, ArrayBuffer]:
        """Its arrays, which keep their values between steps."""
        return self.positions, self.rows, self.count, self.sums


def nodes_of(item: Item) -> Iterator[BaseNode]:
    """Yield the nodes that an item computes."""
    if isinstance(item, Block):
        for inner in item.items:
            yield from nodes_of(inner)
    elif isinstance(item, ElementStatement | KernelCall):
        yield item.node


def loop_axes(dims: Dims) -> tuple[int, ...]:
    """Return the positions of the axes that need a loop: those whose size is not known to be 1."""
    return tuple(i for i, axis in enumerate(dims) if axis_size(axis) != 1)


def spread(kept: Sequence[IndexExpression], dims: Dims, rest: Rest) -> Iterator[IndexExpression | Rest]:
    """Yield the kept loop indices for the axes of a result; `rest` for axes of size 1 and for the remaining axes."""
    entries = iter(kept)
    wide = set(loop_axes(dims))
    for position in range(len(dims)):
        yield next(entries, rest) if position in wide else rest


def loop_index(dims: Dims) -> IndexMap:
    """Return the index of an element inside one loop for each axis that needs one."""
    positions = map(LoopIndex, range(len(dims)))
    return tuple(IndexLiteral(0) if axis_size(axis) == 1 else next(positions) for axis in dims)


def is_aligned(index: IndexMap, domain: Sequence[int], depth: int) -> bool:
    """Return whether an element is read at the current index of the loop at this depth."""
    return depth < len(domain) and index[domain[depth]] == LoopIndex(depth)


@dataclass(eq=False)
class SizeArgument:
    """The size of an axis, an argument of the functions that loop over it."""

    name: str
    axis: Axis


@dataclass(eq=False)
class CallArgument:
    """The argument at one position of a call of a kernel, of a rule, or of the `scan` of a loop inside the graph.

    All arguments of the call are computed together when arrays are bound.
    """

    name: str
    call: KernelCall | WholeCall
    position: int
    scan: ScanSource | None = None


@dataclass(eq=False)
class FlatArgument:
    """A buffer as a flat array, or with two `axes` as (rows, elements)."""

    name: str
    buffer: ArrayBuffer
    axes: int

    @property
    def is_number(self) -> bool:
        """Whether it is an array without axes as one with a single element: `run` takes the buffer instead."""
        return self.axes == 1 and not self.buffer.dims


@dataclass(eq=False)
class StateArgument:
    """An array of the optimizer's state for a parameter, as a flat array, or with two `axes` as (rows, elements)."""

    name: str
    parameter: BaseNode
    state: str
    axes: int


@dataclass(eq=False)
class CountsArgument:
    """A count for each row of an array of two axes; see `checks`."""

    name: str
    array: FlatArgument


@dataclass(eq=False)
class ColumnArgument:
    """The column of an input as (rows, elements), which each call of `run` passes."""

    name: str
    leaf: BaseNode


@dataclass(eq=False)
class OptimizerNumber:
    """A number of the optimizer that a step reads from `hyperparameters`, or computes."""

    name: str
    number: str
    dtype: np.dtype


@dataclass(eq=False)
class WholeCall:
    """An update of a whole parameter: the function of its rule, and the arrays of the rule's inputs."""

    source: Source
    arrays: Mapping[BaseNode, FlatArgument | StateArgument | OptimizerNumber]


@dataclass(eq=False)
class NumberArgument:
    """An integer."""

    name: str
    value: int


Argument = (
    ArrayBuffer | SizeArgument | NumberArgument | CallArgument | FlatArgument | StateArgument | ColumnArgument
    | OptimizerNumber | CountsArgument
)  # fmt: skip


@dataclass(eq=False)
class PythonCall:
    """The `evaluate` of an op without a kernel, which Python calls by the name of an argument."""

    name: str

    @property
    def __name__(self) -> str:
        return self.name


@dataclass
class Invocation:
    """A call in `run`: a function, its arguments, and the buffers that are live during the call.

    Each of these may be None: `item` is what the call computes, `updated` the parameter or buffer that it updates, and
    `scan` the source of a loop inside the graph.
    """

    function: Routine | PythonCall
    arguments: Sequence[Argument]
    buffers: set[ArrayBuffer]
    comment: str = ""
    item: Item | None = None
    updated: BaseNode | None = None
    scan: ScanSource | None = None

    @property
    def roots(self) -> set[ArrayBuffer]:
        """The buffers that own the memory of those that are live."""
        return {buffer.root for buffer in self.buffers}


def references_in(
    references: Iterable[Reference], skips: Callable[[Reference], bool] = lambda reference: False
) -> Iterator[Reference]:
    """Yield references and those that they are computed from; leave out those for which `skips` is true."""
    stack = list(references)
    while stack:
        reference = stack.pop()
        if skips(reference):
            continue
        yield reference
        if isinstance(reference.target, Generated):
            stack += reference.target.operands
        for entry in reference.index:
            stack += integers_in(entry)


def integers_in(entry: IndexExpression) -> list[Reference]:
    """Return the references to integers that an index entry reads."""
    return [leaf.reference for leaf in entry.leaves() if isinstance(leaf, Read)]


def read_by(
    statement: ElementStatement, skips: Callable[[Reference], bool] = lambda reference: False
) -> Iterator[Reference]:
    """Yield the references that a statement reads, as `references_in` does."""
    integers = [each for entry in statement.target_index for each in integers_in(entry)]
    yield from references_in([*statement.operands, *integers], skips)


def dependencies(references: Iterable[Reference]) -> list[tuple[Computed, IndexMap | None]]:
    """Return the values that references and their indices read, each with the index read, None for all elements."""
    found: list[tuple[Computed, IndexMap | None]] = []
    for reference in references_in(references):
        if isinstance(reference.target, Computed):
            found.append((reference.target, reference.index))
        elif reference.viewed is not None and not isinstance(reference.target, Generated):
            found.append((reference.viewed, None))
    return found


def in_scope(value: Computed, path: Sequence[Block]) -> bool:
    """Return whether a value's variable is in scope inside the innermost block of `path`."""
    blocks = value.chain[:-1]
    return bool(blocks) and list(blocks) == list(path[: len(blocks)])
