"""Products of matrices in kernels, by BLAS or by loops where they are faster, and calls of LAPACK.

The product is compiled and cached once per precision; programs only call it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from wyrm.engines.native.ir.program import Expression, LibraryCall, Number
from wyrm.engines.native.ir.types import FLOAT32, FLOAT64, INT32, UINT8
from wyrm.engines.native.kernels import calls
from wyrm.engines.native.kernels.arithmetic import as_type
from wyrm.engines.native.kernels.calls import builtin, general, same_size
from wyrm.engines.native.kernels.expressions import Expressions
from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.kernels.values import KernelValue, NotCompiled, Num, Static, View, literal
from wyrm.engines.native.llvm.blas import LAPACK, kernels
from wyrm.ops.kernels import native
from wyrm.ops.kernels.native import DEBUG
from wyrm.ops.kernels.sums import accumulated, natural
from wyrm.ops.products import product

# OpenBLAS's AVX-512 kernels skip packing y for products of up to 100 x 100 x 100. Packing does not pay off for at most
# `FEW_ROWS` rows, so such products are split into blocks of rows below that size, of at least `LEAST_ROWS` rows each:
# 32 x 128 @ 128 x 512 takes 21 us in blocks of 12 rows, and 28 us as a whole.
UNPACKED = 10**6 if kernels() == "SkylakeX" else 0
FEW_ROWS = 64
LEAST_ROWS = 8
# Loops over the rows of y beat OpenBLAS below `LOOPS_BELOW` multiplications, dot products with its columns below
# `DOTS_BELOW`, and both where an axis has at most `FEW` elements.
LOOPS_BELOW = 128 if UNPACKED else 2048
DOTS_BELOW = 64
FEW = 4
# On AVX-512 processors where OpenBLAS only uses AVX2 kernels, loops are faster if the rows of y have at least `WIDE`
# elements, or `LONG` if the inner axis is longer than `LONG`: 64 x 64 @ 64 x 64 runs at 124 GFLOP/s, in OpenBLAS at 97.
# If the product of the two shorter axes exceeds `LARGE`, OpenBLAS uses several threads and wins.
LOOPS_BEAT_BLAS = kernels() in ("Haswell", "Zen") and bool(llvm.get_host_cpu_features().get("avx512f"))
WIDE, LONG, LARGE = 64, 128, 2**17
# The elements of y per block: a block stays in the cache while all rows of x are multiplied with it.
CACHED_ELEMENTS = 40_000
# Longer sums are split into partial sums.
LONGEST_SUM = 4096


def _loops(function: Any) -> KernelFunction:
    return KernelFunction(function, distinct=True, fused=True)


# --- loops ------------------------------------------------------------------------------------------------------------


@_loops
def one_row(x: np.ndarray, y: np.ndarray, out: np.ndarray, i: int, columns: int, inner: int, beta: int) -> None:
    """Compute `out[i] = beta * out[i] + x[i] @ y`, four rows of y at a time."""
    fours = inner - inner % 4
    for j in range(0, fours, 4):
        a, b, c, d = x[i, j], x[i, j + 1], x[i, j + 2], x[i, j + 3]
        adds = j > 0 or beta
        for k in range(columns):
            sums = a * y[j, k] + b * y[j + 1, k] + c * y[j + 2, k] + d * y[j + 3, k]
            out[i, k] = out[i, k] + sums if adds else sums
    for j in range(fours, inner):
        a, adds = x[i, j], j > 0 or beta
        for k in range(columns):
            out[i, k] = out[i, k] + a * y[j, k] if adds else a * y[j, k]


@_loops
def two_rows(x: np.ndarray, y: np.ndarray, out: np.ndarray, i: int, columns: int, inner: int, beta: int) -> None:
    """Compute rows i and i + 1 of `out = beta * out + x @ y` together: each element of y is loaded once for both."""
    fours = inner - inner % 4
    for j in range(0, fours, 4):
        a, b, c, d = x[i, j], x[i, j + 1], x[i, j + 2], x[i, j + 3]
        e, f, g, h = x[i + 1, j], x[i + 1, j + 1], x[i + 1, j + 2], x[i + 1, j + 3]
        adds = j > 0 or beta
        for k in range(columns):
            s, t, u, v = y[j, k], y[j + 1, k], y[j + 2, k], y[j + 3, k]
            first, second = a * s + b * t + c * u + d * v, e * s + f * t + g * u + h * v
            out[i, k] = out[i, k] + first if adds else first
            out[i + 1, k] = out[i + 1, k] + second if adds else second
    for j in range(fours, inner):
        a, e, adds = x[i, j], x[i + 1, j], j > 0 or beta
        for k in range(columns):
            out[i, k] = out[i, k] + a * y[j, k] if adds else a * y[j, k]
            out[i + 1, k] = out[i + 1, k] + e * y[j, k] if adds else e * y[j, k]


@_loops
def by_two_rows(x: np.ndarray, y: np.ndarray, out: np.ndarray, rows: int, columns: int, inner: int, beta: int) -> None:
    """Compute `out = beta * out + x @ y` for y with contiguous rows."""
    pairs = rows - rows % 2
    for i in range(0, pairs, 2):
        two_rows(x, y, out, i, columns, inner, beta)
    if pairs < rows:
        one_row(x, y, out, pairs, columns, inner, beta)


@_loops
def one_row_of_part(
    x: np.ndarray, y: np.ndarray, out: np.ndarray, i: int, first_column: int, columns: int, first: int, length: int,
    beta: int,
) -> None:  # fmt: skip
    """Compute `out[i] = beta * out[i] + x[i] @ y` for a range of the inner axis and a range of columns."""
    for offset in range(length):
        j, adds = natural(first + offset), offset > 0 or beta
        a = x[i, j]
        for column in range(columns):
            k = natural(first_column + column)
            out[i, k] = out[i, k] + a * y[j, k] if adds else a * y[j, k]


@_loops
def four_rows(
    x: np.ndarray, y: np.ndarray, out: np.ndarray, i: int, vectors: int, first: int, length: int, beta: int
) -> None:
    """Compute rows i to i + 3 of `out = beta * out + x @ y` together, for a range of the inner axis.

    The 16 elements of x fit the AVX-512 registers together with those of y and `out`. It covers 16 columns per vector
    only: a remainder loop would cause register spills.
    """
    columns, fours = 16 * vectors, length - length % 4
    for offset in range(0, fours, 4):
        j, adds = natural(first + offset), offset > 0 or beta
        a0, a1, a2, a3 = x[i, j], x[i, j + 1], x[i, j + 2], x[i, j + 3]
        b0, b1, b2, b3 = x[i + 1, j], x[i + 1, j + 1], x[i + 1, j + 2], x[i + 1, j + 3]
        c0, c1, c2, c3 = x[i + 2, j], x[i + 2, j + 1], x[i + 2, j + 2], x[i + 2, j + 3]
        d0, d1, d2, d3 = x[i + 3, j], x[i + 3, j + 1], x[i + 3, j + 2], x[i + 3, j + 3]
        for k in range(columns):
            s, t, u, v = y[j, k], y[j + 1, k], y[j + 2, k], y[j + 3, k]
            one, two = a0 * s + a1 * t + a2 * u + a3 * v, b0 * s + b1 * t + b2 * u + b3 * v
            three, four = c0 * s + c1 * t + c2 * u + c3 * v, d0 * s + d1 * t + d2 * u + d3 * v
            out[i, k] = out[i, k] + one if adds else one
            out[i + 1, k] = out[i + 1, k] + two if adds else two
            out[i + 2, k] = out[i + 2, k] + three if adds else three
            out[i + 3, k] = out[i + 3, k] + four if adds else four
    for row in range(i, i + 4):
        one_row_of_part(x, y, out, row, 0, columns, first + fours, length - fours, fours > 0 or beta)


@_loops
def by_four_rows(x: np.ndarray, y: np.ndarray, out: np.ndarray, rows: int, columns: int, inner: int, beta: int) -> None:
    """Compute `out = beta * out + x @ y` for y with contiguous rows, in blocks of y that fit a core's cache."""
    whole, wide, part = rows - rows % 4, columns - columns % 16, max(16, CACHED_ELEMENTS // columns // 4 * 4)
    for first in range(0, inner, part):
        length, adds = min(part, inner - first), 1 if first > 0 else beta
        for i in range(0, whole, 4):
            four_rows(x, y, out, i, columns // 16, first, length, adds)
            for row in range(i, i + 4):
                one_row_of_part(x, y, out, row, wide, columns - wide, first, length, adds)
        for i in range(whole, rows):
            one_row_of_part(x, y, out, i, 0, columns, first, length, adds)


@_loops
def dots(
    x: np.ndarray, y: np.ndarray, out: np.ndarray, rows: int, columns: int, first: int, length: int, beta: int
) -> None:
    """Compute `out = beta * out + x @ y.T` for a range of the inner axis, four rows of y at a time."""
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
            out[i, k] = out[i, k] + a if beta else a
            out[i, k + 1] = out[i, k + 1] + b if beta else b
            out[i, k + 2] = out[i, k + 2] + c if beta else c
            out[i, k + 3] = out[i, k + 3] + d if beta else d
        for k in range(fours, columns):
            a = zero
            for offset in range(length):
                j = natural(first + offset)
                a = accumulated(a, x[i, j] * y[k, j])
            out[i, k] = out[i, k] + a if beta else a


@_loops
def by_four_dots(x: np.ndarray, y: np.ndarray, out: np.ndarray, rows: int, columns: int, inner: int, beta: int) -> None:
    """Compute `out = beta * out + x @ y.T` for x and y with contiguous rows of any length.

    A long float32 sum loses precision; a sum of partial sums loses little.
    """
    for first in range(0, inner, LONGEST_SUM):
        adds = 1 if first > 0 else beta
        dots(x, y, out, rows, columns, first, min(LONGEST_SUM, inner - first), adds)


@_loops
def with_any_strides(
    x: np.ndarray, y: np.ndarray, out: np.ndarray, rows: int, columns: int, inner: int, beta: int
) -> None:
    """Compute `out = beta * out + x @ y` for arrays with any strides."""
    for i in range(rows):
        for k in range(columns):
            total = 0.0
            for j in range(inner):
                total = accumulated(total, x[i, j] * y[j, k])
            out[i, k] = out[i, k] + total if beta else total


# --- the choice of an implementation ----------------------------------------------------------------------------------

# In debug mode accesses are checked against the true shapes, so no view may change them.
CHECKED = DEBUG


def gemm(
    x_transposed: bool, y_transposed: bool, rows: int, columns: int, inner: int, x: np.ndarray, x_step: int,
    y: np.ndarray, y_step: int, beta: int, out: np.ndarray, step: int,
) -> None:  # fmt: skip
    """Call BLAS gemm for column-major matrices; see `wyrm.engines.native.ir.program.Gemm`."""
    raise NotImplementedError("only compiled code calls BLAS")


def as_shape(x: np.ndarray, shape: tuple[int, ...]) -> Any:
    """Return a row-major view of this shape over the memory that starts at the array's first element."""
    raise NotImplementedError("only compiled code reinterprets memory")


def element_strides(x: np.ndarray) -> tuple[int, ...]:
    """Return the strides of an array in elements."""
    return tuple(stride // x.itemsize for stride in x.strides)


def multiply(x: np.ndarray, y: np.ndarray, out: np.ndarray, beta: int) -> None:
    """Compute `out = beta * out + x @ y` with the fastest implementation for the shapes and strides."""
    rows, columns, inner = out.shape[0], out.shape[1], x.shape[1]
    x_row, x_column = element_strides(x)
    y_row, y_column = element_strides(y)
    out_row, out_column = element_strides(out)
    by_rows = out_column == 1 and y_column == 1 and (x_column == 1 or x_row == 1)
    by_dots = out_column == 1 and y_row == 1 and x_column == 1
    # BLAS requires rows that do not overlap, unlike those of a broadcast operand. The stride of one row is ignored.
    x_plain = x_column == 1 and (x_row >= inner or rows == 1)
    y_plain = y_column == 1 and (y_row >= columns or inner == 1)
    x_transposed = x_row == 1 and (x_column >= rows or inner == 1)
    y_transposed = y_row == 1 and (y_column >= inner or columns == 1)
    by_blas = (
        out_column == 1
        and (x_plain or x_transposed)
        and (y_plain or y_transposed)
        and (out_row >= columns or rows == 1)
    )
    # BLAS packs all of y first, which does not pay off for a few rows of x: 1 x 8000 @ 8000 x 64 takes 180 us, loops
    # 27; 4 x 768 @ 768 x 768 takes 88 us, loops 54. For a few columns it packs all of x: 1000 x 1000 @ 1000 x 4 takes
    # 213 us, loops 88.
    products = rows * columns * inner
    packed = products > UNPACKED
    small_by_dots = by_dots and (rows == 1 or (columns <= FEW and packed) or products < DOTS_BELOW)
    few_rows = columns > FEW and inner <= LONGEST_SUM and (rows == 1 or (rows <= FEW and packed))
    wide = columns >= WIDE and (columns >= LONG or inner <= LONG) and products <= LARGE * max(rows, columns, inner)
    by_fours = LOOPS_BEAT_BLAS and wide and rows >= 4 and by_rows and (x_plain or x_transposed)
    small_by_rows = by_fours or (by_rows and (few_rows or (inner <= FEW and packed) or products < LOOPS_BELOW))
    if by_blas and not (small_by_dots or small_by_rows):
        # BLAS is column-major: there, `out.T = y.T @ x.T` computes the row-major product.
        y_step = max(y_row, columns) if y_plain else max(y_column, inner)
        x_step = max(x_row, inner) if x_plain else max(x_column, rows)
        out_step, part = max(out_row, columns), max(rows, 1)
        if y_plain and LEAST_ROWS * columns * inner <= UNPACKED and packed and rows <= FEW_ROWS:
            part = UNPACKED // (columns * inner)
            part -= part % 4
        for top in range(0, rows, part):
            count = min(part, rows - top)
            gemm(not y_plain, not x_plain, columns, count, inner, y, y_step, x[top:], x_step, beta, out[top:], out_step)
        return
    # Each loop is called at one place only, so that it is inlined once.
    if inner > 0 and by_dots and not CHECKED:
        if columns == 1 and out_row == 1:  # the transposed product: four rows of x at a time
            first, second, result = as_shape(y, (1, inner)), as_shape(x, (rows, x_row)), as_shape(out, (1, rows))
        else:
            first, second, result = (
                as_shape(x, (rows, x_row)),
                as_shape(y, (columns, y_column)),
                as_shape(out, (rows, out_row)),
            )
        by_four_dots(first, second, result, first.shape[0], second.shape[0], inner, beta)
        return
    if inner > 0 and by_fours and not CHECKED:
        second, result = as_shape(y, (inner, y_row)), as_shape(out, (rows, out_row))
        # x is passed with a constant stride: with unknown ones, computing addresses would add half of the time again.
        if x_plain:
            by_four_rows(as_shape(x, (rows, x_row)), second, result, rows, columns, inner, beta)
        else:
            by_four_rows(as_shape(x, (inner, x_column)).T, second, result, rows, columns, inner, beta)
        return
    if inner > 0 and by_rows and not CHECKED:
        by_two_rows(x, as_shape(y, (inner, y_row)), as_shape(out, (rows, out_row)), rows, columns, inner, beta)
        return
    with_any_strides(x, y, out, rows, columns, inner, beta)


MULTIPLY = KernelFunction(multiply, distinct=True, fused=True, shared="always")
builtin(gemm)(calls.gemm)
builtin(as_shape)(calls.as_shape)
builtin(element_strides)(calls.element_strides)
builtin(accumulated)(calls.accumulate)
builtin(natural)(calls.natural)


@builtin(product.multiply_into)
def _multiply_into(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Add a call of `multiply`, with a check of the shapes at run time."""
    x, y, out, beta = arguments
    if not (isinstance(x, View) and isinstance(y, View) and isinstance(out, View)):
        raise NotCompiled("multiply_into takes three arrays")
    if not len(x.shape) == len(y.shape) == len(out.shape) == 2:
        raise NotCompiled("multiply_into takes three matrices, with two axes each")
    if not x.element == y.element == out.element:
        raise NotCompiled(
            f"multiply_into: x is {x.element}, y is {y.element}, out is {out.element}; they must have the same dtype"
        )
    pairs = [(x.shape[0], out.shape[0]), (x.shape[1], y.shape[0]), (y.shape[1], out.shape[1])]
    same_size(body, pairs, "multiply_into: the shapes of x, y and out do not match")
    return body.invoke(MULTIPLY, [general(x), general(y), general(out), beta])


@builtin(native.lapack)
def _lapack(body: Expressions, arguments: Sequence[KernelValue]) -> KernelValue:
    """Add a call of a library function."""
    name, *given = arguments
    floats = {each.element for each in given if isinstance(each, View)} & {FLOAT32, FLOAT64}
    full = f"{'s' if floats == {FLOAT32} else 'd'}{name.value if isinstance(name, Static) else ''}"
    if full not in LAPACK or len(floats) != 1:
        raise NotCompiled(f"lapack takes the name of a function and arrays of one float type; no function is {full!r}")
    (number,) = floats
    operands: list[Expression] = []
    for each in given:
        if isinstance(each, View) and each.element in (number, INT32) and each.layout == "contiguous":
            operands.append(each.pointer)
        elif isinstance(each, Static) and isinstance(each.value, str) and len(each.value) == 1:
            operands.append(Number(ord(each.value), UINT8))
        elif isinstance(each, Num) and each.type == UINT8:
            operands.append(each.expression)
        elif isinstance(each, Num):
            operands.append(as_type(each, number if each.type.kind == "f" else INT32).expression)
        else:
            raise NotCompiled(f"{full}: an argument is not a letter, a scalar, or a row-major array of its types")
    body.builder.add(LibraryCall(full, tuple(operands)))
    return literal(0)
