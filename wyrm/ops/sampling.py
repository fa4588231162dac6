"""Rows drawn at random: negative samples, uniform or by popularity, without those that a row knows."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError
from wyrm.node.base import ZERO, BaseNode, Gradient
from wyrm.node.index_leaves import IndexConstant
from wyrm.node.index_operands import HasIndexOperands, IndexOperand
from wyrm.node.leaves import Constant
from wyrm.node.loop_form import LOOPS, KernelArgument, LoopForm
from wyrm.node.node import IndexNode, Node
from wyrm.node.storage import declared_dims, index_array
from wyrm.ops.elementwise import Axes
from wyrm.ops.philox import STEP, WORD, philox, philox_block, random_bits, stream_or_next
from wyrm.ops.scratch import scratch
from wyrm.ops.sums import natural
from wyrm.types.arrays import as_array
from wyrm.types.dims import Dim, Dims, axis_size, unify
from wyrm.types.namespace import ArrayNamespace
from wyrm.types.typing import (
    D1,
    D2,
    D3,
    D4,
    Array,
    AxisOf,
    FloatArray,
    Indices,
    IntegerArray,
    NewDims,
    Size,
    Sizes,
    Values,
)

# How often a row is drawn until it is one that is not known; the last is taken as it is.
TRIES = 8
# So many words are drawn together: of as many steps as that takes.
_TOGETHER, _MOST_STEPS = 1024, 64


class CompressedRows(Protocol):
    """A `csr_matrix` or `csr_array` of SciPy."""

    @property
    def format(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def indptr(self) -> IntegerArray: ...
    @property
    def indices(self) -> IntegerArray: ...


Known: TypeAlias = "CompressedRows | tuple[Indices, Indices]"


# --- the kernel: stripes are made of runs of 16 rows ------------------------------------------------------------------


def is_known(columns: IntegerArray, low: int, high: int, row: int) -> bool:
    """Whether `row` is among the ascending `columns[low:high]`."""
    if low == high:
        return False
    length = high - low
    while length > 1:
        half = length >> 1
        low += half if columns[low + half] <= row else 0
        length -= half
    return bool(columns[low] == row)


def uniform_row(word: np.integer, size: int) -> int:
    """The row below `size` that a word stands for, each alike."""
    return int((np.uint64(word) * np.uint64(size)) >> np.uint64(32))


def weighted_row(word: np.integer, cumulative: FloatArray) -> int:
    """The row that a word stands for, by the shares that `cumulative` adds up."""
    share = np.float64(word) * 2.0**-32
    low, length = 0, cumulative.size
    while length > 0:
        half = (length + 1) >> 1
        low += half if cumulative[low + half - 1] <= share else 0
        length -= half
    return low


def member_row(member: int, which: int, count: int) -> int:
    """The row that comes at this place among the rows of a stripe."""
    return (((member >> 4) * count + which) << 4) + (member & 15)


def row_in_stripe(
    word: np.integer,
    i: int,
    attempt: int,
    step: int,
    cumulative: FloatArray,
    seed: int,
    stream: int,
    stripe: tuple[int, int, int],
) -> int:
    """The row of the stripe (which, count, its number of rows) that a word stands for.

    Where rows have shares, one outside is drawn again, up to `32 * count` times; then one near it is taken.
    """
    which, count, members = stripe
    if cumulative.size == 0:
        return member_row(uniform_row(word, members), which, count)
    row = weighted_row(word, cumulative)
    if count == 1:
        return row
    again = attempt
    while (row >> 4) % count != which:
        again += TRIES
        if again >= 32 * count * TRIES:
            return member_row(min((row >> 4) // count * 16 + (row & 15), members - 1), which, count)
        words = philox_block((i >> 2) + (again << 32), step, seed, stream)
        row = weighted_row(words[i & 3], cumulative)
    return row


def sampling_kernel(
    step: IntegerArray,
    cumulative: FloatArray,
    offsets: Any,
    columns: IntegerArray,
    rows: IntegerArray,
    out: IntegerArray,
    size: int,
    seed: int,
    stream: int,
    words: IntegerArray,
    drawn: IntegerArray,
    stripes: IntegerArray,
) -> None:
    """Fill `out` with rows below `size`; without `cumulative` each alike, without `offsets` whatever is known.

    The first words of several steps are drawn together, side by side in vectors: `words`, (draws, steps), holds those
    of `drawn[1]` steps from step `drawn[0]` on. With `stripes` = (which, count) and a count above 1, only rows r with
    r // 16 % count == which are drawn; of all rows where there are none such.
    """
    which, count, members = stripes[0], stripes[1], size
    if count > 1:
        whole = size // (16 * count)
        members = 16 * whole + max(0, min(16, size - 16 * (whole * count + which)))
        if members == 0:
            which, count, members = 0, 1, size
    stripe = (which, count, members)
    if step[0] < drawn[0] or step[0] >= drawn[0] + drawn[1]:
        for i in range(0, words.shape[0], 4):
            for ahead in range(words.shape[1]):
                words[i, ahead], words[i + 1, ahead], words[i + 2, ahead], words[i + 3, ahead] = philox_block(
                    i >> 2, step[0] + ahead, seed, stream
                )
        drawn[0], drawn[1] = step[0], words.shape[1]
    now = natural(step[0] - drawn[0])
    if cumulative.size == 0 and offsets.size == 0:
        for i in range(out.size):
            out[i] = member_row(uniform_row(words[i, now], members), which, count)
        return
    for i in range(out.size):
        row = row_in_stripe(words[i, now], i, 0, step[0], cumulative, seed, stream, stripe)
        if offsets.size > 0:
            low, high = offsets[rows[i]], offsets[rows[i] + 1]
            attempt = 1
            while attempt < TRIES and is_known(columns, low, high, row):
                word = philox_block((i >> 2) + (attempt << 32), step[0], seed, stream)[i & 3]
                row = row_in_stripe(word, i, attempt, step[0], cumulative, seed, stream, stripe)
                attempt += 1
        out[i] = row


class RandomIndex(HasIndexOperands[tuple[BaseNode, ...], Axes], IndexNode[Axes]):
    """Rows from 0 to `table_size - 1`, drawn anew in each step; integers have no gradient.

    The parents are the step; where rows have shares, what those add up to; and where rows are rejected, the offsets
    and the columns of what is known, and the rows of that. Try t of position i is word i % 4 of counter
    (i // 4, t): position i draws the same whatever the others do.
    """

    __slots__ = ("seed", "stream", "table_size", "to", "weighted")
    seed: int
    stream: int
    table_size: int
    to: Dims
    weighted: bool

    def __init__(
        self,
        table_size: int,
        to: Dims,
        cumulative: Constant | None,
        known: tuple[IndexNode, IndexNode, IndexNode] | None,
        seed: int,
        stream: int,
    ) -> None:
        parents = (STEP, *(() if cumulative is None else (cumulative,)), *(known or ()))
        weighted = cumulative is not None
        self._construct(parents, table_size=table_size, to=to, weighted=weighted, seed=seed, stream=stream)

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return (IndexOperand(len(self.parents) - 1, self._known_rows),) if self._rejects else ()

    @property
    def draws_below(self) -> int:
        """All values are below it, and each of those is drawn in time."""
        return self.table_size

    within = draws_below

    @property
    def _rejects(self) -> bool:
        """Whether rows that are known are drawn again."""
        return len(self.parents) > 3

    @property
    def _known_rows(self) -> int:
        """The number of rows of what is known."""
        return int(self.parents[-3].dims[0]) - 1

    def shape_rule(self) -> Dims:
        if self._rejects:
            rows = self.parents[-1]
            if len(rows.dims) != len(self.to):
                raise ShapeError(f"rows has {len(rows.dims)} axes, dims {len(self.to)}; give one row for each draw")
            return tuple(map(unify, self.to, rows.dims))
        return self.to

    def _parts(
        self, operands: Sequence[Any]
    ) -> tuple[IntegerArray, FloatArray, IntegerArray, IntegerArray, IntegerArray]:
        """Step, cumulative shares, offsets, columns and rows, empty arrays for those that there are not."""
        none = np.empty(0, np.int64)
        cumulative = operands[1] if self.weighted else np.empty(0, np.float64)
        offsets, columns, rows = operands[-3:] if self._rejects else (none, none, none)
        return operands[0], cumulative, offsets, columns, rows

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        step, cumulative, offsets, columns, rows = self._parts([np.asarray(operand) for operand in operands])

        def rows_of(words: NDArray[np.uint32]) -> NDArray[np.int64]:
            if self.weighted:
                return np.searchsorted(cumulative, words * 2.0**-32, side="right")
            return ((words.astype(np.uint64) * np.uint64(self.table_size)) >> np.uint64(32)).astype(np.int64)

        places = np.arange(int(np.prod(shape, dtype=np.int64)))
        found = rows_of(random_bits(places.size, int(step), self.seed, self.stream))
        for attempt in range(1, TRIES if self._rejects else 1):
            of = rows.reshape(-1)[places]
            places = places[_are_known(columns, offsets[of], offsets[of + 1], found[places])]
            counter = ((places >> 2) + (attempt << 32)).astype(np.uint64)
            words = philox(counter, int(step), self.seed, self.stream)
            found[places] = rows_of(words[np.arange(places.size), places & 3])
        return xp.asarray(found.reshape(shape))

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        return "rows" if all(row is None for row in rows[:-1]) else None

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return (ZERO,) * len(self.parents)


@LOOPS.register(RandomIndex)
class _RandomIndexLoops(LoopForm):
    kernel = staticmethod(sampling_kernel)

    def kernel_arguments(self, node: RandomIndex, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        step, cumulative, offsets, columns, rows = node._parts(operands)
        arrays = step.reshape(-1), cumulative, offsets, columns, rows.reshape(-1), out.reshape(-1)
        steps = max(1, min(_MOST_STEPS, _TOGETHER // max(1, out.size)))
        words = scratch((-(-out.size // 4) * 4, steps), np.uint32)
        stripes, drawn = np.array([0, 1]), np.array([0, 0])
        return (*arrays, node.table_size, node.seed & WORD, node.stream & WORD, words, drawn, stripes)

    def draws_from(self, node: RandomIndex) -> int:
        return node.table_size


def _are_known(columns: IntegerArray, low: IntegerArray, high: IntegerArray, wanted: IntegerArray) -> NDArray[np.bool_]:
    """`is_known` for many rows at once."""
    end = high
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        less = (low < high) & (columns[np.minimum(middle, len(columns) - 1)] < wanted)
        low, high = np.where(less, middle + 1, low), np.where(less, high, middle)
    inside: NDArray[np.bool_] = low < end
    inside[inside] = columns[low[inside]] == wanted[inside]
    return inside


def _size_of(table_size: Size | Dim) -> int:
    size = axis_size(table_size) if isinstance(table_size, Dim) else operator.index(table_size)
    if size is None:
        raise ShapeError(f"random.index: table_size is a number or an axis with a size, not {table_size!r}")
    if not 1 <= size <= 2**32:
        raise ShapeError(f"random.index: table_size goes from 1 to 2**32, and is not {size}")
    return size


def _cumulative(weights: Values, size: int) -> Constant:
    """What the shares of the rows before each and its own add up to."""
    array = as_array(weights)
    if array.dtype.kind not in "fiub":
        raise DTypeError(f"random.index: weights holds numbers, not {array.dtype}")
    if array.shape != (size,):
        raise ShapeError(
            f"random.index: weights has shape {array.shape}; give one for each of the {size} rows: ({size},)"
        )
    wrong = np.flatnonzero(~((array >= 0) & np.isfinite(array)))
    if wrong.size:
        raise ValueError(
            f"random.index: weights are finite and at least 0, and weights[{wrong[0]}] is {array[wrong[0]]}"
        )
    largest = array.max()
    if largest == 0:
        raise ValueError("random.index: all weights are 0, so no row can be drawn")
    total = np.cumsum(array / np.float64(largest))  # the sum stays finite
    return Constant(total / total[-1], name="cumulative_weights")


def _known_parts(known: Known, size: int) -> tuple[IndexConstant, IndexConstant]:
    """Offsets and columns of what is known, ascending in each row."""
    if isinstance(known, tuple):
        if len(known) != 2:
            raise ShapeError(f"random.index: known is a pair (offsets, columns), not {len(known)} of them")
        given = known
    elif getattr(known, "format", None) == "csr":
        if known.shape[1] != size:
            raise ShapeError(f"random.index: known has {known.shape[1]} columns, and the table {size} rows")
        given = known.indptr, known.indices
    else:
        raise DTypeError(
            f"random.index: known is a sparse matrix as known.tocsr() gives it, or a pair (offsets, columns), "
            f"not {type(known).__name__}"
        )
    offsets, columns = index_array(given[0], "offsets of known"), index_array(given[1], "columns of known")
    if offsets.ndim != 1 or columns.ndim != 1 or offsets.size == 0:
        raise ShapeError(
            f"random.index: known has offsets of shape {offsets.shape} and columns of shape {columns.shape}; expected "
            f"one axis each, and an offset more than there are rows"
        )
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])
    if falls.size:
        at = falls[0]
        raise ValueError(
            f"random.index: the offsets of known ascend, and offsets[{at + 1}] is {offsets[at + 1]} after {offsets[at]}"
        )
    if offsets[0] != 0 or offsets[-1] != columns.size:
        raise ValueError(
            f"random.index: the offsets of known go from 0 to the number of columns, {columns.size}, "
            f"not from {offsets[0]} to {offsets[-1]}"
        )
    beyond = np.flatnonzero((columns < 0) | (columns >= size))
    if beyond.size:
        raise IndexOutOfRange(
            f"random.index: columns of known holds {columns[beyond[0]]} at position {beyond[0]}, and the table has the "
            f"rows 0 to {size - 1}"
        )
    falls = np.flatnonzero(columns[1:] < columns[:-1]) + 1
    if not np.isin(falls, offsets).all():
        columns = columns[np.lexsort((columns, np.repeat(np.arange(offsets.size - 1), np.diff(offsets))))]
    return IndexConstant(offsets, name="known_offsets"), IndexConstant(columns, name="known_columns")


class Options(TypedDict, total=False):
    """What draws may be given besides the size of the table and their axes."""

    weights: Values | None
    known: Known | None
    rows: IndexNode | None
    seed: int
    stream: int | None


@overload
def index(table_size: Size | Dim, dims: Sizes, **options: Unpack[Options]) -> RandomIndex[Any]: ...
@overload
def index(table_size: Size | Dim, dims: tuple[AxisOf[D1]], **options: Unpack[Options]) -> RandomIndex[tuple[D1]]: ...
@overload
def index(
    table_size: Size | Dim, dims: tuple[AxisOf[D1], AxisOf[D2]], **options: Unpack[Options]
) -> RandomIndex[tuple[D1, D2]]: ...
@overload
def index(
    table_size: Size | Dim, dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3]], **options: Unpack[Options]
) -> RandomIndex[tuple[D1, D2, D3]]: ...
@overload
def index(
    table_size: Size | Dim, dims: tuple[AxisOf[D1], AxisOf[D2], AxisOf[D3], AxisOf[D4]], **options: Unpack[Options]
) -> RandomIndex[tuple[D1, D2, D3, D4]]: ...
@overload
def index(table_size: Size | Dim, dims: NewDims, **options: Unpack[Options]) -> RandomIndex[NewDims]: ...
def index(
    table_size: Any,
    dims: Any,
    *,
    weights: Any = None,
    known: Any = None,
    rows: Any = None,
    seed: int = 0,
    stream: int | None = None,
) -> Any:
    """Rows drawn at random from a table of `table_size` rows, of axes `dims`; as negative samples are.

    Each `forward()` draws anew, the same rows for the same `seed`, step (see `wy.random.set_step`) and `stream`; every
    node has a stream of its own unless one is given. An axis of `dims` without a size takes that of the data that
    other leaves of the graph are given.

    `weights`, of shape (table_size,), makes a row as likely as its share of their sum; without it all are alike.
    `known` names rows that are not wanted for each of some users: a SciPy matrix in the form `csr`, of shape (users,
    table_size), whose stored entries count whatever they hold, or a pair of integer arrays (offsets, columns), of
    shapes (users + 1,) and (entries,), where the known rows of user u are `columns[offsets[u]:offsets[u + 1]]`.
    `rows`, an index node of axes `dims`, tells which user each draw is for. A known row is drawn again, up to 8 draws
    in all, of which the last is taken as it is: who knows half of the table gets a known row once in 256 times.

    Raises `ShapeError` for a `table_size` below 1 or without a size, weights of another shape or `rows` of other axes;
    `ValueError` for a weight that is negative or not finite, weights that are all 0, offsets that do not ascend from 0
    to the number of columns, or one of `known` and `rows` without the other; `IndexOutOfRange` for a column beyond the
    table, a user beyond `known`, or a node that chooses from a table of fewer rows; `DTypeError` for other types.

    >>> class Batch(wy.Dim): ...
    >>> users = wy.IndexInput([0, 1, 1], dims=(Batch(),))
    >>> known = np.array([0, 2, 3]), np.array([0, 1, 2])  # user 0 knows rows 0 and 1, user 1 row 2
    >>> wy.random.set_step(0)
    >>> wy.random.index(3, (Batch(),), known=known, rows=users, stream=0).forward().tolist()
    [2, 0, 1]
    """
    size = _size_of(table_size)
    cumulative = None if weights is None else _cumulative(weights, size)
    parts = None
    if (known is None) != (rows is None):
        given, lacking = ("known", "rows") if rows is None else ("rows", "known")
        raise ValueError(f"random.index: {given} is given without {lacking}; known names what each of the rows knows")
    if known is not None:
        if not isinstance(rows, IndexNode):
            raise DTypeError(f"random.index: rows is an index node, as wy.IndexInput, not {type(rows).__name__}")
        parts = (*_known_parts(known, size), rows)
    axes = declared_dims(None, dims, True, "random.index")
    return RandomIndex(size, axes, cumulative, parts, operator.index(seed), stream_or_next(stream))
