"""Eigenvalues of general matrices by shifted QR steps, for programs that run where there is no LAPACK, such as exports.

As in `factorizations`, the function `geev` takes the arguments of LAPACK's. Vectors may have another sign than
LAPACK's, and eigenvalues another order.
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
