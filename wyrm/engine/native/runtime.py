"""What generated code calls: the decorators that compile it, and the few functions that are the same in every program.

Importing this imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import njit, types
from numba.core.compiler import Compiler
from numba.extending import overload

from wyrm.ops import product

# Sums may be reordered and products fused with sums, which vector code needs; nothing assumes that there is no NaN.
FAST_MATH = {"reassoc", "contract", "nsz"}
KERNEL_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "fastmath": FAST_MATH, "_nrt": True}
# Generated code makes no arrays, so it need not count who holds those that it is given: that costs more than the work
# where a function with a few array arguments is called for every row.
OPTIONS: dict[str, Any] = {**KERNEL_OPTIONS, "_nrt": False}
# Below this many products of numbers a loop is faster than the call of BLAS.
BLAS_FROM = 1024

Function = Callable[..., Any]


class _Distinct(Compiler):
    """A compiler for functions whose array arguments do not overlap, which lets their loops be vectorised."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)  # type: ignore[no-untyped-call]  # numba's class
        self.state.flags.noalias = True


def loops(function: Function) -> Function:
    """Compile a function of generated loops; no two of its arguments overlap."""
    return cast(Function, njit(pipeline_class=_Distinct, forceinline=True, **OPTIONS)(function))


def kernel(function: Function) -> Function:
    """Compile the kernel of an op."""
    return cast(Function, njit(**KERNEL_OPTIONS)(function))


def inlined(function: Function) -> Function:
    """Compile a function that becomes a part of those that call it."""
    return cast(Function, njit(forceinline=True, **OPTIONS)(function))


def entry(function: Function) -> Function:
    """Compile the function that a program calls, and keep it in the folder of its source."""
    return cast(Function, njit(cache=True, **OPTIONS)(function))


def kept_kernel(function: Function) -> Function:
    """Compile the kernel of an op that is called from Python, and keep it in the folder of its source."""
    return cast(Function, njit(cache=True, **KERNEL_OPTIONS)(function))


def kept(function: Function) -> Function:
    """Compile a function of generated loops that is called from Python, and keep it in the folder of its source."""
    return cast(Function, njit(cache=True, pipeline_class=_Distinct, **OPTIONS)(function))


@inlined
def claim(row: int, slots: Any, rows: Any, count: Any) -> Any:
    """Where the sum of a row is; one that was not touched in this step yet gets the next place.

    `count` holds how many rows this step has touched, and the number that its places count from in `slots`: those of
    earlier steps are below it.
    """
    place = slots[row] - count[1]
    if place < 0:
        place = count[0]
        slots[row] = count[1] + place
        rows[place] = row
        count[0] = place + 1
    return place


@inlined
def checked(row: int, size: int) -> Any:
    """An index that the graph has computed, or an `IndexError` where it is out of range."""
    if row < 0 or row >= size:
        raise IndexError("an index that the graph computes, or a part of one, is out of range of its table")
    return row


@inlined
def release(count: Any) -> None:
    """Forget which rows were touched, at the end of a step."""
    count[1] += count[0]
    count[0] = 0


@inlined
def load(column: Any, order: Any, start: int, out: Any) -> None:
    """The rows of a column, (rows, width), that a batch has: those that `order` names from `start` on.

    A column without rows stands for an input that keeps what it holds.
    """
    if column.shape[0] == 0:
        return
    for i in range(out.shape[0]):
        row = order[start + i]
        for j in range(out.shape[1]):
            out[i, j] = column[row, j]


# --- products by BLAS -----------------------------------------------------------------------------------------------

multiply_into = product.multiply_into
_gemm: Any = types.ExternalFunction(
    "numba_xxgemm",
    types.intc(
        types.char, types.char, types.char, types.intp, types.intp, types.intp, types.voidptr, types.voidptr,
        types.intp, types.voidptr, types.intp, types.voidptr, types.voidptr, types.intp,
    ),
)  # fmt: skip


@overload(product.multiply_into, jit_options=cast(Any, KERNEL_OPTIONS))
def _multiply_into(x: Any, y: Any, out: Any) -> Function:
    """`out = x @ y`: small products in a loop, others by the BLAS of SciPy, whose symbol numba has."""
    import scipy.linalg.cython_blas  # noqa: F401  # where numba looks for the routines

    single = out.dtype == types.float32
    kind = ord("s") if single else ord("d")
    dtype = np.float32 if single else np.float64
    one, zero = np.ones(1, dtype), np.zeros(1, dtype)
    plain, transposed = ord("n"), ord("t")
    small = BLAS_FROM

    def multiply(x: Any, y: Any, out: Any) -> None:
        rows, columns, inner = out.shape[0], out.shape[1], x.shape[1]
        size = x.itemsize
        x_rows, y_rows = x.strides[1] == size, y.strides[1] == size
        by_blas = (x_rows or x.strides[0] == size) and (y_rows or y.strides[0] == size) and out.strides[1] == size
        if rows * columns * inner < small or not by_blas:
            for i in range(rows):
                for k in range(columns):
                    out[i, k] = 0.0
                for j in range(inner):
                    weight = x[i, j]
                    for k in range(columns):
                        out[i, k] += weight * y[j, k]
            return
        # BLAS works in column-major order, in which the transposed product has what is asked for.
        _gemm(
            kind,
            plain if y_rows else transposed,
            plain if x_rows else transposed,
            columns,
            rows,
            inner,
            one.ctypes,
            y.ctypes,
            max(y.strides[0] // size, columns) if y_rows else max(y.strides[1] // size, inner),
            x.ctypes,
            max(x.strides[0] // size, inner) if x_rows else max(x.strides[1] // size, rows),
            zero.ctypes,
            out.ctypes,
            max(out.strides[0] // size, columns),
        )

    return multiply
