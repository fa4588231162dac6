"""Eigenvalues of general matrices by shifted QR steps, for programs that run where there is no LAPACK, such as exports.

As in `factorizations`, the function `geev` takes the arguments of LAPACK's. Vectors may have another sign than
LAPACK's, and eigenvalues another order.
"""

from __future__ import annotations

import numpy as np

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.kernels.factorizations import reflect, reflected
from wyrm.ops.kernels.jacobi import rotate, squared

_STEPS = 60  # for one eigenvalue; about two are usual


def reflect_rows(vector: FloatArray, factor: float, start: int, x: FloatArray, work: FloatArray) -> None:
    """Reflect the columns of `x[start:]`, as `reflect` does one vector."""
    size = x.shape[1]
    for i in range(size):
        work[i] = x[start, i]
    for j in range(start + 1, x.shape[0]):
        for i in range(size):
            work[i] += vector[j] * x[j, i]
    for i in range(size):
        x[start, i] -= factor * work[i]
    for j in range(start + 1, x.shape[0]):
        scale = factor * vector[j]
        for i in range(size):
            x[j, i] -= scale * work[i]


def hessenberg(a: FloatArray, vectors: FloatArray, work: FloatArray) -> None:
    """Make the transposed matrix zero below its first subdiagonal; Golub and Van Loan, algorithm 7.4.2.

    The rows of `vectors` are the columns of the orthogonal matrix of the change of basis.
    """
    size = a.shape[0]
    for i in range(size):
        for j in range(size):
            vectors[i, j] = 1.0 if i == j else 0.0
    for k in range(size - 2):
        factor = reflected(a[k], k + 1)
        for j in range(k + 1, size):
            reflect(a[k], factor, k + 1, a[j])
        reflect_rows(a[k], factor, k + 1, a, work)
        reflect_rows(a[k], factor, k + 1, vectors, work)
        for i in range(k + 2, size):
            a[k, i] = 0.0


def first_of_block(h: FloatArray, last: int, norm: float) -> int:
    """Return where the block that ends in a row starts: before it, the element below the diagonal counts as zero."""
    row = last
    while row > 0:
        scale = abs(h[row - 1, row - 1]) + abs(h[row, row])
        if scale == 0.0:
            scale = norm
        if scale + abs(h[row, row - 1]) == scale:
            h[row, row - 1] = 0.0
            break
        row -= 1
    return row


def split_pair(h: FloatArray, vectors: FloatArray, row: int) -> bool:
    """Make the block of a row and the next one triangular; return whether its eigenvalues are real."""
    half, below = 0.5 * (h[row, row] - h[row + 1, row + 1]), h[row + 1, row]
    root = half * half + below * h[row, row + 1]
    if root < 0.0:
        return False
    along = half - np.sqrt(root) if half < 0.0 else half + np.sqrt(root)
    norm = np.sqrt(along * along + below * below)
    cosine, sine = along / norm, -below / norm
    rotate(h[row, row:], h[row + 1, row:], cosine, sine)
    rotate(h[: row + 2, row], h[: row + 2, row + 1], cosine, sine)
    rotate(vectors[row], vectors[row + 1], cosine, sine)
    h[row + 1, row] = 0.0
    return True


def double_step(
    a: FloatArray, vectors: FloatArray, low: int, high: int, unusual: bool, bulge: FloatArray, work: FloatArray
) -> None:
    """Take an implicit QR step with two shifts; Golub and Van Loan, algorithm 7.5.1.

    The shifts are the eigenvalues of the last block of two rows, or unusual ones that end a cycle.
    """
    h, size = a.T, a.shape[0]
    trace = h[high - 1, high - 1] + h[high, high]
    determinant = h[high - 1, high - 1] * h[high, high] - h[high - 1, high] * h[high, high - 1]
    if unusual:
        below = abs(h[high, high - 1]) + abs(h[high - 1, high - 2])
        corner = 0.75 * below + h[high, high]
        trace, determinant = 2.0 * corner, corner * corner + 0.4375 * below * below
    bulge[0] = h[low, low] * (h[low, low] - trace) + h[low, low + 1] * h[low + 1, low] + determinant
    bulge[1] = h[low + 1, low] * (h[low, low] + h[low + 1, low + 1] - trace)
    bulge[2] = h[low + 1, low] * h[low + 2, low + 1]
    for k in range(low, high):
        count = min(3, high + 1 - k)
        vector = bulge[:count]
        if k > low:
            for i in range(count):
                vector[i] = h[k + i, k - 1]
                h[k + i, k - 1] = 0.0
        factor = reflected(vector, 0)
        if k > low:
            h[k, k - 1] = vector[0]
        for j in range(k, size):
            reflect(vector, factor, 0, a[j, k : k + count])
        reflect_rows(vector, factor, 0, a[k : k + count, : min(high, k + 3) + 1], work)
        reflect_rows(vector, factor, 0, vectors[k : k + count], work)


def triangular_vectors(h: FloatArray, vectors: FloatArray, norm: float, work: FloatArray) -> None:
    """Turn the basis in which a matrix is triangular into its eigenvectors, of length one."""
    size, small = h.shape[0], 2.0**-52 * norm
    for step in range(size):
        last = size - 1 - step
        value, y = h[last, last], work[: last + 1]
        y[last] = 1.0
        for above in range(last):
            i = last - 1 - above
            total = h[i, last]
            for j in range(i + 1, last):
                total += h[i, j] * y[j]
            gap = h[i, i] - value
            if abs(gap) <= small:  # of equal eigenvalues
                gap = small if small > 0.0 else 1.0
            y[i] = -total / gap
            largest = abs(y[i])
            if largest > 1e100:
                for j in range(i, last + 1):
                    y[j] /= largest
        vector = vectors[last]
        for i in range(size):
            vector[i] *= y[last]
        for j in range(last):
            for i in range(size):
                vector[i] += y[j] * vectors[j, i]
        length = np.sqrt(squared(vector))
        for i in range(size):
            vector[i] /= length


def geev(
    job_left: int,
    job_right: int,
    size: int,
    a: FloatArray,
    stride: int,
    values: FloatArray,
    imaginary: FloatArray,
    left: FloatArray,
    stride_of_left: int,
    vectors: FloatArray,
    stride_of_vectors: int,
    work: FloatArray,
    size_of_work: int,
    info: IntegerArray,
) -> None:
    """Decompose the transposed matrix: its eigenvalues, and the eigenvectors as rows, which need real eigenvalues.

    Householder vectors, then QR steps: Golub and Van Loan, section 7.5. The matrix is not balanced before.
    """
    h, bulge, sums = a.T, work[:3], work[3 : size + 3]
    norm = 0.0
    for i in range(size):
        imaginary[i] = 0.0
        for j in range(size):
            norm += abs(a[i, j])
    hessenberg(a, vectors, sums)
    info[0] = 0
    high, steps, real = size - 1, 0, True
    while high >= 0:
        low = first_of_block(h, high, norm)
        if low >= high - 1:
            if low == high - 1 and not split_pair(h, vectors, low):
                imaginary[low] = imaginary[high] = 1.0
                real = False
            high, steps = low - 1, 0
        elif steps == _STEPS:
            info[0] = high + 1
            return
        else:
            steps += 1
            double_step(a, vectors, low, high, steps % 10 == 0, bulge, sums)
    for i in range(size):
        values[i] = h[i, i]
    if real:
        triangular_vectors(h, vectors, norm, sums)
