"""Arrays that begin at a cache line; and the garbage collector, paused while many long-lived objects are created."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

# Bytes of a cache line, and of the longest vectors: a vector that crosses two lines takes twice as long.
ALIGNMENT = 64
# Arrays of at least this many bytes get their pages of memory at once.
LARGE = 2**20
# Bytes of the arrays for other sizes of data that a function or a program keeps for the next call with them.
KEPT_BYTES = 2**27


def aligned_size(size: int) -> int:
    """Return the bytes of the cache lines that so many bytes take."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def aligned_bytes(size: int, *, zero: bool = False) -> NDArray[np.uint8]:
    """Return bytes that begin at a cache line and share none with other memory, such as another thread's."""
    count = aligned_size(size) + ALIGNMENT
    memory = np.zeros(count, np.uint8) if zero else np.empty(count, np.uint8)
    if not zero:
        provide_pages(memory)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


def aligned_empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array that begins at a cache line, whose elements may hold anything."""
    return aligned_bytes(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)


def provide_pages(*arrays: np.ndarray) -> None:
    """Let the system provide the pages of large arrays now, all at once, which is faster than one by one later."""
    large = [array for array in arrays if array.nbytes >= LARGE]
    if large:
        from wyrm.support import pages  # `import wyrm` allocates no large array

        pages.provide(large)


def give_back_pages() -> None:
    """Return the pages of arrays that were freed to the system, where it can be done."""
    from wyrm.support import pages

    pages.give_back()


def aligned(shape: tuple[int, ...], dtype: np.dtype, value: float | np.ndarray = 0) -> np.ndarray:
    """Return an array that begins at a cache line and is filled with `value`.

    The fill is explicit, but for large arrays of zeros: their pages are zeros when they are first used, and may never
    be used.
    """
    size = math.prod(shape) * dtype.itemsize
    zero = size >= LARGE and not isinstance(value, np.ndarray) and value == 0
    array = aligned_bytes(size, zero=zero).view(dtype).reshape(shape)
    if not zero:
        array[...] = value
    return array


P = ParamSpec("P")
T = TypeVar("T")


def with_collector_paused(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function with the garbage collector paused; it should create many objects and no garbage.

    The collector scans all objects whenever their number has grown by a quarter. That took half of the time of
    planning a large graph and freed nothing. Cycles in other threads wait a few seconds at most. It is not a context
    manager, because Ctrl-C just before `__exit__` would leave the collector off.
    """
    if not gc.isenabled():
        return function(*args, **kwargs)
    try:
        gc.disable()
        return function(*args, **kwargs)
    finally:
        gc.enable()
