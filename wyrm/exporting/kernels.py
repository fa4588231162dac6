"""Kernels of exports: what Python does around the steps of an epoch."""

from __future__ import annotations

import numpy as np

from wyrm.ops.random.philox import philox_block


def epoch_seed(seed: int, epoch: int, pool: np.ndarray) -> int:
    """Return the seed of the shuffle of an epoch, at least 0 and below 2**63; `pool` is scratch of 8 words.

    It is the first 64-bit word of `np.random.SeedSequence([seed, epoch])`, modulo 2**63; both are at least 0.
    """
    low, count = np.uint64(0xFFFFFFFF), 0
    for number in range(2):
        value = np.uint64(seed) if number == 0 else np.uint64(epoch)
        pool[4 + count] = value & low
        count += 1
        if value >> np.uint64(32) > np.uint64(0):
            pool[4 + count] = value >> np.uint64(32)
            count += 1
    factor = np.uint64(0x43B0D7E5)
    for i in range(4):
        word = pool[4 + i] if i < count else np.uint64(0)
        word = word ^ factor
        factor = (factor * np.uint64(0x931E8875)) & low
        word = (word * factor) & low
        pool[i] = word ^ (word >> np.uint64(16))
    for source in range(4):
        for target in range(4):
            if source != target:
                word = pool[source] ^ factor
                factor = (factor * np.uint64(0x931E8875)) & low
                word = (word * factor) & low
                word = word ^ (word >> np.uint64(16))
                mixed = (np.uint64(0xCA01F9DD) * pool[target] - np.uint64(0x4973F715) * word) & low
                pool[target] = mixed ^ (mixed >> np.uint64(16))
    factor = np.uint64(0x8B51F9DD)
    result = np.uint64(0)
    for i in range(2):
        word = pool[i] ^ factor
        factor = (factor * np.uint64(0x58F38DED)) & low
        word = (word * factor) & low
        result = result | ((word ^ (word >> np.uint64(16))) << np.uint64(32 * i))
    return int(result & np.uint64(0x7FFFFFFFFFFFFFFF))


def count_outside(array: np.ndarray, low: int, high: int, ignored: int, ignores: int, used: np.ndarray) -> int:
    """Return how many integers are below `low`, or at least `high`, and not `ignored` if `ignores` is 1.

    `used` has a flag for each element of a row: whether it counts.
    """
    found, place, width = 0, 0, used.shape[0]
    for i in range(array.shape[0]):
        if used[place] and (array[i] < low or array[i] >= high) and (array[i] != ignored or ignores == 0):
            found += 1
        place += 1
        if place == width:
            place = 0
    return found


def are_offsets(offsets: np.ndarray, entries: int) -> bool:
    """Return whether integers begin at 0, never decrease, and end at the number of entries."""
    last = 0
    for i in range(offsets.shape[0]):
        if offsets[i] < last or (i == 0 and offsets[i] != 0):
            return False
        last = int(offsets[i])
    return last == entries


def most_entries(offsets: np.ndarray, order: np.ndarray, batch: int) -> int:
    """Return the number of entries that a batch has at most, of rows in this order; `offsets` are right."""
    most, found = 0, 0
    for i in range(order.shape[0]):
        if i % batch == 0:
            found = 0
        found += int(offsets[order[i] + 1] - offsets[order[i]])
        most = max(most, found)
    return most


def clear(array: np.ndarray) -> None:
    """Set all to 0."""
    for i in range(array.shape[0]):
        array[i] = 0


def put_words(words: np.ndarray, fixed: np.ndarray, bases: np.ndarray, first: int, second: int) -> None:
    """Write numbers, each plus the first address if its base is 1, or the second one if that is 2."""
    for i in range(words.shape[0]):
        words[i] = fixed[i] + (first if bases[i] == 1 else 0) + (second if bases[i] == 2 else 0)


def assign(source: np.ndarray, target: np.ndarray) -> None:
    """Copy an array of any strides to one of its shape."""
    target[...] = source


def forget_rows(sums: np.ndarray, count: np.ndarray) -> None:
    """Set the sums of the rows of a step that was not finished to zero."""
    for i in range(count[0]):
        for j in range(sums.shape[1]):
            sums[i, j] = 0


def forget_count(count: np.ndarray) -> None:
    """Forget the rows of a step that was not finished."""
    count[1] += count[0]
    count[0] = 0


def expand_float16(data: np.ndarray, out: np.ndarray) -> None:
    """Write the finite numbers whose bits as float16 are given."""
    for i in range(out.shape[0]):
        bits = int(data[i])
        exponent, fraction = (bits >> 10) & 31, bits & 1023
        scale = 2.0**-24
        if exponent > 0:
            fraction += 1024
            scale = np.float64(1 << (exponent - 1)) * 2.0**-24
        value = float(fraction) * scale
        out[i] = np.float32(-value if bits >> 15 else value)


