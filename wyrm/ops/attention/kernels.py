"""Attention kernels: one head of one sequence at a time, in tiles of queries.

Scores have the shape (keys, queries). Loops run along the queries, so that they vectorize without a reduction.
"""

from __future__ import annotations

import numpy as np

from wyrm.graph.typing import BoolArray, FloatArray, IntegerArray
from wyrm.ops.elementwise.fast_math import LOG2_E, exp, exp2_negative, largest
from wyrm.ops.kernels.sums import accumulated, add_scaled, shared_turns
from wyrm.ops.products.product import multiply_into
from wyrm.ops.random.dropout_mask import hashed_word, mask_row, row_keys

# Queries that a causal mask treats alike: one vector register of float32 numbers.
VECTOR = 16


def transpose_into(x: FloatArray, factor: np.floating, out: FloatArray) -> None:
    """`out = factor * x.T`."""
    for j in range(x.shape[1]):
        for i in range(x.shape[0]):
            out[j, i] = factor * x[i, j]


def begin(key: int, first: int, causal: bool) -> int:
    """Return the first query of a tile from which on a key may be visible, rounded down to a vector."""
    return max(0, key - first) // VECTOR * VECTOR if causal else 0


def lower_scores(scores: FloatArray, slope: np.floating, key: int, first: int) -> None:
    """Subtract ALiBi's bias from the scores of a key: the slope times its distance from each query."""
    for i in range(scores.size):
        scores[i] -= slope * scores.dtype.type(abs(first + i - key))


def hide(scores: FloatArray, allowed: BoolArray, key: int, first: int, causal: bool) -> None:
    """Set masked scores of a key to -inf; `allowed`, of shape (queries, keys), is empty where there is no mask."""
    if causal:
        for i in range(scores.size):
            scores[i] = scores[i] if first + i >= key else -np.inf
    if allowed.shape[1] > 0:
        for i in range(scores.size):
            scores[i] = scores[i] if allowed[first + i if allowed.shape[0] > 1 else 0, key] else -np.inf


def update_maxima(scores: FloatArray, maxima: FloatArray) -> None:
    """`maxima = maximum(maxima, scores)`; a NaN is not propagated here but by `exponentiate`."""
    for i in range(scores.size):
        maxima[i] = scores[i] if scores[i] > maxima[i] else maxima[i]


def exponentiate(scores: FloatArray, maxima: FloatArray, totals: FloatArray) -> None:
    """`scores = 2 ** (scores - maxima)` in place; adds the results to `totals`."""
    for i in range(scores.size):
        scores[i] = exp2_negative(scores[i] - maxima[i])
        totals[i] += scores[i]


def fill(x: FloatArray, value: float) -> None:
    """`x[:] = value`."""
    for i in range(x.size):
        x[i] = value


def multiply_row(x: FloatArray, factors: FloatArray) -> None:
    """`x *= factors`."""
    for i in range(x.size):
        x[i] *= factors[i]


def invert(totals: FloatArray) -> None:
    """`1 / totals` in place, and 0 for queries that see no key."""
    for i in range(totals.size):
        totals[i] = 1 / totals[i] if totals[i] != 0 else 0


def exponentials(
    queries: FloatArray,
    keys: FloatArray,
    allowed: BoolArray,
    first: int,
    causal: bool,
    slope: np.floating,
    maxima: FloatArray,
    totals: FloatArray,
    out: FloatArray,
) -> None:
    """Write the unnormalized attention weights into `out`, of shape (keys, queries).

    `queries` has the shape (features, queries), `keys` (keys, features). `totals` gets the inverses of the sums over
    keys: their products with `out` are the attention weights. `first` is the position of the first query. Queries are
    multiplied by the scale and by `LOG2_E`, so that the exponentials are powers of 2.
    """
    multiply_into(keys, queries, out, 0)
    fill(maxima, -np.inf)
    fill(totals, 0)
    for key in range(out.shape[0]):
        low = begin(key, first, causal)
        row = out[key][low:]
        if slope != 0:
            lower_scores(row, slope * row.dtype.type(LOG2_E), key, first + low)
        hide(row, allowed, key, first + low, causal and key > first)
        update_maxima(row, maxima[low:])
    for i in range(maxima.size):
        maxima[i] = maxima[i] if maxima[i] > -np.inf else 0  # the query sees no key
    for key in range(out.shape[0]):
        low = begin(key, first, causal)
        fill(out[key][:low], 0)
        exponentiate(out[key][low:], maxima[low:], totals[low:])
    invert(totals)


def drop_pair(
    lower: FloatArray, upper: FloatArray, key: int, row_words: IntegerArray, threshold: int, scale: np.floating
) -> None:
    """Apply dropout to the rows of two keys: lower halves of the words decide over one, upper halves over the other."""
    for i in range(lower.size):
        word = hashed_word(np.uint32(key), row_words[0, i], row_words[1, i])
        lower[i] *= scale if (word & np.uint32(0xFFFF)) >= np.uint32(threshold) else scale * 0
        upper[i] *= scale if (word >> np.uint32(16)) >= np.uint32(threshold) else scale * 0


