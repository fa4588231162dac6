"""The loops of a linear layer with cross-entropy, for an engine that compiles: the logits of a few rows at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.ops.fast_math import LOG2_E, exp2_negative, largest
from wyrm.ops.product import multiply_into
from wyrm.ops.sums import accumulated
from wyrm.types.typing import FloatArray, IntegerArray

# So many numbers are summed at once.
PART = 1024


def counted(labels: IntegerArray, ignore_index: int) -> int:
    """How many labels are not ignored."""
    count = 0
    for i in range(labels.size):
        if labels[i] != ignore_index:
            count += 1
    return count


def exponentials_of(logits: FloatArray, top: np.floating) -> Any:
    """`exp(logits - top)` in place, and their sum."""
    total = logits.dtype.type(0)
    for j in range(logits.size):
        logits[j] = exp2_negative((logits[j] - top) * logits.dtype.type(LOG2_E))
        total = accumulated(total, logits[j])
    return total


def exponentials(logits: FloatArray, top: np.floating) -> np.floating:
    """The same for a row of any length, the sum in parts: one of many float32 numbers loses digits."""
    total = 0.0
    for first in range(0, logits.size, PART):
        total += exponentials_of(logits[first : first + PART], top)
    return logits.dtype.type(total)


def mean_distance(x: FloatArray, top: np.floating) -> np.floating:
    """The mean of `x - top`."""
    total = 0.0
    for j in range(x.size):
        total = accumulated(total, x[j] - top)
    return x.dtype.type(total / x.size)


def scaled(x: FloatArray, factor: np.floating, less: np.floating) -> None:
    """`x * factor - less` in place."""
    for j in range(x.size):
        x[j] = x[j] * factor - less


def loss_row(logits: FloatArray, label: int, label_smoothing: np.floating) -> tuple[Any, np.floating]:
    """The cross-entropy of one row; its logits become probabilities, not yet divided by their sum, which comes too."""
    top = largest(logits)
    # How far below the largest the logit of the label is: that keeps the digits of large logits that are close.
    wanted = (1 - label_smoothing) * (logits[label] - top)
    if label_smoothing > 0:
        wanted += label_smoothing * mean_distance(logits, top)
    total = exponentials(logits, top)
    return np.log(total) - wanted, total


def cross_entropy_kernel(
    x: FloatArray,
    weight: FloatArray,
    labels: IntegerArray,
    out: FloatArray,
    label_smoothing: np.floating,
    ignore_index: int,
    logits: FloatArray,
) -> None:
    """Fill `out`, one number, with the mean loss of the rows of `x` that have a label; `logits` (rows, classes)."""
    count, total = counted(labels, ignore_index), 0.0
    for first in range(0, x.shape[0], logits.shape[0]):
        last = min(first + logits.shape[0], x.shape[0])
        multiply_into(x[first:last], weight.T, logits[: last - first], 0)
        for i in range(first, last):
            if labels[i] != ignore_index:
                loss, _ = loss_row(logits[i - first], labels[i], label_smoothing)
                total += loss
    out[0] = total / max(count, 1)


def clear(x: FloatArray) -> None:
    """Zeros everywhere."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = 0


def cross_entropy_residuals_kernel(
    x: FloatArray,
    weight: FloatArray,
    labels: IntegerArray,
    out: FloatArray,
    label_smoothing: np.floating,
    ignore_index: int,
    logits: FloatArray,
) -> None:
    """Fill `out` with the gradient by the weight, a row that begins with the loss, and the gradient by `x`."""
    classes, total = weight.shape[0], 0.0
    count = counted(labels, ignore_index)
    by_weight, by_x = out[:classes], out[classes + 1 :]
    each = logits.dtype.type(1.0 / max(count, 1))
    if x.shape[0] == 0:
        clear(by_weight)
    for first in range(0, x.shape[0], logits.shape[0]):
        last = min(first + logits.shape[0], x.shape[0])
        part = logits[: last - first]
        multiply_into(x[first:last], weight.T, part, 0)
        for i in range(first, last):
            row = logits[i - first]
            if labels[i] == ignore_index:
                scaled(row, row.dtype.type(0), row.dtype.type(0))
            else:
                loss, powers = loss_row(row, labels[i], label_smoothing)
                total += loss
                scaled(row, each / powers, each * label_smoothing / classes)
                row[labels[i]] -= each * (1 - label_smoothing)
        multiply_into(part, weight, by_x[first:last], 0)
        multiply_into(part.T, x[first:last], by_weight, 0 if first == 0 else 1)
    for j in range(out.shape[1]):
        out[classes, j] = 0
    out[classes, 0] = total / max(count, 1)


def targets_kernel(labels: IntegerArray, out: FloatArray, label_smoothing: np.floating, ignore_index: int) -> None:
    """Fill `out`, (rows, classes), with the shares that the labels stand for; zeros where a label is ignored."""
    for i in range(out.shape[0]):
        is_counted = labels[i] != ignore_index
        for j in range(out.shape[1]):
            out[i, j] = label_smoothing / out.shape[1] if is_counted else 0
        if is_counted:
            out[i, labels[i]] += 1 - label_smoothing
