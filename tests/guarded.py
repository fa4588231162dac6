"""Memory that ends, or begins, where no page may be read or written."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np

_LIBC = ctypes.CDLL(None)
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_PAGE = mmap.PAGESIZE


class Guarded:
    """Memory of exactly `size` bytes between two pages that must not be touched, beside the first or the last of them.

    At the end, an address is a multiple of 64 only if the size is.
    """

    def __init__(self, size: int, *, at_end: bool = True) -> None:
        whole = -(-size // _PAGE) * _PAGE
        self._pages = mmap.mmap(-1, whole + 2 * _PAGE)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        for guard in (first, first + _PAGE + whole):
            assert _LIBC.mprotect(guard, _PAGE, mmap.PROT_NONE if hasattr(mmap, "PROT_NONE") else 0) == 0
        self.address = first + _PAGE + (whole - size if at_end else 0)
        self.bytes = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(self.address)) if size else None

    def view(self, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Return the memory as an array."""
        found: np.ndarray = np.zeros(shape, dtype) if self.bytes is None else self.bytes.view(dtype).reshape(shape)
        return found

    @staticmethod
    def of(array: np.ndarray, *, at_end: bool = True) -> Guarded:
        """Return a copy of an array."""
        flat = np.ascontiguousarray(array)
        found = Guarded(flat.nbytes, at_end=at_end)
        if flat.nbytes:
            found.view(flat.dtype, flat.shape)[...] = flat
        return found
