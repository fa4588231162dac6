"""The attention weights of a block of queries of one head, and the gradients of their scores.

Scores have the shape (keys, queries). They are computed a column of `COLUMN` queries at a time: a loop over these is a
few vectors, and what is summed over the keys stays in registers.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from wyrm.graph.typing import BoolArray, FloatArray, IntegerArray
from wyrm.ops.elementwise.fast_math import LOG2_E, exp2_negative
from wyrm.ops.kernels.sums import compiled_once
from wyrm.ops.products.product import multiply_into
from wyrm.ops.random.dropout_mask import hashed_word

# A mask or a bias.
MaskArray = TypeVar("MaskArray", BoolArray, FloatArray)
# The queries of a column: two of the widest vectors of float32.
COLUMN = 32
# Up to so many features, `multiply_fours` is faster than `multiply_into`.
_FEW_FEATURES = 8


@compiled_once
def transpose_into(x: FloatArray, factor: np.floating, out: FloatArray) -> None:
    """`out = factor * x.T`."""
    rows, columns = x.shape[0], x.shape[1]
    fours = columns - columns % 4
    for j in range(0, fours, 4):
        for i in range(rows):
            out[j, i] = factor * x[i, j]
            out[j + 1, i] = factor * x[i, j + 1]
            out[j + 2, i] = factor * x[i, j + 2]
            out[j + 3, i] = factor * x[i, j + 3]
    for j in range(fours, columns):
        for i in range(rows):
            out[j, i] = factor * x[i, j]


def clear(x: FloatArray) -> None:
    """`x[:] = 0`, for a matrix."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = 0


def divide_rows(x: FloatArray, divisors: FloatArray) -> None:
    """`x /= divisors`, for a matrix; the divisors become their inverses."""
    for j in range(divisors.size):
        divisors[j] = 1 / divisors[j]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] *= divisors[j]


def of_head(mask: MaskArray, b: int, h: int) -> MaskArray:
    """Return the mask or bias of a head of a sequence, (queries, keys), where axes may have size 1."""
    matrix: MaskArray = mask[b if mask.shape[0] > 1 else 0, h if mask.shape[1] > 1 else 0]
    return matrix


# --- products ---------------------------------------------------------------------------------------------------------


def has_few(features: int) -> bool:
    """Return whether scores are computed a column at a time, and not a block at a time."""
    return features <= _FEW_FEATURES and features % 4 == 0


def visible_keys(seen: int, first: int, causal: bool) -> int:
    """Return how many keys the queries of a column see whose first is at the position `first`."""
    return min(seen, first + COLUMN) if causal else seen


def multiply_four(x: FloatArray, y: FloatArray, out: FloatArray, adds: bool) -> None:
    """`out = x @ y`, or `out += x @ y`, for an inner axis of four elements."""
    for key in range(out.shape[0]):
        for i in range(COLUMN):
            before = out[key, i] if adds else 0
            out[key, i] = before + x[key, 0] * y[0, i] + x[key, 1] * y[1, i] + x[key, 2] * y[2, i] + x[key, 3] * y[3, i]


def multiply_fours(x: FloatArray, y: FloatArray, out: FloatArray) -> None:
    """`out = x @ y` for a column and an inner axis of a multiple of four elements."""
    for f in range(0, x.shape[1], 4):
        multiply_four(x[:, f:], y[f:], out, f > 0)


@compiled_once
def multiply(x: FloatArray, y: FloatArray, first: int, causal: bool, count: int, out: FloatArray) -> None:
    """`out = x @ y` for keys or values and the columns of `count` queries, at least where queries see keys."""
    if not has_few(x.shape[1]):
        multiply_into(x, y[:, :count], out[:, :count], 0)
        return
    for low in range(0, count, COLUMN):
        high, visible = low + COLUMN, visible_keys(x.shape[0], first + low, causal)
        multiply_fours(x[:visible], y[:, low:high], out[:visible, low:high])


# --- scores -----------------------------------------------------------------------------------------------------------


def lower_scores(scores: FloatArray, slope: np.floating, key: int, first: int) -> None:
    """Subtract ALiBi's bias from the scores of a key: the slope times its distance from each query."""
    for i in range(scores.size):
        scores[i] -= slope * scores.dtype.type(abs(first + i - key))


def hide(scores: FloatArray, allowed: BoolArray, key: int, first: int) -> None:
    """Set masked scores of a key to -inf; `allowed` has the shape (queries, keys)."""
    for i in range(scores.size):
        scores[i] = scores[i] if allowed[first + i if allowed.shape[0] > 1 else 0, key] else -np.inf


def raise_scores(scores: FloatArray, bias: FloatArray, key: int, first: int) -> None:
    """Add the bias of a key, in powers of 2, to its scores; `bias` has the shape (queries, keys)."""
    for i in range(scores.size):
        scores[i] += scores.dtype.type(LOG2_E) * bias[first + i if bias.shape[0] > 1 else 0, key]


def hide_later(scores: FloatArray) -> None:
    """Set the scores of keys after their queries to -inf, for keys whose first is at the first query's position."""
    for key in range(scores.shape[0]):
        for i in range(COLUMN):
            scores[key, i] = scores[key, i] if i >= key else -np.inf


