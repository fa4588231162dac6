"""Eigenvalues of symmetric matrices and singular values by Jacobi's methods, for programs without LAPACK, as exports.

As in `factorizations`, each function takes the arguments of LAPACK's function of its name. Vectors have another sign
than LAPACK's may have.
"""

from __future__ import annotations

import numpy as np

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.kernels.sums import accumulated

_SWEEPS = 60  # of all pairs of rows; about ten are usual


def rotate(x: FloatArray, y: FloatArray, cosine: float, sine: float) -> None:
    """Rotate two vectors: `x, y = cosine * x - sine * y, sine * x + cosine * y`."""
    for i in range(x.shape[0]):
        first, second = x[i], y[i]
        x[i] = cosine * first - sine * second
        y[i] = sine * first + cosine * second


def tangent(difference: float, twice: float) -> float:
    """Return the smaller root `t` of `t * t + t * difference / (twice / 2) = 1`, which is Jacobi's angle."""
    ratio = difference / twice
    size: float = abs(ratio) + np.sqrt(ratio * ratio + 1.0)
    return -1.0 / size if ratio < 0.0 else 1.0 / size


def syevd(
    job: int,
    triangle: int,
    size: int,
    a: FloatArray,
    stride: int,
    values: FloatArray,
    work: FloatArray,
    size_of_work: int,
    integers: IntegerArray,
    size_of_integers: int,
    info: IntegerArray,
) -> None:
    """Decompose a symmetric matrix: ascending eigenvalues, and the eigenvectors as the rows of `a`.

    The cyclic Jacobi method: Golub and Van Loan, "Matrix Computations", 4th edition, section 8.5.
    """
    for i in range(size):
        for j in range(size):
            work[i * size + j] = 1.0 if i == j else 0.0
    info[0] = 1
    for _ in range(_SWEEPS):
        rotated = False
        for p in range(size):
            for q in range(p + 1, size):
                off, first, second = a[p, q], a[p, p], a[q, q]
                small = 100.0 * abs(off)
                if abs(first) + small == abs(first) and abs(second) + small == abs(second):
                    continue
                rotated = True
                angle = tangent(second - first, 2.0 * off)
                cosine = 1.0 / np.sqrt(angle * angle + 1.0)
                sine = angle * cosine
                rotate(a[p], a[q], cosine, sine)
                for k in range(size):
                    a[k, p], a[k, q] = a[p, k], a[q, k]
                a[p, p], a[q, q] = first - angle * off, second + angle * off
                a[p, q] = a[q, p] = 0.0
                rotate(work[p * size : (p + 1) * size], work[q * size : (q + 1) * size], cosine, sine)
        if not rotated:
            info[0] = 0
            break
    for i in range(size):
        values[i] = a[i, i]
    for i in range(size):
        for j in range(size):
            a[i, j] = work[i * size + j]
    for i in range(size):
        least = i
        for k in range(i + 1, size):
            if values[k] < values[least]:
                least = k
        if least != i:
            values[i], values[least] = values[least], values[i]
            swap(a[i], a[least])


def swap(x: FloatArray, y: FloatArray) -> None:
    """Exchange the elements of two vectors."""
    for i in range(x.shape[0]):
        x[i], y[i] = y[i], x[i]


def squared(x: FloatArray) -> float:
    """Return the sum of the squares."""
    return product(x, x)


def product(x: FloatArray, y: FloatArray) -> float:
    """Return the product of two vectors, in double precision."""
    total = 0.0
    for i in range(x.shape[0]):
        total = accumulated(total, float(x[i]) * float(y[i]))
    return total


def precision_of(x: FloatArray) -> float:
    """Return the distance from one to the next larger number of the dtype."""
    one = x.dtype.type(1)
    found = one
    while one + found * 0.5 > one:
        found *= 0.5
    return float(found)


