"""Checks that integers are in the range of what they index, and the messages about one that is not."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import IndexOutOfRange
from wyrm.graph.base import BaseNode, describe, original
from wyrm.graph.index_parts import used
from wyrm.graph.storage import stored


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