def find_maxima(scores: FloatArray, maxima: FloatArray) -> None:
    """Write the largest score of each query into `maxima`, or 0 if it sees no key.

    A NaN is not propagated here but by `exponentiate`.
    """
    for i in range(COLUMN):
        maxima[i] = -np.inf
    for key in range(scores.shape[0]):
        for i in range(COLUMN):
            maxima[i] = scores[key, i] if scores[key, i] > maxima[i] else maxima[i]
    for i in range(COLUMN):
        maxima[i] = maxima[i] if maxima[i] > -np.inf else 0


def exponentiate(scores: FloatArray, maxima: FloatArray, totals: FloatArray) -> None:
    """`scores = 2 ** (scores - maxima)` in place; `totals` gets the sums over keys, or 1 for queries that see none."""
    for i in range(COLUMN):
        totals[i] = 0
    for key in range(scores.shape[0]):
        for i in range(COLUMN):
            scores[key, i] = exp2_negative(scores[key, i] - maxima[i])
            totals[i] += scores[key, i]
    for i in range(COLUMN):
        totals[i] = totals[i] if totals[i] != 0 else 1


def differentiate_softmax(weights: FloatArray, gradients: FloatArray, means: FloatArray, totals: FloatArray) -> None:
    """Normalize the weights, and turn their gradients into gradients with respect to the scores, both in place.

    `totals` are the sums of the weights, and become their inverses.
    """
    for i in range(COLUMN):
        means[i] = 0
    for key in range(weights.shape[0]):
        for i in range(COLUMN):
            means[i] += weights[key, i] * gradients[key, i]
    for i in range(COLUMN):
        means[i] /= totals[i]  # the product with an inverse has a larger error, which differences below magnify
        totals[i] = 1 / totals[i]
    for key in range(weights.shape[0]):
        for i in range(COLUMN):
            weights[key, i] *= totals[i]
            gradients[key, i] = (gradients[key, i] - means[i]) * weights[key, i]


def drop_pair(
    lower: FloatArray, upper: FloatArray, key: int, row_words: IntegerArray, threshold: int, scale: np.floating
) -> None:
    """Apply dropout to the rows of two keys: lower halves of the words decide over one, upper halves over the other."""
    for i in range(lower.size):
        word = hashed_word(np.uint32(key), row_words[0, i], row_words[1, i])
        lower[i] *= scale if (word & np.uint32(0xFFFF)) >= np.uint32(threshold) else scale * 0
        upper[i] *= scale if (word >> np.uint32(16)) >= np.uint32(threshold) else scale * 0


@compiled_once
def drop(x: FloatArray, seen: int, row_words: IntegerArray, threshold: int, scale: np.floating) -> None:
    """Apply dropout to the first `seen` keys or more of `x`, of shape (keys, queries); the number of keys is even."""
    half = x.shape[0] // 2
    for key in range(min(half, seen)):
        drop_pair(x[key], x[key + half], key, row_words, threshold, scale)


def weigh(scores: FloatArray, first: int, count: int, causal: bool, sums: FloatArray) -> None:
    """Turn the scores of `count` queries into unnormalized attention weights, in place; see `exponentials`."""
    maxima, totals = sums[0], sums[1]
    for low in range(0, count, COLUMN):
        high, visible = low + COLUMN, visible_keys(scores.shape[0], first + low, causal)
        if causal:
            hide_later(scores[min(first + low, visible) : visible, low:high])
        find_maxima(scores[:visible, low:high], maxima[low:high])
        exponentiate(scores[:visible, low:high], maxima[low:high], totals[low:high])
        clear(scores[visible:, low:high])


@compiled_once
def exponentials(
    queries: FloatArray,
    keys: FloatArray,
    allowed: BoolArray,
    bias: FloatArray,
    first: int,
    count: int,
    causal: bool,
    slope: np.floating,
    sums: FloatArray,
    out: FloatArray,
) -> None:
    """Write the unnormalized attention weights of `count` queries into `out`, of shape (keys, queries).

    `queries` has the shape (features, queries), `keys` (keys, features); `queries`, `sums` and `out` have whole columns
    of queries. `sums[1]` gets the sums over keys: `out` divided by them are the attention weights.
    `first` is the position of the first query. Queries are multiplied by the scale and by `LOG2_E`, so that the
    exponentials are powers of 2. `allowed` and `bias`, of shape (queries, keys), are empty where there is none.
    """
    seen: int = keys.shape[0]
    multiply(keys, queries, first, causal, count, out)
    if slope != 0:
        for key in range(seen):
            lower_scores(out[key][:count], slope * slope.dtype.type(LOG2_E), key, first)
    if bias.shape[1] > 0:
        for key in range(seen):
            raise_scores(out[key][:count], bias, key, first)
    if allowed.shape[1] > 0:
        for key in range(seen):
            hide(out[key][:count], allowed, key, first)
    weigh(out, first, count, causal, sums)


def score_gradients(
    weights: FloatArray, gradients: FloatArray, sums: FloatArray, first: int, count: int, causal: bool
) -> None:
    """Normalize exponentials, and turn gradients of the weights into gradients of the scores, both in place."""
    totals, means = sums[1], sums[2]
    for low in range(0, count, COLUMN):
        high, visible = low + COLUMN, visible_keys(weights.shape[0], first + low, causal)
        differentiate_softmax(
            weights[:visible, low:high], gradients[:visible, low:high], means[low:high], totals[low:high]
        )
        clear(gradients[visible:, low:high])
