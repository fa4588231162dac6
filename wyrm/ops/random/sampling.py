"""Random row numbers of a table: negative samples, uniform or weighted, with rejection of known rows."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, overload

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Unpack

from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.graph.axes import Axis, Dim, Dims, axis_size, unify
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.jax_form import JAX
from wyrm.graph.leaves import Constant
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import IndexNode
from wyrm.graph.storage import declared_dims, index_array
from wyrm.graph.typing import (
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
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.kernels.native import scratch
from wyrm.ops.random.philox import STEP, WORD, Draws, philox, random_bits, stream_or_next
from wyrm.ops.random.sampling_jax import RandomIndexForm
from wyrm.ops.random.sampling_kernels import (
    MAX_DRAWS,
    sampling_kernel,
)

# Random words to generate at once: those of several steps, up to `_MAX_STEPS`.
_WORDS_AT_ONCE, _MAX_STEPS = 1024, 64


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


class RandomIndex(Draws, HasIndexOperands[tuple[BaseNode, ...], Axes], IndexNode[Axes]):
    """Random integers from 0 to `table_size - 1`, drawn anew in each step; they have no gradient.

    The parents are the step, with weights the cumulative probabilities, and with rejection the offsets and columns of
    the known rows and the user of each draw. Draw t of position i is word i % 4 of counter (i // 4, t), so a position
    draws the same whatever the other positions are.
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
        return (IndexOperand(len(self.parents) - 1, self._known_rows()),) if self.rejects else ()

    @property
    def draws_below(self) -> int:
        """The upper bound of the values; every value below it has a chance to be drawn."""
        return self.table_size

    within = draws_below

    @property
    def rejects(self) -> bool:
        """Whether known rows are drawn again."""
        return len(self.parents) > 3

    def _known_rows(self) -> int:
        """The number of users that `known` describes."""
        return int(self.parents[-3].dims[0]) - 1

    def shape_rule(self) -> Dims:
        if self.rejects:
            rows = self.parents[-1]
            if len(rows.dims) != len(self.to):
                raise ShapeError(
                    f"rows has {len(rows.dims)} axes, but dims has {len(self.to)}; rows must have one element per draw"
                )
            return tuple(map(unify, self.to, rows.dims))
        return self.to

    def _parts(
        self, operands: Sequence[Any]
    ) -> tuple[IntegerArray, FloatArray, IntegerArray, IntegerArray, IntegerArray]:
        """Return step, cumulative probabilities, offsets, columns and rows; absent operands are empty arrays."""
        empty = np.empty(0, np.int64)
        cumulative = operands[1] if self.weighted else np.empty(0, np.float64)
        offsets, columns, rows = operands[-3:] if self.rejects else (empty, empty, empty)
        return operands[0], cumulative, offsets, columns, rows

    def evaluate(self, xp: ArrayNamespace, *operands: Array, shape: tuple[int, ...]) -> Array:
        step, cumulative, offsets, columns, rows = self._parts([np.asarray(operand) for operand in operands])

        def rows_of(words: NDArray[np.uint32]) -> NDArray[np.int64]:
            if self.weighted:
                return np.searchsorted(cumulative, words * 2.0**-32, side="right")
            return ((words.astype(np.uint64) * np.uint64(self.table_size)) >> np.uint64(32)).astype(np.int64)

        positions = np.arange(int(np.prod(shape, dtype=np.int64)))
        result = rows_of(random_bits(positions.size, int(step), self.seed, self.stream))
        for attempt in range(1, MAX_DRAWS if self.rejects else 1):
            users = rows.reshape(-1)[positions]
            positions = positions[_are_known(columns, offsets[users], offsets[users + 1], result[positions])]
            counter = ((positions >> 2) + (attempt << 32)).astype(np.uint64)
            words = philox(counter, int(step), self.seed, self.stream)
            result[positions] = rows_of(words[np.arange(positions.size), positions & 3])
        return xp.asarray(result.reshape(shape))

    def drawn_by_rows(self, operands: Sequence[Any], mapped: Sequence[bool], axis: Axis) -> BaseNode:
        if self.rejects and not mapped[-1]:
            raise ShapeError(f"{describe(self)}: rows must differ between the rows of vmap, or be absent")
        return self.rebuild(tuple(operands), self.attribute_values() | {"to": (axis, *self.to)})

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        return "rows" if all(row is None for row in rows[:-1]) else None


@LOOPS.register(RandomIndex)
class _RandomIndexLoops(ByKernel):
    kernel = staticmethod(sampling_kernel)

    def kernel_arguments(self, node: RandomIndex, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        step, cumulative, offsets, columns, rows = node._parts(operands)
        arrays = step.reshape(-1), cumulative, offsets, columns, rows.reshape(-1), out.reshape(-1)
        steps = max(1, min(_MAX_STEPS, _WORDS_AT_ONCE // max(1, out.size)))
        words = scratch((-(-out.size // 4) * 4, steps), np.uint32)
        stripes, drawn = np.array([0, 1]), np.array([0, 0])
        return (*arrays, node.table_size, node.seed & WORD, node.stream & WORD, words, drawn, stripes)

    def draws_from(self, node: RandomIndex) -> int:
        return node.table_size


JAX.register(RandomIndex)(RandomIndexForm(MAX_DRAWS))


def _are_known(columns: IntegerArray, low: IntegerArray, high: IntegerArray, rows: IntegerArray) -> NDArray[np.bool_]:
    """Return `is_known` for arrays of rows."""
    end = high
    for _ in range(int((high - low).max(initial=0)).bit_length()):
        middle = (low + high) >> 1
        less = (low < high) & (columns[np.minimum(middle, len(columns) - 1)] < rows)
        low, high = np.where(less, middle + 1, low), np.where(less, high, middle)
    inside: NDArray[np.bool_] = low < end
    inside[inside] = columns[low[inside]] == rows[inside]
    return inside


def _size_of(table_size: Size | Dim) -> int:
    size = axis_size(table_size) if isinstance(table_size, Dim) else operator.index(table_size)
    if size is None:
        raise ShapeError(f"random.index: table_size must be a number or an axis with a size, not {table_size!r}")
    if not 1 <= size <= 2**32:
        raise ShapeError(f"random.index: table_size must be in [1, 2**32], not {size}")
    return size


def _cumulative(weights: Values, size: int) -> Constant:
    """Return the cumulative probabilities of the rows."""
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
    largest = array.max()
    if largest == 0:
        raise ValueError("random.index: all weights are 0, so no row can be drawn")
    total = np.cumsum(array / np.float64(largest))  # the sum stays finite
    return Constant(total / total[-1], name="cumulative_weights")


def _known_parts(known: Known, size: int) -> tuple[IndexConstant, IndexConstant]:
    """Return the offsets and columns of `known`, with the columns of each user in ascending order."""
    if isinstance(known, tuple):
        if len(known) != 2:
            raise ShapeError(f"random.index: known must be a pair (offsets, columns), not {len(known)} arrays")
        arrays = known
    elif getattr(known, "format", None) == "csr":
        if known.shape[1] != size:
            raise ShapeError(f"random.index: known has {known.shape[1]} columns, but the table has {size} rows")
        arrays = known.indptr, known.indices
    else:
        raise DTypeError(
            f"random.index: known must be a sparse matrix in the format of known.tocsr() or a pair "
            f"(offsets, columns), not {type(known).__name__}"
        )
    offsets, columns = index_array(arrays[0], "offsets of known"), index_array(arrays[1], "columns of known")
    if offsets.ndim != 1 or columns.ndim != 1 or offsets.size == 0:
        raise ShapeError(
            f"random.index: known has offsets of shape {offsets.shape} and columns of shape {columns.shape}; both must "
            f"have one axis, and offsets one element more than there are users"
        )
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])
    if falls.size:
        at = falls[0]
        raise ValueError(
            f"random.index: the offsets of known must ascend, but offsets[{at + 1}] is {offsets[at + 1]} after "
            f"{offsets[at]}"
        )
    if offsets[0] != 0 or offsets[-1] != columns.size:
        raise ValueError(
            f"random.index: the offsets of known must go from 0 to the number of columns, {columns.size}, "
            f"not from {offsets[0]} to {offsets[-1]}"
        )
    beyond = np.flatnonzero((columns < 0) | (columns >= size))
    if beyond.size:
        raise IndexOutOfRange(
            f"random.index: columns of known holds {columns[beyond[0]]} at position {beyond[0]}, but the table has the "
            f"rows 0 to {size - 1}"
        )
    falls = np.flatnonzero(columns[1:] < columns[:-1]) + 1
    if not np.isin(falls, offsets).all():
        columns = columns[np.lexsort((columns, np.repeat(np.arange(offsets.size - 1), np.diff(offsets))))]
    return IndexConstant(offsets, name="known_offsets"), IndexConstant(columns, name="known_columns")


class Options(TypedDict, total=False):
    """The keyword arguments of `index`."""

    weights: Values | None
    known: Known | None
    rows: IndexNode | None
    seed: int
    stream: int | None


@overload
def index(table_size: Size | Dim, dims: Sizes, **options: Unpack[Options]) -> RandomIndex: ...
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
    """Return random row numbers of a table of `table_size` rows, with the axes `dims`, as for negative samples.

    Each `forward()` draws anew. The draws are a function of `seed`, `stream` and the step (see `wy.random.set_step`);
    the default is a stream that no other node has. An axis of `dims` without a size gets its size from the data.

    `weights`, of shape (table_size,), makes the probability of a row proportional to its weight; the default is
    uniform. `known` holds the rows to reject for each user: a SciPy matrix in CSR format, of shape (users, table_size),
    whose stored entries count whatever their values, or a pair of integer arrays (offsets, columns), of shapes
    (users + 1,) and (entries,), where user u knows the rows `columns[offsets[u]:offsets[u + 1]]`. `rows`, an index node
    of the axes `dims`, holds the user of each draw. A known row is drawn again; the 8th draw is accepted even if it is
    known, so a user who knows half of the table gets a known row with a probability of 1/256.

    Raise `ShapeError` for a `table_size` outside [1, 2**32] or without a size, and for `weights` or `rows` of
    another shape; `ValueError` for a negative or non-finite weight, weights that are all 0, offsets that do not ascend
    from 0 to the number of columns, and one of `known` and `rows` without the other; `IndexOutOfRange` for a column
    beyond the table, a user beyond `known`, and a use of the result as index into fewer rows; `DTypeError` for other
    types.

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
        present, missing = ("known", "rows") if rows is None else ("rows", "known")
        raise ValueError(
            f"random.index: {present} needs {missing}: known holds the rows to reject for each user, rows the users"
        )
    if known is not None:
        if not isinstance(rows, IndexNode):
            raise DTypeError(f"random.index: rows must be an index node, like wy.IndexInput, not {type(rows).__name__}")
        parts = (*_known_parts(known, size), rows)
    axes = declared_dims(None, dims, True, "random.index")
    return RandomIndex(size, axes, cumulative, parts, operator.index(seed), stream_or_next(stream))
