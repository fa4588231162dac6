"""The sampling of tokens, as eager calls, programs of all engines and exports compute it."""

from __future__ import annotations

import numpy as np

from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.elementwise.fast_math import float64_exp_negative
from wyrm.ops.kernels.sums import accumulated
from wyrm.ops.random.philox import philox_block

# The weights of so many tokens are added up at once; a draw selects a block, and then a token in it.
BLOCK = 128


def drawn(seed: int, position: int) -> float:
    """Return a number from [0, 1), a function of the seed, whose low 32 bits count, and of the position."""
    first, second, _, _ = philox_block(np.uint64(position), np.uint64(0), np.uint64(seed) & np.uint64(0xFFFFFFFF), 0)
    return (float(first >> np.uint32(5)) * 67108864.0 + float(second >> np.uint32(6))) / 9007199254740992.0


def draw_rows(seeds: IntegerArray, positions: IntegerArray, out: FloatArray) -> None:
    """Write the number of each seed and position."""
    for i in range(out.shape[0]):
        out[i] = drawn(int(seeds[i]), int(positions[i]))


def weight_of(score: float, largest: float, temperature: float) -> float:
    """Return the probability of a token, divided by that of the likeliest one."""
    difference = (score - largest) / temperature
    return float64_exp_negative(difference) if difference >= -708.0 else 0.0


def is_likelier(scores: FloatArray, one: int, other: int) -> bool:
    """Return whether a token comes before another one: of equal scores the lower token does."""
    return scores[one] > scores[other] or (scores[one] == scores[other] and one < other)


def sift(heap: IntegerArray, start: int, size: int, scores: FloatArray, likeliest: bool) -> None:
    """Move the token at `start` down to its place in a heap whose first token is the likeliest, or the least likely."""
    place = start
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and is_likelier(scores, int(heap[child + 1]), int(heap[child])) == likeliest:
            child += 1
        if is_likelier(scores, int(heap[child]), int(heap[place])) != likeliest:
            return
        token = heap[place]
        heap[place] = heap[child]
        heap[child] = token
        place = child


