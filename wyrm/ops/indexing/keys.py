"""Keys of `x[key]`: their entries, the axes that remain, and where an element comes from."""

from __future__ import annotations

import operator
from functools import lru_cache
from types import EllipsisType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np

from wyrm.errors import IndexOutOfRange, ShapeError
from wyrm.graph.axes import Axis, Dims, One, axis_size
from wyrm.graph.base import BaseNode, describe, explain
from wyrm.graph.index_maps import AxisLength, IndexExpression, IndexLiteral, IndexMap
from wyrm.graph.leaves import Constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.quotients import scaled
from wyrm.graph.typing import Array

# One entry per axis of the operand: an int takes one element, (start, stop, step) a range. None adds an axis.
Range = tuple[int | None, int | None, int | None]
Key = tuple[int | Range | None, ...]
Index_ = SupportsIndex | slice | EllipsisType | None
Key_ = Index_ | tuple[Index_, ...]
# A key with arrays among its entries.
Array_ = IndexNode | Constant | Array | list[Any]
Advanced = Array_ | tuple[Index_ | Array_, ...]
All: TypeAlias = "slice[None, None, None]"  # a bare `:`
ALL: Range = (None, None, None)
REVERSED: Range = (None, None, -1)
_ARRAYS = (BaseNode, np.ndarray, list)


def as_key(key: Any, node: Node | IndexNode) -> Key:
    """Return a key without arrays with one entry per axis. Raise `TypeError` for other values."""
    entries = list(key) if isinstance(key, tuple) else [key]
    if sum(entry is Ellipsis for entry in entries) > 1:
        raise ShapeError(f"{describe(node)} is indexed with more than one '...'")
    taken = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if taken > node.ndim:
        raise ShapeError(f"{describe(node)} has {node.ndim} axes, but the key indexes {taken}")
    gap = next((i for i, entry in enumerate(entries) if entry is Ellipsis), None)
    fill = [slice(None)] * (node.ndim - taken)
    entries = entries + fill if gap is None else entries[:gap] + fill + entries[gap + 1 :]
    result: list[int | Range | None] = []
    for entry in entries:
        if entry is None:
            result.append(None)
        elif isinstance(entry, bool | np.bool_):
            raise TypeError(f"{describe(node)} is indexed by {entry}, which NumPy treats as a mask, not as a number")
        elif isinstance(entry, slice):
            bounds = (entry.start, entry.stop, entry.step)
            # There are three of them.
            result.append(tuple(None if b is None else operator.index(b) for b in bounds))  # type: ignore[arg-type]
        elif not hasattr(type(entry), "__index__"):
            raise TypeError(f"{describe(node)} is indexed by integers, slices, None and ..., not by {entry!r}")
        else:
            result.append(operator.index(entry))
    return tuple(result)


def sliced_dims(dims: Dims, key: Key) -> Dims:
    """Return the axes after indexing: a full range keeps the axis and its name, a part of it keeps only a size.

    A part of an axis whose size the data of each run decides has a size that follows from it; see `scaled`.
    """
    result: list[Axis] = []
    position = 0
    for entry in key:
        if entry is None:
            result.append(One())
            continue
        axis = dims[position]
        size = axis_size(axis)
        if isinstance(entry, int):
            if size is not None and not -size <= entry < size:
                raise IndexOutOfRange(f"index {entry} is out of range on axis {position}, which has {size} elements")
        elif entry in (ALL, REVERSED):
            result.append(axis)
        elif entry[2] == 0:
            raise ShapeError("the step of a slice must not be 0")
        elif size is None:
            result.append(_open_part(axis, entry))
        else:
            kept = len(range(*slice(*entry).indices(size)))
            result.append(axis if kept == size else kept)
        position += 1
    return tuple(result)


def _open_part(axis: Axis, entry: Range) -> Axis:
    """Return the axis of a slice of an axis whose size only the data gives, which has all elements of the slice.

    `check_key` makes sure of that in a run. Raise `ShapeError` if the size does not follow in one way.
    """
    start, stop, step = entry[0] or 0, entry[1] or 0, 1 if entry[2] is None else entry[2]
    from_end = start < 0, entry[1] is None or stop < 0
    if step < 0 or from_end == (True, False):
        raise ShapeError(
            f"the size of a part of axis {axis!r} from {entry[0]} to {entry[1]} by {entry[2]} does not follow from its "
            f"size in one way; declare the axis with a size, or take all of it with ':'"
        )
    if from_end == (False, True):
        return scaled(axis, 1, stop - start + step - 1, step)
    return len(range(start, stop, step))


def check_key(node: BaseNode, dims: Dims, shape: tuple[int, ...]) -> None:
    """Raise an error for a part of an axis that has too few elements, if only the data gives its size.

    That is `IndexOutOfRange` for an int in the key, `ShapeError` for a range.
    """
    key: Key = node.key  # type: ignore[attr-defined]  # a node with a key
    for entry, axis, size in zip((entry for entry in key if entry is not None), dims, shape, strict=True):
        if isinstance(entry, int) and not -size <= entry < size:
            raise IndexOutOfRange(
                explain(node, f"index {entry} is out of range on an axis that has {size} elements in this run")
            )
        if isinstance(entry, tuple) and entry != REVERSED and axis_size(axis) is None:
            start, stop = entry[0] or 0, entry[1] or 0
            least = start - stop if start > 0 > stop else max(abs(start), abs(stop))
            if size < least:
                raise ShapeError(
                    explain(node, f"the part of {axis!r} needs {least} elements; the axis has {size} in this run")
                )


@lru_cache(maxsize=4096)
def numpy_key(key: Key) -> tuple[int | slice | EllipsisType | None, ...]:
    """Return the key as NumPy takes it; the final '...' makes even a single element an array, and a view."""
    return (*(slice(*entry) if isinstance(entry, tuple) else entry for entry in key), ...)


def sliced_index(key: Key, dims: Dims, index: IndexMap) -> IndexMap:
    """Return the index into an operand with axes `dims` of the element that `operand[key]` has at `index`."""
    entries, axes = iter(index), iter(dims)
    result: list[IndexExpression] = []
    for entry in key:
        if entry is None:
            next(entries)
            continue
        axis = next(axes)
        if isinstance(entry, int):
            size = axis_size(axis)  # count from the start: the operand may be a slice of a larger array
            from_end = size is None and entry < 0
            result.append(AxisLength(axis) - -entry if from_end else IndexLiteral(entry % size if size else entry))
        elif entry == ALL:
            result.append(next(entries))
        elif entry == REVERSED and axis_size(axis) is None:
            result.append(AxisLength(axis) - (next(entries) + 1))
        elif axis_size(axis) is None:
            start, step = entry[0] or 0, 1 if entry[2] is None else entry[2]
            along = step * next(entries)
            result.append(AxisLength(axis) - -start + along if start < 0 else start + along)
        else:
            start, _, step = slice(*entry).indices(operator.index(axis))
            result.append(start + step * next(entries))
    return tuple(result)


def has_arrays(key: object) -> bool:
    """Return whether a key has arrays, lists or nodes among its entries."""
    return any(isinstance(entry, _ARRAYS) for entry in (key if isinstance(key, tuple) else (key,)))
