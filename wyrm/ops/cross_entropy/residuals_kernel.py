"""The kernel of the residuals of a linear layer with cross-entropy: its loss and both gradients.

The logits of a block of rows have one of two layouts. In `residuals_by_rows` it is (rows, classes): for few rows or
classes, and for wide rows. In `residuals_by_classes` it is (classes, rows), for many narrow rows: loops run along the
rows, so that they vectorize without a reduction, and no product reads the weight in another order than it lies. The
classes are divided into chunks whose logits stay in the cache from the product to the exponentials, and from the
gradients to both products.
"""

from __future__ import annotations

import numpy as np

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.cross_entropy.kernels import loss_row, sum_of_weights, weight_of
from wyrm.ops.elementwise.fast_math import LOG2_E, exp2_negative
from wyrm.ops.products.product import multiply_into

# Terms of a partial sum in float32; partial sums are added in float64.
_PARTIAL_SUM = 128


def fill(x: FloatArray, value: float) -> None:
    """`x[:] = value`."""
    for i in range(x.size):
        x[i] = value


def lowest(x: FloatArray) -> float:
    """Return the lowest finite number of the array's type."""
    return -3.4028234663852886e38 if x.dtype == np.float32 else -1.7976931348623157e308


# --- by rows ----------------------------------------------------------------------------------------------------------


def scale_and_subtract(x: FloatArray, factor: np.floating, subtrahend: np.floating) -> None:
    """`x = x * factor - subtrahend` in place."""
    for j in range(x.size):
        x[j] = x[j] * factor - subtrahend


def residuals_by_rows(
    x: FloatArray,
    weight: FloatArray,
    labels: IntegerArray,
    sample_weights: FloatArray,
    weight_gradient: FloatArray,
    x_gradient: FloatArray,
    label_smoothing: np.floating,
    ignore_index: int,
    logits: FloatArray,
) -> float:
    """Write both gradients and return the sum of the losses; `logits` has the shape (rows of a block, classes)."""
    total, weights = 0.0, sum_of_weights(labels, sample_weights, ignore_index)
    for first in range(0, x.shape[0], logits.shape[0]):
        last = min(first + logits.shape[0], x.shape[0])
        part = logits[: last - first]
        multiply_into(x[first:last], weight.T, part, 0)
        for i in range(first, last):
            row = logits[i - first]
            if labels[i] == ignore_index:
                fill(row, 0.0)
            else:
                loss, row_total = loss_row(row, labels[i], label_smoothing)
                weight_of_row = weight_of(i, labels, sample_weights, ignore_index)
                total += loss * weight_of_row
                row_weight = logits.dtype.type(weight_of_row / weights)
                scale_and_subtract(row, row_weight / row_total, row_weight * label_smoothing / row.size)
                row[labels[i]] -= row_weight * (1 - label_smoothing)
        multiply_into(part, weight, x_gradient[first:last], 0)
        multiply_into(part.T, x[first:last], weight_gradient, 0 if first == 0 else 1)
    return total


# --- by classes -------------------------------------------------------------------------------------------------------


def copy(x: FloatArray, out: FloatArray) -> None:
    """`out[:] = x`."""
    for i in range(x.size):
        out[i] = x[i]


def update_maxima(logits: FloatArray, maxima: FloatArray) -> None:
    """`maxima = maximum(maxima, logits)`; a NaN is not propagated here but by `exponentiate_class`."""
    for i in range(logits.size):
        maxima[i] = logits[i] if logits[i] > maxima[i] else maxima[i]


def add_distances(logits: FloatArray, origins: FloatArray, sums: FloatArray) -> None:
    """`sums += logits - origins`."""
    for i in range(logits.size):
        sums[i] += logits[i] - origins[i]


