"""The loops of normalization over the last axis, for an engine that compiles: one row after another.

A row is read more than once while it is in the cache. Without `centred`, the mean counts as 0. `count` is the number of
features, and like `epsilon` of the type of the rows, so that no loop converts numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.ops.sums import accumulated
from wyrm.types.typing import FloatArray


def mean_of_row(x: FloatArray, count: np.floating) -> Any:
    """The mean, as the distance from the first number: that is exact where all numbers are the same."""
    first, total = x[0], x.dtype.type(0)
    for j in range(x.size):
        total = accumulated(total, x[j] - first)
    return first + total / count


def inverse_deviation(x: FloatArray, mean: np.floating, count: np.floating, epsilon: np.floating) -> Any:
    """`1 / sqrt(mean square distance from the mean + epsilon)`."""
    squares = x.dtype.type(0)
    for j in range(x.size):
        squares = accumulated(squares, (x[j] - mean) * (x[j] - mean))
    return x.dtype.type(1) / np.sqrt(squares / count + epsilon)


def normalize_row(
    x: FloatArray, weight: FloatArray, bias: FloatArray, mean: np.floating, inverse: np.floating, out: FloatArray
) -> None:
    """`out = (x - mean) * inverse * weight + bias`; there may be no numbers in `bias`."""
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
    """Fill `out`, of the axes (rows, features), as `x`; `bias` is empty where there is none."""
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
    """The gradient by one row."""
    total, along = x.dtype.type(0), x.dtype.type(0)
    for j in range(x.size):
        part = gradient[j] * weight[j]
        total = accumulated(total, part)
        along = accumulated(along, part * ((x[j] - mean) * inverse))
    shift = total / count if centred else x.dtype.type(0)
    slope = along / count
    for j in range(x.size):
        out[j] = (gradient[j] * weight[j] - shift - (x[j] - mean) * inverse * slope) * inverse


def normalization_gradient_kernel(
    x: FloatArray,
    weight: FloatArray,
    gradient: FloatArray,
    out: FloatArray,
    centred: bool,
    count: np.floating,
    epsilon: np.floating,
) -> None:
    """Fill `out`, of the axes (rows, features), with the gradient by `x`."""
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


def move_into(part: FloatArray, total: FloatArray) -> None:
    """`total += part`, after which `part` is zero."""
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
    """Fill `out`, of the axes (1 or 2, features), with the gradient by the weight, and where it has 2 by the bias.

    It holds the sum of a few rows at a time; `totals`, float64 of the same axes, that of all.
    """
    for k in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[k, j] = totals[k, j] = 0
    for i in range(x.shape[0]):
        if i > 0 and i % 256 == 0:
            move_into(out, totals)
        mean = mean_of_row(x[i], count) if centred else x.dtype.type(0)
        inverse = inverse_deviation(x[i], mean, count, epsilon)
        add_products(x[i], gradient[i], mean, inverse, out[0])
        if out.shape[0] > 1:
            add_row(gradient[i], out[1])
    move_into(out, totals)
    for k in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[k, j] = totals[k, j]
