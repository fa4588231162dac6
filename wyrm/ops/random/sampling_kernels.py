"""The kernel that draws rows of a table, with weights and without excluded rows.

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

# A row is drawn again while it is excluded, at most so often; then the rows after it are tried, at most so many.
MAX_DRAWS, MAX_STEPS = 32, 2**16


def is_excluded(columns: IntegerArray, bits: IntegerArray, low: int, high: int, row: int, ascending: bool) -> bool:
    """Return whether `columns[low:high]` contain `row`; they are `ascending`, or few and in any order.

    If `bits` is not empty, it is read instead: the bits of the user begin at byte `low`, and bit `row` is set if the
    user excludes that row.
    """
    if low >= high:
        return False
    if bits.size > 0:
        return bool((int(bits[natural(low + (row >> 3))]) >> (row & 7)) & 1)
    if not ascending:
        found = 0
        for i in range(low, high):
            found += 1 if columns[i] == row else 0
        return found > 0
    length = high - low
    while length > 1:
        half = length >> 1
        low += half if columns[low + half] <= row else 0
        length -= half
    return bool(columns[low] == row)


def uniform_row(word: np.integer, size: int) -> int:
    """Map a random word to a row below `size`, uniformly."""
    return int((np.uint64(word) * np.uint64(size)) >> np.uint64(32))


def weighted_row(word: np.integer, cumulative: FloatArray, guide: IntegerArray) -> int:
    """Map a random word to a row, with the cumulative probabilities `cumulative`.

    Words whose first bits are b have rows from `guide[b]` to `guide[b + 1]`; all rows are searched if it is empty.
    """
    fraction = np.float64(word) * 2.0**-32
    low, length = 0, cumulative.size
    if guide.size > 0:
        part = int((np.uint64(word) * np.uint64(guide.size - 1)) >> np.uint64(32))
        low = int(guide[part])
        length = int(guide[part + 1]) - low
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
    guide: IntegerArray,
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
    row = weighted_row(word, cumulative, guide)
    if count == 1:
        return row
    draw = attempt
    while (row >> 4) % count != which:
        draw += MAX_DRAWS
        if draw >= 32 * count * MAX_DRAWS:
            return member_row(min((row >> 4) // count * 16 + (row & 15), members - 1), which, count)
        words = philox_block((i >> 2) + (draw << 32), step, seed, stream)
        row = weighted_row(words[i & 3], cumulative, guide)
    return row


def next_row(row: int, size: int, stripe: tuple[int, int, int]) -> int:
    """Return the row of the stripe after `row`, the first one after the last."""
    which, count, _ = stripe
    row += 1
    if count > 1 and (row >> 4) % count != which:
        row += 16 * (count - 1)
    return row if row < size else 16 * which


def is_without_weight(cumulative: FloatArray, row: int) -> bool:
    """Return whether a row has no probability; every row has one without `cumulative`."""
    if cumulative.size == 0:
        return False
    before = cumulative[row - 1] if row > 0 else 0.0
    return bool(cumulative[row] == before)


def sampling_kernel(
    step: IntegerArray,
    cumulative: FloatArray,
    guide: IntegerArray,
    offsets: Any,
    columns: IntegerArray,
    bits: IntegerArray,
    rows: IntegerArray,
    out: IntegerArray,
    size: int,
    seed: int,
    stream: int,
    words: IntegerArray,
    drawn: IntegerArray,
    stripes: IntegerArray,
) -> None:
    """Fill `out` with rows below `size`: uniformly if `cumulative` is empty, without rejection if `columns` is empty.

    `out` has the axes (users, draws). User u excludes the row `columns[u]` of a matrix, in any order, if `offsets` is
    empty; else those of row `rows[u]` in compressed format, distinct and in ascending order, or with `bits` those whose
    bit is set in row `rows[u]` of a matrix of bytes, the lowest bit of a byte first.

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
        if words.shape[1] == 1:
            for block in range(words.shape[0] >> 2):
                i = 4 * block
                words[i, 0], words[i + 1, 0], words[i + 2, 0], words[i + 3, 0] = philox_block(
                    block, step[0], seed, stream
                )
        for i in range(0, words.shape[0] if words.shape[1] > 1 else 0, 4):
            for ahead in range(words.shape[1]):
                words[i, ahead], words[i + 1, ahead], words[i + 2, ahead], words[i + 3, ahead] = philox_block(
                    i >> 2, step[0] + ahead, seed, stream
                )
        drawn[0], drawn[1] = step[0], words.shape[1]
    column = natural(step[0] - drawn[0])
    users, draws = out.shape
    if cumulative.size == 0 and columns.size == 0:
        for user in range(users):
            for draw in range(draws):
                out[user, draw] = member_row(uniform_row(words[user * draws + draw, column], members), which, count)
        return
    ascending = offsets.size > 0
    width = 0 if ascending or users == 0 else columns.size // users
    for user in range(users):
        low, high = user * width, (user + 1) * width
        if ascending and bits.size == 0:
            low, high = offsets[rows[user]], offsets[rows[user] + 1]
            if high - low >= size:  # who excludes all rows gets any
                high = low
        if bits.size > 0:
            low = rows[user] * ((size + 7) >> 3)
            high = low + 1
        for draw in range(draws):
            i = user * draws + draw
            row = row_in_stripe(words[i, column], i, 0, step[0], cumulative, guide, seed, stream, stripe)
            attempt, excluded = 1, is_excluded(columns, bits, low, high, row, ascending)
            while attempt < MAX_DRAWS and excluded:
                word = philox_block((i >> 2) + (attempt << 32), step[0], seed, stream)[i & 3]
                row = row_in_stripe(word, i, attempt, step[0], cumulative, guide, seed, stream, stripe)
                excluded = is_excluded(columns, bits, low, high, row, ascending)
                attempt += 1
            steps = 0
            while steps < min(size, MAX_STEPS) and excluded:
                row = next_row(row, size, stripe)
                excluded = is_excluded(columns, bits, low, high, row, ascending) or is_without_weight(cumulative, row)
                steps += 1
            out[user, draw] = row
