"""Checks that integers are in the range of what they index: which data a view of integers has, and the messages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import IndexOutOfRange, ShapeError
from wyrm.graph.axes import Axis, Dim, Dims, axis_size
from wyrm.graph.axes import resolve as resolve_dims
from wyrm.graph.base import BaseNode, describe, original
from wyrm.graph.namespace import NUMPY
from wyrm.graph.source_location import located_at
from wyrm.graph.storage import stored

# --- views of integers ------------------------------------------------------------------------------------------------


def is_integer_view(node: BaseNode) -> bool:
    """Return whether a node has integers of its first parent, in other places or only some of them."""
    return node.is_view and node.dtype.kind == "i"


def source_of(indices: BaseNode) -> BaseNode:
    """Return the node whose integers these are, behind slices, transposes and reshapes."""
    while is_integer_view(indices):
        indices = indices.parents[0]
    return indices


def _views(indices: BaseNode) -> list[BaseNode]:
    """Return the views between `source_of(indices)` and `indices`, these included, the first of them first."""
    views = []
    while is_integer_view(indices):
        views.append(indices)
        indices = indices.parents[0]
    return views[::-1]


def has_all(indices: BaseNode) -> bool:
    """Return whether indices have all integers of `source_of(indices)` in every run."""
    return all(view.same_elements or _wide(view.dims) == _wide(view.parents[0].dims) for view in _views(indices))


def _wide(dims: Dims) -> Counter[Axis | int]:
    """Return the axes with more than one element, in any order."""
    sizes = [(axis, axis_size(axis)) for axis in dims]
    return Counter(axis if size is None else size for axis, size in sizes if size != 1)


def rebased(indices: BaseNode, onto: BaseNode, by_rows: bool) -> BaseNode | None:
    """Return the views that `indices` are of their source, of `onto` in its place, or of each row of `onto`.

    None if a view has no form for rows.
    """
    node: BaseNode | None = onto
    for view in _views(indices):
        if node is None:
            return None
        with located_at(view.origin):
            node = view.batched((node,), (True,)) if by_rows else view.rebuild((node,), view.attribute_values())
    return node


def used(part: BaseNode, shape: tuple[int, ...], *, column: bool = False) -> NDArray[np.bool_] | None:
    """Return which elements of data of this shape for `source_of(part)` are among those of `part`.

    With `column`, the data may have one more axis before, or more rows than a batch. None if the answer depends on the
    batches.
    """
    dims = source_of(part).dims
    if len(shape) > len(dims):
        return _of_one(part, shape[1:])
    if not column:
        return _of_one(part, shape)
    batch = axis_size(dims[0]) if dims else None
    found = _of_one(part, shape if batch is None else (batch, *shape[1:]))
    if found is None or (found != found[:1]).any():
        return None
    return found[:1]


def _of_one(part: BaseNode, shape: Sequence[int]) -> NDArray[np.bool_] | None:
    source = source_of(part)
    sizes = {type(axis): size for axis, size in zip(source.dims, shape, strict=True) if isinstance(axis, Dim)}
    positions = np.arange(math.prod(shape)).reshape(shape)
    try:
        for view in _views(part):
            positions = view.evaluate(NUMPY, positions, shape=resolve_dims(view.dims, sizes))
    except (ShapeError, IndexError):  # data of this shape does not fit, which the run reports
        return None
    mask = np.zeros(math.prod(shape), np.bool_)
    mask[positions.reshape(-1)] = True
    return mask.reshape(shape)


# --- checks -----------------------------------------------------------------------------------------------------------


def first_out_of_range(
    array: NDArray[np.integer],
    size: int,
    ignore_index: int | None = None,
    from_end: bool = False,
    counted: Callable[[], NDArray[np.bool_] | None] | None = None,
) -> tuple[int, ...] | None:
    """Return the position of the first integer outside 0..size-1 that is not `ignore_index`; None if there is none.

    With `from_end`, integers from -size on are in range. `counted` returns the mask of the elements that count, or None
    if it cannot tell.
    """
    # A single pass: as unsigned numbers, negative ones are large.
    if not array.size or int(array.view(f"u{array.itemsize}").max()) < size:
        return None
    beyond = (array < (-size if from_end else 0)) | (array >= size)
    if ignore_index is not None:
        beyond &= array != ignore_index
    if counted is not None and beyond.any():
        mask = counted()
        beyond &= False if mask is None else mask
    positions = np.argwhere(beyond)
    return tuple(map(int, positions[0])) if len(positions) else None


def check_indices(
    node: BaseNode,
    user: BaseNode,
    array: NDArray[np.integer],
    size: int,
    ignore_index: int | None = None,
    from_end: bool = False,
    counted: Callable[[], NDArray[np.bool_] | None] | None = None,
) -> None:
    """Raise `IndexOutOfRange`, naming position, value and the op that uses it, for a value out of range.

    `counted` is as in `first_out_of_range`.
    """
    position = first_out_of_range(array, size, ignore_index, from_end, counted)
    if position is not None:
        where = f" at position {position}" if position else ""
        raise IndexOutOfRange(
            f"{describe(node)} holds {int(array[position])}{where}, but {accepted_indices(user, size, from_end)}"
        )


def accepted_indices(user: BaseNode, size: int, from_end: bool = False) -> str:
    """Return the indices that an op accepts, for a message about one that is out of range."""
    table = original(user.parents[0]) if user.parents else user
    chosen = f" of {table.name}" if table.is_leaf and table.name else ""
    takes = f"takes {-size if from_end else 0} to {size - 1}" if size else "indexes an axis of size 0"
    return f"{getattr(user, 'written', '') or user.op_name()}{chosen} at {user.location} {takes}"


def check_limits(leaf: BaseNode, array: NDArray[np.integer]) -> None:
    """Raise `IndexOutOfRange` if data for a leaf is out of range of an op that indexes with it."""
    limits = stored(leaf).limits
    if not limits or not array.size:
        return
    low, high = int(array.min()), int(array.max())
    for limit in list(limits.values()):
        user = limit.user()
        if user is not None and (low < 0 or high >= limit.size):
            part = limit.part
            counted = None if part is None else partial(used, part, array.shape)
            check_indices(leaf, user, array, limit.size, limit.ignore_index, limit.from_end, counted)
