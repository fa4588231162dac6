"""The kernel of the residuals of a linear layer with cross-entropy: its loss and both gradients.

The logits of a block of rows have one of two layouts. In `residuals_by_rows` it is (rows, classes): for few rows or
classes, and for wide rows. In `residuals_by_classes` it is (classes, rows), for many narrow rows: loops run along the
rows, so that they vectorize without a reduction, and no product reads the weight in another order than it lies. The
classes are divided into chunks, which threads share. Their logits stay in the cache from the product to the
exponentials, and from the gradients to both products.
"""

from __future__ import annotations

import numpy as np

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.cross_entropy.kernels import loss_row, scale, sum_of_weights, weight_of
from wyrm.ops.elementwise.fast_math import LOG2_E, exp2_negative
from wyrm.ops.kernels.sums import shared_turns
from wyrm.ops.products.narrow_product import multiply_widened
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
    factors: FloatArray,
) -> float:
    """Write both gradients and return the mean loss; `logits` has the shape (rows of a block, classes).

    `weight_gradient` has no rows for a weight without a gradient, which may have narrow numbers, with `factors` of the
    classes unless it is empty.
    """
    total, weights = 0.0, sum_of_weights(labels, sample_weights, ignore_index)
    for first in range(0, x.shape[0], logits.shape[0]):
        last = min(first + logits.shape[0], x.shape[0])
        part = logits[: last - first]
        multiply_widened(x[first:last], weight.T, part)
        for i in range(first, last):
            row = logits[i - first]
            if labels[i] == ignore_index:
                fill(row, 0.0)
            else:
                scale(row, factors)
                loss, row_total = loss_row(row, labels[i], label_smoothing)
                weight_of_row = weight_of(i, labels, sample_weights, ignore_index)
                total += loss * weight_of_row
                row_weight = logits.dtype.type(weight_of_row / weights)
                scale_and_subtract(row, row_weight / row_total, row_weight * label_smoothing / row.size)
                row[labels[i]] -= row_weight * (1 - label_smoothing)
                scale(row, factors)
        multiply_widened(part, weight, x_gradient[first:last])
        if weight_gradient.shape[0] > 0:
            multiply_into(part.T, x[first:last], weight_gradient, 0 if first == 0 else 1)
    return total / weights


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


def add_relative(x: FloatArray, before: FloatArray, maxima: FloatArray, out: FloatArray) -> None:
    """`out += x * exp(before - maxima)`: those of a chunk become relative to the maxima of all."""
    for i in range(x.size):
        out[i] += x[i] * exp2_negative((before[i] - maxima[i]) * maxima.dtype.type(LOG2_E))


def factors_of_chunk(factors: FloatArray, before: FloatArray, maxima: FloatArray, out: FloatArray) -> None:
    """`out = factors * exp(before - maxima)`; a factor of 0 stays 0, whatever the maxima are."""
    for i in range(factors.size):
        power = exp2_negative((before[i] - maxima[i]) * maxima.dtype.type(LOG2_E))
        out[i] = factors[i] * power if factors[i] != 0 else 0


def gradients_of_class(logits: FloatArray, factors: FloatArray, subtrahends: FloatArray) -> None:
    """`logits = logits * factors - subtrahends` in place; a factor of 0 hides NaN, as of a row that is ignored."""
    for i in range(logits.size):
        logits[i] = (logits[i] * factors[i] if factors[i] != 0 else 0) - subtrahends[i]


def exponentials_of_chunk(part: FloatArray, maxima: FloatArray, sums: FloatArray, totals: FloatArray) -> None:
    """Replace the logits of a chunk by their exponentials relative to the maxima, and write the totals of these."""
    fill(totals, 0.0)
    for first in range(0, part.shape[0], _PARTIAL_SUM):
        fill(sums, 0.0)
        for j in range(first, min(first + _PARTIAL_SUM, part.shape[0])):
            exponentiate_class(part[j], maxima, sums)
        add_to(sums, totals)


