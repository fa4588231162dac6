"""The loops of attention, for an engine that compiles: one head of one sequence after another, a few queries at a time.

Scores have the axes (keys, queries): the loops run along the queries, which are as many for every key, and nothing is
summed along a loop.
"""

from __future__ import annotations

import numpy as np

from wyrm.ops.dropout_mask import hashed_word, mask_row, row_keys
from wyrm.ops.fast_math import LOG2_E, exp, exp2_negative, largest
from wyrm.ops.product import multiply_into
from wyrm.ops.sums import accumulated
from wyrm.types.typing import BoolArray, FloatArray, IntegerArray

# So many queries side by side see a key or do not: the registers of a processor hold no more.
TOGETHER = 16


def transpose_into(x: FloatArray, factor: np.floating, out: FloatArray) -> None:
    """`out = factor * x.T`."""
    for j in range(x.shape[1]):
        for i in range(x.shape[0]):
            out[j, i] = factor * x[i, j]


def begin(key: int, first: int, causal: bool) -> int:
    """Where the queries begin that may see a key, in a tile that begins with query `first`; some before it may not."""
    return max(0, key - first) // TOGETHER * TOGETHER if causal else 0


def lower_scores(scores: FloatArray, slope: np.floating, key: int, first: int) -> None:
    """Lower the scores of a key by the slope times its distance from each query."""
    for i in range(scores.size):
        scores[i] -= slope * scores.dtype.type(abs(first + i - key))


def hide(scores: FloatArray, allowed: BoolArray, key: int, first: int, causal: bool) -> None:
    """Have no query see a key that it may not see; `allowed`, (queries, keys), is empty where it may see all."""
    if causal:
        for i in range(scores.size):
            scores[i] = scores[i] if first + i >= key else -np.inf
    if allowed.shape[1] > 0:
        for i in range(scores.size):
            scores[i] = scores[i] if allowed[first + i if allowed.shape[0] > 1 else 0, key] else -np.inf


def raise_tops(scores: FloatArray, tops: FloatArray) -> None:
    """The larger ones, in `tops`; a NaN comes to light where its weight is computed."""
    for i in range(scores.size):
        tops[i] = scores[i] if scores[i] > tops[i] else tops[i]


def weigh(scores: FloatArray, tops: FloatArray, totals: FloatArray) -> None:
    """Scores to weights, in place; adds those to `totals`."""
    for i in range(scores.size):
        scores[i] = exp2_negative(scores[i] - tops[i])
        totals[i] += scores[i]


def fill(x: FloatArray, value: float) -> None:
    """The same number everywhere."""
    for i in range(x.size):
        x[i] = value


def multiply_row(x: FloatArray, factors: FloatArray) -> None:
    """`x *= factors`."""
    for i in range(x.size):
        x[i] *= factors[i]


def invert(totals: FloatArray) -> None:
    """`1 / totals` in place, and zero for queries that see no key."""
    for i in range(totals.size):
        totals[i] = 1 / totals[i] if totals[i] != 0 else 0


def weights(
    queries: FloatArray,
    keys: FloatArray,
    allowed: BoolArray,
    first: int,
    causal: bool,
    slope: np.floating,
    tops: FloatArray,
    totals: FloatArray,
    out: FloatArray,
) -> None:
    """The weights that queries, (features, queries), give to keys, (keys, features), into `out`, (keys, queries).

    Divided by their sums, whose inverses are `totals`, they are the shares. `first` is the number of the first query.
    Queries are scaled, and times `LOG2_E`: weights are powers of 2.
    """
    multiply_into(keys, queries, out, 0)
    fill(tops, -np.inf)
    fill(totals, 0)
    for key in range(out.shape[0]):
        low = begin(key, first, causal)
        row = out[key][low:]
        if slope != 0:
            lower_scores(row, slope * row.dtype.type(LOG2_E), key, first + low)
        hide(row, allowed, key, first + low, causal and key > first)
        raise_tops(row, tops[low:])
    for i in range(tops.size):
        tops[i] = tops[i] if tops[i] > -np.inf else 0  # such a query sees nothing
    for key in range(out.shape[0]):
        low = begin(key, first, causal)
        fill(out[key][:low], 0)
        weigh(out[key][low:], tops[low:], totals[low:])
    invert(totals)


