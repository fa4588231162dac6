"""Random row numbers of a table: negative samples, uniform or weighted, without those that a user excludes."""

from __future__ import annotations

import math
import operator
from collections.abc import Hashable, Sequence
from hashlib import sha256
from typing import Any, TypeAlias, TypedDict, overload
from weakref import ReferenceType, WeakValueDictionary, ref

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import Unpack

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Axis, Dim, Dims, Entries, axis_size, unify
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import HeldIndices, IndexConstant
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.jax_form import JAX
from wyrm.graph.leaves import as_constant
from wyrm.graph.loop_form import LOOPS, Decomposed, DrawsRows, KernelArgument
from wyrm.graph.node import IndexNode
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.ragged import RaggedArray
from wyrm.graph.storage import bound_array, declared_dims
from wyrm.graph.typing import (
    D1,
    D2,
    D3,
    D4,
    Array,
    AxisOf,
    IntegerArray,
    NewDims,
    Size,
    Sizes,
    Values,
)
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.indexing.index import as_indices
from wyrm.ops.kernels.native import scratch
from wyrm.ops.kernels.sums import inlined, natural
from wyrm.ops.random.alias import HALF, alias_table, row_of, rows_of, striped_table
from wyrm.ops.random.draws_jax import RandomIndexForm
from wyrm.ops.random.philox import STEP, WORD, Draws, philox, philox_block, places_before, random_bits, stream_or_next
from wyrm.ops.reducing.counting import size_of_axis
from wyrm.reach.rules import REACH, Reach
from wyrm.reach.ways import How, Way, ways_by
from wyrm.support.item_rows import CompressedRows, item_rows

# A row is drawn again while it is excluded, at most so often; then the rows after it are tried, at most so many.
MAX_DRAWS, MAX_STEPS = 32, 2**16
_EMPTY = np.empty(0, np.int64)


def is_excluded(columns: IntegerArray, bits: IntegerArray, low: int, high: int, row: int, ascending: bool) -> bool:
    """Return whether `columns[low:high]` contain `row`; they are `ascending`, or few and in any order.

    If `bits` is not empty, it is read instead: the bits of the user begin at byte `low`, and bit `row` is set if the
    user excludes that row.
    """
    if low >= high:
        return False
    if bits.size > 0:
        return bool((int(bits[natural(low + (row >> 3))]) >> (row & 7)) & 1)
    if not ascending:
        found = 0
        for i in range(low, high):
            found += 1 if columns[i] == row else 0
        return found > 0
    length = high - low
    while length > 1:
        half = length >> 1
        low += half if columns[low + half] <= row else 0
        length -= half
    return bool(columns[low] == row)


def uniform_row(word: np.integer, size: int) -> int:
    """Map a random word to a row below `size`, uniformly."""
    return int((np.uint64(word) * np.uint64(size)) >> np.uint64(32))


def member_row(member: int, which: int, count: int) -> int:
    """Return row number `member` of stripe `which` of `count`."""
    return (((member >> 4) * count + which) << 4) + (member & 15)


def drawn_row(
    word: np.integer, table: IntegerArray, striped: IntegerArray, is_striped: bool, stripe: tuple[int, int, int]
) -> int:
    """Map a random word to a row of the stripe (which, count, number of rows), by weight if there is an alias table."""
    which, count, members = stripe
    row = member_row(uniform_row(word, members), which, count)
    if table.size == 0:
        return row
    return row_of(word, row, striped) if is_striped else row_of(word, row, table)


def next_row(row: int, size: int, stripe: tuple[int, int, int]) -> int:
    """Return the row of the stripe after `row`, the first one after the last."""
    which, count, _ = stripe
    row += 1
    if count > 1 and (row >> 4) % count != which:
        row += 16 * (count - 1)
    return row if row < size else 16 * which


def is_without_weight(table: IntegerArray, row: int) -> bool:
    """Return whether a row has no weight; every row has one without a table."""
    return table.size > 0 and bool(table[row, 1] < 0)


