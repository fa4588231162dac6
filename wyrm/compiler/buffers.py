"""Where buffers lie: those that are not needed at the same time share memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Arrays start at lines of the processor's cache.
ALIGNMENT = 64


@dataclass(frozen=True)
class Interval:
    """A buffer's size in bytes and the first and last call that needs it."""

    size: int
    first: int
    last: int


def assign(intervals: Sequence[Interval]) -> tuple[list[int], int]:
    """An offset for each buffer, and the size of the whole.

    Largest first, each at the lowest place where nothing lies that is needed at the same time (Pisarchyk and Lee, 2020,
    "greedy by size").

    >>> assign([Interval(64, 0, 1), Interval(64, 1, 2), Interval(64, 2, 3)])
    ([0, 64, 0], 128)
    """
    offsets = [0] * len(intervals)
    placed: list[int] = []
    for i in sorted(range(len(intervals)), key=lambda i: -intervals[i].size):
        wanted, place = intervals[i], 0
        for j in sorted(placed, key=offsets.__getitem__):
            other = intervals[j]
            if other.first > wanted.last or other.last < wanted.first:
                continue
            if offsets[j] - place >= wanted.size:
                break
            place = max(place, offsets[j] + _rounded(other.size))
        offsets[i] = place
        placed.append(i)
    return offsets, max((offsets[i] + _rounded(interval.size) for i, interval in enumerate(intervals)), default=0)


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """Zeros that start at a line of the cache, and share none with anything else: what another thread writes, say."""
    lines = -(-size // ALIGNMENT)
    memory = np.zeros((lines + 1) * ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


def aligned(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    """An array of zeros that starts at a line of the cache."""
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return aligned_bytes(size).view(dtype).reshape(shape)
