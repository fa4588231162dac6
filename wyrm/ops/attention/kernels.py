"""Attention kernels: one head of one sequence at a time, in tiles of queries."""

from __future__ import annotations

import numpy as np

from wyrm.graph.typing import BoolArray, FloatArray, IntegerArray
from wyrm.ops.attention.weights import (
    COLUMN,
    divide_rows,
    drop,
    exponentials,
    has_few,
    multiply,
    score_gradients,
    transpose_into,
    weigh,
)
from wyrm.ops.elementwise.fast_math import LOG2_E, exp, largest
from wyrm.ops.kernels.sums import accumulated, add_scaled, natural, shared_turns
from wyrm.ops.products.product import multiply_into
from wyrm.ops.random.dropout_mask import mask_row, row_keys


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
    of queries, of whole columns: `transposed` (slots, 2, features, tile), `scores` (slots, 1, time rounded up to an
    even number, tile or more), `sums` (slots, 2, tile), and for dropout `row_words` (slots, 2, tile).
    """
    heads: int = qkv.shape[3]
    time, pairs = qkv.shape[1], qkv.shape[0] * heads
    slots, tile, one = sums.shape[0], sums.shape[2], scale.dtype.type(1)
    for slot in shared_turns(slots, pairs * time * time // slots):
        for pair in range(pairs * slot // slots, pairs * (slot + 1) // slots):
            b, h = pair // heads, pair % heads
            for first in range(0, time, tile):
                last = min(first + tile, time)
                seen, count = last if causal else time, last - first
                # Slices, of the same layout as in the gradient, which shares the machine code of `exponentials`.
                queries, result = transposed[slot, 0, :, :tile], transposed[slot, 1, :, :count]
                transpose_into(qkv[b, first:last, 0, h], scale * scale.dtype.type(LOG2_E), queries[:, :count])
                exponentials(
                    queries, qkv[b, :seen, 1, h], allowed[b if allowed.shape[0] > 1 else 0], first, count, causal,
                    slopes[h], sums[slot, :, :tile], scores[slot, 0, :seen, :tile],
                )  # fmt: skip
                if threshold > 0:
                    keys_of_rows = row_words[slot, :, :count]
                    row_keys(pair * time + first, step[0], seed, stream, keys_of_rows)
                    drop(scores[slot, 0, :, :count], seen, keys_of_rows, threshold, keep_scale)
                multiply_into(qkv[b, :seen, 2, h].T, scores[slot, 0, :seen, :count], result, 0)
                divide_rows(result, sums[slot, 1, :count])
                transpose_into(result, one, out[b, first:last, h])


def add_key_gradients(
    gradients: FloatArray, queries: FloatArray, first: int, block: int, causal: bool, adds: int, out: FloatArray
) -> None:
    """`out = adds * out + gradients @ queries.T`, without scores that a causal mask hides in all of a block of keys.

    `gradients` has the shape (keys, queries), `queries` (features, queries). `first` is the first query's position.
    """
    if not causal:
        multiply_into(gradients, queries.T, out, adds)
        return
    if first > 0:
        multiply_into(gradients[:first], queries.T, out[:first], adds)
    for low in range(0, queries.shape[1], block):
        key, end = first + low, min(first + low + block, out.shape[0])
        multiply_into(gradients[key:end, low:], queries[:, low:].T, out[key:end], adds)


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
    slots, tile, one = sums.shape[0], sums.shape[2], scale.dtype.type(1)
    # The scores of a column fit into the first cache. The sums over the queries of a tile are faster than of a column.
    block, tiles = COLUMN if has_few(qkv.shape[4]) else tile, (time + tile - 1) // tile
    for slot in shared_turns(slots, 2 * pairs * time * time // slots):
        for pair in range(pairs * slot // slots, pairs * (slot + 1) // slots):
            b, h = pair // heads, pair % heads
            # The last tile comes first: its queries see every key, so it initializes the gradients of all keys.
            for turn in range(tiles):
                start = natural((tiles - 1 - turn) * tile)
                stop = min(start + tile, time)
                count = stop - start
                queries, cotangents = transposed[slot, 0], transposed[slot, 1]
                query_gradients = transposed[slot, 2, :, :count]
                transpose_into(qkv[b, start:stop, 0, h], scale * scale.dtype.type(LOG2_E), queries[:, :count])
                transpose_into(gradient[b, start:stop, h], one, cotangents[:, :count])
                for first in range(start, stop, block):
                    last = min(first + block, stop)
                    seen, low, high = last if causal else time, first - start, last - start
                    whole, length = low + block, last - first
                    keys = qkv[b, :seen, 1, h]
                    part, part_gradients = scores[slot, 0, :, low:whole], scores[slot, 1, :, low:whole]
                    exponentials(
                        queries[:, low:whole], keys, allowed[b if allowed.shape[0] > 1 else 0], first, length,
                        causal, slopes[h], sums[slot, :, low:whole], part[:seen],
                    )  # fmt: skip
                    multiply(
                        qkv[b, :seen, 2, h], cotangents[:, low:whole], first, causal, length, part_gradients[:seen]
                    )
                    keys_of_rows = row_words[slot, :, low:high]
                    if threshold > 0:
                        row_keys(pair * time + first, step[0], seed, stream, keys_of_rows)
                        drop(part_gradients[:, :length], seen, keys_of_rows, threshold, keep_scale)
                    score_gradients(part[:seen], part_gradients[:seen], sums[slot, :, low:whole], first, length, causal)
                    if threshold > 0:
                        drop(part[:, :length], seen, keys_of_rows, threshold, keep_scale)
                    multiply_into(keys.T, part_gradients[:seen, :length], query_gradients[:, low:high], 0)
                transpose_into(query_gradients, scale, out[b, start:stop, 0, h])
                seen, adds = stop if causal else time, 1 if turn > 0 else 0
                transpose_into(qkv[b, start:stop, 0, h], scale, queries[:, :count])
                add_key_gradients(
                    scores[slot, 1, :seen, :count], queries[:, :count], start, block, causal, adds, out[b, :seen, 1, h]
                )
                add_key_gradients(
                    scores[slot, 0, :seen, :count], cotangents[:, :count], start, block, causal, adds,
                    out[b, :seen, 2, h],
                )  # fmt: skip


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


def filled(allowed: BoolArray) -> int:
    """Return the number of positions up to the last one that is true."""
    seen = 0
    for j in range(allowed.size):
        seen = j + 1 if allowed[j] else seen
    return seen


def first_visible(position: int, window: int) -> int:
    """Return the first position that a query may attend to: in a window of so many up to its own, or of all if 0."""
    return max(0, position + 1 - window) if window > 0 else 0


def cached_step_kernel(
    query: FloatArray,
    key: FloatArray,
    value: FloatArray,
    cache: FloatArray,
    allowed: BoolArray,
    out: FloatArray,
    scale: np.floating,
    window: int,
    scores: FloatArray,
) -> None:
    """Fill `out`, of shape (batch, 1, heads, features), for one new position.

    `scores` is scratch memory for one more position than the cache holds.
    """
    batches, heads, features = cache.shape[0], query.shape[2], cache.shape[4]
    group = heads // cache.shape[3]
    for b in range(batches):
        seen = filled(allowed[b])
        first = first_visible(seen, window)
        last = seen - first
        row = scores[: last + 1]
        for h in range(heads):
            queries, result, place = query[b, 0, h], out[b, 0, h], h // group
            for j in range(last):
                row[j] = dot(queries, cache[b, 0, first + j, place]) if allowed[b, first + j] else -np.inf
            row[last] = dot(queries, key[b, 0, place])
            softmax_row(row, scale)
            for f in range(features):
                result[f] = row[last] * value[b, 0, place, f]
            for j in range(last):
                add_scaled(cache[b, 1, first + j, place], row[j], result)


def hide_unfilled(scores: FloatArray, allowed: BoolArray) -> None:
    """Set the scores of cached keys that are not allowed to -inf."""
    for key in range(scores.shape[0]):
        if not allowed[key]:
            for i in range(scores.shape[1]):
                scores[key, i] = -np.inf


def hide_before(scores: FloatArray, first: int, window: int) -> None:
    """Set the scores of keys before the window of their query to -inf; `first` is the first query's position."""
    for key in range(min(scores.shape[0], first_visible(first + scores.shape[1] - 1, window))):
        for i in range(scores.shape[1]):
            scores[key, i] = scores[key, i] if key >= first_visible(first + i, window) else -np.inf


