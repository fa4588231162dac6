"""Triangular systems, LU factors and exponentials of one matrix by NumPy alone, where SciPy is not installed."""

from __future__ import annotations

import math

import numpy as np

from wyrm.graph.typing import FloatArray

# The numerator of the Padé approximation of degree 13, from the power 0 on, and the largest norm that it is exact for:
# Higham, "The scaling and squaring method for the matrix exponential revisited", 2005.
_PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
_LARGEST = 5.371920351148152


def triangular_solution(a: FloatArray, b: FloatArray, *, lower: bool, unit_diagonal: bool) -> FloatArray:
    """Return the solution `x` of `a @ x = b` for a triangular matrix, of which the other triangle is not read."""
    x: FloatArray = np.array(b)
    size = len(a)
    for i in range(size) if lower else range(size - 1, -1, -1):
        known = slice(0, i) if lower else slice(i + 1, size)
        x[i] -= a[i, known] @ x[known]
        if not unit_diagonal:
            x[i] /= a[i, i]
    return x


def lu_factors(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return both factors of a square matrix in one, and the rows that were exchanged, as LAPACK's `getrf` has them."""
    x: FloatArray = np.array(a)
    size = len(a)
    pivots: FloatArray = np.zeros(size, a.dtype)
    for i in range(size):
        pivot = i + int(np.argmax(np.abs(x[i:, i])))
        pivots[i] = pivot
        if x[pivot, i] != 0.0:
            x[[i, pivot]] = x[[pivot, i]]
            x[i + 1 :, i] /= x[i, i]
        x[i + 1 :, i + 1 :] -= np.outer(x[i + 1 :, i], x[i, i + 1 :])
    return x, pivots


def lu_solution(factors: FloatArray, pivots: FloatArray, b: FloatArray, *, transposed: bool) -> FloatArray:
    """Return the solution of `a @ x = b`, or of `a.T @ x = b`, from the results of `lu_factors(a)`."""
    exchanges = [*enumerate(pivots.astype(np.int64).tolist())]
    x: FloatArray = np.array(b)
    if transposed:
        x = triangular_solution(factors.T, x, lower=True, unit_diagonal=False)
        x = triangular_solution(factors.T, x, lower=False, unit_diagonal=True)
        exchanges.reverse()
    for i, other in exchanges:
        x[[i, other]] = x[[other, i]]
    if not transposed:
        x = triangular_solution(factors, x, lower=True, unit_diagonal=True)
        x = triangular_solution(factors, x, lower=False, unit_diagonal=False)
    return x


def exponential(a: FloatArray) -> FloatArray:
    """Return the exponential of a square matrix."""
    x: FloatArray = np.asarray(a, np.float64)
    norm = float(np.abs(x).sum(axis=0).max())
    squarings = max(0, math.ceil(math.log2(norm / _LARGEST))) if norm > 0.0 else 0
    x = x / 2.0**squarings
    power, parts = np.eye(len(x)), [np.zeros_like(x), np.zeros_like(x)]
    for degree, factor in enumerate(_PADE):
        parts[degree % 2] += factor * power
        power = power @ x
    found = np.linalg.solve(parts[0] - parts[1], parts[0] + parts[1])
    for _ in range(squarings):
        found = found @ found
    result: FloatArray = found.astype(a.dtype)
    return result