def make_orthogonal(vectors: FloatArray, others: FloatArray, least: float) -> bool:
    """Rotate the rows of `vectors` until they are orthogonal, and those of `others` as they are; return whether it did.

    Vectors of at most the length `least` count as zero. The one-sided Jacobi method of Hestenes: Golub and Van Loan,
    section 8.6.3.
    """
    count, precision = vectors.shape[0], precision_of(vectors)
    for _ in range(_SWEEPS):
        rotated = False
        for p in range(count):
            for q in range(p + 1, count):
                first, second = squared(vectors[p]), squared(vectors[q])
                off = product(vectors[p], vectors[q])
                if min(first, second) <= least * least or off * off <= 4.0 * precision * precision * first * second:
                    continue
                rotated = True
                angle = tangent(second - first, 2.0 * off)
                cosine = 1.0 / np.sqrt(angle * angle + 1.0)
                rotate(vectors[p], vectors[q], cosine, angle * cosine)
                rotate(others[p], others[q], cosine, angle * cosine)
        if not rotated:
            return True
    return False


def complete(vectors: FloatArray, count: int) -> None:
    """Make the rows from `count` on unit vectors that are orthogonal to each other and to the rows before."""
    length = vectors.shape[1]
    for row in range(count, vectors.shape[0]):
        best, place = -1.0, 0
        for axis in range(length):
            rest = 1.0
            for k in range(row):
                rest -= float(vectors[k, axis]) * float(vectors[k, axis])
            if rest > best:
                best, place = rest, axis
        for i in range(length):
            vectors[row, i] = 1.0 if i == place else 0.0
        for _ in range(2):
            for k in range(row):
                scale = product(vectors[k], vectors[row])
                for i in range(length):
                    vectors[row, i] -= scale * vectors[k, i]
        norm = np.sqrt(squared(vectors[row]))
        for i in range(length):
            vectors[row, i] /= norm


def singular(vectors: FloatArray, others: FloatArray, values: FloatArray) -> bool:
    """Decompose the matrix of these rows: unit vectors take their place, `others` are the singular ones of the rows.

    The values descend. Return whether the iteration converged.
    """
    count, length = vectors.shape[0], vectors.shape[1]
    largest = abs(vectors[0, 0])
    for i in range(count):
        for j in range(length):
            largest = max(largest, abs(vectors[i, j]))
        for j in range(count):
            others[i, j] = 1.0 if i == j else 0.0
    if largest > 0.0:
        for i in range(count):
            for j in range(length):
                vectors[i, j] /= largest
    least = precision_of(vectors) * precision_of(vectors)
    converged = make_orthogonal(vectors, others, least)
    for i in range(count):
        values[i] = np.sqrt(squared(vectors[i]))
        if values[i] <= least:
            values[i] = 0.0
    for i in range(count):
        most = i
        for k in range(i + 1, count):
            if values[k] > values[most]:
                most = k
        if most != i:
            values[i], values[most] = values[most], values[i]
            swap(vectors[i], vectors[most])
            swap(others[i], others[most])
    found = 0
    for i in range(count):
        if values[i] > 0.0:
            found = i + 1
            for j in range(length):
                vectors[i, j] /= values[i]
    complete(vectors, found)
    for i in range(count):
        values[i] *= largest
    return converged


def gesdd(
    job: int,
    rows: int,
    columns: int,
    a: FloatArray,
    stride: int,
    values: FloatArray,
    left: FloatArray,
    stride_of_left: int,
    right: FloatArray,
    stride_of_right: int,
    work: FloatArray,
    size_of_work: int,
    integers: IntegerArray,
    info: IntegerArray,
) -> None:
    """Decompose the transposed matrix: rows of `left`, descending values, and columns of `right`.

    The shorter of rows and columns are made orthogonal.
    """
    if columns <= rows:
        converged = singular(a, right.T, values)
        for i in range(columns):
            for j in range(rows):
                left[i, j] = a[i, j]
    else:
        for i in range(columns):
            for j in range(rows):
                right[i, j] = a[i, j]
        converged = singular(right.T, left, values)
    info[0] = 0 if converged else 1