def exponentiate_class(logits: FloatArray, maxima: FloatArray, sums: FloatArray) -> None:
    """`logits = exp(logits - maxima)` in place; adds the results to `sums`."""
    for i in range(logits.size):
        logits[i] = exp2_negative((logits[i] - maxima[i]) * logits.dtype.type(LOG2_E))
        sums[i] += logits[i]


def add_to(x: FloatArray, out: FloatArray) -> None:
    """`out += x`."""
    for i in range(x.size):
        out[i] += x[i]


def make_relative(x: FloatArray, before: FloatArray, maxima: FloatArray) -> None:
    """`x *= exp(before - maxima)`: exponentials relative to earlier maxima become relative to later ones."""
    for i in range(x.size):
        x[i] *= exp2_negative((before[i] - maxima[i]) * maxima.dtype.type(LOG2_E))


def factors_of_chunk(factors: FloatArray, before: FloatArray, maxima: FloatArray, out: FloatArray) -> None:
    """`out = factors * exp(before - maxima)`; a factor of 0 stays 0, whatever the maxima are."""
    for i in range(factors.size):
        power = exp2_negative((before[i] - maxima[i]) * maxima.dtype.type(LOG2_E))
        out[i] = factors[i] * power if factors[i] != 0 else 0


def gradients_of_class(logits: FloatArray, factors: FloatArray, subtrahends: FloatArray) -> None:
    """`logits = logits * factors - subtrahends` in place; a factor of 0 hides NaN, as of a row that is ignored."""
    for i in range(logits.size):
        logits[i] = (logits[i] * factors[i] if factors[i] != 0 else 0) - subtrahends[i]


def maxima_of_chunk(part: FloatArray, running: FloatArray, maxima: FloatArray, totals: FloatArray) -> None:
    """Write the maxima of a chunk and those before it, `running`.

    These become the same, and the totals become relative to them.
    """
    copy(running, maxima)
    for j in range(part.shape[0]):
        update_maxima(part[j], maxima)
    make_relative(totals, running, maxima)
    copy(maxima, running)


def exponentials_of_chunk(part: FloatArray, maxima: FloatArray, sums: FloatArray, totals: FloatArray) -> None:
    """Replace the logits of a chunk by their exponentials relative to the maxima, and add these to the totals."""
    for first in range(0, part.shape[0], _PARTIAL_SUM):
        fill(sums, 0.0)
        for j in range(first, min(first + _PARTIAL_SUM, part.shape[0])):
            exponentiate_class(part[j], maxima, sums)
        add_to(sums, totals)


def distances_of_chunk(part: FloatArray, origins: FloatArray, sums: FloatArray, distances: FloatArray) -> None:
    """Add the distances of a chunk's logits from the origins."""
    for first in range(0, part.shape[0], _PARTIAL_SUM):
        fill(sums, 0.0)
        for j in range(first, min(first + _PARTIAL_SUM, part.shape[0])):
            add_distances(part[j], origins, sums)
        add_to(sums, distances)


