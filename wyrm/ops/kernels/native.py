"""What kernels share with native code: scratch memory, calls of LAPACK, messages of errors, and the debug mode."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import numpy as np

from wyrm.graph.typing import Array, DTypeLike

# With WYRM_DEBUG=1, native code checks every array access, and memory is filled with NaN before it is written.
DEBUG = os.environ.get("WYRM_DEBUG", "") not in ("", "0")
# The message of native code for any index out of range; Python then finds out which one.
OUT_OF_RANGE = "an index is out of range"
# The message of native code for a matrix that has no factorization or no solution; Python then finds out which one.
NO_SOLUTION = "a matrix has no factorization or no solution"
# Messages of native code end so where a function compiled by numba raised; Python then runs it to find the exception.
RAISED = "raised an exception"
# The filler of integer arrays that are spoiled: out of range of every axis.
INVALID_INDEX = -(2**62)


class Spoiling:
    """Whether memory is filled with NaN before it is written: in debug mode, and where tests set it."""

    on: ClassVar[bool] = DEBUG


def scratch(shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return an uninitialized array."""
    array = np.empty(shape, dtype)
    if Spoiling.on:
        fill_invalid(array)
    for noted in _noted:
        noted.append(array)
    return array


# The lists of `noting_scratch`.
_noted: list[list[np.ndarray]] = []


@contextmanager
def noting_scratch() -> Iterator[list[np.ndarray]]:
    """Return a context that gives a list, to which the arrays are added that `scratch` makes inside it."""
    _noted.append([])
    try:
        yield _noted[-1]
    finally:
        _noted.pop()


def fill_invalid(array: Array) -> None:
    """Fill an array with NaN, an index out of range, or the largest number of its type, which reveal any read."""
    if array.dtype.kind == "f":
        array.fill(np.nan)
    elif array.dtype.kind == "b":
        array.fill(True)
    else:
        array.fill(INVALID_INDEX if array.dtype == np.int64 else np.iinfo(array.dtype.name).max)


def lapack(name: str, *arguments: object) -> None:
    """Call a function of BLAS or LAPACK, such as "potrf", for the float type of its arrays.

    Integers are passed with 32 bits, floats in the arrays' type, and texts as their only letter; an `np.uint8` is a
    letter too. LAPACK reads the memory of a row-major matrix as the transposed matrix. The caller ensures that the
    sizes fit the arrays.
    """
    raise NotImplementedError("only compiled code calls LAPACK")


def refuse() -> None:
    """End the program; Python then finds the operation, and raises its `LinAlgError`."""
    raise IndexError(NO_SOLUTION)
