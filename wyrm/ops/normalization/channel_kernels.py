"""The kernels of the moments of batch norm and of group norm."""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.graph.typing import FloatArray
from wyrm.ops.kernels.sums import accumulated
from wyrm.ops.normalization.kernels import add_row, flush, mean_of_row


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
