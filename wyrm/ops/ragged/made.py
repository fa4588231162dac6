"""Values along axes that are made of others: the entries of two axes joined in each row, and pairs of a row's entries.

What an entry of a made axis is follows from its place in its row and from the lengths of the rows it is made of, so
that an op of flat arrays looks it up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.graph.axes import Axis, Dims, MadeRagged, Ragged, flat_dims
from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.index_maps import IndexLoad, IndexMap
from wyrm.graph.index_operands import HasIndexOperands, IndexOperand
from wyrm.graph.loop_form import LOOPS, ByKernel, KernelArgument, Scattered, ScatterTarget
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.ragged_leaves import Parts
from wyrm.graph.typing import Array, IntegerArray
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes, common_dtype
from wyrm.ops.indexing.gather import IndexGather
from wyrm.ops.indexing.index import Index
from wyrm.ops.indexing.made_rows import (
    IndexJoinedEntries,
    IndexPairEntries,
    JoinedEntries,
    JoinedPart,
    PairEntries,
    PairTotals,
)
from wyrm.ops.indexing.segment import segment_total
from wyrm.ops.ragged.forms import PartsOf, flat_form, places_of, repeated
from wyrm.ops.shaping.shape import WithSizes

# --- two axes joined --------------------------------------------------------------------------------------------------


class _InterleavedRules(HasIndexOperands[Any, Axes], abstract=True):
    """What `Interleaved` and `IndexInterleaved` share.

    Row `i` of the first operand is row `p[i]` of the result, for the first of two arrays of places, and those of the
    second operand are at the others. Together they are all rows. The fifth operand has an integer for each row of the
    result. With `gathers` it is the row of the first operand that the row is, or -1 less the row of the second: rows
    that only fill the operands up have places of others, and rows that only fill the result up repeat others.
    """

    __slots__ = ("gathers", "to")
    to: Dims
    gathers: bool

    def __init__(self, operands: Sequence[Any], to: Dims, gathers: bool) -> None:
        self._construct(tuple(operands), to=to, gathers=gathers)

    def shape_rule(self) -> Dims:
        return self.to

    def index_operands(self) -> tuple[IndexOperand, ...]:
        return IndexOperand(2, self.to[0]), IndexOperand(3, self.to[0])

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Any:
        x, y, *places, sources = operands
        if self.gathers:
            # A row that repeats none, because there is none, is the first one of an operand that has one.
            zero = 0 * sources
            of_x, of_y = xp.maximum(sources, zero), xp.maximum(-1 - sources, zero)
            if not (len(x) and len(y)):
                return xp.take(x, of_x, axis=0) if len(x) else xp.take(y, of_y, axis=0)
            is_x = xp.reshape(sources >= 0, (-1, *(1 for _ in shape[1:])))
            return xp.where(is_x, xp.take(x, of_x, axis=0), xp.take(y, of_y, axis=0))
        result: Any = xp.zeros(shape, x.dtype)
        for values, at in zip((x, y), places, strict=True):
            if hasattr(result, "at"):
                result = result.at[at].set(values)
            else:
                result[at] = values
        return result


class Interleaved(_InterleavedRules[Axes], Node[Any, Axes], abstract=True):
    """The rows of two arrays in the order that places give; see `_InterleavedRules`."""

    __slots__ = ()

    def dtype_rule(self) -> np.dtype:
        return common_dtype(self.parents[:2])

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        return Index(gradient, self.parents[2]), Index(gradient, self.parents[3]), ZERO, ZERO, ZERO


class IndexInterleaved(_InterleavedRules[Axes], IndexNode[Axes], abstract=True):
    """The same as `Interleaved` for integers."""

    __slots__ = ()


@LOOPS.register(Interleaved, IndexInterleaved)
class _InterleavedLoops(Scattered):
    starts_from_zero = False

    def scatter_index(self, node: Any, parent: int, index: IndexMap) -> ScatterTarget | None:
        return ScatterTarget((IndexLoad(2 + parent, index[:1]), *index[1:])) if parent < 2 else None


def _of_joined(axis: Axis, parts: PartsOf) -> tuple[Parts, Parts, Parts]:
    """Return the parts of a joined axis, and those of the two axes that it is made of."""
    assert isinstance(axis, MadeRagged)
    first, second = axis.parts
    return parts(axis), parts(first()), parts(second())


def _own_places(own: Parts, parts: PartsOf) -> Any:
    """Return the position of each entry in its row, 0 for those that only fill an array up."""
    return parts.counted(own, places_of(own), 0)


def _places_in_joined(axis: Axis, part: int, parts: PartsOf) -> Any:
    """Return where among all entries along a joined axis each entry of its first or second part stands."""
    own, *of_parts = _of_joined(axis, parts)
    starts: Any = own.starts
    if not part:
        return repeated(of_parts[0], starts) + _own_places(of_parts[0], parts)
    second = of_parts[1]
    found = repeated(second, starts + of_parts[0].lengths) + _own_places(second, parts)
    # Without any entry, those that fill an array up have the first row, and there no place of their own.
    return where(repeated(second, second.lengths) > 0, found, 0) if parts.padded else found


@flat_form(JoinedEntries, IndexJoinedEntries)
def _joined_entries(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    axis = node.dims[1]
    own, first, second = _of_joined(axis, parts)
    op = IndexInterleaved if isinstance(node, IndexNode) else Interleaved
    of_rows: Any = own.rows
    if parts.padded:
        place, split = _own_places(own, parts), repeated(own, first.lengths)
        behind: Any = second.starts
        later = repeated(own, behind - first.lengths) + place
        of_rows = where(place < split, repeated(own, first.starts) + place, -1 - later)
        # The gradient is that of the entries alone.
        operands = [parts.counted(each, x, 0) for each, x in zip((first, second), operands, strict=True)]
    places = [_places_in_joined(axis, part, parts) for part in (0, 1)]
    return op([*operands, *places, of_rows], flat_dims(node.dims), parts.padded)


@flat_form(JoinedPart)
def _joined_part(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    return Index(operands[0], _places_in_joined(node.parents[0].dims[1], node.part, parts))


# --- pairs of a row's entries -----------------------------------------------------------------------------------------


def triangle(j: Any) -> Any:
    """Return j (j + 1) / 2, which the numbers along the rows of a triangle above row `j` are."""
    return (j + 1) // 2 * (j // 2 * 2 + 1)


class TriangleRow(IndexNode[Axes], abstract=True):
    """The largest j with j (j + 1) / 2 <= x, for integers x of at least 0.

    Counted from the last one, pairs stand in rows of 1, 2, 3, ... with the same first entry.
    """

    __slots__ = ()

    def __init__(self, x: IndexNode) -> None:
        self._construct((x,))

    def shape_rule(self) -> Dims:
        dims: Dims = self.parents[0].dims
        return dims

    def evaluate(self, xp: Any, *operands: Any, shape: tuple[int, ...]) -> Array:
        (x,) = operands
        # The root may be rounded to the next integer, either way.
        j = xp.floor(xp.sqrt(2.0 * x.astype(np.float64) + 0.25) - 0.5).astype(x.dtype)
        j = xp.where(triangle(j) > x, j - 1, j)
        found: Array = xp.where(triangle(j + 1) <= x, j + 1, j)
        return found


@LOOPS.register(TriangleRow)
class _TriangleRowLoops(ByKernel):
    @staticmethod
    def kernel(x: IntegerArray, out: IntegerArray) -> None:
        for i in range(x.size):
            j = np.int64(np.sqrt(2.0 * np.float64(x[i]) + 0.25) - 0.5)
            if j * (j + 1) // 2 > x[i]:
                j -= 1
            if (j + 1) * (j + 2) // 2 <= x[i]:
                j += 1
            out[i] = j

    def kernel_arguments(self, node: TriangleRow, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return operands[0].reshape(-1), out.reshape(-1)


def _places_of_pairs(axis: Axis, part: int, parts: PartsOf) -> Any:
    """Return where among all entries that pairs are made of the first or the second entry of each pair stands."""
    assert isinstance(axis, MadeRagged)
    own, of_entries = parts(axis), parts(_paired(axis))
    starts: Any = of_entries.starts
    lengths: Any = of_entries.lengths
    # Counted from the last pair on, with entries counted from the last one too.
    rest = repeated(own, own.lengths) - 1 - _own_places(own, parts)
    if parts.padded:
        rest = rest.maximum(0)  # without any pair, those that fill an array up have a row without one
    row = TriangleRow(rest)
    before: Any = 1 + rest - triangle(row) if part else row + 2
    return repeated(own, starts) + _at_least_0(repeated(own, lengths) - before, parts)


def _at_least_0(place: Any, parts: PartsOf) -> Any:
    return place.maximum(0) if parts.padded else place


def _paired(axis: MadeRagged) -> Ragged:
    (name,) = axis.parts
    return name()


@flat_form(PairEntries, IndexPairEntries)
def _pair_entries(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    ((x,), places) = operands, _places_of_pairs(node.dims[1], node.part, parts)
    return IndexGather(x, (places,), (0,), 0) if isinstance(node, IndexNode) else Index(x, places)


@flat_form(PairTotals)
def _pair_totals(node: Any, operands: list[Any], parts: PartsOf) -> Any:
    axis = node.parents[0].dims[1]
    own, of_entries = parts(axis), parts(_paired(axis))
    counted, places = parts.counted(own, operands[0], 0.0), _places_of_pairs(axis, node.part, parts)
    # The rows of the entries give the axis of all entries its size.
    return WithSizes(segment_total(counted, places, flat_dims(node.to)[0]), (of_entries.rows,))
