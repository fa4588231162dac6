"""The kernel that draws rows of a table, with weights and with rejection of known rows.

Threads draw from disjoint stripes of the table: row r belongs to stripe r // 16 % count.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.graph.typing import (
    FloatArray,
    IntegerArray,
)
from wyrm.ops.kernels.sums import natural
from wyrm.ops.random.philox import philox_block

# Draws until a row is not known; the last draw is accepted even if it is.
MAX_DRAWS = 8


def is_known(columns: IntegerArray, low: int, high: int, row: int) -> bool:
    """Return whether the ascending `columns[low:high]` contain `row`."""
    if low == high:
        return False
    length = high - low
    while length > 1:
        half = length >> 1
        low += half if columns[low + half] <= row else 0
        length -= half
    return bool(columns[low] == row)


def uniform_row(word: np.integer, size: int) -> int:
    """Map a random word to a row below `size`, uniformly."""
    return int((np.uint64(word) * np.uint64(size)) >> np.uint64(32))


def weighted_row(word: np.integer, cumulative: FloatArray) -> int:
    """Map a random word to a row, with the cumulative probabilities `cumulative`."""
    fraction = np.float64(word) * 2.0**-32
    low, length = 0, cumulative.size
    while length > 0:
        half = (length + 1) >> 1
        low += half if cumulative[low + half - 1] <= fraction else 0
        length -= half
    return low


def member_row(member: int, which: int, count: int) -> int:
    """Return row number `member` of stripe `which` of `count`."""
    return (((member >> 4) * count + which) << 4) + (member & 15)


def row_in_stripe(
    word: np.integer,
    i: int,
    attempt: int,
    step: int,
    cumulative: FloatArray,
    seed: int,
    stream: int,
    stripe: tuple[int, int, int],
) -> int:
    """Map a random word to a row of the stripe (which, count, number of rows).

    Weighted rows outside of the stripe are drawn again, up to `32 * count` times; then a row of the stripe near the
    last one is the result.
    """
    which, count, members = stripe
    if cumulative.size == 0:
        return member_row(uniform_row(word, members), which, count)
    row = weighted_row(word, cumulative)
    if count == 1:
        return row
    draw = attempt
    while (row >> 4) % count != which:
        draw += MAX_DRAWS
        if draw >= 32 * count * MAX_DRAWS:
            return member_row(min((row >> 4) // count * 16 + (row & 15), members - 1), which, count)
        words = philox_block((i >> 2) + (draw << 32), step, seed, stream)
        row = weighted_row(words[i & 3], cumulative)
    return row


def sampling_kernel(
    step: IntegerArray,
    cumulative: FloatArray,
    offsets: Any,
    columns: IntegerArray,
    rows: IntegerArray,
    out: IntegerArray,
    size: int,
    seed: int,
    stream: int,
    words: IntegerArray,
    drawn: IntegerArray,
    stripes: IntegerArray,
) -> None:
    """Fill `out` with rows below `size`: uniformly if `cumulative` is empty, without rejection if `offsets` is empty.

    The first words of several steps are generated at once, in vectors: `words`, of shape (draws, steps), holds those of
    `drawn[1]` steps from step `drawn[0]` on. `stripes` is (which, count): rows come from that stripe, or from the whole
    table if the stripe is empty.
    """
    which, count, members = stripes[0], stripes[1], size
    if count > 1:
        whole = size // (16 * count)
        members = 16 * whole + max(0, min(16, size - 16 * (whole * count + which)))
        if members == 0:
            which, count, members = 0, 1, size
    stripe = (which, count, members)
    if step[0] < drawn[0] or step[0] >= drawn[0] + drawn[1]:
        for i in range(0, words.shape[0], 4):
            for ahead in range(words.shape[1]):
                words[i, ahead], words[i + 1, ahead], words[i + 2, ahead], words[i + 3, ahead] = philox_block(
                    i >> 2, step[0] + ahead, seed, stream
                )
        drawn[0], drawn[1] = step[0], words.shape[1]
    column = natural(step[0] - drawn[0])
    if cumulative.size == 0 and offsets.size == 0:
        for i in range(out.size):
            out[i] = member_row(uniform_row(words[i, column], members), which, count)
        return
    for i in range(out.size):
        row = row_in_stripe(words[i, column], i, 0, step[0], cumulative, seed, stream, stripe)
        if offsets.size > 0:
            low, high = offsets[rows[i]], offsets[rows[i] + 1]
            attempt = 1
            while attempt < MAX_DRAWS and is_known(columns, low, high, row):
                word = philox_block((i >> 2) + (attempt << 32), step[0], seed, stream)[i & 3]
                row = row_in_stripe(word, i, attempt, step[0], cumulative, seed, stream, stripe)
                attempt += 1
        out[i] = row
