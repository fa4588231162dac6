"""Attention kernels: one head of one sequence at a time, in tiles of queries."""

from __future__ import annotations

import numpy as np

from wyrm.graph.typing import BoolArray, FloatArray, IntegerArray
from wyrm.ops.attention.weights import (
    COLUMN,
    clear,
    divide_rows,
    drop,
    exponentials,
    has_few,
    multiply,
    of_head,
    score_gradients,
    transpose_into,
    weigh,
)
from wyrm.ops.elementwise.fast_math import LOG2_E, exp, largest
from wyrm.ops.kernels.sums import accumulated, natural, shared_turns
from wyrm.ops.products.product import multiply_exactly, multiply_into
from wyrm.ops.random.dropout_mask import mask_row, row_keys


def attention_kernel(
    query: FloatArray,
    key: FloatArray,
    value: FloatArray,
    allowed: BoolArray,
    bias: FloatArray,
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
    """Fill `out`, of shape (batch, queries, heads, columns); `allowed` and `bias` are empty where there is none.

    The pairs of a sequence and a head are divided into slots, which threads share. A slot has scratch memory for a tile
    of queries, of whole columns: `transposed` (slots, 2, features or columns, tile), `scores` (slots, 1, keys rounded
    up to an even number, tile or more), `sums` (slots, 2, tile), and for dropout `row_words` (slots, 2, tile).
    """
    heads: int = query.shape[2]
    time, keys, pairs, group = query.shape[1], key.shape[1], query.shape[0] * heads, heads // key.shape[2]
    slots, tile, one = sums.shape[0], sums.shape[2], scale.dtype.type(1)
    for slot in shared_turns(slots, pairs * time * keys // slots):
        for pair in range(pairs * slot // slots, pairs * (slot + 1) // slots):
            b, h = pair // heads, pair % heads
            place = h // group
            for first in range(0, time, tile):
                last = min(first + tile, time)
                seen, count = min(last, keys) if causal else keys, last - first
                # Slices, of the same layout as in the gradient, which shares the machine code of `exponentials`.
                queries = transposed[slot, 0, : query.shape[3], :tile]
                result = transposed[slot, 1, : out.shape[3], :count]
                transpose_into(query[b, first:last, h], scale * scale.dtype.type(LOG2_E), queries[:, :count])
                exponentials(
                    queries, key[b, :seen, place], of_head(allowed, b, h), of_head(bias, b, h), first, count, causal,
                    slopes[h], sums[slot, :, :tile], scores[slot, 0, :seen, :tile],
                )  # fmt: skip
                if threshold > 0:
                    keys_of_rows = row_words[slot, :, :count]
                    row_keys(pair * time + first, step[0], seed, stream, keys_of_rows)
                    drop(scores[slot, 0, :, :count], seen, keys_of_rows, threshold, keep_scale)
                multiply_into(value[b, :seen, place].T, scores[slot, 0, :seen, :count], result, 0)
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
    before = min(first, out.shape[0])
    if before > 0:
        multiply_into(gradients[:before], queries.T, out[:before], adds)
    for low in range(0, queries.shape[1], block):
        key, end = min(first + low, out.shape[0]), min(first + low + block, out.shape[0])
        multiply_into(gradients[key:end, low:], queries[:, low:].T, out[key:end], adds)


def attention_gradient_kernel(
    query: FloatArray,
    key: FloatArray,
    value: FloatArray,
    gradient: FloatArray,
    allowed: BoolArray,
    bias: FloatArray,
    step: IntegerArray,
    of_query: FloatArray,
    of_key: FloatArray,
    of_value: FloatArray,
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
    """Fill the gradients of queries, keys and values from the cotangent `gradient`; the weights are recomputed.

    Unlike a kernel derived from `attention_kernel`, it records no weights, one for each query and key, and knows that
    the sum over the keys of a weight times its cotangent is that of a result times its own.

    A slot has pairs of a sequence and a head of the keys, whose gradient is a sum over the heads of queries that share
    it. Scratch memory as in `attention_kernel`, with second axes of 3 for `transposed`, 2 for `scores`, 3 for `sums`.
    """
    heads, shared, features, columns = query.shape[2], key.shape[2], query.shape[3], value.shape[3]
    time, keys, pairs, group = query.shape[1], key.shape[1], query.shape[0] * shared, heads // shared
    slots, tile, one = sums.shape[0], sums.shape[2], scale.dtype.type(1)
    # The scores of a column fit into the first cache. The sums over the queries of a tile are faster than of a column.
    block = COLUMN if has_few(features) else tile
    tiles: int = (time + tile - 1) // tile
    # The keys that any query sees.
    reached = min(time, keys) if causal or time == 0 else keys
    for slot in shared_turns(slots, 2 * pairs * group * time * keys // slots):
        for pair in range(pairs * slot // slots, pairs * (slot + 1) // slots):
            b, place = pair // shared, pair % shared
            clear(of_key[b, reached:, place])
            clear(of_value[b, reached:, place])
            # The last tile comes first: its queries see every key that any does, so it initializes the gradients.
            for turn in range(tiles * group):
                h: int = place * group + turn // tiles
                start = natural((tiles - 1 - turn % tiles) * tile)
                stop = min(start + tile, time)
                count = stop - start
                queries, cotangents = transposed[slot, 0, :features], transposed[slot, 1, :columns]
                query_gradients = transposed[slot, 2, :features, :count]
                transpose_into(query[b, start:stop, h], scale * scale.dtype.type(LOG2_E), queries[:, :count])
                transpose_into(gradient[b, start:stop, h], one, cotangents[:, :count])
                for first in range(start, stop, block):
                    last = min(first + block, stop)
                    seen, low, high = min(last, keys) if causal else keys, first - start, last - start
                    whole, length = low + block, last - first
                    seen_keys = key[b, :seen, place]
                    part, part_gradients = scores[slot, 0, :, low:whole], scores[slot, 1, :, low:whole]
                    exponentials(
                        queries[:, low:whole], seen_keys, of_head(allowed, b, h), of_head(bias, b, h), first, length,
                        causal, slopes[h], sums[slot, :, low:whole], part[:seen],
                    )  # fmt: skip
                    multiply(
                        value[b, :seen, place], cotangents[:, low:whole], first, causal, length, part_gradients[:seen]
                    )
                    keys_of_rows = row_words[slot, :, low:high]
                    if threshold > 0:
                        row_keys((b * heads + h) * time + first, step[0], seed, stream, keys_of_rows)
                        drop(part_gradients[:, :length], seen, keys_of_rows, threshold, keep_scale)
                    score_gradients(part[:seen], part_gradients[:seen], sums[slot, :, low:whole], first, length, causal)
                    if threshold > 0:
                        drop(part[:, :length], seen, keys_of_rows, threshold, keep_scale)
                    multiply_into(seen_keys.T, part_gradients[:seen, :length], query_gradients[:, low:high], 0)
                transpose_into(query_gradients, scale, of_query[b, start:stop, h])
                seen, adds = min(stop, keys) if causal else keys, 1 if turn > 0 else 0
                transpose_into(query[b, start:stop, h], scale, queries[:, :count])
                add_key_gradients(
                    scores[slot, 1, :seen, :count], queries[:, :count], start, block, causal, adds,
                    of_key[b, :seen, place],
                )  # fmt: skip
                add_key_gradients(
                    scores[slot, 0, :seen, :count], cotangents[:, :count], start, block, causal, adds,
                    of_value[b, :seen, place],
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
    batches, heads, time, keys = out.shape[0], out.shape[1], out.shape[2], out.shape[3]
    for b in range(batches):
        for h in range(heads):
            visible = of_head(allowed, b, h)
            row_keys((b * heads + h) * time, step[0], seed, stream, row_words)
            for i in range(time):
                in_row = i if visible.shape[0] > 1 else 0
                mask_row(row_words[0, i], row_words[1, i], threshold, keep_scale, words, factors)
                for j in range(keys):
                    sees = (j <= i or not causal) and (allowed.size == 0 or visible[in_row, j])
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

    `scores` is scratch memory: (heads of the queries for one of the keys, one more position than the cache holds).
    Heads that share keys and values read them together.
    """
    batches, shared, features = cache.shape[0], cache.shape[3], cache.shape[4]
    group = scores.shape[0]
    for b in range(batches):
        seen = filled(allowed[b])
        first = first_visible(seen, window)
        last = seen - first
        rows = scores[:, : last + 1]
        for place in range(shared):
            start = place * group
            queries, result = query[b, 0, start : start + group], out[b, 0, start : start + group]
            multiply_exactly(queries, cache[b, 0, first:seen, place].T, rows[:, :last], 0)
            for h in range(group):
                row = rows[h]
                for j in range(last):
                    row[j] = row[j] if allowed[b, first + j] else -np.inf
                row[last] = dot(queries[h], key[b, 0, place])
                softmax_row(row, scale)
                for f in range(features):
                    result[h, f] = row[last] * value[b, 0, place, f]
            multiply_exactly(rows[:, :last], cache[b, 1, first:seen, place], result, 1)


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
