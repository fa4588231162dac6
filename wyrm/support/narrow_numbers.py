"""Numbers of int8, with a factor for each row or column, and of bfloat16, for those of float32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LARGEST = 127


def as_bfloat16(array: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the bits of the nearest numbers of bfloat16, of two as near the even one; the array is finite.

    >>> hex(as_bfloat16(np.float32([1.0]))[0])
    '0x3f80'
    """
    bits = array.view(np.uint32)
    # The largest numbers are rounded down, because they would become infinite.
    rounded = np.minimum(bits & 0x7FFFFFFF, 0x7F7F7FFF) + 0x7FFF + ((bits >> 16) & 1)
    found: NDArray[np.uint16] = (((bits & 0x80000000) | rounded) >> 16).astype(np.uint16)
    return found


def from_bfloat16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """Return numbers of bfloat16 in float32, which is exact.

    >>> from_bfloat16(np.uint16([0x3F80])).tolist()
    [1.0]
    """
    return (bits.astype(np.uint32) << 16).view(np.float32)


def as_int8(array: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return a matrix as integers from -127 to 127, and the factors of its rows or of its columns.

    These have the shape (rows, 1) if there are more rows than columns, else (1, columns): the more factors, the smaller
    the errors.

    >>> integers, factors = as_int8(np.float32([[0.5, -1.0], [0.0, 0.0]]))
    >>> integers.tolist(), (integers * factors).tolist()
    ([[127, -127], [0, 0]], [[0.5, -1.0], [0.0, 0.0]])
    """
    rows, columns = array.shape
    largest = np.abs(array).max(axis=1 if rows > columns else 0, keepdims=True, initial=0.0)
    factors = (largest / _LARGEST).astype(np.float32)
    safe = np.where(factors == 0.0, np.float32(1.0), factors)
    return np.rint(array / safe).clip(-_LARGEST, _LARGEST).astype(np.int8), factors
