"""The loops of attention, for an engine that compiles: one head of one sequence after another, a few queries at a time.

The keys and values of a head are copied so that those of one feature lie side by side: the loops run along the keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.ops.fast_math import exp, largest
from wyrm.ops.keeping import keep_row, row_keys
from wyrm.ops.product import multiply_into
from wyrm.ops.sums import accumulated


def transpose_into(x: Any, out: Any) -> None:
    """`out = x.T`."""
    for j in range(x.shape[1]):
        for i in range(x.shape[0]):
            out[j, i] = x[i, j]


def clear(x: Any) -> None:
    """Zeros everywhere."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] = 0


def softmax_row(scores: Any, scale: Any, slope: Any, allowed: Any, row: int) -> None:
    """Scores of the keys to shares, in place; keys that are not allowed have none.

    Before that, scores are scaled, and lowered by the slope times the distance of the key from query `row`.
    """
    if slope != 0:
        for j in range(scores.size):
            scores[j] -= slope / scale * scores.dtype.type(abs(row - j))
    if allowed.size > 0:
        for j in range(scores.size):
            scores[j] = scores[j] if allowed[j] else -np.inf
    top = largest(scores)
    if top == -np.inf:  # nothing is allowed
        for j in range(scores.size):
            scores[j] = 0
        return
    total = scores.dtype.type(0)
    for j in range(scores.size):
        scores[j] = exp((scores[j] - top) * scale)
        total = accumulated(total, scores[j])
    inverse = 1 / total
    for j in range(scores.size):
        scores[j] *= inverse


def multiply_row(x: Any, factors: Any) -> None:
    """`x *= factors`."""
    for j in range(x.size):
        x[j] *= factors[j]


def shares(
    queries: Any, keys: Any, allowed: Any, batch: int, first: int, causal: bool, scale: Any, slope: Any, out: Any,
    seen: int,
) -> None:  # fmt: skip
    """The shares that `queries`, of which the first is query `first`, give to the first `seen` keys.

    `keys` has the axes (features, keys), `out` (queries, keys); rows of `out` are contiguous, so that loops over them
    can be vectorised.
    """
    multiply_into(queries, keys[:, :seen], out[: queries.shape[0], :seen], 0)
    in_batch = batch if allowed.shape[0] > 1 else 0
    for r in range(queries.shape[0]):
        until = first + r + 1 if causal else seen
        in_row = first + r if allowed.shape[1] > 1 else 0
        row = out[r]
        softmax_row(row[:until], scale, slope, allowed[in_batch, in_row, : min(until, allowed.shape[2])], first + r)
        for j in range(until, seen):
            row[j] = 0


def attention_kernel(
    packed: Any, allowed: Any, step: Any, out: Any, causal: bool, scale: Any, slopes: Any, threshold: int,
    keep_scale: Any, seed: int, stream: int, features: Any, scores: Any, row_words: Any, words: Any, factors: Any,
) -> None:  # fmt: skip
    """Fill `out`, of the axes (batch, time, heads, features); `allowed` is empty where every key is.

    Scratch: `features` (2, features, time) for keys and values, `scores` (queries at a time, time), and for dropout
    `row_words` (2, time), `words` (half the time, rounded up) and `factors` (twice as many).
    """
    batches, time, heads = packed.shape[0], packed.shape[1], packed.shape[3]
    tile = scores.shape[0]
    keys, values = features[0], features[1]
    for b in range(batches):
        for h in range(heads):
            transpose_into(packed[b, :, 1, h], keys)
            transpose_into(packed[b, :, 2, h], values)
            if threshold > 0:
                row_keys((b * heads + h) * time, step[0], seed, stream, row_words)
            for first in range(0, time, tile):
                last = min(first + tile, time)
                seen = last if causal else time
                shares(packed[b, first:last, 0, h], keys, allowed, b, first, causal, scale, slopes[h], scores, seen)
                if threshold > 0:
                    for r in range(last - first):
                        first_key, second_key = row_words[0, first + r], row_words[1, first + r]
                        keep_row(first_key, second_key, threshold, keep_scale, words, factors)
                        multiply_row(scores[r][:seen], factors)
                multiply_into(scores[: last - first, :seen], values[:, :seen].T, out[b, first:last, h], 0)