def cached_attention_kernel(
    query: FloatArray,
    key: FloatArray,
    value: FloatArray,
    cache: FloatArray,
    allowed: BoolArray,
    out: FloatArray,
    scale: np.floating,
    window: int,
    transposed: FloatArray,
    scores: FloatArray,
    sums: FloatArray,
) -> None:
    """Fill `out`, of shape (batch, time, heads, features), for new positions, in tiles of queries.

    Slots and scratch memory are as in `attention_kernel`, for the keys of cached and new positions together.
    """
    heads: int = query.shape[2]
    time, pairs, group = query.shape[1], query.shape[0] * heads, heads // key.shape[2]
    slots, tile, one = sums.shape[0], sums.shape[2], scale.dtype.type(1)
    for slot in shared_turns(slots, pairs * time * (allowed.shape[1] + time) // slots):
        for pair in range(pairs * slot // slots, pairs * (slot + 1) // slots):
            b, h = pair // heads, pair % heads
            place, seen = h // group, filled(allowed[b])
            for first in range(0, time, tile):
                last = min(first + tile, time)
                count = last - first
                queries, result = transposed[slot, 0, :, :tile], transposed[slot, 1, :, :count]
                weights = scores[slot, 0, : seen + last, :tile]
                transpose_into(query[b, first:last, h], scale * scale.dtype.type(LOG2_E), queries[:, :count])
                multiply(cache[b, 0, :seen, place], queries, 0, False, count, weights[:seen])
                multiply(key[b, :last, place], queries, first, True, count, weights[seen:])
                hide_unfilled(weights[:seen, :count], allowed[b])
                hide_before(weights[:, :count], seen + first, window)
                weigh(weights, seen + first, count, True, sums[slot, :, :tile])
                multiply_into(cache[b, 1, :seen, place].T, weights[:seen, :count], result, 0)
                multiply_into(value[b, :last, place].T, weights[seen:, :count], result, 1)
                divide_rows(result, sums[slot, 1, :count])
                transpose_into(result, one, out[b, first:last, h])