def expand_int8(data: np.ndarray, scales: np.ndarray, out: np.ndarray) -> None:
    """Write rows of integers times the factor of their row."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.float32(data[i, j]) * scales[i]


def keep_positions(new: np.ndarray, cache: np.ndarray, first: int, count: int) -> None:
    """Write the keys or values of `count` positions, from `first` on, to a cache of (positions, width).

    `new`, (1, positions, heads, features), may have more positions, and any strides.
    """
    features = new.shape[3]
    for i in range(count):
        for head in range(new.shape[2]):
            for j in range(features):
                cache[first + i, head * features + j] = new[0, i, head, j]


def penalize(logits: np.ndarray, seen: np.ndarray, penalty: float) -> None:
    """Divide the logits of tokens that were seen by the penalty, and multiply those below 0; 0 leaves them."""
    if penalty == 0.0:
        return
    factor = logits.dtype.type(penalty)
    for i in range(logits.shape[0]):
        if seen[i] != 0:
            logits[i] = logits[i] * factor if logits[i] < 0 else logits[i] / factor


def is_likelier(logits: np.ndarray, one: int, other: int) -> bool:
    """Return whether a token comes before another one: of equal logits the lower token does."""
    return logits[one] > logits[other] or (logits[one] == logits[other] and one < other)


def sift(heap: np.ndarray, start: int, size: int, logits: np.ndarray) -> None:
    """Move the token at `start` down to its place in a heap whose first token is the likeliest."""
    place = start
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and is_likelier(logits, int(heap[child + 1]), int(heap[child])):
            child += 1
        if not is_likelier(logits, int(heap[child]), int(heap[place])):
            return
        token = heap[place]
        heap[place] = heap[child]
        heap[child] = token
        place = child


def pop(heap: np.ndarray, size: int, logits: np.ndarray) -> int:
    """Move the likeliest token of a heap behind it, and return it."""
    token = heap[0]
    heap[0] = heap[size - 1]
    heap[size - 1] = token
    sift(heap, 0, size - 1, logits)
    return int(token)


def drawn(seed: int, position: int) -> float:
    """Return a number from [0, 1), a function of the seed, whose low 32 bits count, and of the position."""
    first, second, _, _ = philox_block(np.uint64(position), np.uint64(0), np.uint64(seed) & np.uint64(0xFFFFFFFF), 0)
    return (float(first >> np.uint32(5)) * 67108864.0 + float(second >> np.uint32(6))) / 9007199254740992.0


def next_token(
    logits: np.ndarray, temperature: float, top_k: int, top_p: float, min_p: float, draw: float, heap: np.ndarray
) -> int:
    """Return the token that a draw from [0, 1) selects, -1 if a logit is not finite.

    Probabilities are `softmax(logits / temperature)`; at temperature 0 it is the most likely token. The options are
    those of `wyrm.nn.sample_tokens`, and 0 leaves one out. `heap` is scratch for as many tokens as there are.
    """
    best, size = 0, logits.shape[0]
    for i in range(size):
        if not np.isfinite(logits[i]):
            return -1
        if logits[i] > logits[best]:
            best = i
    if temperature == 0.0:
        return best
    largest, total = float(logits[best]), 0.0
    if top_k == 0 and top_p == 0.0:
        for i in range(size):
            weight = np.exp((float(logits[i]) - largest) / temperature)
            total += weight if weight >= min_p else 0.0
        rest = draw * total
        for i in range(size):
            weight = np.exp((float(logits[i]) - largest) / temperature)
            rest -= weight if weight >= min_p else 0.0
            if rest < 0.0:
                return i
        return best
    for i in range(size):
        heap[i] = i
    for i in range(size // 2):
        sift(heap, size // 2 - 1 - i, size, logits)
    count, popped = (min(top_k, size) if top_k > 0 else size), 0
    if count < size:
        while popped < count:
            token = pop(heap, size - popped, logits)
            total += np.exp((float(logits[token]) - largest) / temperature)
            popped += 1
    else:
        for i in range(size):
            total += np.exp((float(logits[i]) - largest) / temperature)
    kept, reached, ends = 0, 0.0, False
    while kept < count and not ends:
        if kept == popped:
            pop(heap, size - popped, logits)
            popped += 1
        weight = np.exp((float(logits[heap[size - 1 - kept]]) - largest) / temperature)
        if weight < min_p:
            ends = True
        else:
            reached += weight
            kept += 1
            ends = 0.0 < top_p < 1.0 and reached / total >= top_p
    rest = draw * reached
    for i in range(kept):
        token = int(heap[size - 1 - i])
        rest -= np.exp((float(logits[token]) - largest) / temperature)
        if rest < 0.0:
            return token
    return best