def slope_row(shares: Any, by_shares: Any, factors: Any, dropped: bool, scale: Any) -> None:
    """From the gradient by the dropped shares to that by the scores, in `by_shares`; drops out in `shares`."""
    mean = shares.dtype.type(0)
    if dropped:
        for j in range(shares.size):
            by_shares[j] *= factors[j]
    for j in range(shares.size):
        mean = accumulated(mean, by_shares[j] * shares[j])
    for j in range(shares.size):
        by_shares[j] = (by_shares[j] - mean) * shares[j] * scale
    if dropped:
        for j in range(shares.size):
            shares[j] *= factors[j]


def attention_gradient_kernel(
    packed: Any, gradient: Any, allowed: Any, step: Any, out: Any, causal: bool, scale: Any, slopes: Any,
    threshold: int, keep_scale: Any, seed: int, stream: int, features: Any, scores: Any, row_words: Any, words: Any,
    factors: Any,
) -> None:  # fmt: skip
    """Fill `out`, of the axes of `packed`, from the gradient by the result; the shares are computed again.

    Scratch as before, but `features` (4, features, time) for gradients too, and `scores` (2, queries at a time, time).
    """
    batches, time, heads = packed.shape[0], packed.shape[1], packed.shape[3]
    tile = scores.shape[1]
    keys, values, by_keys, by_values = features[0], features[1], features[2], features[3]
    parts, by_parts = scores[0], scores[1]
    for b in range(batches):
        for h in range(heads):
            transpose_into(packed[b, :, 1, h], keys)
            transpose_into(packed[b, :, 2, h], values)
            clear(by_keys)
            clear(by_values)
            if threshold > 0:
                row_keys((b * heads + h) * time, step[0], seed, stream, row_words)
            for first in range(0, time, tile):
                last = min(first + tile, time)
                seen = last if causal else time
                part, by_part = parts[: last - first, :seen], by_parts[: last - first, :seen]
                queries, given = packed[b, first:last, 0, h], gradient[b, first:last, h]
                shares(queries, keys, allowed, b, first, causal, scale, slopes[h], parts, seen)
                multiply_into(given, values[:, :seen], by_part, 0)
                for r in range(last - first):
                    if threshold > 0:
                        first_key, second_key = row_words[0, first + r], row_words[1, first + r]
                        keep_row(first_key, second_key, threshold, keep_scale, words, factors)
                    slope_row(parts[r][:seen], by_parts[r][:seen], factors, threshold > 0, scale)
                multiply_into(by_part, keys[:, :seen].T, out[b, first:last, 0, h], 0)
                multiply_into(queries.T, by_part, by_keys[:, :seen], 1)
                multiply_into(given.T, part, by_values[:, :seen], 1)
            transpose_into(by_keys, out[b, :, 1, h])
            transpose_into(by_values, out[b, :, 2, h])


def attention_mask_kernel(
    allowed: Any, step: Any, out: Any, causal: bool, scale: Any, slopes: Any, threshold: int, keep_scale: Any,
    seed: int, stream: int, is_bias: bool, far: float, row_words: Any, words: Any, factors: Any,
) -> None:  # fmt: skip
    """Fill `out`, of the axes (batch, heads, queries, keys): what is added to scores, or multiplied with shares."""
    batches, heads, time = out.shape[0], out.shape[1], out.shape[2]
    for b in range(batches):
        in_batch = b if allowed.shape[0] > 1 else 0
        for h in range(heads):
            row_keys((b * heads + h) * time, step[0], seed, stream, row_words)
            for i in range(time):
                in_row = i if allowed.shape[1] > 1 else 0
                keep_row(row_words[0, i], row_words[1, i], threshold, keep_scale, words, factors)
                for j in range(time):
                    sees = (j <= i or not causal) and (allowed.size == 0 or allowed[in_batch, in_row, j])
                    if is_bias:
                        out[b, h, i, j] = -slopes[h] * abs(i - j) if sees else far
                    else:
                        out[b, h, i, j] = factors[j] if sees else 0


def add_scaled(x: Any, factor: Any, out: Any) -> None:
    """`out += factor * x`."""
    for j in range(out.size):
        out[j] += factor * x[j]


def dot(x: Any, y: Any) -> Any:
    """The sum of products."""
    total = x.dtype.type(0)
    for j in range(x.size):
        total = accumulated(total, x[j] * y[j])
    return total


def cached_attention_kernel(
    packed: Any, cache: Any, allowed: Any, out: Any, scale: Any, scores: Any, nothing: Any
) -> None:
    """Fill `out`, (batch, heads, features); `nothing` is an empty mask.

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
            softmax_row(row, scale, scale * 0, nothing, 0)
            for f in range(features):
                out[b, h, f] = dot(row[:seen], cache[b, 1, h, f][:seen]) + row[seen] * packed[b, 2, h, f]
