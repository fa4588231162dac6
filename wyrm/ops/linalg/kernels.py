"""The kernels of linear algebra: loops around LAPACK's functions of one matrix.

Arrays have one leading axis, over the matrices. LAPACK reads a row-major matrix as its transpose; comments say what a
call computes in these terms. `info`, an array of one int32, receives LAPACK's error code.

Their gradients are formulas of the results, by solutions and products of matrices: LAPACK has no source here to derive
them from, and a loop run backwards would be slower than LAPACK.
"""

from __future__ import annotations

import math

import numpy as np

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.kernels.native import lapack, refuse
from wyrm.ops.kernels.sums import natural
from wyrm.ops.products.product import multiply_exactly


def copy_into(x: FloatArray, out: FloatArray) -> None:
    """Copy a matrix into the first rows of `out`."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j]


def transpose_into(x: FloatArray, out: FloatArray) -> None:
    """Copy a transposed matrix into the first rows of `out`."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[j, i] = x[i, j]


def check_finite(x: FloatArray) -> None:
    """End the program if a matrix holds a NaN or an infinity, with which LAPACK may not return."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if not math.isfinite(x[i, j]):
                refuse()


def cholesky_kernel(a: FloatArray, out: FloatArray, info: IntegerArray) -> None:
    """Factorize the mean of each matrix and its transpose."""
    size = a.shape[1]
    for m in range(a.shape[0]):
        for i in range(size):
            for j in range(size):
                out[m, i, j] = 0.5 * (a[m, i, j] + a[m, j, i]) if j <= i else 0.0
        if size > 0:
            # The upper triangle of the transpose: a = u.T @ u.
            lapack("potrf", "U", size, out[m], size, info)
            if info[0] != 0:
                refuse()
        for i in range(size):
            if not out[m, i, i] > 0.0:
                refuse()


def triangular_kernel(
    a: FloatArray,
    of_a: IntegerArray,
    b: FloatArray,
    of_b: IntegerArray,
    lower: bool,
    transposed: bool,
    unit_diagonal: bool,
    out: FloatArray,
) -> None:
    """Solve triangular systems. Result `m` is that of the matrix `a[of_a[m]]` and the right side `b[of_b[m]]`."""
    size, columns = out.shape[1], out.shape[2]
    triangle, trans = np.uint8(85 if lower else 76), np.uint8(84 if transposed else 78)  # the letters U or L, T or N
    diagonal = np.uint8(85 if unit_diagonal else 78)  # U or N
    for m in range(out.shape[0]):
        p = natural(of_a[m])
        for i in range(size):
            if not unit_diagonal and a[p, i, i] == 0.0:
                refuse()
        copy_into(b[natural(of_b[m])], out[m])
        if size > 0 and columns > 0:
            # Transposed, a @ x = b is x.T @ a.T = b.T, with the other triangle.
            lapack("trsm", "R", triangle, trans, diagonal, columns, size, 1.0, a[p], size, out[m], columns)


def lu_kernel(a: FloatArray, out: FloatArray, pivots: IntegerArray, info: IntegerArray) -> None:
    """Factorize each transposed matrix; a zero on the diagonal of the factor is not an error here."""
    size = a.shape[1]
    for m in range(a.shape[0]):
        copy_into(a[m], out[m])
        if size > 0:
            lapack("getrf", size, size, out[m], size, pivots, info)
        for i in range(size):
            out[m, size, i] = pivots[i] - 1


def swap_rows(x: FloatArray, pivots: FloatArray, i: int) -> None:
    """Exchange row i with the row that the pivot names."""
    other = natural(max(0, min(int(pivots[i]), x.shape[0] - 1)))
    if other != i:
        for k in range(x.shape[1]):
            x[i, k], x[other, k] = x[other, k], x[i, k]


def solve_factored(factor: FloatArray, pivots: FloatArray, transposed: bool, x: FloatArray) -> None:
    """Solve a linear system from `a.T = p @ l @ u`; `x` holds the right-hand side and then the solution."""
    size, columns = x.shape[0], x.shape[1]
    if transposed:
        # a.T @ x = b: x.T = b.T @ p @ inv(l).T @ inv(u).T.
        for i in range(size):
            swap_rows(x, pivots, i)
        lapack("trsm", "R", "L", "T", "U", columns, size, 1.0, factor, size, x, columns)
        lapack("trsm", "R", "U", "T", "N", columns, size, 1.0, factor, size, x, columns)
    else:
        # x.T = b.T @ inv(u) @ inv(l) @ p.T.
        lapack("trsm", "R", "U", "N", "N", columns, size, 1.0, factor, size, x, columns)
        lapack("trsm", "R", "L", "N", "U", columns, size, 1.0, factor, size, x, columns)
        for i in range(size):
            swap_rows(x, pivots, size - 1 - i)


def solve_kernel(
    factors: FloatArray,
    of_a: IntegerArray,
    b: FloatArray,
    of_b: IntegerArray,
    transposed: bool,
    least: float,
    out: FloatArray,
) -> None:
    """Solve linear systems from `a.T = p @ l @ u`; `of_a` and `of_b` hold the number of each result's operands.

    A pivot of at most `least` makes a matrix singular.
    """
    size, columns = out.shape[1], out.shape[2]
    for m in range(out.shape[0]):
        p = natural(of_a[m])
        factor, pivots, x = factors[p], factors[p, size], out[m]
        for i in range(size):
            if abs(factor[i, i]) <= least:
                refuse()
        copy_into(b[natural(of_b[m])], x)
        if size > 0 and columns > 0:
            solve_factored(factor, pivots, transposed, x)


def eigh_kernel(
    a: FloatArray,
    out: FloatArray,
    vectors: FloatArray,
    work: FloatArray,
    integers: IntegerArray,
    info: IntegerArray,
) -> None:
    """Decompose the mean of each matrix and its transpose."""
    size = a.shape[1]
    for m in range(a.shape[0]):
        check_finite(a[m])
        for i in range(size):
            for j in range(size):
                vectors[i, j] = 0.5 * (a[m, i, j] + a[m, j, i])
        if size > 0:
            lapack("syevd", "V", "L", size, vectors, size, out[m, 0], work, work.size, integers, integers.size, info)
            if info[0] != 0:
                refuse()
        transpose_into(vectors, out[m, 1:])


def eig_kernel(
    a: FloatArray,
    out: FloatArray,
    matrix: FloatArray,
    values: FloatArray,
    vectors: FloatArray,
    work: FloatArray,
    info: IntegerArray,
) -> None:
    """Decompose each matrix; LAPACK returns the transposed vectors, which are refused if an eigenvalue is complex.

    `values` takes the real parts of the eigenvalues, and then the imaginary parts.
    """
    size = a.shape[1]
    for m in range(a.shape[0]):
        check_finite(a[m])
        transpose_into(a[m], matrix)
        if size > 0:
            lapack(
                "geev", "N", "V", size, matrix, size, values[0], values[1], vectors, size, vectors, size, work,
                work.size, info,
            )  # fmt: skip
            if info[0] != 0:
                refuse()
        for i in range(size):
            if values[1, i] != 0.0:
                refuse()
            out[m, 0, i] = values[0, i]
        transpose_into(vectors, out[m, 1:])


def svd_kernel(
    a: FloatArray,
    out: FloatArray,
    matrix: FloatArray,
    left: FloatArray,
    work: FloatArray,
    integers: IntegerArray,
    info: IntegerArray,
) -> None:
    """Decompose each matrix; LAPACK returns the transposed left vectors, and the right ones as they are stored."""
    rows, columns, count = a.shape[1], a.shape[2], left.shape[0]
    for m in range(a.shape[0]):
        check_finite(a[m])
        transpose_into(a[m], matrix)
        if count > 0:
            lapack(
                "gesdd", "S", rows, columns, matrix, rows, out[m, rows], left, rows, out[m, rows + 1 :], count, work,
                work.size, integers, info,
            )  # fmt: skip
            if info[0] != 0:
                refuse()
        transpose_into(left, out[m])


def qr_kernel(
    a: FloatArray, out: FloatArray, matrix: FloatArray, scales: FloatArray, work: FloatArray, info: IntegerArray
) -> None:
    """Factorize each matrix."""
    rows, columns = a.shape[1], a.shape[2]
    for m in range(a.shape[0]):
        transpose_into(a[m], matrix)
        if columns > 0:
            lapack("geqrf", rows, columns, matrix, rows, scales, work, work.size, info)
        for j in range(columns):
            for i in range(columns):
                out[m, rows + j, i] = matrix[j, i] if i <= j else 0.0
        if columns > 0:
            lapack("orgqr", rows, columns, columns, matrix, rows, scales, work, work.size, info)
        transpose_into(matrix, out[m])


def expm_kernel(a: FloatArray, out: FloatArray, parts: FloatArray, pivots: IntegerArray, info: IntegerArray) -> None:
    """Compute the exponential of each matrix: a rational function of the matrix divided by a power of 2, then squared.

    Higham, "The scaling and squaring method for the matrix exponential revisited", 2005, with the degree 13. `parts`
    are seven float64 matrices.
    """
    size = a.shape[1]
    x, second, fourth, sixth = parts[0], parts[1], parts[2], parts[3]
    odd, even, inner = parts[4], parts[5], parts[6]
    for m in range(a.shape[0]):
        check_finite(a[m])
        largest = 0.0
        for j in range(size):
            total = 0.0
            for i in range(size):
                total += abs(np.float64(a[m, i, j]))
            largest = max(largest, total)
        squarings, factor = 0, 1.0
        while largest > 5.371920351148152:
            largest, factor, squarings = 0.5 * largest, 0.5 * factor, squarings + 1
        for i in range(size):
            for j in range(size):
                x[i, j] = factor * np.float64(a[m, i, j])
        multiply_exactly(x, x, second, 0)
        multiply_exactly(second, second, fourth, 0)
        multiply_exactly(second, fourth, sixth, 0)
        for i in range(size):
            for j in range(size):
                inner[i, j] = sixth[i, j] + 16380.0 * fourth[i, j] + 40840800.0 * second[i, j]
        multiply_exactly(sixth, inner, even, 0)
        for i in range(size):
            for j in range(size):
                even[i, j] += 33522128640.0 * sixth[i, j] + 10559470521600.0 * fourth[i, j]
                even[i, j] += 1187353796428800.0 * second[i, j] + (32382376266240000.0 if i == j else 0.0)
        multiply_exactly(x, even, odd, 0)
        for i in range(size):
            for j in range(size):
                inner[i, j] = 182.0 * sixth[i, j] + 960960.0 * fourth[i, j] + 1323241920.0 * second[i, j]
        multiply_exactly(sixth, inner, even, 0)
        for i in range(size):
            for j in range(size):
                even[i, j] += 670442572800.0 * sixth[i, j] + 129060195264000.0 * fourth[i, j]
                even[i, j] += 7771770303897600.0 * second[i, j] + (64764752532480000.0 if i == j else 0.0)
        # (even - odd) @ x = even + odd, by the factors of the transposed matrix.
        for i in range(size):
            for j in range(size):
                x[i, j], inner[i, j] = even[i, j] + odd[i, j], even[i, j] - odd[i, j]
        if size > 0:
            lapack("getrf", size, size, inner, size, pivots, info)
            if info[0] != 0:
                refuse()
            # x.T = b.T @ inv(u) @ inv(l) @ p.T.
            lapack("trsm", "R", "U", "N", "N", size, size, 1.0, inner, size, x, size)
            lapack("trsm", "R", "L", "N", "U", size, size, 1.0, inner, size, x, size)
        for i in range(size):
            last = size - 1 - i
            other = natural(max(0, min(int(pivots[last]) - 1, size - 1)))
            if other != last:
                for k in range(size):
                    x[last, k], x[other, k] = x[other, k], x[last, k]
        for _ in range(squarings):
            multiply_exactly(x, x, second, 0)
            copy_into(second, x)
        copy_into(x, out[m])


def determinant_kernel(factors: FloatArray, part: int, out: FloatArray) -> None:
    """Compute the determinants (part 0), their signs (1), or the logarithms of their absolute values (2)."""
    size = factors.shape[2]
    for m in range(factors.shape[0]):
        one = factors.dtype.type(1)
        product, logarithm = one, one - one
        for i in range(size):
            x = factors[m, i, i]
            if factors[m, size, i] != i:
                product = -product
            if part == 0:
                product *= x
            elif part == 1:
                product *= np.sign(x)
            else:
                logarithm += np.log(abs(x))
        out[m] = logarithm if part == 2 else product


def all_finite(x: FloatArray) -> bool:
    """Return whether a matrix holds no NaN and no infinity."""
    found = True
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            found = found and math.isfinite(x[i, j])
    return found


def cofactors_kernel(
    factors: FloatArray,
    a: FloatArray,
    out: FloatArray,
    parts: FloatArray,
    of_part: FloatArray,
    number: FloatArray,
    pivots: IntegerArray,
    matrix: FloatArray,
    left: FloatArray,
    work: FloatArray,
    integers: IntegerArray,
    info: IntegerArray,
) -> None:
    """Compute the determinant times the transposed inverse, or else the cofactors of the singular value decomposition.

    `parts` holds that decomposition, `of_part` the LU factorization of one of its orthogonal factors, and `number` a
    determinant.
    """
    size = out.shape[1]
    for m in range(out.shape[0]):
        found, one = out[m], out.dtype.type(1)
        determinant_kernel(factors[m : m + 1], 0, number)
        usual = number[0] != 0.0 and math.isfinite(number[0])
        if usual:
            for i in range(size):
                for j in range(size):
                    found[i, j] = number[0] if i == j else one - one
            if size > 0:
                solve_factored(factors[m], factors[m, size], True, found)
            usual = all_finite(found)
        if not usual and not all_finite(a[m]):
            for i in range(size):
                for j in range(size):
                    found[i, j] = math.nan
        elif not usual:
            svd_kernel(a[m : m + 1], parts, matrix, left, work, integers, info)
            vectors, values, others = parts[0], parts[0, size], parts[0, size + 1 :]
            sign = one
            for k in range(2):
                lu_kernel(parts[:, :size] if k == 0 else parts[:, size + 1 :], of_part, pivots, info)
                determinant_kernel(of_part, 1, number)
                sign *= number[0]
            for i in range(size):
                for j in range(size):
                    found[i, j] = one - one
            for k in range(size):
                product = sign
                for j in range(size):
                    product *= one if j == k else values[j]
                for i in range(size):
                    for j in range(size):
                        found[i, j] += product * vectors[i, k] * others[j, k]
