"""The product of two matrices for kernels: BLAS, or loops where calling it takes longer than the work.

It is compiled once for each precision, kept in the cache and called by its address, so that a program adds no more
than a call. Importing this imports numba.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache as once
from typing import Any, cast

import numpy as np
import scipy.linalg.cython_blas  # noqa: F401  # where numba looks for the routines
from llvmlite import binding
from numba import types
from numba.extending import overload
from numba.np.numpy_support import carray
from numpy.lib.stride_tricks import as_strided

from wyrm.engine.native import cache
from wyrm.engine.native.collect import Collection
from wyrm.engine.native.compilers import FUSED, OPTIONS, Function, addressable
from wyrm.ops import product
from wyrm.ops.scratch import DEBUG
from wyrm.ops.sums import accumulated, natural

__all__ = ["addressed", "as_strided", "carray", "gemm_of", "multiply_into", "provide_products"]

# Up to so many products of numbers, or so short an inner axis, loops were faster than the BLAS of SciPy (AVX-512).
LOOPS_BELOW = 2048
LOOPS_INNER = 4
# Sums of more products than this are added up in parts.
LONGEST_SUM = 4096

multiply_into = product.multiply_into


# --- loops ------------------------------------------------------------------------------------------------------------


def one_row(x: Any, y: Any, out: Any, i: int, columns: int, inner: int, kept: int) -> None:
    """`out[i] = kept * out[i] + x[i] @ y`, four rows of y at a time."""
    fours = inner - inner % 4
    for j in range(0, fours, 4):
        a, b, c, d = x[i, j], x[i, j + 1], x[i, j + 2], x[i, j + 3]
        adds = j > 0 or kept
        for k in range(columns):
            sums = a * y[j, k] + b * y[j + 1, k] + c * y[j + 2, k] + d * y[j + 3, k]
            out[i, k] = out[i, k] + sums if adds else sums
    for j in range(fours, inner):
        a, adds = x[i, j], j > 0 or kept
        for k in range(columns):
            out[i, k] = out[i, k] + a * y[j, k] if adds else a * y[j, k]


def two_rows(x: Any, y: Any, out: Any, i: int, columns: int, inner: int, kept: int) -> None:
    """The same for rows i and i + 1 at once: what is read of y serves both."""
    fours = inner - inner % 4
    for j in range(0, fours, 4):
        a, b, c, d = x[i, j], x[i, j + 1], x[i, j + 2], x[i, j + 3]
        e, f, g, h = x[i + 1, j], x[i + 1, j + 1], x[i + 1, j + 2], x[i + 1, j + 3]
        adds = j > 0 or kept
        for k in range(columns):
            s, t, u, v = y[j, k], y[j + 1, k], y[j + 2, k], y[j + 3, k]
            first, second = a * s + b * t + c * u + d * v, e * s + f * t + g * u + h * v
            out[i, k] = out[i, k] + first if adds else first
            out[i + 1, k] = out[i + 1, k] + second if adds else second
    for j in range(fours, inner):
        a, e, adds = x[i, j], x[i + 1, j], j > 0 or kept
        for k in range(columns):
            out[i, k] = out[i, k] + a * y[j, k] if adds else a * y[j, k]
            out[i + 1, k] = out[i + 1, k] + e * y[j, k] if adds else e * y[j, k]


def by_two_rows(x: Any, y: Any, out: Any, rows: int, columns: int, inner: int, kept: int) -> None:
    """`out = kept * out + x @ y` where the rows of y are contiguous."""
    pairs = rows - rows % 2
    for i in range(0, pairs, 2):
        two_rows(x, y, out, i, columns, inner, kept)
    if pairs < rows:
        one_row(x, y, out, pairs, columns, inner, kept)


def dots(x: Any, y: Any, out: Any, rows: int, columns: int, first: int, length: int, kept: int) -> None:
    """`out = kept * out + x @ y.T` over a part of the inner axis, four rows of y at a time."""
    zero = x.dtype.type(0)
    fours = columns - columns % 4
    for i in range(rows):
        for k in range(0, fours, 4):
            a = b = c = d = zero
            for offset in range(length):
                j = natural(first + offset)
                a = accumulated(a, x[i, j] * y[k, j])
                b = accumulated(b, x[i, j] * y[k + 1, j])
                c = accumulated(c, x[i, j] * y[k + 2, j])
                d = accumulated(d, x[i, j] * y[k + 3, j])
            out[i, k] = out[i, k] + a if kept else a
            out[i, k + 1] = out[i, k + 1] + b if kept else b
            out[i, k + 2] = out[i, k + 2] + c if kept else c
            out[i, k + 3] = out[i, k + 3] + d if kept else d
        for k in range(fours, columns):
            a = zero
            for offset in range(length):
                j = natural(first + offset)
                a = accumulated(a, x[i, j] * y[k, j])
            out[i, k] = out[i, k] + a if kept else a


def by_four_dots(x: Any, y: Any, out: Any, rows: int, columns: int, inner: int, kept: int) -> None:
    """`out = kept * out + x @ y.T` where the rows of x and y are contiguous, and may be long.

    A long sum of float32 numbers loses digits, a sum of sums hardly any.
    """
    for first in range(0, inner, LONGEST_SUM):
        adds = 1 if first > 0 else kept
        dots(x, y, out, rows, columns, first, min(LONGEST_SUM, inner - first), adds)


def anyhow(x: Any, y: Any, out: Any, rows: int, columns: int, inner: int, kept: int) -> None:
    """`out = kept * out + x @ y` of arrays of any strides."""
    for i in range(rows):
        for k in range(columns):
            total = 0.0
            for j in range(inner):
                total = accumulated(total, x[i, j] * y[j, k])
            out[i, k] = out[i, k] + total if kept else total


# --- the choice -------------------------------------------------------------------------------------------------------

# What the compiled module has for its precision: 0 and 1, the letter of BLAS, and BLAS itself.
FACTORS: Any = None
KIND = 0
# Whether every access is checked, which needs arrays of the true shapes.
CHECKED = False
gemm: Any = None


def multiply(
    x: Any, y: Any, out: Any, rows: int, columns: int, inner: int, x_row: int, x_column: int, y_row: int, y_column: int,
    out_row: int, out_column: int, kept: int,
) -> None:  # fmt: skip
    """`out = kept * out + x @ y`: pointers, sizes, and the steps from row to row and column to column, in numbers."""
    by_rows = out_column == 1 and y_column == 1 and (x_column == 1 or x_row == 1)
    by_dots = out_column == 1 and y_row == 1 and x_column == 1
    # BLAS takes rows that do not overlap, as those of a broadcast operand do; of one row the step does not count.
    x_plain = x_column == 1 and (x_row >= inner or rows == 1)
    y_plain = y_column == 1 and (y_row >= columns or inner == 1)
    x_turned = x_row == 1 and (x_column >= rows or inner == 1)
    y_turned = y_row == 1 and (y_column >= inner or columns == 1)
    by_blas = out_column == 1 and (x_plain or x_turned) and (y_plain or y_turned) and (out_row >= columns or rows == 1)
    # BLAS copies all of y into another order first, which one row does not pay for: 180 us for 8000 x 64, loops 27; and
    # with one column, all of x: 90 us for 8000 x 64, loops 31.
    one = (rows == 1 or (columns == 1 and out_row == 1)) and by_dots
    small = rows * columns * inner < LOOPS_BELOW or inner <= LOOPS_INNER or one
    if by_blas and not (small and (by_rows or by_dots)):
        # BLAS works in column-major order, in which the transposed product has what is asked for.
        plain, transposed = 110, 116
        gemm(
            KIND,
            plain if y_plain else transposed,
            plain if x_plain else transposed,
            columns,
            rows,
            inner,
            FACTORS[1:].ctypes,
            y,
            max(y_row, columns) if y_plain else max(y_column, inner),
            x,
            max(x_row, inner) if x_plain else max(x_column, rows),
            FACTORS[1:].ctypes if kept else FACTORS.ctypes,
            out,
            max(out_row, columns),
        )
        return
    if inner > 0 and (by_rows or by_dots) and not CHECKED:
        result = carray(out, (rows, out_row))
        if by_dots and columns == 1 and out_row == 1:  # the transposed product, of four rows of x at a time
            column = carray(y, (1, inner))
            by_four_dots(column, carray(x, (rows, x_row)), carray(out, (1, rows)), 1, rows, inner, kept)
        elif by_dots:
            by_four_dots(carray(x, (rows, x_row)), carray(y, (columns, y_column)), result, rows, columns, inner, kept)
        elif x_column == 1:
            by_two_rows(carray(x, (rows, x_row)), carray(y, (inner, y_row)), result, rows, columns, inner, kept)
        else:
            by_two_rows(carray(x, (inner, x_column)).T, carray(y, (inner, y_row)), result, rows, columns, inner, kept)
        return
    size = FACTORS.itemsize
    left = as_strided(carray(x, (1,)), (rows, inner), (x_row * size, x_column * size))
    right = as_strided(carray(y, (1,)), (inner, columns), (y_row * size, y_column * size))
    scattered = as_strided(carray(out, (1,)), (rows, columns), (out_row * size, out_column * size))
    anyhow(left, right, scattered, rows, columns, inner, kept)


def _signature(dtype: Any) -> Any:
    pointer: Any = cast(Any, types.CPointer)(dtype)
    return types.void(pointer, pointer, pointer, *[types.intp] * 10)


def addressed(dtype: str) -> Function:
    """A decorator that compiles `multiply` for a precision as a function with an address."""
    return lambda function: addressable(function, _signature(getattr(types, dtype)), _nrt=True, fastmath=FUSED)


def gemm_of(dtype: str) -> Any:
    """The BLAS of SciPy for a precision."""
    pointer: Any = cast(Any, types.CPointer)(getattr(types, dtype))
    return types.ExternalFunction(
        "numba_xxgemm",
        types.intc(
            types.char, types.char, types.char, types.intp, types.intp, types.intp, pointer, pointer, types.intp,
            pointer, types.intp, pointer, pointer, types.intp,
        ),
    )  # fmt: skip


_HEADER = '''"""The product of two {dtype} matrices, for programs to call."""

from __future__ import annotations

import numpy as np

from wyrm.engine.native.compilers import accumulated, fused_loops, natural
from wyrm.engine.native.products import addressed, as_strided, carray, gemm_of

gemm = gemm_of("{dtype}")
KIND = {kind}
CHECKED = {checked}
FACTORS = np.array([0.0, 1.0], np.{dtype})
'''


@once
def provide_products(dtype: str) -> None:
    """Compile the product of a precision, or load it from the cache, and make it known to programs."""
    collection = Collection(given={"gemm", "KIND", "CHECKED", "FACTORS", "as_strided", "carray"})
    collection.add(multiply, "multiply", np.dtype(dtype), "fused_loops")
    *loops, last = collection.texts
    last = last.replace("@fused_loops", f'@addressed("{dtype}")')
    header = _HEADER.format(dtype=dtype, kind=ord("s" if dtype == "float32" else "d"), checked=DEBUG)
    module = cache.module("\n\n".join([header, *loops, last]))
    binding.add_symbol(f"wyrm_multiply_{dtype}", module.multiply.address)


# --- the call ---------------------------------------------------------------------------------------------------------


@overload(product.multiply_into, jit_options=cast(Any, OPTIONS))
def _multiply_into(x: Any, y: Any, out: Any, kept: Any) -> Callable[..., None]:
    """`out = kept * out + x @ y`."""
    call: Any = types.ExternalFunction(f"wyrm_multiply_{out.dtype}", _signature(out.dtype))

    def multiply_matrices(x: Any, y: Any, out: Any, kept: Any) -> None:
        if x.shape[0] != out.shape[0] or x.shape[1] != y.shape[0] or y.shape[1] != out.shape[1]:
            raise IndexError("the shapes of a product of matrices do not fit")
        size = out.itemsize
        call(
            x.ctypes,
            y.ctypes,
            out.ctypes,
            out.shape[0],
            out.shape[1],
            x.shape[1],
            x.strides[0] // size,
            x.strides[1] // size,
            y.strides[0] // size,
            y.strides[1] // size,
            out.strides[0] // size,
            out.strides[1] // size,
            kept,
        )

    return multiply_matrices
