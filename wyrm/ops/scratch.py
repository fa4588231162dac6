"""Memory that a kernel writes before it reads it, and the debug mode that shows where it does not."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import DTypeLike

from wyrm.types.typing import Array

# With WYRM_DEBUG=1 native code checks every access to an array, and all memory is filled with NaN before it is written.
DEBUG = os.environ.get("WYRM_DEBUG", "") not in ("", "0")
# What native code raises with where an index is out of range, for Python to find out which.
OUT_OF_RANGE = "an index is out of range of what it chooses from"
# What integers are filled with: out of range of everything.
NO_INTEGER = -(2**62)


def scratch(shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
    """An array that holds nothing of meaning."""
    array = np.empty(shape, dtype)
    if DEBUG:
        spoil(array)
    return array


def spoil(array: Array) -> None:
    """Fill an array with what shows wherever it is read: NaN, or integers that are out of range."""
    if array.dtype.kind == "f":
        array.fill(np.nan)
    elif array.dtype == np.int64:
        array.fill(NO_INTEGER)