@inlined
def row_at(
    place: int | np.integer,
    word: np.integer,
    step: int | np.integer,
    seed: int,
    stream: int,
    size: int,
    table: IntegerArray,
    striped: IntegerArray,
    is_striped: bool,
    stripe: tuple[int, int, int],
    excludes: tuple[IntegerArray, IntegerArray, int, int, bool],
) -> int:
    """Return the row below `size` of the draw at a place, whose first word is `word`; `excludes` as in `is_excluded`.

    An excluded row is drawn again, and after `MAX_DRAWS` draws the rows after it are tried.
    """
    columns, bits, low, high, ascending = excludes
    row = drawn_row(word, table, striped, is_striped, stripe)
    attempt, excluded = 1, is_excluded(columns, bits, low, high, row, ascending)
    while attempt < MAX_DRAWS and excluded:
        other = philox_block((place >> 2) + (attempt << 32), step, seed, stream)[place & 3]
        row = drawn_row(other, table, striped, is_striped, stripe)
        excluded = is_excluded(columns, bits, low, high, row, ascending)
        attempt += 1
    steps = 0
    while steps < min(size, MAX_STEPS) and excluded:
        row = next_row(row, size, stripe)
        excluded = is_excluded(columns, bits, low, high, row, ascending) or is_without_weight(table, row)
        steps += 1
    return row


def rows_kernel(
    places: IntegerArray,
    words: IntegerArray,
    step: IntegerArray,
    table: IntegerArray,
    spans: IntegerArray,
    columns: IntegerArray,
    users: IntegerArray,
    out: IntegerArray,
    draws: int,
    size: int,
    seed: int,
    stream: int,
) -> None:
    """Fill `out` with rows below `size` as `sampling_kernel` does, from the places and the first words of all draws.

    `step` is a step's two words.
    """
    number = np.uint64(step[0]) | np.uint64(step[1]) << np.uint64(32)
    ascending = spans.size > 0
    width = 0 if ascending or columns.size == 0 else columns.size // (out.size // draws)
    for i in range(out.size):
        user = i // draws
        low, high = user * width, (user + 1) * width
        if ascending:
            low, high = max(int(spans[users[user], 0]), 0), min(int(spans[users[user], 1]), columns.size)
            if high - low >= size:  # who excludes all rows gets any
                high = low
        excludes = (columns, columns[:0], low, high, ascending)
        place = np.int64(places[i])
        out[i] = row_at(place, words[i], number, seed, stream, size, table, table, False, (0, 1, size), excludes)


def sampling_kernel(
    step: IntegerArray,
    before: IntegerArray,
    table: IntegerArray,
    striped: IntegerArray,
    spans: Any,
    columns: IntegerArray,
    bits: IntegerArray,
    rows: IntegerArray,
    out: IntegerArray,
    draws: int,
    elements: int,
    size: int,
    seed: int,
    stream: int,
    words: IntegerArray,
    drawn: IntegerArray,
    stripes: IntegerArray,
) -> None:
    """Fill `out` with rows below `size`: uniformly if `table` is empty, without rejection if `columns` is empty.

    `out` has `draws` elements for each user. User u excludes the row `columns[u]` of a matrix, in any order, if
    `spans` is empty; else those at `spans[rows[u], 0]` to `spans[rows[u], 1] - 1`, distinct and in ascending order, or
    with `bits` those whose bit is set in row `rows[u]` of a matrix of bytes, the lowest bit of a byte first.

    `before`, if it is not empty, is the number of places before the first one, of `elements` draws each.

    The first words of several steps are generated at once, in vectors: `words`, of shape (draws, steps), holds those of
    `drawn[1]` steps from step `drawn[0]` on, from counter `drawn[2]` on. `stripes` is (which, count, the count that
    `striped` has alias tables of): rows come from that stripe, or from all rows if the stripe is empty or has no alias
    table.
    """
    which, count, members = stripes[0], stripes[1], size
    is_striped = count > 1 and stripes[2] == count
    if table.size > 0 and not is_striped:
        which, count = 0, 1
    if count > 1:
        whole = size // (16 * count)
        members = 16 * whole + max(0, min(16, size - 16 * (whole * count + which)))
        if members == 0:
            which, count, members, is_striped = 0, 1, size, False
    stripe = (which, count, members)
    first = natural(before[0] * elements if before.size > 0 else 0)
    block, rest = first >> 2, first & 3
    if words.shape[1] == 1 or step[0] < drawn[0] or step[0] >= drawn[0] + drawn[1] or block != drawn[2]:
        blocks = (out.size + rest + 3) >> 2 if out.size > 0 else 0
        if words.shape[1] == 1:
            for each in range(blocks):
                i = 4 * each
                words[i, 0], words[i + 1, 0], words[i + 2, 0], words[i + 3, 0] = philox_block(
                    block + each, step[0], seed, stream
                )
        for i in range(0, 4 * blocks if words.shape[1] > 1 else 0, 4):
            for ahead in range(words.shape[1]):
                words[i, ahead], words[i + 1, ahead], words[i + 2, ahead], words[i + 3, ahead] = philox_block(
                    block + (i >> 2), step[0] + ahead, seed, stream
                )
        drawn[0], drawn[1], drawn[2] = step[0], words.shape[1], block
    column = natural(step[0] - drawn[0])
    if columns.size == 0:
        if table.size == 0:
            for i in range(out.size):
                out[i] = member_row(uniform_row(words[natural(rest + i), column], members), which, count)
        else:
            for i in range(out.size):
                out[i] = drawn_row(words[natural(rest + i), column], table, striped, is_striped, stripe)
        return
    users = out.size // draws
    ascending = spans.size > 0
    width = 0 if ascending or users == 0 else columns.size // users
    for user in range(users):
        low, high = user * width, (user + 1) * width
        if ascending and bits.size == 0:
            low, high = max(spans[rows[user], 0], 0), min(spans[rows[user], 1], columns.size)
            if high - low >= size:  # who excludes all rows gets any
                high = low
        if bits.size > 0:
            low = rows[user] * ((size + 7) >> 3)
            high = low + 1
        for draw in range(draws):
            i = user * draws + draw
            excludes = (columns, bits, low, high, ascending)
            place, word = block * 4 + rest + i, words[natural(rest + i), column]
            out[i] = row_at(place, word, step[0], seed, stream, size, table, striped, is_striped, stripe, excludes)