def drop(x: FloatArray, seen: int, row_words: IntegerArray, threshold: int, scale: np.floating) -> None:
    """Apply dropout to the first `seen` keys or more of `x`, of shape (keys, queries); the number of keys is even."""
    half = x.shape[0] // 2
    for key in range(min(half, seen)):
        drop_pair(x[key], x[key + half], key, row_words, threshold, scale)


def attention_kernel(
    qkv: FloatArray,
    allowed: BoolArray,
    step: IntegerArray,
    out: FloatArray,
    causal: bool,
    scale: np.floating,
    slopes: FloatArray,
    threshold: int,
    keep_scale: np.floating,
    seed: int,
    stream: int,
    transposed: FloatArray,
    scores: FloatArray,
    sums: FloatArray,
    row_words: IntegerArray,
) -> None:
    """Fill `out`, of shape (batch, time, heads, features); `allowed` is empty where there is no mask.

    The pairs of a sequence and a head are divided into slots, which threads share. A slot has scratch memory for a tile
    of queries: `transposed` (slots, 2, features, tile), `scores` (slots, 1, time rounded up to an even number, tile),
    `sums` (slots, 2, tile), and for dropout `row_words` (slots, 2, tile).
    """
    heads: int = qkv.shape[3]
    time, pairs = qkv.shape[1], qkv.shape[0] * heads
    slots, tile, one = scores.shape[0], scores.shape[3], scale.dtype.type(1)
    for slot in shared_turns(slots, pairs * time * time // slots):
        for pair in range(pairs * slot // slots, pairs * (slot + 1) // slots):
            b, h = pair // heads, pair % heads
            for first in range(0, time, tile):
                last = min(first + tile, time)
                seen, count = last if causal else time, last - first
                queries, result = transposed[slot, 0, :, :count], transposed[slot, 1, :, :count]
                part, totals = scores[slot, 0, :seen, :count], sums[slot, 1, :count]
                transpose_into(qkv[b, first:last, 0, h], scale * scale.dtype.type(LOG2_E), queries)
                exponentials(
                    queries, qkv[b, :seen, 1, h], allowed[b if allowed.shape[0] > 1 else 0], first, causal,
                    slopes[h], sums[slot, 0, :count], totals, part,
                )  # fmt: skip
                if threshold > 0:
                    keys_of_rows = row_words[slot, :, :count]
                    row_keys(pair * time + first, step[0], seed, stream, keys_of_rows)
                    drop(scores[slot, 0, :, :count], seen, keys_of_rows, threshold, keep_scale)
                multiply_into(qkv[b, :seen, 2, h].T, part, result, 0)
                for f in range(result.shape[0]):
                    multiply_row(result[f], totals)
                transpose_into(result, one, out[b, first:last, h])


def normalize(weights: FloatArray, weight_gradients: FloatArray, totals: FloatArray, means: FloatArray) -> None:
    """`weights *= totals` in place; adds the products of the weights with their gradients to `means`."""
    for i in range(weights.size):
        weights[i] *= totals[i]
        means[i] += weights[i] * weight_gradients[i]


def softmax_gradient(weights: FloatArray, gradients: FloatArray, means: FloatArray, scale: np.floating) -> None:
    """Turn gradients with respect to the weights into gradients with respect to the scores, in place."""
    for i in range(weights.size):
        gradients[i] = (gradients[i] - means[i]) * weights[i] * scale


def attention_gradient_kernel(
    qkv: FloatArray,
    gradient: FloatArray,
    allowed: BoolArray,
    step: IntegerArray,
    out: FloatArray,
    causal: bool,
    scale: np.floating,
    slopes: FloatArray,
    threshold: int,
    keep_scale: np.floating,
    seed: int,
    stream: int,
    transposed: FloatArray,
    scores: FloatArray,
    sums: FloatArray,
    row_words: IntegerArray,
) -> None:
    """Fill `out`, of the shape of `qkv`, from the cotangent `gradient`; the attention weights are recomputed.

    Scratch memory as in `attention_kernel`, with second axes of 3 for `transposed`, 2 for `scores` and 3 for `sums`.
    """
    heads: int = qkv.shape[3]
    time, pairs = qkv.shape[1], qkv.shape[0] * heads
    slots, tile, one = scores.shape[0], scores.shape[3], scale.dtype.type(1)
    tiles = (time + tile - 1) // tile
    for slot in shared_turns(slots, 2 * pairs * time * time // slots):
        for pair in range(pairs * slot // slots, pairs * (slot + 1) // slots):
            b, h = pair // heads, pair % heads
            # The last tile comes first: its queries see every key, so it initializes the gradients of all keys.
            for turn in range(tiles):
                first = (tiles - 1 - turn) * tile
                last = min(first + tile, time)
                seen, count = last if causal else time, last - first
                queries, cotangents, query_gradients = (
                    transposed[slot, 0, :, :count],
                    transposed[slot, 1, :, :count],
                    transposed[slot, 2, :, :count],
                )
                part, part_gradients = scores[slot, 0, :seen, :count], scores[slot, 1, :seen, :count]
                totals, means = sums[slot, 1, :count], sums[slot, 2, :count]
                keys, values = qkv[b, :seen, 1, h], qkv[b, :seen, 2, h]
                transpose_into(qkv[b, first:last, 0, h], scale * scale.dtype.type(LOG2_E), queries)
                transpose_into(gradient[b, first:last, h], one, cotangents)
                exponentials(
                    queries, keys, allowed[b if allowed.shape[0] > 1 else 0], first, causal, slopes[h],
                    sums[slot, 0, :count], totals, part,
                )  # fmt: skip
                multiply_into(values, cotangents, part_gradients, 0)
                if threshold > 0:
                    keys_of_rows = row_words[slot, :, :count]
                    row_keys(pair * time + first, step[0], seed, stream, keys_of_rows)
                    drop(scores[slot, 1, :, :count], seen, keys_of_rows, threshold, keep_scale)
                fill(means, 0)
                for key in range(seen):
                    low = begin(key, first, causal)
                    normalize(part[key][low:], part_gradients[key][low:], totals[low:], means[low:])
                for key in range(seen):
                    low = begin(key, first, causal)
                    fill(part_gradients[key][:low], 0)
                    softmax_gradient(part[key][low:], part_gradients[key][low:], means[low:], scale)
                adds = 1 if turn > 0 else 0
                multiply_into(keys.T, part_gradients, query_gradients, 0)
                transpose_into(query_gradients, one, out[b, first:last, 0, h])
                transpose_into(qkv[b, first:last, 0, h], one, queries)
                multiply_into(part_gradients, queries.T, out[b, :seen, 1, h], adds)
                if threshold > 0:
                    drop(scores[slot, 0, :, :count], seen, row_words[slot, :, :count], threshold, keep_scale)
                multiply_into(part, cotangents.T, out[b, :seen, 2, h], adds)


def attention_mask_kernel(
    allowed: BoolArray,
    step: IntegerArray,
    out: FloatArray,
    causal: bool,
    scale: np.floating,
    slopes: FloatArray,
    threshold: int,
    keep_scale: np.floating,
    seed: int,
    stream: int,
    is_bias: bool,
    masked_score: float,
    row_words: IntegerArray,
    words: IntegerArray,
    factors: FloatArray,
) -> None:
    """Fill `out`, of shape (batch, heads, queries, keys), with the bias of the scores or the factors of the weights."""
    batches, heads, time = out.shape[0], out.shape[1], out.shape[2]
    for b in range(batches):
        in_batch = b if allowed.shape[0] > 1 else 0
        for h in range(heads):
            row_keys((b * heads + h) * time, step[0], seed, stream, row_words)
            for i in range(time):
                in_row = i if allowed.shape[1] > 1 else 0
                mask_row(row_words[0, i], row_words[1, i], threshold, keep_scale, words, factors)
                for j in range(time):
                    sees = (j <= i or not causal) and (allowed.size == 0 or allowed[in_batch, in_row, j])
                    if is_bias:
                        out[b, h, i, j] = -slopes[h] * abs(i - j) if sees else masked_score
                    else:
                        out[b, h, i, j] = factors[j] if sees else 0


def dot(x: FloatArray, y: FloatArray) -> np.floating:
    """Return the dot product."""
    total = x.dtype.type(0)
    for j in range(x.size):
        total = accumulated(total, x[j] * y[j])
    return total


def softmax_row(scores: FloatArray, scale: np.floating) -> None:
    """`scores = softmax(scale * scores)` in place."""
    maximum = largest(scores)
    total = scores.dtype.type(0)
    for j in range(scores.size):
        scores[j] = exp((scores[j] - maximum) * scale)
        total = accumulated(total, scores[j])
    inverse = 1 / total
    for j in range(scores.size):
        scores[j] *= inverse


def cached_attention_kernel(
    qkv: FloatArray, cache: FloatArray, allowed: BoolArray, out: FloatArray, scale: np.floating, scores: FloatArray
) -> None:
    """Fill `out`, of shape (batch, heads, features), for one new position.

    `scores` is scratch memory for one more position than the cache holds.
    """
    batches, heads, features = cache.shape[0], cache.shape[2], cache.shape[3]
    seen = 0
    for j in range(allowed.size):
        seen = j + 1 if allowed[j] else seen
    for b in range(batches):
        for h in range(heads):
            query = qkv[b, 0, h]
            row = scores[: seen + 1]
            for j in range(seen + 1):
                row[j] = 0
            for f in range(features):
                add_scaled(cache[b, 0, h, f][:seen], query[f], row[:seen])
            row[seen] = dot(query, qkv[b, 1, h])
            for j in range(seen):
                row[j] = row[j] if allowed[j] else -np.inf
            softmax_row(row, scale)
            for f in range(features):
                out[b, h, f] = dot(row[:seen], cache[b, 1, h, f][:seen]) + row[seen] * qkv[b, 2, h, f]
