"""Numbers of bfloat16, of int8 and of int4, with a factor for each row, column or block, for those of float32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_LARGEST = 127
# Integers of int4 come in blocks of so many along a row. A block is a factor of float32 and 16 bytes: byte i has in its
# lower half integer i of the block, plus 8, and in its upper half integer i + 16.
INT4_BLOCK, INT4_BYTES = 32, 20


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


def as_int4(array: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the rows of a matrix in blocks of integers from -8 to 7; the size of a row is a multiple of 32.

    The number that is farthest from 0 becomes -8, so that the largest error is an eighth of it.

    >>> as_int4(np.zeros((2, 64), np.float32)).shape
    (2, 40)
    """
    blocks = array.reshape(-1, INT4_BLOCK)
    farthest = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
    factors = (farthest / np.float32(-8.0)).astype(np.float32)
    safe = np.where(factors == 0.0, np.float32(1.0), factors)
    integers = (np.rint(blocks / safe).clip(-8, 7) + 8).astype(np.uint8)
    half = INT4_BLOCK // 2
    packed = (integers[:, :half] + 16 * integers[:, half:]).astype(np.uint8)
    whole: NDArray[np.uint8] = np.concatenate([factors.view(np.uint8).reshape(len(blocks), 4), packed], axis=1)
    return whole.reshape(array.shape[0], array.shape[1] // INT4_BLOCK * INT4_BYTES)


def from_int4(held: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the numbers that blocks of `as_int4` stand for."""
    blocks = held.reshape(-1, INT4_BYTES)
    factors, packed = np.ascontiguousarray(blocks[:, :4]).view(np.float32), blocks[:, 4:]
    integers = np.concatenate([packed & 15, packed >> 4], axis=1).astype(np.float32) - np.float32(8.0)
    found: NDArray[np.float32] = (integers * factors).reshape(held.shape[0], -1)
    return found