def drop_pair(
    lower: FloatArray, upper: FloatArray, key: int, row_words: IntegerArray, threshold: int, scale: np.floating
) -> None:
    """Dropout of what queries have for a key, by the lower halves of words, and for its partner, by the upper ones."""
    for i in range(lower.size):
        word = hashed_word(np.uint32(key), row_words[0, i], row_words[1, i])
        lower[i] *= scale if (word & np.uint32(0xFFFF)) >= np.uint32(threshold) else scale * 0
        upper[i] *= scale if (word >> np.uint32(16)) >= np.uint32(threshold) else scale * 0


def drop(x: FloatArray, seen: int, row_words: IntegerArray, threshold: int, scale: np.floating) -> None:
    """Dropout of what there is for the first `seen` keys, and perhaps others, of (keys, queries), an even number."""
    half = x.shape[0] // 2
    for key in range(min(half, seen)):
        drop_pair(x[key], x[key + half], key, row_words, threshold, scale)


def attention_kernel(
    packed: FloatArray,
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
    turned: FloatArray,
    scores: FloatArray,
    sums: FloatArray,
    row_words: IntegerArray,
) -> None:
    """Fill `out`, of the axes (batch, time, heads, features); `allowed` is empty where every key is.

    Scratch: `turned` (2, features, queries at a time), `scores` (1, time, an even number, queries), `sums`
    (2, queries), and for dropout `row_words` (2, queries).
    """
    batches, time, heads = packed.shape[0], packed.shape[1], packed.shape[3]
    tile, one = scores.shape[2], scale.dtype.type(1)
    for b in range(batches):
        for h in range(heads):
            for first in range(0, time, tile):
                last = min(first + tile, time)
                seen, count = last if causal else time, last - first
                queries, found = turned[0][:, :count], turned[1][:, :count]
                part, totals = scores[0][:seen, :count], sums[1][:count]
                transpose_into(packed[b, first:last, 0, h], scale * scale.dtype.type(LOG2_E), queries)
                weights(
                    queries, packed[b, :seen, 1, h], allowed[b if allowed.shape[0] > 1 else 0], first, causal,
                    slopes[h], sums[0][:count], totals, part,
                )  # fmt: skip
                if threshold > 0:
                    keys_of_rows = row_words[:, :count]
                    row_keys((b * heads + h) * time + first, step[0], seed, stream, keys_of_rows)
                    drop(scores[0][:, :count], seen, keys_of_rows, threshold, keep_scale)
                multiply_into(packed[b, :seen, 2, h].T, part, found, 0)
                for f in range(found.shape[0]):
                    multiply_row(found[f], totals)
                transpose_into(found, one, out[b, first:last, h])


def share(parts: FloatArray, by_parts: FloatArray, totals: FloatArray, means: FloatArray) -> None:
    """Weights to shares, in place; adds their products with the gradients by them to `means`."""
    for i in range(parts.size):
        parts[i] *= totals[i]
        means[i] += parts[i] * by_parts[i]


def slope_row(parts: FloatArray, by_parts: FloatArray, means: FloatArray, scale: np.floating) -> None:
    """From the gradient by the shares to that by the scores, in `by_parts`."""
    for i in range(parts.size):
        by_parts[i] = (by_parts[i] - means[i]) * parts[i] * scale


