"""Arrays that begin at a line of the processor's cache."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Bytes of a line of the cache, and of the longest vectors: one that lies across two lines takes twice as long.
ALIGNMENT = 64


def aligned_bytes(size: int) -> NDArray[np.uint8]:
    """Bytes that begin at a line of the cache, and share none with anything else: what another thread writes, say."""
    lines = -(-size // ALIGNMENT)
    memory = np.empty((lines + 1) * ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


def aligned(shape: tuple[int, ...], dtype: np.dtype[Any], value: float | NDArray[Any] = 0) -> NDArray[Any]:
    """An array that begins at a line of the cache and holds `value`.

    It is written to: memory that `np.zeros` leaves to the system comes in small pages, which take long to be given.
    """
    array = aligned_bytes(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)
    array[...] = value
    return array