def residuals_by_classes(
    x: FloatArray,
    weight: FloatArray,
    labels: IntegerArray,
    sample_weights: FloatArray,
    weight_gradient: FloatArray,
    x_gradient: FloatArray,
    label_smoothing: np.floating,
    ignore_index: int,
    logits: FloatArray,
    maxima: FloatArray,
    of_rows: FloatArray,
    totals_of_rows: FloatArray,
) -> float:
    """Write both gradients and return the sum of the losses; see the kernel for the scratch memory."""
    total, weights = 0.0, sum_of_weights(labels, sample_weights, ignore_index)
    classes, chunks, block = weight.shape[0], maxima.shape[0], logits.shape[1]
    size = (classes + chunks - 1) // chunks
    for first in range(0, x.shape[0], block):
        last = min(first + block, x.shape[0])
        count, rows = last - first, x[first:last]
        running, sums, targets = of_rows[0, :count], of_rows[1, :count], of_rows[2, :count]
        totals, distances = totals_of_rows[0, :count], totals_of_rows[1, :count]
        fill(running, lowest(running))
        fill(totals, 0.0)
        fill(distances, 0.0)
        for chunk in range(chunks):
            low, high = chunk * size, min((chunk + 1) * size, classes)
            part = logits[low:high, :count]
            multiply_into(weight[low:high], rows.T, part, 0)
            maxima_of_chunk(part, running, maxima[chunk, :count], totals)
            for i in range(count):
                if low <= labels[first + i] < high:
                    targets[i] = part[labels[first + i] - low, i]
            if label_smoothing > 0:
                # Relative to maxima of the rows: large logits that are close lose no digits.
                distances_of_chunk(part, maxima[0, :count], sums, distances)
            exponentials_of_chunk(part, maxima[chunk, :count], sums, totals)

        row_weights, factors, subtrahends = of_rows[3, :count], of_rows[4, :count], of_rows[5, :count]
        for i in range(count):
            row_weights[i] = factors[i] = subtrahends[i] = 0
            if labels[first + i] != ignore_index:
                weight_of_row = weight_of(first + i, labels, sample_weights, ignore_index)
                target_logit = (1 - label_smoothing) * (targets[i] - running[i])
                if label_smoothing > 0:
                    target_logit += label_smoothing * (distances[i] / classes + (maxima[0, i] - running[i]))
                total += weight_of_row * (np.log(totals[i]) - target_logit)
                row_weights[i] = weight_of_row / weights
                factors[i] = row_weights[i] / totals[i]
                subtrahends[i] = row_weights[i] * label_smoothing / classes
        # The logits of the last chunk are still in the cache.
        for turn in range(chunks):
            chunk = chunks - 1 - turn
            low, high = chunk * size, min((chunk + 1) * size, classes)
            part = logits[low:high, :count]
            factors_of_chunk(factors, maxima[chunk, :count], running, sums)
            for j in range(part.shape[0]):
                gradients_of_class(part[j], sums, subtrahends)
            for i in range(count):
                if low <= labels[first + i] < high:
                    part[labels[first + i] - low, i] -= row_weights[i] * (1 - label_smoothing)
            multiply_into(part.T, weight[low:high], x_gradient[first:last], 0 if turn == 0 else 1)
            multiply_into(part, rows, weight_gradient[low:high], 0 if first == 0 else 1)
    return total


def cross_entropy_residuals_kernel(
    x: FloatArray,
    weight: FloatArray,
    labels: IntegerArray,
    sample_weights: FloatArray,
    out: FloatArray,
    label_smoothing: np.floating,
    ignore_index: int,
    logits: FloatArray,
    maxima: FloatArray,
    of_rows: FloatArray,
    totals_of_rows: FloatArray,
) -> None:
    """Fill `out` with the rows of `LinearCrossEntropyResiduals`; `sample_weights` is empty if there are none.

    The others are scratch memory. Without `maxima` the gradients are computed by rows, and `logits` has the shape (rows
    of a block, classes). Otherwise it is (classes, rows of a block), `maxima` is (chunks, rows of a block), `of_rows`
    (6, rows of a block), and `totals_of_rows`, in float64, (2, rows of a block).
    """
    classes = weight.shape[0]
    weights = sum_of_weights(labels, sample_weights, ignore_index)
    weight_gradient, x_gradient = out[:classes], out[classes + 1 :]
    if x.shape[0] == 0:
        for i in range(classes):
            fill(weight_gradient[i], 0.0)
    if maxima.shape[0] == 0:
        total = residuals_by_rows(
            x, weight, labels, sample_weights, weight_gradient, x_gradient, label_smoothing, ignore_index, logits
        )
    else:
        total = residuals_by_classes(
            x, weight, labels, sample_weights, weight_gradient, x_gradient, label_smoothing, ignore_index,
            logits, maxima, of_rows, totals_of_rows,
        )  # fmt: skip
    fill(out[classes], 0.0)
    out[classes, 0] = total / weights
