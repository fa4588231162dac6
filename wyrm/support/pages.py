"""Pages of memory: large arrays ask the system for all of theirs at once, and what was freed goes back to it.

Linux provides a page of memory when a program first writes to it. A page by itself takes microseconds, and twice as
long if it is read first. Many pages in one request take a fifth of the time, and threads share the work.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

import numpy as np

# Advice to Linux about pages, from `linux/mman.h`: which sizes to use, and to provide all pages now.
_HUGE, _SMALL, _PROVIDE = 14, 15, 23
# The bytes that are asked for at once: several huge pages, of 2 MiB on most processors.
_CHUNK = 2**23
# The least bytes whose time tells which pages come faster.
_MEASURED = 2**20
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096

Advise = Callable[[int, int, int], int]


class Pages:
    """Provides pages, of the size that came faster when it was last used; `advise` is `madvise` of the C library.

    Huge pages are usually faster. But a virtual machine may have given its free huge pages back to its host, from which
    they come more slowly than small pages that it kept.
    """

    def __init__(self, advise: Advise) -> None:
        self._advise = advise
        # Seconds a byte, 0 until they are measured; threads may overwrite each other's.
        self._seconds = {_HUGE: 0.0, _SMALL: 0.0}

    def provide(self, chunks: Iterator[tuple[int, int]]) -> None:
        """Map the pages of these addresses and sizes, which must be writable; end where the system has no memory."""
        for start, size in chunks:
            kind = min(self._seconds, key=self._seconds.__getitem__)
            self._advise(start, size, kind)
            begin = time.perf_counter()
            if self._advise(start, size, _PROVIDE) != 0:
                return
            if size >= _MEASURED:
                self._seconds[kind] = (time.perf_counter() - begin) / size


@cache
def _pages() -> Pages | None:
    """Return what provides pages in this process; None where the system cannot provide them on request."""
    advise: Any = getattr(ctypes.CDLL(None), "madvise", None) if sys.platform.startswith("linux") else None
    if advise is None:
        return None
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return Pages(advise)


def provide(arrays: Iterable[np.ndarray]) -> None:
    """Let the system provide the pages of contiguous arrays now, on all processors.

    Pages that are there keep their contents. Where the system cannot do so, a page comes when it is first written.
    """
    pages = _pages()
    if pages is None:
        return
    chunks = [chunk for array in arrays for chunk in chunks_of(array.ctypes.data, array.nbytes)]
    # Threads share the iterator, which gives each chunk to one of them.
    left = iter(chunks)
    count = min(len(os.sched_getaffinity(0)), len(chunks))
    threads = [threading.Thread(target=pages.provide, args=(left,)) for _ in range(count - 1)]
    for each in threads:
        each.start()
    pages.provide(left)
    for each in threads:
        each.join()


def give_back() -> None:
    """Return the pages of freed memory to the system, where the C library can.

    The GNU C library keeps freed arrays of up to 32 MiB for the next ones where memory behind them is in use.
    """
    trim: Any = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None:
        trim(ctypes.c_size_t(0))


def chunks_of(address: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the addresses and sizes of chunks of the pages that lie in this memory as a whole."""
    end = (address + size) // _PAGE * _PAGE
    for start in range(-(-address // _PAGE) * _PAGE, end, _CHUNK):
        yield start, min(_CHUNK, end - start)