def attention_gradient_kernel(
    packed: FloatArray,
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
    turned: FloatArray,
    scores: FloatArray,
    sums: FloatArray,
    row_words: IntegerArray,
) -> None:
    """Fill `out`, of the axes of `packed`, from the gradient by the result; the shares are computed again.

    Scratch as before, but 3 in `turned`, 2 in `scores`, for gradients too, and 3 in `sums`.
    """
    batches, time, heads = packed.shape[0], packed.shape[1], packed.shape[3]
    tile, one = scores.shape[2], scale.dtype.type(1)
    tiles = (time + tile - 1) // tile
    for b in range(batches):
        for h in range(heads):
            # The last tile first, for its queries see every key: what others add to the keys is there then.
            for turn in range(tiles):
                first = (tiles - 1 - turn) * tile
                last = min(first + tile, time)
                seen, count = last if causal else time, last - first
                queries, given, by_queries = turned[0][:, :count], turned[1][:, :count], turned[2][:, :count]
                part, by_part = scores[0][:seen, :count], scores[1][:seen, :count]
                totals, means = sums[1][:count], sums[2][:count]
                keys, values = packed[b, :seen, 1, h], packed[b, :seen, 2, h]
                transpose_into(packed[b, first:last, 0, h], scale * scale.dtype.type(LOG2_E), queries)
                transpose_into(gradient[b, first:last, h], one, given)
                weights(
                    queries, keys, allowed[b if allowed.shape[0] > 1 else 0], first, causal, slopes[h],
                    sums[0][:count], totals, part,
                )  # fmt: skip
                multiply_into(values, given, by_part, 0)
                if threshold > 0:
                    keys_of_rows = row_words[:, :count]
                    row_keys((b * heads + h) * time + first, step[0], seed, stream, keys_of_rows)
                    drop(scores[1][:, :count], seen, keys_of_rows, threshold, keep_scale)
                fill(means, 0)
                for key in range(seen):
                    low = begin(key, first, causal)
                    share(part[key][low:], by_part[key][low:], totals[low:], means[low:])
                for key in range(seen):
                    low = begin(key, first, causal)
                    fill(by_part[key][:low], 0)
                    slope_row(part[key][low:], by_part[key][low:], means[low:], scale)
                adds = 1 if turn > 0 else 0
                multiply_into(keys.T, by_part, by_queries, 0)
                transpose_into(by_queries, one, out[b, first:last, 0, h])
                transpose_into(packed[b, first:last, 0, h], one, queries)
                multiply_into(by_part, queries.T, out[b, :seen, 1, h], adds)
                if threshold > 0:
                    drop(scores[0][:, :count], seen, row_words[:, :count], threshold, keep_scale)
                multiply_into(part, given.T, out[b, :seen, 2, h], adds)


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
    far: float,
    row_words: IntegerArray,
    words: IntegerArray,
    factors: FloatArray,
) -> None:
    """Fill `out`, of the axes (batch, heads, queries, keys): what is added to scores, or multiplied with shares."""
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
                        out[b, h, i, j] = -slopes[h] * abs(i - j) if sees else far
                    else:
                        out[b, h, i, j] = factors[j] if sees else 0


def add_scaled(x: FloatArray, factor: np.floating, out: FloatArray) -> None:
    """`out += factor * x`."""
    for j in range(out.size):
        out[j] += factor * x[j]


def dot(x: FloatArray, y: FloatArray) -> np.floating:
    """The sum of products."""
    total = x.dtype.type(0)
    for j in range(x.size):
        total = accumulated(total, x[j] * y[j])
    return total


def softmax_row(scores: FloatArray, scale: np.floating) -> None:
    """Scores of the keys to shares, in place, after they are scaled."""
    top = largest(scores)
    total = scores.dtype.type(0)
    for j in range(scores.size):
        scores[j] = exp((scores[j] - top) * scale)
        total = accumulated(total, scores[j])
    inverse = 1 / total
    for j in range(scores.size):
        scores[j] *= inverse


def cached_attention_kernel(
    packed: FloatArray, cache: FloatArray, allowed: BoolArray, out: FloatArray, scale: np.floating, scores: FloatArray
) -> None:
    """Fill `out`, (batch, heads, features).

    Scratch: `scores`, one more than there are places in the cache.
    """
    batches, heads, features = cache.shape[0], cache.shape[2], cache.shape[3]
    seen = 0
    for j in range(allowed.size):
        seen = j + 1 if allowed[j] else seen
    for b in range(batches):
        for h in range(heads):
            query = packed[b, 0, h]
            row = scores[: seen + 1]
            for j in range(seen + 1):
                row[j] = 0
            for f in range(features):
                add_scaled(cache[b, 0, h, f][:seen], query[f], row[:seen])
            row[seen] = dot(query, packed[b, 1, h])
            for j in range(seen):
                row[j] = row[j] if allowed[j] else -np.inf
            softmax_row(row, scale)
            for f in range(features):
                out[b, h, f] = dot(row[:seen], cache[b, 1, h, f][:seen]) + row[seen] * packed[b, 2, h, f]
