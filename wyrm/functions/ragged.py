"""Functions of nodes whose rows have different lengths, such as the texts of a batch: axes of `wyrm.Ragged`."""

from __future__ import annotations

from typing import Any, Protocol, overload

from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dim, Ragged, ragged_axis
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.typing import D1, Bs, Indices
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.gather import Place
from wyrm.ops.indexing.index import as_indices
from wyrm.ops.ragged import EntryPositions, EntryRowNumbers, RowLengthsOf
from wyrm.support.options import whole

Rows = TypeVar("Rows", bound=Dim)
Along = TypeVar("Along", bound=Ragged)
Shape_co = TypeVar("Shape_co", covariant=True)


class OfRows(Protocol[Shape_co]):
    """A node of floats or of integers, seen as its shape."""

    @property
    def dims(self) -> Shape_co: ...


def row_lengths(x: OfRows[tuple[Rows, Along, *Bs]]) -> IndexNode[tuple[Rows]]:
    """Return the number of entries of each row, of the shape (rows,).

    Raise `ShapeError` for a node without an axis of different lengths.

    >>> class Batch(wy.Dim): ...
    >>> class Words(wy.Ragged): ...
    >>> words = wy.IndexInput([[3, 1], [], [2]], dims=(Batch(), Words()))
    >>> wy.row_lengths(words).forward().tolist()
    [2, 0, 1]
    """
    return RowLengthsOf(_of_rows("row_lengths", x))


def entry_positions(x: OfRows[tuple[Rows, Along, *Bs]]) -> IndexNode[tuple[Rows, Along]]:
    """Return the position of each entry in its row, from 0 on, of the shape (rows, entries of each).

    Raise `ShapeError` for a node without an axis of different lengths.

    >>> class Batch(wy.Dim): ...
    >>> class Words(wy.Ragged): ...
    >>> words = wy.IndexInput([[3, 1], [], [2]], dims=(Batch(), Words()))
    >>> wy.entry_positions(words).forward().tolist()
    [[0, 1], [], [0]]
    """
    return EntryPositions(_of_rows("entry_positions", x))


def entry_rows(x: OfRows[tuple[Rows, Along, *Bs]]) -> IndexNode[tuple[Rows, Along]]:
    """Return the number of its row for each entry, of the shape (rows, entries of each).

    Raise `ShapeError` for a node without an axis of different lengths.

    >>> class Batch(wy.Dim): ...
    >>> class Words(wy.Ragged): ...
    >>> words = wy.IndexInput([[3, 1], [], [2]], dims=(Batch(), Words()))
    >>> wy.entry_rows(words).forward().tolist()
    [[0, 0], [], [2]]
    """
    return EntryRowNumbers(_of_rows("entry_rows", x))


def first_entry(x: Node[Any, tuple[Rows, Along, *Bs]]) -> Node[Any, tuple[Rows, *Bs]]:
    """Return the first entry of each row, of the shape (rows, ...); zeros for a row without entries.

    Raise `ShapeError` for a node without an axis of different lengths.

    >>> class Batch(wy.Dim): ...
    >>> class Words(wy.Ragged): ...
    >>> x = wy.Input([[3.0, 1.0], [], [2.0]], dims=(Batch(), Words()))
    >>> wy.first_entry(x).forward().tolist()
    [3.0, 0.0, 2.0]
    """
    return entry_at(x, 0)


def last_entry(x: Node[Any, tuple[Rows, Along, *Bs]]) -> Node[Any, tuple[Rows, *Bs]]:
    """Return the last entry of each row, of the shape (rows, ...); zeros for a row without entries.

    Raise `ShapeError` for a node without an axis of different lengths.

    >>> class Batch(wy.Dim): ...
    >>> class Words(wy.Ragged): ...
    >>> x = wy.Input([[3.0, 1.0], [], [2.0]], dims=(Batch(), Words()))
    >>> wy.last_entry(x).forward().tolist()
    [1.0, 0.0, 2.0]
    """
    return entry_at(x, row_lengths(x) - 1)