def distances_of_chunk(part: FloatArray, origins: FloatArray, sums: FloatArray, totals: FloatArray) -> None:
    """Write the sums of the distances of a chunk's logits from the origins."""
    fill(totals, 0.0)
    for first in range(0, part.shape[0], _PARTIAL_SUM):
        fill(sums, 0.0)
        for j in range(first, min(first + _PARTIAL_SUM, part.shape[0])):
            add_distances(part[j], origins, sums)
        add_to(sums, totals)


def exponentials_of_block(
    x: FloatArray,
    weight: FloatArray,
    labels: IntegerArray,
    smoothed: bool,
    logits: FloatArray,
    targets: FloatArray,
    of_chunks: FloatArray,
    totals: FloatArray,
) -> None:
    """Write the exponentials of a block, the logits of its labels, and of each chunk what they are relative to."""
    chunks, classes, count = of_chunks.shape[0], weight.shape[0], x.shape[0]
    size = (classes + chunks - 1) // chunks
    for chunk in shared_turns(chunks, size * count * x.shape[1]):
        low, high = chunk * size, min((chunk + 1) * size, classes)
        part, maxima, sums = logits[low:high, :count], of_chunks[chunk, 0, :count], of_chunks[chunk, 1, :count]
        multiply_into(weight[low:high], x.T, part, 0)
        for i in range(count):
            if low <= labels[i] < high:
                targets[i] = part[labels[i] - low, i]
        fill(maxima, lowest(maxima))
        for j in range(part.shape[0]):
            update_maxima(part[j], maxima)
        if smoothed:
            # Relative to maxima of the rows: large logits that are close lose no digits.
            distances_of_chunk(part, maxima, sums, totals[chunk, 1, :count])
        exponentials_of_chunk(part, maxima, sums, totals[chunk, 0, :count])


def gradients_of_block(
    x: FloatArray,
    weight: FloatArray,
    labels: IntegerArray,
    weight_gradient: FloatArray,
    adds: int,
    label_smoothing: np.floating,
    logits: FloatArray,
    of_rows: FloatArray,
    of_chunks: FloatArray,
    x_gradients: FloatArray,
) -> None:
    """Write or add a block's gradient with respect to the weight, and each chunk's terms of that with respect to x.

    Unlike a derived kernel, it needs no record of exponentials: the gradient of a logit is its softmax less the label's
    one. So it follows from a block of logits at once, while these are in the cache.
    """
    chunks, classes, count = of_chunks.shape[0], weight.shape[0], x.shape[0]
    size = (classes + chunks - 1) // chunks
    for chunk in shared_turns(chunks, 2 * size * count * x.shape[1]):
        low, high = chunk * size, min((chunk + 1) * size, classes)
        part, factors = logits[low:high, :count], of_chunks[chunk, 1, :count]
        factors_of_chunk(of_rows[2, :count], of_chunks[chunk, 0, :count], of_rows[0, :count], factors)
        for j in range(part.shape[0]):
            gradients_of_class(part[j], factors, of_rows[3, :count])
        for i in range(count):
            if low <= labels[i] < high:
                part[labels[i] - low, i] -= of_rows[4, i] * (1 - label_smoothing)
        multiply_into(part.T, weight[low:high], x_gradients[chunk, :count], 0)
        multiply_into(part, x, weight_gradient[low:high], adds)


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
    of_rows: FloatArray,
    of_chunks: FloatArray,
    totals: FloatArray,
    x_gradients: FloatArray,
) -> float:
    """Write both gradients and return the mean loss; see the kernel for the scratch memory."""
    total, weights = 0.0, sum_of_weights(labels, sample_weights, ignore_index)
    classes, chunks, block = weight.shape[0], of_chunks.shape[0], logits.shape[1]
    size = (classes + chunks - 1) // chunks
    for first in range(0, x.shape[0], block):
        last = min(first + block, x.shape[0])
        count, rows, own_labels = last - first, x[first:last], labels[first:last]
        smoothed = bool(label_smoothing > 0)
        exponentials_of_block(rows, weight, own_labels, smoothed, logits, of_rows[1], of_chunks, totals)

        maxima, sums = of_rows[0, :count], totals[chunks, 0, :count]
        fill(maxima, lowest(maxima))
        fill(sums, 0.0)
        for chunk in range(chunks):
            update_maxima(of_chunks[chunk, 0, :count], maxima)
        for chunk in range(chunks):
            add_relative(totals[chunk, 0, :count], of_chunks[chunk, 0, :count], maxima, sums)
        for i in range(count):
            of_rows[2, i] = of_rows[3, i] = of_rows[4, i] = 0
            if own_labels[i] != ignore_index:
                weight_of_row = weight_of(first + i, labels, sample_weights, ignore_index)
                target_logit = (1 - label_smoothing) * (of_rows[1, i] - maxima[i])
                if smoothed:
                    distance = 0.0
                    for chunk in range(chunks):
                        count_of_chunk = min(size, classes - chunk * size)
                        distance += totals[chunk, 1, i] + count_of_chunk * (of_chunks[chunk, 0, i] - maxima[i])
                    target_logit += label_smoothing * (distance / classes)
                total += weight_of_row * (np.log(sums[i]) - target_logit)
                row_weight = weight_of_row / weights
                of_rows[2, i] = row_weight / sums[i]
                of_rows[3, i] = row_weight * label_smoothing / classes
                of_rows[4, i] = row_weight

        adds = 0 if first == 0 else 1
        gradients_of_block(
            rows, weight, own_labels, weight_gradient, adds, label_smoothing, logits, of_rows, of_chunks, x_gradients
        )
        for i in range(count):
            copy(x_gradients[0, i], x_gradient[first + i])
            for chunk in range(1, chunks):
                add_to(x_gradients[chunk, i], x_gradient[first + i])
    return total / weights


