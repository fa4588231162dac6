"""The product of two matrices for kernels: BLAS, or loops where calling it takes longer than the work.

It is compiled once for each precision, and kept, so that a program adds no more than a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from wyrm.backends.llvm.blas import kernels
from wyrm.kernels import calls
from wyrm.kernels.calls import builtin, general, same_size
from wyrm.kernels.errors import NotCompiled
from wyrm.kernels.expressions import Expressions
from wyrm.kernels.functions import KernelFunction
from wyrm.kernels.values import Value, View
from wyrm.ops import product
from wyrm.ops.scratch import DEBUG
from wyrm.ops.sums import accumulated, natural

# OpenBLAS's kernels for AVX-512 multiply up to 100 x 100 x 100 numbers without first copying y into another order.
# Products of at most `FEW_ROWS` do not pay for that copy. Larger ones are computed in parts of that size, of at least
# `LEAST_ROWS`: 32 x 128 @ 128 x 512 in parts of 12 rows takes 21 us, as a whole 28.
UNCOPIED = 10**6 if kernels() == "SkylakeX" else 0
FEW_ROWS = 64
LEAST_ROWS = 8
# Loops over rows of y are faster than OpenBLAS for fewer than `LOOPS_BELOW` multiplications, loops over its columns for
# fewer than `DOTS_BELOW`, and both where an axis is no longer than `FEW`.
LOOPS_BELOW = 128 if UNCOPIED else 2048
DOTS_BELOW = 64
FEW = 4
# Where the processor has AVX-512 and OpenBLAS uses kernels for AVX2, loops are faster if rows of y are at least `WIDE`
# long, and `LONG` where the inner axis is longer than that: 64 x 64 @ 64 x 64 runs at 124 billion operations a second,
# in OpenBLAS at 97. Where the two shorter axes together exceed `LARGE`, OpenBLAS divides the product among threads.
AHEAD = kernels() in ("Haswell", "Zen") and bool(llvm.get_host_cpu_features().get("avx512f"))
WIDE, LONG, LARGE = 64, 128, 2**17
# So many numbers of y, which stay in the cache of a core, are multiplied with all rows of x before the next.
NEAR = 40_000
# Sums of more products than this are added up in parts.
LONGEST_SUM = 4096


def _loops(function: Any) -> KernelFunction:
    return KernelFunction(function, distinct=True, fused=True)


# --- loops ------------------------------------------------------------------------------------------------------------


@_loops
def one_row(x: np.ndarray, y: np.ndarray, out: np.ndarray, i: int, columns: int, inner: int, beta: int) -> None:
    """`out[i] = beta * out[i] + x[i] @ y`, four rows of y at a time."""
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
    """The same for rows i and i + 1 at once: what is read of y serves both."""
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
    """`out = beta * out + x @ y` where the rows of y are contiguous."""
    pairs = rows - rows % 2
    for i in range(0, pairs, 2):
        two_rows(x, y, out, i, columns, inner, beta)
    if pairs < rows:
        one_row(x, y, out, pairs, columns, inner, beta)


@_loops
def one_row_of_part(
    x: np.ndarray, y: np.ndarray, out: np.ndarray, i: int, left: int, columns: int, first: int, length: int, beta: int
) -> None:  # fmt: skip
    """`out[i] = beta * out + x[i] @ y` over parts of the inner axis and of the columns."""
    for offset in range(length):
        j, adds = natural(first + offset), offset > 0 or beta
        a = x[i, j]
        for place in range(columns):
            k = natural(left + place)
            out[i, k] = out[i, k] + a * y[j, k] if adds else a * y[j, k]


@_loops
def four_rows(
    x: np.ndarray, y: np.ndarray, out: np.ndarray, i: int, vectors: int, first: int, length: int, beta: int
) -> None:
    """The same for four rows at once, whose 16 numbers of x AVX-512 has registers for beside those of y and `out`.

    For vectors of 16 columns: with a loop for what is left over, there would be too few registers.
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
    """`out = beta * out + x @ y` where rows of y are contiguous, for as many at once as stay in the cache of a core."""
    whole, wide, part = rows - rows % 4, columns - columns % 16, max(16, NEAR // columns // 4 * 4)
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
    """`out = beta * out + x @ y.T` over a part of the inner axis, four rows of y at a time."""
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
    """`out = beta * out + x @ y.T` where the rows of x and y are contiguous, and may be long.

    A long sum of float32 numbers loses digits, a sum of sums hardly any.
    """
    for first in range(0, inner, LONGEST_SUM):
        adds = 1 if first > 0 else beta
        dots(x, y, out, rows, columns, first, min(LONGEST_SUM, inner - first), adds)


@_loops
def anyhow(x: np.ndarray, y: np.ndarray, out: np.ndarray, rows: int, columns: int, inner: int, beta: int) -> None:
    """`out = beta * out + x @ y` of arrays of any strides."""
    for i in range(rows):
        for k in range(columns):
            total = 0.0
            for j in range(inner):
                total = accumulated(total, x[i, j] * y[j, k])
            out[i, k] = out[i, k] + total if beta else total


# --- the choice -------------------------------------------------------------------------------------------------------

# Whether every access is checked, which needs arrays of the true shapes.
CHECKED = DEBUG


def gemm(
    x_turned: bool, y_turned: bool, rows: int, columns: int, inner: int, x: np.ndarray, x_step: int, y: np.ndarray,
    y_step: int, beta: int, out: np.ndarray, step: int,
) -> None:  # fmt: skip
    """The BLAS of SciPy; of column-major matrices."""
    raise NotImplementedError("only compiled code calls BLAS")


def seen_as(x: np.ndarray, shape: tuple[int, ...]) -> Any:
    """The numbers of an array, from the first on, as an array of this shape."""
    raise NotImplementedError("only compiled code sees memory as it likes")


def steps_of(x: np.ndarray) -> tuple[int, ...]:
    """How many numbers lie between an element and the next one along each axis."""
    return tuple(stride // x.itemsize for stride in x.strides)


def multiply(x: np.ndarray, y: np.ndarray, out: np.ndarray, beta: int) -> None:
    """`out = beta * out + x @ y`."""
    rows, columns, inner = out.shape[0], out.shape[1], x.shape[1]
    x_row, x_column = steps_of(x)
    y_row, y_column = steps_of(y)
    out_row, out_column = steps_of(out)
    by_rows = out_column == 1 and y_column == 1 and (x_column == 1 or x_row == 1)
    by_dots = out_column == 1 and y_row == 1 and x_column == 1
    # BLAS takes rows that do not overlap, as those of a broadcast operand do; of one row the step does not count.
    x_plain = x_column == 1 and (x_row >= inner or rows == 1)
    y_plain = y_column == 1 and (y_row >= columns or inner == 1)
    x_turned = x_row == 1 and (x_column >= rows or inner == 1)
    y_turned = y_row == 1 and (y_column >= inner or columns == 1)
    by_blas = out_column == 1 and (x_plain or x_turned) and (y_plain or y_turned) and (out_row >= columns or rows == 1)
    # BLAS copies all of y into another order first, which a few rows do not pay for: 180 us for one and 8000 x 64,
    # loops 27; 88 us for four and 768 x 768, loops 54. With a few columns it copies all of x: 213 us for 1000 x 1000
    # and four, loops 88.
    products = rows * columns * inner
    copied = products > UNCOPIED
    small_by_dots = by_dots and (rows == 1 or (columns <= FEW and copied) or products < DOTS_BELOW)
    few_rows = columns > FEW and inner <= LONGEST_SUM and (rows == 1 or (rows <= FEW and copied))
    wide = columns >= WIDE and (columns >= LONG or inner <= LONG) and products <= LARGE * max(rows, columns, inner)
    by_fours = AHEAD and wide and rows >= 4 and by_rows and (x_plain or x_turned)
    small_by_rows = by_fours or (by_rows and (few_rows or (inner <= FEW and copied) or products < LOOPS_BELOW))
    if by_blas and not (small_by_dots or small_by_rows):
        # BLAS works in column-major order, in which the transposed product has what is asked for.
        y_step = max(y_row, columns) if y_plain else max(y_column, inner)
        x_step = max(x_row, inner) if x_plain else max(x_column, rows)
        out_step, part = max(out_row, columns), max(rows, 1)
        if y_plain and LEAST_ROWS * columns * inner <= UNCOPIED and copied and rows <= FEW_ROWS:
            part = UNCOPIED // (columns * inner)
            part -= part % 4
        for top in range(0, rows, part):
            count = min(part, rows - top)
            gemm(not y_plain, not x_plain, columns, count, inner, y, y_step, x[top:], x_step, beta, out[top:], out_step)
        return
    # Each of the loops is called in one place, so that there is one copy of it.
    if inner > 0 and by_dots and not CHECKED:
        if columns == 1 and out_row == 1:  # the transposed product, of four rows of x at a time
            first, second, result = seen_as(y, (1, inner)), seen_as(x, (rows, x_row)), seen_as(out, (1, rows))
        else:
            first, second, result = (
                seen_as(x, (rows, x_row)),
                seen_as(y, (columns, y_column)),
                seen_as(out, (rows, out_row)),
            )
        by_four_dots(first, second, result, first.shape[0], second.shape[0], inner, beta)
        return
    if inner > 0 and by_fours and not CHECKED:
        second, result = seen_as(y, (inner, y_row)), seen_as(out, (rows, out_row))
        # With a step between numbers that is not known, to find out where they are takes as long as half of the work.
        if x_plain:
            by_four_rows(seen_as(x, (rows, x_row)), second, result, rows, columns, inner, beta)
        else:
            by_four_rows(seen_as(x, (inner, x_column)).T, second, result, rows, columns, inner, beta)
        return
    if inner > 0 and by_rows and not CHECKED:
        by_two_rows(x, seen_as(y, (inner, y_row)), seen_as(out, (rows, out_row)), rows, columns, inner, beta)
        return
    anyhow(x, y, out, rows, columns, inner, beta)


MULTIPLY = KernelFunction(multiply, distinct=True, fused=True, shared="always")
builtin(gemm)(calls.gemm)
builtin(seen_as)(calls.seen_as)
builtin(steps_of)(calls.steps_of)
builtin(accumulated)(calls.accumulate)
builtin(natural)(calls.natural)


@builtin(product.multiply_into)
def _multiply_into(body: Expressions, arguments: Sequence[Value]) -> Value:
    """A call of `multiply`, where the shapes fit."""
    x, y, out, beta = arguments
    if not (isinstance(x, View) and isinstance(y, View) and isinstance(out, View)):
        raise NotCompiled("a product of what are no matrices")
    if not len(x.shape) == len(y.shape) == len(out.shape) == 2:
        raise NotCompiled("a product of what are no matrices: each has two axes")
    if not x.element == y.element == out.element:
        raise NotCompiled(f"a product of {x.element} and {y.element} numbers in {out.element}")
    pairs = [(x.shape[0], out.shape[0]), (x.shape[1], y.shape[0]), (y.shape[1], out.shape[1])]
    same_size(body, pairs, "the shapes of a product of matrices do not fit")
    return body.invoke(MULTIPLY, [general(x), general(y), general(out), beta])