@overload
def entry_at(x: Node[Any, tuple[Rows, Along, *Bs]], positions: int) -> Node[Any, tuple[Rows, *Bs]]: ...
@overload
def entry_at(
    x: Node[Any, tuple[Rows, Along, *Bs]], positions: IndexNode[tuple[Rows]] | Indices
) -> Node[Any, tuple[Rows, *Bs]]: ...
def entry_at(x: Any, positions: Any) -> Node:
    """Return one entry of each row, of the shape (rows, ...): that at `positions`, one number or one for each row.

    A row without an entry there gives zeros. The gradient is that of the entries. Raise `ShapeError` for a node without
    an axis of different lengths, and for positions with another shape.

    >>> class Batch(wy.Dim): ...
    >>> class Words(wy.Ragged): ...
    >>> x = wy.Input([[3.0, 1.0], [], [2.0]], dims=(Batch(), Words()))
    >>> wy.entry_at(x, 1).forward().tolist()
    [1.0, 0.0, 0.0]
    """
    places: Any = entry_positions(x)
    wanted: Any = as_indices(positions)
    if wanted.ndim > 1:
        raise ShapeError(f"entry_at takes one position, or one for each row, not {describe(wanted)}")
    chosen = places == (wanted.expand_dims(1) if wanted.ndim else wanted)
    if x.ndim > 2:
        chosen = chosen.expand_dims(tuple(range(2, x.ndim)))
    found: Node = where(chosen, x, 0.0).sum(axis=1)
    return found


@overload
def row_segment_sum(
    x: Node[Any, tuple[Rows, Along, *Bs]], segment_ids: IndexNode[tuple[Rows, Along]], num_segments: D1
) -> Node[Any, tuple[Rows, D1, *Bs]]: ...
@overload
def row_segment_sum(
    x: Node[Any, tuple[Rows, Along, *Bs]], segment_ids: IndexNode[tuple[Rows, Along]], num_segments: int
) -> Node[Any, tuple[Rows, Any, *Bs]]: ...
def row_segment_sum(x: Any, segment_ids: Any, num_segments: Any) -> Node:
    """Return the sums of the entries of each segment of each row, of the shape (rows, num_segments, ...).

    `segment_ids` has an integer for each entry, such as the field of a feature: element (r, s) of the result is the sum
    of the entries of row r with id s, 0 where there is none. With `wy.segment_sum`, segments are those of all rows.

    Raise `IndexOutOfRange` for an id below 0 or not below `num_segments`, and `ShapeError` for a node without an axis
    of different lengths and for ids of other entries.

    >>> class Batch(wy.Dim): ...
    >>> class Features(wy.Ragged): ...
    >>> dims = Batch(), Features()
    >>> x, field = wy.Input([[3.0, 1.0, 2.0], []], dims=dims), wy.IndexInput([[0, 2, 0], []], dims=dims)
    >>> wy.row_segment_sum(x, field, 3).forward().tolist()
    [[5.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    ids = as_indices(segment_ids)
    if ids.dims != _of_rows("row_segment_sum", x).dims[:2]:
        raise ShapeError(f"row_segment_sum takes an id for each entry of {describe(x)}, not {describe(ids)}")
    segments = (
        num_segments if isinstance(num_segments, Dim) else whole("row_segment_sum: num_segments", num_segments, 1)
    )
    rows, _, *rest = x.dims
    return Place(x, (entry_rows(x), ids), (0, 1), 0, (rows, segments, *rest))


def _of_rows(name: str, x: Any) -> Any:
    if not isinstance(x, BaseNode) or ragged_axis(x.dims) is None:
        given = describe(x) if isinstance(x, BaseNode) else type(x).__name__
        raise ShapeError(
            f"{name} takes a node with an axis of different lengths, as in class Words(wy.Ragged): ... and "
            f"wy.IndexInput(dims=(batch, Words())), not {given}"
        )
    return x
