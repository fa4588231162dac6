"""Factorizations of one matrix for programs that run where there is no LAPACK, such as exports.

Each function takes the arguments of LAPACK's function of its name, which kernels call by `lapack(name, ...)`: letters
as their codes, and the memory of a row-major matrix as that of the transposed one. Comments and loops name the elements
as they are stored: `a[j, i]` is what LAPACK calls row i, column j. `info` receives 0, or what failed.
"""

from __future__ import annotations

import numpy as np

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.kernels.sums import accumulated

_UPPER, _TRANSPOSED = 85, 84  # the letters U and T; a unit diagonal is a U too


def potrf(triangle: int, size: int, a: FloatArray, stride: int, info: IntegerArray) -> None:
    """Factorize a positive definite matrix, of which the lower triangle is stored, as `l @ l.T`; `l` takes its place.

    Golub and Van Loan, "Matrix Computations", 4th edition, algorithm 4.2.1, by rows.
    """
    info[0] = 0
    for i in range(size):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total = accumulated(total, -a[i, k] * a[j, k])
            if j < i:
                a[i, j] = total / a[j, j]
            elif total > 0.0:
                a[i, i] = np.sqrt(total)
            else:
                info[0] = i + 1
                return


def trsm(
    side: int,
    triangle: int,
    trans: int,
    diagonal: int,
    columns: int,
    size: int,
    factor: float,
    a: FloatArray,
    stride: int,
    x: FloatArray,
    columns_of_x: int,
) -> None:
    """Solve `a @ y = x`, or with the letter T `a.T @ y = x`; `y` takes the place of `x`.

    The letter U reads the lower triangle as it is stored, any other the upper one.
    """
    transposed = trans == _TRANSPOSED
    descending = (triangle == _UPPER) == transposed
    for step in range(size):
        i = size - 1 - step if descending else step
        if diagonal != _UPPER:
            pivot = a[i, i]
            for c in range(columns):
                x[i, c] /= pivot
        for rest in range(step + 1, size):
            j = size - 1 - rest if descending else rest
            scale = a[i, j] if transposed else a[j, i]
            for c in range(columns):
                x[j, c] -= scale * x[i, c]


def getrf(rows: int, columns: int, a: FloatArray, stride: int, pivots: IntegerArray, info: IntegerArray) -> None:
    """Factorize the transposed matrix as `p @ l @ u` with partial pivoting; pivots count from 1.

    Golub and Van Loan, algorithm 3.4.1. A pivot of zero is no error: its column is left as it is.
    """
    info[0] = 0
    for k in range(min(rows, columns)):
        pivot = k
        for i in range(k + 1, rows):
            if abs(a[k, i]) > abs(a[k, pivot]):
                pivot = i
        pivots[k] = pivot + 1
        if pivot != k:
            for j in range(columns):
                a[j, k], a[j, pivot] = a[j, pivot], a[j, k]
        if a[k, k] == 0.0:
            if info[0] == 0:
                info[0] = k + 1
            continue
        for i in range(k + 1, rows):
            a[k, i] /= a[k, k]
        for j in range(k + 1, columns):
            scale = a[j, k]
            for i in range(k + 1, rows):
                a[j, i] -= scale * a[k, i]


def reflected(x: FloatArray, start: int) -> float:
    """Make of `x[start:]` a Householder vector whose first element stands for 1, and return its factor.

    The first element becomes that of the reflected vector, of which all others are zero. As LAPACK's `larfg`.
    """
    largest = abs(x[start])
    for i in range(start + 1, x.shape[0]):
        largest = max(largest, abs(x[i]))
    zero: float = largest - largest
    total = zero
    for i in range(start + 1, x.shape[0]):
        if largest > 0.0:
            total = accumulated(total, (x[i] / largest) * (x[i] / largest))
    if total == 0.0:
        return zero
    first = x[start] / largest
    norm = np.sqrt(first * first + total)
    other = -norm if first > 0.0 else norm
    for i in range(start + 1, x.shape[0]):
        x[i] = (x[i] / largest) / (first - other)
    x[start] = other * largest
    factor: float = (other - first) / other
    return factor


def reflect(vector: FloatArray, factor: float, start: int, x: FloatArray) -> None:
    """Reflect `x[start:]` by a Householder vector; its first element, not read, counts as 1."""
    total = x[start]
    for i in range(start + 1, x.shape[0]):
        total = accumulated(total, vector[i] * x[i])
    scale = factor * total
    x[start] -= scale
    for i in range(start + 1, x.shape[0]):
        x[i] -= scale * vector[i]


def geqrf(
    rows: int,
    columns: int,
    a: FloatArray,
    stride: int,
    scales: FloatArray,
    work: FloatArray,
    size_of_work: int,
    info: IntegerArray,
) -> None:
    """Factorize the transposed matrix by Householder vectors; Golub and Van Loan, algorithm 5.2.1."""
    info[0] = 0
    for j in range(min(rows, columns)):
        scales[j] = reflected(a[j], j)
        for k in range(j + 1, columns):
            reflect(a[j], scales[j], j, a[k])


def orgqr(
    rows: int,
    columns: int,
    count: int,
    a: FloatArray,
    stride: int,
    scales: FloatArray,
    work: FloatArray,
    size_of_work: int,
    info: IntegerArray,
) -> None:
    """Turn the Householder vectors of `geqrf` into the orthonormal factor; Golub and Van Loan, section 5.1.6."""
    info[0] = 0
    for step in range(count):
        j = count - 1 - step
        for k in range(j + 1, columns):
            reflect(a[j], scales[j], j, a[k])
        for i in range(j):
            a[j, i] = 0.0
        for i in range(j + 1, rows):
            a[j, i] *= -scales[j]
        a[j, j] = 1.0 - scales[j]
