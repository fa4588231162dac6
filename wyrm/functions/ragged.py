"""Functions of nodes whose rows have different lengths, such as the texts of a batch: axes of `wyrm.Ragged`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, overload

from typing_extensions import TypeVar, TypeVarTuple

from wyrm.errors import ShapeError
from wyrm.functions.carries import as_floats, carry_and_made, checked_carry, from_floats, initial_carry, leaf_nodes
from wyrm.functions.function import function_of_nodes
from wyrm.functions.loops import scan_of
from wyrm.functions.pytree import flatten, leaf_paths, unflatten
from wyrm.functions.tracing import name_of
from wyrm.graph.axes import Dim, Dims, Pairs, Ragged, axis_size, ragged_axis, unify
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.typing import D1, Bs, Indices
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.indexing.gather import Place
from wyrm.ops.indexing.index import as_indices
from wyrm.ops.indexing.made_rows import pairs
from wyrm.ops.ragged import EntryPositions, EntryRowNumbers, RowLengthsOf, entries_of, rows_of
from wyrm.ops.shaping.shape import with_axes
from wyrm.ops.subgraph import placeholder_like
from wyrm.support.options import whole

Rows = TypeVar("Rows", bound=Dim)
Along = TypeVar("Along", bound=Ragged)
Shape_co = TypeVar("Shape_co", covariant=True)
# The axes of an entry, and of what a step makes of it.
Row = TypeVarTuple("Row")
Made = TypeVarTuple("Made")


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
    return RowLengthsOf(_with_ragged_axis("row_lengths", x))


def entry_positions(x: OfRows[tuple[Rows, Along, *Bs]]) -> IndexNode[tuple[Rows, Along]]:
    """Return the position of each entry in its row, from 0 on, of the shape (rows, entries of each).

    Raise `ShapeError` for a node without an axis of different lengths.

    >>> class Batch(wy.Dim): ...
    >>> class Words(wy.Ragged): ...
    >>> words = wy.IndexInput([[3, 1], [], [2]], dims=(Batch(), Words()))
    >>> wy.entry_positions(words).forward().tolist()
    [[0, 1], [], [0]]
    """
    return EntryPositions(_with_ragged_axis("entry_positions", x))


def entry_rows(x: OfRows[tuple[Rows, Along, *Bs]]) -> IndexNode[tuple[Rows, Along]]:
    """Return the number of its row for each entry, of the shape (rows, entries of each).

    Raise `ShapeError` for a node without an axis of different lengths.

    >>> class Batch(wy.Dim): ...
    >>> class Words(wy.Ragged): ...
    >>> words = wy.IndexInput([[3, 1], [], [2]], dims=(Batch(), Words()))
    >>> wy.entry_rows(words).forward().tolist()
    [[0, 0], [], [2]]
    """
    return EntryRowNumbers(_with_ragged_axis("entry_rows", x))


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
def row_pairs(
    x: Node[Any, tuple[Rows, Along, *Bs]],
) -> tuple[Node[Any, tuple[Rows, Pairs[Along], *Bs]], Node[Any, tuple[Rows, Pairs[Along], *Bs]]]: ...
@overload
def row_pairs(
    x: IndexNode[tuple[Rows, Along, *Bs]],
) -> tuple[IndexNode[tuple[Rows, Pairs[Along], *Bs]], IndexNode[tuple[Rows, Pairs[Along], *Bs]]]: ...
def row_pairs(x: Any) -> tuple[Any, Any]:
    """Return the two entries of each unordered pair of different entries of a row, of floats or of integers.

    For an operand with the axes (rows, A, ...), both results have the axes (rows, `wy.Pairs[A]`, ...): a row of n
    entries has n (n - 1) / 2 pairs, in the order of `itertools.combinations`, and a left entry comes before its right
    one. `(left * right).sum(axis=1)` has the products of a factorization machine.

    Raise `ShapeError` for a node without an axis of different lengths, and for data with a row of more than 65,536
    entries.

    >>> class Batch(wy.Dim): ...
    >>> class Words(wy.Ragged): ...
    >>> words = wy.IndexInput([[3, 1, 2], [], [4]], dims=(Batch(), Words()))
    >>> left, right = wy.row_pairs(words)
    >>> left.forward().tolist(), right.forward().tolist()
    ([[3, 3, 1], [], []], [[1, 2, 2], [], []])
    """
    return pairs(_with_ragged_axis("row_pairs", x))


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
    if ids.dims != _with_ragged_axis("row_segment_sum", x).dims[:2]:
        raise ShapeError(f"row_segment_sum takes an id for each entry of {describe(x)}, not {describe(ids)}")
    segments = (
        num_segments if isinstance(num_segments, Dim) else whole("row_segment_sum: num_segments", num_segments, 1)
    )
    rows, _, *rest = x.dims
    return Place(x, (entry_rows(x), ids), (0, 1), 0, (rows, segments, *rest))


@overload
def row_scan(
    function: Callable[[Tensor[*Bs], Tensor[*Row]], tuple[Tensor[*Bs], Tensor[*Made]]],
    init: Tensor[Rows, *Bs],
    xs: Tensor[Rows, Along, *Row],
    *,
    reverse: bool = False,
) -> tuple[Tensor[Rows, *Bs], Tensor[Rows, Along, *Made]]: ...
@overload
def row_scan(
    function: Callable[[Tensor[*Bs], Tensor[*Row]], tuple[Tensor[*Bs], None]],
    init: Tensor[Rows, *Bs],
    xs: Tensor[Rows, Along, *Row],
    *,
    reverse: bool = False,
) -> tuple[Tensor[Rows, *Bs], None]: ...
@overload
def row_scan(
    function: Callable[[Any, Any], tuple[Any, Any]], init: object, xs: object, *, reverse: bool = False
) -> tuple[Any, Any]: ...
def row_scan(function: Callable[..., object], init: object, xs: object, *, reverse: bool = False) -> tuple[Any, Any]:
    """Run `carry, y = function(carry, x)` along each row: `wy.scan` of the entries of each row by itself.

    `xs` has the axes (rows, entries of each, ...), `function` gets one entry, of the shape (...), and the carry of its
    row. It is called once, on placeholders. The result is the last carry of each row, of the shape (rows, ...), and all
    `y`, of the shape (rows, entries of each, ...). With `reverse`, each row begins with its last entry.

    `init` has the first carry of each row, of the shape (rows, ...), or of the shape (1, ...) or () one for all rows. A
    row without entries keeps it. `init` and `xs` may be nested tuples, lists and dicts of nodes. A node in `xs` of the
    shape (rows, ...) gives each step the value of its row.

    Nothing is padded: rows run one after the other, and the gradient is a loop of the same kind.

    Raise `ShapeError` if no node in `xs` has an axis of different lengths, for a node of other rows, and otherwise as
    `wy.scan` does.

    >>> class Batch(wy.Dim): ...
    >>> class Words(wy.Ragged): ...
    >>> x = wy.Input([[3.0, 1.0], [], [2.0]], dims=(Batch(), Words()))
    >>> last, decayed = wy.row_scan(lambda carry, x: (0.5 * carry + x, 0.5 * carry + x), 0.0, x)
    >>> last.forward().tolist(), decayed.forward().tolist()
    ([2.5, 0.0, 2.0], [[3.0, 2.5], [], [2.0]])
    """
    plain = function_of_nodes(function, "row_scan takes a function")
    what = f"row_scan of {name_of(plain)}"
    given, structure = flatten(xs, f"xs of {what}")
    carry, carried, dtype = initial_carry(init, given, what)
    nodes = leaf_nodes(given, dtype)
    along: Any = next((node for node in nodes if ragged_axis(node.dims) is not None), None)
    if along is None:
        raise ShapeError(f"{what}: no node in xs has an axis of different lengths; along other axes, use wy.scan")
    rows: Dims = along.dims[:2]

    def by_entry(x: Any) -> Any:
        of_row = ragged_axis(x.dims) is None
        same = of_row and axis_size(x.dims[0]) == 1
        try:
            for pair in [] if same else zip(rows[: 2 - of_row], x.dims, strict=False):
                unify(*pair)
        except ShapeError:
            raise ShapeError(
                f"{what}: {describe(x)} has not the rows of {describe(along)}: a value of each row has the axis "
                f"{rows[0]!r} first, or one of size 1 if it is the same for all rows"
            ) from None
        return entries_of(x.expand_dims(1).broadcast_to((*rows, *x.dims[1:])) if of_row else x)

    begins: Any = EntryPositions(along, from_end=reverse) == 0
    likes = [
        placeholder_like(node, node.dims[1:], path)
        for node, path in zip(carry, leaf_paths(carried, "carry"), strict=True)
    ]
    first = as_floats([node if node.dims else node.expand_dims(0) for node in carry], dtype)
    shared = [with_axes(node, node.dims[1:]) if axis_size(node.dims[0]) == 1 else None for node in first]
    of_rows = [by_entry(node) for node, one in zip(first, shared, strict=True) if one is None]
    # Each row begins with its own carry, so that of the loop is never read.
    unread = [as_constant(0.0, node.dtype).broadcast_to(node.dims[1:]) for node in first]

    def step(before: Any, row: Any) -> Any:
        is_first, own, x = row[0], iter(row[1]), row[2]
        starts = [next(own) if one is None else one for one in shared]
        now = [where(is_first, start, each) for start, each in zip(starts, before, strict=True)]
        following, y = carry_and_made(plain(unflatten(carried, from_floats(now, likes)), x), what)
        after = as_floats(checked_carry(following, likes, carried, what, dtype), dtype)
        return after, (after, y)

    entries = unflatten(structure, [by_entry(node if node.dims else node.expand_dims(0)) for node in nodes])
    _, made = scan_of(step, unread, (entries_of(begins), of_rows, entries), None, what, reverse=reverse)
    stacked, made_structure = flatten(made, f"the result of {what}")
    by_row: list[Any] = [rows_of(each, (*rows, *each.dims[1:])) for each in leaf_nodes(stacked, dtype)]
    carries, results = unflatten(made_structure, by_row)
    last = []
    for node, each in zip(first, carries, strict=True):
        reached: Any = first_entry(each) if reverse else last_entry(each)
        has_entries: Any = row_lengths(along) > 0
        last.append(where(has_entries.expand_dims(tuple(range(1, reached.ndim))), reached, node))
    return unflatten(carried, from_floats(last, carry)), results


def _with_ragged_axis(name: str, x: Any) -> Any:
    if not isinstance(x, BaseNode) or ragged_axis(x.dims) is None:
        given = describe(x) if isinstance(x, BaseNode) else type(x).__name__
        raise ShapeError(
            f"{name} takes a node with an axis of different lengths, as in class Words(wy.Ragged): ... and "
            f"wy.IndexInput(dims=(batch, Words())), not {given}"
        )
    return x
