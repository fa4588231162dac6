"""The kernels of normalization over the last axis, and of the moments of batch norm and of group norm.

Unless `centred`, the mean is 0. `count` is the number of features; it and `epsilon` have the dtype of the rows, so that
no loop converts numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.graph.typing import FloatArray
from wyrm.ops.kernels.sums import accumulated


def mean_of_row(x: FloatArray, count: np.floating) -> Any:
    """Return the mean, computed relative to the first element: exact where all elements are equal."""
    first, total = x[0], x.dtype.type(0)
    for j in range(x.size):
        total = accumulated(total, x[j] - first)
    return first + total / count


def inverse_deviation(x: FloatArray, mean: np.floating, count: np.floating, epsilon: np.floating) -> Any:
    """Return `1 / sqrt(variance + epsilon)`."""
    squares = x.dtype.type(0)
    for j in range(x.size):
        squares = accumulated(squares, (x[j] - mean) * (x[j] - mean))
    return x.dtype.type(1) / np.sqrt(squares / count + epsilon)


def normalize_row(
    x: FloatArray, weight: FloatArray, bias: FloatArray, mean: np.floating, inverse: np.floating, out: FloatArray
) -> None:
    """`out = (x - mean) * inverse * weight + bias`; `bias` may be empty."""
    if bias.size > 0:
        for j in range(x.size):
            out[j] = (x[j] - mean) * inverse * weight[j] + bias[j]
    else:
        for j in range(x.size):
            out[j] = (x[j] - mean) * inverse * weight[j]


def normalization_kernel(
    x: FloatArray,
    weight: FloatArray,
    bias: FloatArray,
    out: FloatArray,
    centred: bool,
    count: np.floating,
    epsilon: np.floating,
) -> None:
    """Fill `out`; `x` and `out` have the axes (rows, features), and `bias` may be empty."""
    for i in range(out.shape[0]):
        mean = mean_of_row(x[i], count) if centred else x.dtype.type(0)
        inverse = inverse_deviation(x[i], mean, count, epsilon)
        normalize_row(x[i], weight, bias, mean, inverse, out[i])


def gradient_row(
    x: FloatArray,
    weight: FloatArray,
    gradient: FloatArray,
    mean: np.floating,
    inverse: np.floating,
    centred: bool,
    count: np.floating,
    out: FloatArray,
) -> None:
    """Fill `out` with the gradient with respect to one row.

    Unlike the gradient derived from `normalization_kernel`, it has the mean and the deviation in closed form, and reads
    the row twice.
    """
    total, projection = x.dtype.type(0), x.dtype.type(0)
    for j in range(x.size):
        part = gradient[j] * weight[j]
        total = accumulated(total, part)
        projection = accumulated(projection, part * ((x[j] - mean) * inverse))
    mean_gradient = total / count if centred else x.dtype.type(0)
    mean_projection = projection / count
    for j in range(x.size):
        out[j] = (gradient[j] * weight[j] - mean_gradient - (x[j] - mean) * inverse * mean_projection) * inverse


def normalization_gradient_kernel(
    x: FloatArray,
    weight: FloatArray,
    gradient: FloatArray,
    out: FloatArray,
    centred: bool,
    count: np.floating,
    epsilon: np.floating,
) -> None:
    """Fill `out`, of the axes (rows, features), with the gradient with respect to `x`."""
    for i in range(out.shape[0]):
        mean = mean_of_row(x[i], count) if centred else x.dtype.type(0)
        inverse = inverse_deviation(x[i], mean, count, epsilon)
        gradient_row(x[i], weight, gradient[i], mean, inverse, centred, count, out[i])


def add_products(x: FloatArray, gradient: FloatArray, mean: np.floating, inverse: np.floating, out: FloatArray) -> None:
    """`out += gradient * (x - mean) * inverse`."""
    for j in range(x.size):
        out[j] += gradient[j] * ((x[j] - mean) * inverse)


def add_row(x: FloatArray, out: FloatArray) -> None:
    """`out += x`."""
    for j in range(x.size):
        out[j] += x[j]


def flush(part: FloatArray, total: FloatArray) -> None:
    """`total += part`, then `part = 0`."""
    for k in range(part.shape[0]):
        for j in range(part.shape[1]):
            total[k, j] += part[k, j]
            part[k, j] = 0


def weight_gradient_kernel(
    x: FloatArray,
    gradient: FloatArray,
    out: FloatArray,
    centred: bool,
    count: np.floating,
    epsilon: np.floating,
    totals: FloatArray,
) -> None:
    """Fill `out`, of the axes (1 or 2, features): the gradients with respect to the weight and optionally the bias.

    `out` accumulates 256 rows at a time; `totals`, float64 scratch memory of the same shape, accumulates all rows.
    """
    for k in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[k, j] = totals[k, j] = 0
    for i in range(x.shape[0]):
        if i > 0 and i % 256 == 0:
            flush(out, totals)
        mean = mean_of_row(x[i], count) if centred else x.dtype.type(0)
        inverse = inverse_deviation(x[i], mean, count, epsilon)
        add_products(x[i], gradient[i], mean, inverse, out[0])
        if out.shape[0] > 1:
            add_row(gradient[i], out[1])
    flush(out, totals)
    for k in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[k, j] = totals[k, j]


def sum_of_row(x: FloatArray) -> Any:
    """Return the sum of the elements."""
    total = x.dtype.type(0)
    for j in range(x.size):
        total = accumulated(total, x[j])
    return total


def square_distance(x: FloatArray, mean: np.floating) -> Any:
    """Return the sum of the squared distances from the mean."""
    total = x.dtype.type(0)
    for j in range(x.size):
        total = accumulated(total, (x[j] - mean) * (x[j] - mean))
    return total


def add_square_distances(x: FloatArray, means: FloatArray, out: FloatArray) -> None:
    """`out += (x - means) ** 2`."""
    for j in range(x.size):
        out[j] += (x[j] - means[j]) * (x[j] - means[j])


def add_rows(x: FloatArray, part: FloatArray, totals: FloatArray) -> None:
    """Fill `totals`, float64 of the axes (1, values), with the sum of the rows; `part` is scratch memory like it."""
    for j in range(x.shape[1]):
        part[0, j] = totals[0, j] = 0
    for i in range(x.shape[0]):
        if i > 0 and i % 256 == 0:
            flush(part, totals)
        add_row(x[i], part[0])
    flush(part, totals)


def sum_of_values(totals: FloatArray, channel: int, values: int) -> Any:
    """Return the sum of the totals of one channel."""
    total = np.float64(0)
    for j in range(values):
        total += totals[0, channel * values + j]
    return total


def batch_moments_kernel(
    x: FloatArray,
    rows: FloatArray,
    out: FloatArray,
    count: float,
    part: FloatArray,
    totals: FloatArray,
    means: FloatArray,
) -> None:
    """Fill `out`, (2, channels), with the mean and the variance of each channel of `x`, (rows, channels, values).

    `rows` has the elements of `x` in two axes, `count` is rows * values. The last three arguments are scratch memory.
    If they are empty, each channel is processed on its own, and its second pass finds it in the cache; else they have
    an element for each value of a row, and whole rows are added to them.
    """
    channels, values = x.shape[1], x.shape[2]
    if means.size == 0:
        for c in range(channels):
            total = np.float64(0)
            for i in range(x.shape[0]):
                total += sum_of_row(x[i, c])
            mean = x.dtype.type(total / count)
            squares = np.float64(0)
            for i in range(x.shape[0]):
                squares += square_distance(x[i, c], mean)
            out[0, c] = mean
            out[1, c] = squares / count
    else:
        add_rows(rows, part, totals)
        for c in range(channels):
            out[0, c] = sum_of_values(totals, c, values) / count
            for j in range(values):
                means[c * values + j] = out[0, c]
        for j in range(rows.shape[1]):
            part[0, j] = totals[0, j] = 0
        for i in range(rows.shape[0]):
            if i > 0 and i % 256 == 0:
                flush(part, totals)
            add_square_distances(rows[i], means, part[0])
        flush(part, totals)
        for c in range(channels):
            out[1, c] = sum_of_values(totals, c, values) / count


def group_moments_kernel(x: FloatArray, out: FloatArray, count: np.floating) -> None:
    """Fill `out`, (rows, 2, groups), with the mean and the variance of each group of `x`, (rows, groups, elements).

    `count` is the number of elements of a group.
    """
    for i in range(x.shape[0]):
        for g in range(x.shape[1]):
            mean = mean_of_row(x[i, g], count)
            out[i, 0, g] = mean
            out[i, 1, g] = square_distance(x[i, g], mean) / count
