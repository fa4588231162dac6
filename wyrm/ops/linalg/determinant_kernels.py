"""The kernels of determinants and cofactors; see `kernels` for their arrays and for LAPACK's view of a matrix."""

from __future__ import annotations

import math

import numpy as np

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.linalg.kernels import lu_kernel, solve_factored, svd_kernel


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