def make_heap(heap: IntegerArray, size: int, scores: FloatArray, likeliest: bool) -> None:
    """Order the first tokens as a heap."""
    for i in range(size // 2):
        sift(heap, size // 2 - 1 - i, size, scores, likeliest)


def pop(heap: IntegerArray, size: int, scores: FloatArray) -> int:
    """Move the likeliest token of a heap behind it, and return it."""
    token = heap[0]
    heap[0] = heap[size - 1]
    heap[size - 1] = token
    sift(heap, 0, size - 1, scores, True)
    return int(token)


def largest_score(
    logits: FloatArray, seen: IntegerArray, penalty: float, scores: FloatArray, lanes: FloatArray
) -> float:
    """Write the scores, which are the logits after the penalty; return the largest, NaN where there is none.

    The penalty divides the logits of tokens that were seen, and multiplies those below 0; 0 leaves them. The first
    `BLOCK` of `lanes` are scratch: as many maxima are found at once.
    """
    size, factor, wrong = logits.shape[0], logits.dtype.type(penalty), 0
    for j in range(min(BLOCK, size)):
        lanes[j] = -np.inf
    for start in range(0, size, BLOCK):
        for j in range(min(BLOCK, size - start)):
            score = logits[start + j]
            if penalty != 0.0:
                score = score if seen[start + j] == 0 else score * factor if score < 0 else score / factor
            scores[start + j] = score
            lanes[j] = lanes[j] if lanes[j] > score else score
            wrong += int(not score < np.inf)
    largest = -np.inf
    for j in range(min(BLOCK, size)):
        largest = max(largest, lanes[j])
    return np.nan if wrong > 0 or largest == -np.inf else largest


def sum_of_block(weights: FloatArray, start: int) -> float:
    """Return the sum of a block of weights."""
    total = 0.0
    for i in range(start, min(start + BLOCK, weights.shape[0])):
        total = accumulated(total, weights[i])
    return total


def sum_of_all(weights: FloatArray) -> float:
    """Return the sum of all weights."""
    total = 0.0
    for start in range(0, weights.shape[0], BLOCK):
        total += sum_of_block(weights, start)
    return total


def sampled_of_all(weights: FloatArray, min_p: float, draw: float) -> int:
    """Return the token that a draw selects of all whose weight is at least `min_p`."""
    for i in range(weights.shape[0]):
        weights[i] = weights[i] if weights[i] >= min_p else 0.0
    rest, last = draw * sum_of_all(weights), 0
    for start in range(0, weights.shape[0], BLOCK):
        part = sum_of_block(weights, start)
        if rest >= part:
            rest -= part
            continue
        for i in range(start, min(start + BLOCK, weights.shape[0])):
            rest -= weights[i]
            if weights[i] > 0.0:
                last = i
            if rest < 0.0:
                return i
    return last


def keep_likeliest(scores: FloatArray, count: int, heap: IntegerArray) -> None:
    """Write the `count` likeliest tokens to a heap whose first is the least likely of them."""
    for i in range(count):
        heap[i] = i
    make_heap(heap, count, scores, False)
    for start in range(count, scores.shape[0], BLOCK):
        end, least, likelier = min(start + BLOCK, scores.shape[0]), scores[heap[0]], 0
        for i in range(start, end):  # of most blocks, no token is kept: vectors of them are compared
            likelier += int(scores[i] > least)
        if likelier > 0:
            for i in range(start, end):
                if scores[i] > scores[heap[0]]:
                    heap[0] = i
                    sift(heap, 0, count, scores, False)


def keep_nucleus(weights: FloatArray, top_p: float, total: float, heap: IntegerArray) -> int:
    """Write the tokens that may be among the likeliest ones whose part of the `total` is `top_p`; return their number.

    The others are so unlikely that all of them together have less than the rest.
    """
    count, least = 0, 0.999 * (1.0 - top_p) * total / float(weights.shape[0])
    for i in range(weights.shape[0]):
        if weights[i] >= least:
            heap[count] = i
            count += 1
    return count


def sampled_token(
    logits: FloatArray, seen: IntegerArray, temperature: float, top_k: int, top_p: float, min_p: float, penalty: float,
    draw: float, scores: FloatArray, weights: FloatArray, heap: IntegerArray,
) -> int:  # fmt: skip
    """Return the token that a draw from [0, 1) selects, -1 if a logit is NaN or infinity, or all are minus infinity.

    The options are those of `wyrm.nn.sample_tokens`, and 0 leaves one out. `seen` says which tokens the penalty is for.
    The others are scratch for as many tokens as there are, `scores` of the dtype of the logits.
    """
    size = logits.shape[0]
    largest = float(largest_score(logits, seen, penalty, scores, weights))
    if largest != largest:
        return -1
    if temperature == 0.0:
        for i in range(size):
            if float(scores[i]) == largest:
                return i
    if top_k == 0:
        for i in range(size):
            weights[i] = weight_of(float(scores[i]), largest, temperature)
        if top_p == 0.0:
            return sampled_of_all(weights, min_p, draw)
    count, total = min(top_k, size), 0.0
    if top_k > 0:
        keep_likeliest(scores, count, heap)
        for i in range(count):
            weights[heap[i]] = weight_of(float(scores[heap[i]]), largest, temperature)
            total += weights[heap[i]]
    else:
        total = sum_of_all(weights)
        count = keep_nucleus(weights, top_p, total, heap)
    make_heap(heap, count, scores, True)
    kept, reached, ends = 0, 0.0, not 0.0 < top_p < 1.0
    popped = 0
    if ends:  # no token ends the set, so that not all of them need an order
        for i in range(count):
            weight = weights[heap[i]]
            kept += int(weight >= min_p)
            reached += weight if weight >= min_p else 0.0
    while popped < count and not ends:
        weight = weights[pop(heap, count - popped, scores)]
        popped += 1
        kept += int(weight >= min_p)
        reached += weight if weight >= min_p else 0.0
        ends = weight < min_p or reached / total >= top_p
    rest, token = draw * reached, 0
    for i in range(kept):
        if i == popped:
            pop(heap, count - popped, scores)
            popped += 1
        token = int(heap[count - 1 - i])
        rest -= weights[token]
        if rest < 0.0:
            return token
    return token


def sample_rows(
    logits: FloatArray, draws: FloatArray, seen: IntegerArray, temperature: float, top_k: int, top_p: float,
    min_p: float, penalty: float, out: IntegerArray, scores: FloatArray, weights: FloatArray, heap: IntegerArray,
) -> None:  # fmt: skip
    """Write the token of each row; without a penalty, `seen` has any one row."""
    for row in range(logits.shape[0]):
        out[row] = sampled_token(
            logits[row], seen[min(row, seen.shape[0] - 1)], temperature, top_k, top_p, min_p, penalty,
            float(draws[row]), scores, weights, heap,
        )  # fmt: skip


def sample_given(
    logits: FloatArray, draws: FloatArray, seen: IntegerArray, options: FloatArray, out: IntegerArray,
    scores: FloatArray, weights: FloatArray, heap: IntegerArray,
) -> None:  # fmt: skip
    """Write the token of each row, for options in an array: the arguments of all calls are the same arrays."""
    sample_rows(
        logits, draws, seen, options[0], int(options[1]), options[2], options[3], options[4], out, scores, weights, heap
    )  # fmt: skip
