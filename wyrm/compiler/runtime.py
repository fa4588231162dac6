"""The few functions that every program calls; each becomes a part of those that call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wyrm.kernels.functions import KernelFunction
from wyrm.ops.scratch import NO_INTEGER, OUT_OF_RANGE
from wyrm.ops.sums import natural

Function = Callable[..., Any]


def inlined(function: Function) -> KernelFunction:
    """A function that becomes a part of those that call it."""
    return KernelFunction(function, inlined=True)


@inlined
def claim(row: int, slots: Any, rows: Any, count: Any) -> Any:
    """Where the sum of a row is; one that was not touched in this step yet gets the next place.

    `count` holds how many rows this step has touched, and the number that its places count from in `slots`: those of
    earlier steps are below it.
    """
    place = slots[row] - count[1]
    if place < 0:
        place = natural(count[0])
        slots[row] = count[1] + place
        rows[place] = row
        count[0] = place + 1
    return natural(place)


@inlined
def checked(row: int, size: int) -> Any:
    """An index into `size` elements, or an `IndexError` where it is out of range."""
    if row < 0 or row >= size:
        raise IndexError(OUT_OF_RANGE)
    return natural(row)


@inlined
def check_all(indices: Any, size: int) -> None:
    """An `IndexError` where an index into `size` elements is out of range."""
    for row in indices.flat:
        if row < 0 or row >= size:
            raise IndexError(OUT_OF_RANGE)


@inlined
def check_counted(indices: Any, size: int, ignore_index: int) -> None:
    """The same, but for indices that are `ignore_index`."""
    for row in indices.flat:
        if row != ignore_index and (row < 0 or row >= size):
            raise IndexError(OUT_OF_RANGE)


@inlined
def release(count: Any) -> None:
    """Forget which rows were touched, at the end of a step."""
    count[1] += count[0]
    count[0] = 0


@inlined
def load(column: Any, order: Any, start: int, out: Any) -> None:
    """The rows of a column, (rows, width), one after the other: those that `order` names from `start` on.

    There are as many as `out`, which has one axis, has room for. A column without rows stands for an input that keeps
    what it holds.
    """
    width, first, i = column.shape[1], 0, 0
    if column.shape[0] == 0 or width == 0:
        return
    if width == 1:
        for k in range(out.shape[0]):
            out[k] = column[natural(order[natural(start + k)]), 0]
        return
    # Counted without a division, which takes as long as all else of a step on numbers.
    while first < out.shape[0]:
        row = natural(order[natural(start + i)])
        for j in range(width):
            out[natural(first + j)] = column[row, j]
        first += width
        i += 1


# --- what a loop inside a graph does around its body, on arrays with one axis, or with a row for each step ------------


@inlined
def copied(x: Any, out: Any) -> None:
    """`out = x`."""
    for i in range(out.shape[0]):
        out[i] = x[i]


@inlined
def added(x: Any, total: Any) -> None:
    """`total += x`."""
    for i in range(total.shape[0]):
        total[i] += x[i]


@inlined
def taken(rows: Any, step: int, out: Any) -> None:
    """`out = rows[step]`."""
    for i in range(out.shape[0]):
        out[i] = rows[step, i]


@inlined
def put(x: Any, rows: Any, step: int) -> None:
    """`rows[step] = x`."""
    for i in range(rows.shape[1]):
        rows[step, i] = x[i]


# --- in debug mode ----------------------------------------------------------------------------------------------------


@inlined
def spoil_numbers(x: Any) -> None:
    """Fill an array of one axis with NaN."""
    for i in range(x.shape[0]):
        x[i] = np.nan


@inlined
def spoil_indices(x: Any) -> None:
    """Fill an array of one axis with integers that are out of range."""
    for i in range(x.shape[0]):
        x[i] = NO_INTEGER
