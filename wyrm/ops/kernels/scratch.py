"""Scratch memory of kernels, and the debug mode that reveals reads of uninitialized memory."""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import DTypeLike

from wyrm.graph.typing import Array

# With WYRM_DEBUG=1, native code checks every array access, and memory is filled with NaN before it is written.
DEBUG = os.environ.get("WYRM_DEBUG", "") not in ("", "0")
# The message of native code for any index out of range; Python then finds out which one.
OUT_OF_RANGE = "an index is out of range"
# The message of native code for a matrix that has no factorization or no solution; Python then finds out which one.
NO_SOLUTION = "a matrix has no factorization or no solution"
# The filler of integer arrays in debug mode: out of range of every axis.
INVALID_INDEX = -(2**62)


def scratch(shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return an uninitialized array."""
    array = np.empty(shape, dtype)
    if DEBUG:
        fill_invalid(array)
    return array


def fill_invalid(array: Array) -> None:
    """Fill an array with NaN or `INVALID_INDEX`, which reveal any read."""
    if array.dtype.kind == "f":
        array.fill(np.nan)
    elif array.dtype == np.int64:
        array.fill(INVALID_INDEX)
