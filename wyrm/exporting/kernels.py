"""Kernels of exports: what Python does around the steps of an epoch."""

from __future__ import annotations

import numpy as np


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
    """Write the keys and values of `count` positions, from `first` on, to a cache of (2, positions, width).

    `new`, (1, 2, positions, heads, features), may have more positions, and any strides.
    """
    features = new.shape[4]
    for part in range(2):
        for i in range(count):
            for head in range(new.shape[3]):
                for j in range(features):
                    cache[part, first + i, head * features + j] = new[0, part, i, head, j]
