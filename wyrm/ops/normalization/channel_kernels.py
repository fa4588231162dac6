"""The kernels of normalization over a batch and over groups of channels.

`epsilon` and the counts of group norm have the dtype of the rows, so that no loop converts numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.graph.typing import FloatArray
from wyrm.ops.kernels.sums import accumulated
from wyrm.ops.normalization.kernels import add_row, flush, inverse_deviation, mean_of_row


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


def group_norm_kernel(
    x: FloatArray,
    out: FloatArray,
    weight: FloatArray,
    bias: FloatArray,
    rows: FloatArray,
    groups: int,
    count: np.floating,
    epsilon: np.floating,
) -> None:
    """Fill `out`; it and `x` have the axes (rows of groups, channels of a group, values), `rows` has them in two axes.

    `weight` and `bias` may be empty.
    """
    members = x.shape[1]
    for i in range(x.shape[0]):
        mean = mean_of_row(rows[i], count)
        inverse = inverse_deviation(rows[i], mean, count, epsilon)
        first = i % groups * members
        for k in range(members):
            scale = inverse * weight[first + k] if weight.size > 0 else inverse
            shift: Any = bias[first + k] if bias.size > 0 else x.dtype.type(0)
            scale_row(x[i, k], mean, scale, shift, out[i, k])


def scale_row(x: FloatArray, mean: np.floating, scale: np.floating, shift: np.floating, out: FloatArray) -> None:
    """`out = (x - mean) * scale + shift`."""
    for j in range(x.size):
        out[j] = (x[j] - mean) * scale + shift


def sum_of_products(x: FloatArray, gradient: FloatArray, mean: np.floating) -> Any:
    """Return the sum of `gradient * (x - mean)`."""
    total = x.dtype.type(0)
    for j in range(x.size):
        total = accumulated(total, gradient[j] * (x[j] - mean))
    return total


def project_row(
    x: FloatArray,
    gradient: FloatArray,
    mean: np.floating,
    scale: np.floating,
    slope: np.floating,
    shift: np.floating,
    out: FloatArray,
) -> None:
    """`out = gradient * scale - (x - mean) * slope - shift`."""
    for j in range(x.size):
        out[j] = gradient[j] * scale - (x[j] - mean) * slope - shift


def group_norm_gradient_kernel(
    x: FloatArray,
    gradient: FloatArray,
    out: FloatArray,
    weight: FloatArray,
    rows: FloatArray,
    groups: int,
    count: np.floating,
    epsilon: np.floating,
) -> None:
    """Fill `out` with the gradient with respect to `x`; the axes are those of `group_norm_kernel`."""
    members = x.shape[1]
    for i in range(x.shape[0]):
        mean = mean_of_row(rows[i], count)
        inverse = inverse_deviation(rows[i], mean, count, epsilon)
        first = i % groups * members
        total = projection = x.dtype.type(0)
        for k in range(members):
            factor = weight[first + k] if weight.size > 0 else x.dtype.type(1)
            total += factor * sum_of_row(gradient[i, k])
            projection += factor * sum_of_products(x[i, k], gradient[i, k], mean)
        slope = projection * inverse * inverse * inverse / count
        shift = total * inverse / count
        for k in range(members):
            scale = inverse * weight[first + k] if weight.size > 0 else inverse
            project_row(x[i, k], gradient[i, k], mean, scale, slope, shift, out[i, k])


def group_norm_vector_gradient_kernel(
    x: FloatArray,
    gradient: FloatArray,
    out: FloatArray,
    rows: FloatArray,
    groups: int,
    count: np.floating,
    epsilon: np.floating,
    totals: FloatArray,
) -> None:
    """Fill `out`, (2, channels), with the gradients with respect to weight and bias.

    `totals` is float64 scratch memory of that shape.
    """
    members = x.shape[1]
    for c in range(out.shape[1]):
        totals[0, c] = totals[1, c] = 0
    for i in range(x.shape[0]):
        mean = mean_of_row(rows[i], count)
        inverse = inverse_deviation(rows[i], mean, count, epsilon)
        first = i % groups * members
        for k in range(members):
            totals[0, first + k] += sum_of_products(x[i, k], gradient[i, k], mean) * inverse
            totals[1, first + k] += sum_of_row(gradient[i, k])
    for c in range(out.shape[1]):
        out[0, c] = totals[0, c]
        out[1, c] = totals[1, c]