# Random words to generate at once: those of several steps, up to `_MAX_STEPS`.
_WORDS_AT_ONCE, _MAX_STEPS = 1024, 64


Excluded: TypeAlias = (
    "IndexNode | tuple[HeldIndices, HeldIndices] | ArrayLike | CompressedRows | RaggedArray | Sequence[ArrayLike]"
)


class RandomIndex(Draws, HasIndexOperands[tuple[BaseNode, ...], Axes], IndexNode[Axes]):
    """Random integers from 0 to `table_size - 1`, drawn anew in each step; they have no gradient.

    The parents are the step, with `counted` the number of places before these along the first axis, for a table of any
    size that size, with weights their alias table, and with excluded rows either those of each user, whose axes but the
    last are the first of the draws, or the columns of all users, where those of each begin and end, and the user of
    each draw. Draw t of position i is word i % 4 of counter (i // 4, t), so a position draws the same whatever the
    other positions are.
    """

    __slots__ = ("counted", "seed", "stream", "table_size", "to", "weighted")
    counted: bool
    seed: int
    stream: int
    table_size: Axis
    to: Dims
    weighted: bool

    def __init__(
        self,
        table_size: Axis,
        to: Dims,
        table: IndexConstant | None,
        excluded: tuple[IndexNode, ...],
        seed: int,
        stream: int,
    ) -> None:
        size: tuple[BaseNode, ...] = ()
        if isinstance(table_size, Dim):
            size = (size_of_axis(table_size, beside=as_constant(0.0, np.float64)),)
        parents = (STEP, *size, *(() if table is None else (table,)), *excluded)
        weighted = table is not None
        self._construct(
            parents, table_size=table_size, to=to, weighted=weighted, seed=seed, stream=stream, counted=False
        )

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(len(self.parents) - 1, self._users()),) if self.compressed else ()

    @property
    def draws_below(self) -> int | None:
        """The upper bound of the values; every value below it has a chance to be drawn."""
        return axis_size(self.table_size)

    @property
    def within(self) -> Axis:
        """The axis of the rows, or their number."""
        return self.table_size

    @property
    def _of_rows(self) -> int:
        """The number of parents before the alias table and the excluded rows."""
        return 1 + self.counted + (axis_size(self.table_size) is None)

    def rows_in(self, operands: Sequence[Any]) -> int:
        """Return the number of rows of the table."""
        size = axis_size(self.table_size)
        return int(operands[1 + self.counted]) if size is None else size

    @property
    def rejects(self) -> bool:
        """Whether excluded rows are drawn again."""
        return len(self.parents) > self._of_rows + self.weighted

    @property
    def compressed(self) -> bool:
        """Whether the excluded rows of all users are parents, in compressed format."""
        return len(self.parents) > 1 + self._of_rows + self.weighted

    def _users(self) -> Axis:
        """The users whose excluded rows are parents."""
        users: Axis = self.parents[-3].dims[0]
        return users

    def shape_rule(self) -> Dims:
        if not self.rejects:
            return self.to
        name, axes = ("rows", self.parents[-1].dims) if self.compressed else ("exclude", self.parents[-1].dims[:-1])
        if len(axes) > len(self.to):
            raise ShapeError(
                f"{name} has axes for {len(axes)} axes of draws, but dims has {len(self.to)}; they must be its first "
                f"ones"
            )
        return (*map(unify, self.to, axes), *self.to[len(axes) :])

    def drawing_operands(self, operands: Sequence[Any], empty: Any) -> tuple[Any, Any, Any, Any, Any]:
        """Return step, alias table, spans, columns and rows; `empty` stands for those that are absent."""
        pairs = empty.reshape(0, 2)
        table = operands[self._of_rows] if self.weighted else pairs
        if self.compressed:
            return (operands[0], table, *operands[-3:])
        return operands[0], table, pairs, operands[-1] if self.rejects else empty, empty

    def _groups(self, operands: Sequence[Any], shape: tuple[int, ...]) -> tuple[int, int]:
        """Return the number of users and that of the draws of each of them."""
        axes = operands[-1].ndim - (not self.compressed) if self.rejects else len(shape)
        return math.prod(shape[:axes]), math.prod(shape[axes:])

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        step, table, spans, columns, rows = self.drawing_operands(list(map(np.asarray, operands)), _EMPTY)
        size = self.rows_in(operands)
        draws, weightless = self._groups(operands, shape)[1], table[:, 1] < 0
        first = int(operands[1]) * math.prod(shape[1:]) if self.counted else 0

        def of_words(words: NDArray[np.uint32]) -> NDArray[np.int64]:
            if self.weighted:
                return rows_of(words, table)
            return ((words.astype(np.uint64) * np.uint64(size)) >> np.uint64(32)).astype(np.int64)

        def among_excluded(positions: NDArray[np.int64]) -> NDArray[np.bool_]:
            found = result[positions]
            if not self.compressed:
                listed = columns.reshape(-1, columns.shape[-1])[positions // draws]
                return np.asarray((listed == found[:, None]).any(-1))
            users = rows.reshape(-1)[positions // draws]
            low, high = np.maximum(spans[users, 0], 0), np.minimum(spans[users, 1], columns.size)
            return _are_among(columns, low, np.where(high - low < size, high, low), found)

        def words_of(positions: NDArray[np.int64], attempt: int) -> NDArray[np.uint32]:
            places = first + positions
            counter = ((places >> 2) + (attempt << 32)).astype(np.uint64)
            blocks = philox(counter, int(step), self.seed, self.stream)
            words: NDArray[np.uint32] = blocks[np.arange(places.size), places & 3]
            return words

        positions = np.arange(math.prod(shape))
        result = of_words(random_bits(first + positions.size, int(step), self.seed, self.stream)[first:])
        if not self.rejects:
            return xp.asarray(result.reshape(shape))
        positions = positions[among_excluded(positions)]
        for attempt in range(1, MAX_DRAWS):
            result[positions] = of_words(words_of(positions, attempt))
            positions = positions[among_excluded(positions)]
        for _ in range(min(size, MAX_STEPS) if positions.size else 0):
            result[positions] = (result[positions] + 1) % size
            wrong = among_excluded(positions)
            positions = positions[wrong | weightless[result[positions]] if self.weighted else wrong]
        return xp.asarray(result.reshape(shape))

    def drawn_by_rows(self, operands: Sequence[Any], mapped: Sequence[bool], axis: Axis) -> BaseNode:
        if self.rejects and not mapped[-1]:
            raise ShapeError(f"{describe(self)}: the users must differ between the rows of vmap, or be absent")
        return self.rebuild(operands, to=(axis, *self.to))


@REACH.register(RandomIndex)
class _RandomIndexReach(Reach):
    """A row is drawn by its place, and again where it is among those that are excluded there."""

    def ways(self, node: RandomIndex) -> list[Way]:
        last = len(node.parents) - 1
        rank = node.parents[last].ndim
        axes = [*range(rank)] if node.compressed else [*range(rank - 1), None]
        how: dict[Hashable, How] = {k: How.ANY if k else How.DRAWN for k in range(node.ndim)}
        return ways_by(node, [(last, axes)] if node.rejects else [], how)


@LOOPS.register(RandomIndex)
class _RandomIndexLoops(DrawsRows, Decomposed):
    kernel = staticmethod(sampling_kernel)
    counts_rows = True

    def decompose(self, node: RandomIndex) -> RandomIndex | None:
        step, *others = node.parents
        if node.counted or step is not STEP or not node.dims or axis_size(node.dims[0]) is not None:
            return None
        counting: RandomIndex = node.rebuild((step, places_before(node.dims[0]), *others), counted=True)
        return counting

    def kernel_arguments(self, node: RandomIndex, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        step, table, spans, columns, rows = node.drawing_operands(operands, _EMPTY)
        draws, size = max(1, node._groups(operands, out.shape)[1]), node.rows_in(operands)
        lists = spans, columns.reshape(-1), _bits(node, size), rows.reshape(-1)
        before = operands[1].reshape(-1) if node.counted else np.empty(0, np.int64)
        arrays = step.reshape(-1), before, table, scratch(table.shape, np.int64), *lists, out.reshape(-1)
        # Not scratch memory, which exports share between calls: words are kept for later steps.
        # A step with fewer entries than its arrays gets a part of them, and other entries precede in each step.
        if out.ndim and isinstance(node.dims[0], Entries):
            words = np.zeros((4 * out.size, 1), np.uint32)
        else:
            steps = max(1, min(_MAX_STEPS, _WORDS_AT_ONCE // max(1, out.size)))
            words = np.zeros((-(-(out.size + 3 * node.counted) // 4) * 4, steps), np.uint32)
        stripes, drawn = np.array([0, 1, 1]), np.array([0, 0, 0])
        numbers = draws, math.prod(out.shape[1:]), size, node.seed & WORD, node.stream & WORD
        return (*arrays, *numbers, words, drawn, stripes)

    def draws_from(self, node: RandomIndex) -> Axis:
        return node.table_size

    def prepare_stripes(self, arguments: tuple[Any, ...], stripes: int) -> None:
        (_, _, table, striped, *_, known) = arguments
        if known[2] != stripes:
            striped[:] = striped_table(table, stripes) if table.size else table
            known[2] = stripes


JAX.register(RandomIndex)(RandomIndexForm(rows_kernel))


# The bits of excluded rows, beside the arrays and the number of rows that they were made from.
_known_bits: list[tuple[tuple[ReferenceType[np.ndarray], ...], int, NDArray[np.uint8]]] = []
# The bytes that bits may take, and those for each byte of the columns.
_SMALL_BITS, _BITS_BESIDE_COLUMNS = 2**20, 1


def _bits(node: RandomIndex, size: int) -> NDArray[np.uint8]:
    """Return a bit for each user and row, set where the user excludes it; none where they take much memory.

    To read one takes a few nanoseconds, to search the columns of a user who excludes a hundred rows fifty.
    """
    none, leaves = np.empty(0, np.uint8), node.parents[-3:-1] if node.compressed else ()
    if not leaves or not all(isinstance(leaf, IndexConstant | HeldIndices) for leaf in leaves):  # others may change
        return none
    spans, listed = arrays = [bound_array(leaf) for leaf in leaves]
    for of, rows, found in _known_bits:
        if rows == size and all(each() is array for each, array in zip(of, arrays, strict=True)):
            return found
    users, width = len(spans), (size + 7) // 8
    if users * width > max(_SMALL_BITS, _BITS_BESIDE_COLUMNS * listed.nbytes):
        return none
    starts, ends = np.clip(spans, 0, listed.size).T
    counts = np.maximum(ends - starts, 0)
    counts[counts >= size] = 0  # who excludes all rows gets any
    user = np.repeat(np.arange(users), counts)
    columns = listed[np.arange(len(user)) + np.repeat(starts - np.cumsum(counts) + counts, counts)]
    there = (columns >= 0) & (columns < size)
    user, columns = user[there], columns[there]
    bits = np.zeros(users * width, np.uint8)
    np.bitwise_or.at(bits, user * width + (columns >> 3), np.left_shift(1, columns & 7).astype(np.uint8))
    kept = [entry for entry in _known_bits if all(each() is not None for each in entry[0])]
    _known_bits[:] = [*kept, (tuple(map(ref, arrays)), size, bits)]
    return bits


def _are_among(columns: IntegerArray, low: IntegerArray, high: IntegerArray, rows: IntegerArray) -> NDArray[np.bool_]:
    """Return `is_excluded` for arrays of rows and ascending columns."""
    end = high
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        less = (low < high) & (columns[np.minimum(middle, len(columns) - 1)] < rows)
        low, high = np.where(less, middle + 1, low), np.where(less, high, middle)
    inside: NDArray[np.bool_] = low < end
    inside[inside] = columns[low[inside]] == rows[inside]
    return inside


def _checked_size(table_size: Size | Dim) -> Axis:
    if isinstance(table_size, Dim) and axis_size(table_size) is None:
        return table_size
    size = axis_size(table_size) if isinstance(table_size, Dim) else operator.index(table_size)
    if size is None or not 1 <= size <= 2**32:
        raise ShapeError(f"random.index: table_size must be in [1, 2**32], not {size}")
    return size


# The alias tables that graphs have, by the content of their weights: equal draws are computed once.
_known_tables: WeakValueDictionary[bytes, IndexConstant] = WeakValueDictionary()


def _alias_table(weights: Values, size: int) -> IndexConstant:
    """Return the alias table of the rows."""
    array = as_array(weights)
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"random.index: weights must be numbers, not {array.dtype}")
    if array.shape != (size,):
        raise ShapeError(
            f"random.index: weights has the shape {array.shape}, but must have one element for each of the {size} "
            f"rows: ({size},)"
        )
    invalid = np.flatnonzero(~((array >= 0) & np.isfinite(array)))
    if invalid.size:
        raise ValueError(
            f"random.index: weights must be finite and at least 0, but weights[{invalid[0]}] is {array[invalid[0]]}"
        )
    if not array.any():
        raise ValueError("random.index: all weights are 0, so no row can be drawn")
    if size >= HALF:
        raise ShapeError(f"random.index: draws by weight are of less than 2**31 rows, not {size}")
    content = sha256(array.tobytes()).digest() + array.dtype.str.encode()
    found = _known_tables.get(content)
    if found is None:
        found = _known_tables[content] = IndexConstant(alias_table(array), name="alias_table")
    return found


def _excluded(exclude: Any, rows: object, size: int | None) -> tuple[IndexNode, ...]:
    """Return the nodes of excluded rows: of the draws, or of all users and the users of the draws."""
    if rows is None:
        if hasattr(exclude, "indptr"):
            raise ValueError("random.index: exclude has the rows of each user and needs rows, the users of the draws")
        listed = as_indices(exclude)
        if not listed.dims:
            raise ShapeError(
                f"random.index: exclude must have an axis of rows at its end, and {describe(listed)} has none"
            )
        return (listed,)
    if isinstance(exclude, BaseNode):
        raise ValueError(
            "random.index: exclude is a node, the excluded rows of each draw, and needs no rows; rows are users, whose "
            "excluded rows must be known when the graph is built"
        )
    if not isinstance(rows, IndexNode):
        raise DTypeError(f"random.index: rows must be an index node, like wy.IndexInput, not {type(rows).__name__}")
    pair = isinstance(exclude, tuple) and len(exclude) == 2
    if pair and all(isinstance(each, HeldIndices) for each in exclude):
        return (*exclude, rows)
    if size is None:
        raise ShapeError("random.index: exclude needs a table_size that is a number or an axis with a size")
    pair = pair and all(np.ndim(each) == 1 for each in exclude)
    given: Any = exclude
    count = given.shape[0] if hasattr(given, "shape") else len(given[0]) - 1 if pair else len(given)
    of_users = item_rows("random.index: exclude", exclude, count, size)
    spans = np.stack([of_users.indptr[:-1], of_users.indptr[1:]], axis=1)
    return IndexConstant(spans, name="spans"), IndexConstant(of_users.indices, name="excluded"), rows


class DrawOptions(TypedDict, total=False):
    """The keyword arguments of `index`."""

    weights: Values | None
    exclude: Excluded | None
    rows: IndexNode | None
    seed: int
    stream: int | None


@overload
def index(table_size: Size | Dim, dims: Sizes, **options: Unpack[DrawOptions]) -> RandomIndex: ...
@overload
def index(
    table_size: Size | Dim, dims: tuple[AxisOf[D1]], **options: Unpack[DrawOptions]
) -> RandomIndex[tuple[D1]]: ...
@overload
def index(
    table_size: Size | Dim, dims: tuple[AxisOf[D1], AxisOf[D2]], **options: Unpack[DrawOptions]
) -> RandomIndex[tuple[D1, D2]]: ...
@overload
def index(
    table_size: Size | Dim, dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3]], **options: Unpack[DrawOptions]
) -> RandomIndex[tuple[D1, D2, D3]]: ...
@overload
def index(
    table_size: Size | Dim, dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3], AxisOf[D4]], **options: Unpack[DrawOptions]
) -> RandomIndex[tuple[D1, D2, D3, D4]]: ...
@overload
def index(table_size: Size | Dim, dims: NewDims, **options: Unpack[DrawOptions]) -> RandomIndex[NewDims]: ...
def index(
    table_size: Any,
    dims: Any,
    *,
    weights: Any = None,
    exclude: Any = None,
    rows: Any = None,
    seed: int = 0,
    stream: int | None = None,
) -> Any:
    """Return random row numbers of a table of `table_size` rows, with the axes `dims`, as for negative samples.

    Each `forward()` draws anew. The draws are a function of `seed`, `stream` and the step (see `wy.random.set_step`);
    the default is a stream that no other node has. An axis of `dims` without a size gets its size from the data.

    `weights`, of shape (table_size,), makes the probability of a row proportional to its weight, as for popular items;
    the default is uniform. A draw takes the same time whatever the number of rows: an alias table is made once.

    `exclude` holds rows that are not drawn, such as the items that a user has seen. Integers or an index node of the
    axes (..., excluded) hold those of each draw, where ... are the first axes of `dims`: for `dims=(batch, 5)`, five
    draws for each of the batch's users without those of `exclude=history`, of the axes (batch, length). Other integers
    than rows, such as -1, fill up short lists. With `rows`, an index node of the users of the draws, whose axes are the
    first ones of `dims`, `exclude` holds the rows of all users there are: `Interactions.seen()`, a SciPy matrix in CSR
    format of shape (users, table_size), whose stored entries count whatever their values, the pair of its `indptr` and
    `indices`, lists of rows, a mask, or integers (users, excluded) filled up with -1.

    An excluded row is drawn again, up to 32 times; after that, the next row that is not excluded is the result, if one
    of the 65,536 rows that follow is not. Who excludes all rows gets any.

    Raise `ShapeError` for a `table_size` outside [1, 2**32] or without a size, and for `weights`, `exclude` or `rows`
    of another shape; `ValueError` for a negative or non-finite weight, weights that are all 0, offsets that do not
    ascend from 0 to the number of columns, and `rows` without `exclude` or beside a node; `IndexOutOfRange` for an
    excluded row of a user beyond the table, a user beyond `exclude`, and a use of the result as index into fewer rows;
    `DTypeError` for other types.

    >>> class Batch(wy.Dim): ...
    >>> users = wy.IndexInput([0, 1, 1], dims=(Batch(),))
    >>> seen = [[0, 1], [2]]  # user 0 has seen rows 0 and 1, user 1 row 2
    >>> wy.random.set_step(0)
    >>> wy.random.index(3, (Batch(), 2), exclude=seen, rows=users, stream=0).forward().tolist()
    [[2, 2], [1, 1], [1, 1]]
    """
    axis = _checked_size(table_size)
    size = axis_size(axis)
    if weights is not None and size is None:
        raise ShapeError("random.index: weights need a table_size that is a number or an axis with a size")
    table = None if weights is None or size is None else _alias_table(weights, size)
    if rows is not None and exclude is None:
        raise ValueError("random.index: rows needs exclude: rows are users, exclude holds the rows that each excludes")
    excluded = () if exclude is None else _excluded(exclude, rows, size)
    axes = declared_dims(None, dims, True, "random.index")
    return RandomIndex(axis, axes, table, excluded, operator.index(seed), stream_or_next(stream))