def cross_entropy_residuals_kernel(
    x: FloatArray,
    weight: FloatArray,
    labels: IntegerArray,
    sample_weights: FloatArray,
    out: FloatArray,
    label_smoothing: np.floating,
    ignore_index: int,
    logits: FloatArray,
    of_rows: FloatArray,
    of_chunks: FloatArray,
    totals: FloatArray,
    x_gradients: FloatArray,
) -> None:
    """Fill `out` with the rows of `LinearCrossEntropyResiduals`; `sample_weights` is empty if there are none.

    The others are scratch memory. Without `of_chunks` the gradients are computed by rows, and `logits` has the shape
    (rows of a block, classes). Otherwise it is (classes, rows of a block), and the others are, with a last axis of the
    rows of a block: `of_rows` (5, ...), the maxima, the logits of the labels, the factors and subtrahends of
    `gradients_of_class`, and the weights; `of_chunks` (chunks, 2, ...), the maxima, and partial sums or factors;
    `totals`, in float64, (chunks + 1, 2, ...), the sums of exponentials and of distances. `x_gradients` is (chunks,
    rows of a block, width).
    """
    classes = weight.shape[0]
    weight_gradient, x_gradient = out[:classes], out[classes + 1 :]
    if x.shape[0] == 0:
        for i in range(classes):
            fill(weight_gradient[i], 0.0)
    if of_chunks.shape[0] == 0:
        loss = residuals_by_rows(
            x, weight, labels, sample_weights, weight_gradient, x_gradient, label_smoothing, ignore_index, logits,
            sample_weights[:0],
        )  # fmt: skip
    else:
        loss = residuals_by_classes(
            x, weight, labels, sample_weights, weight_gradient, x_gradient, label_smoothing, ignore_index,
            logits, of_rows, of_chunks, totals, x_gradients,
        )  # fmt: skip
    fill(out[classes], 0.0)
    out[classes, 0] = loss


def cross_entropy_slopes_kernel(
    x: FloatArray,
    weight: FloatArray,
    labels: IntegerArray,
    sample_weights: FloatArray,
    out: FloatArray,
    label_smoothing: np.floating,
    ignore_index: int,
    logits: FloatArray,
    factors: FloatArray,
) -> None:
    """Fill `out`, (1 + rows, width), with a row that starts with the loss, and the gradient with respect to x.

    The weight has no gradient, and may have narrow numbers; see `residuals_by_rows`.
    """
    loss = residuals_by_rows(
        x, weight, labels, sample_weights, out[:0], out[1:], label_smoothing, ignore_index, logits, factors
    )
    fill(out[0], 0.0)
    out[0, 0] = loss
