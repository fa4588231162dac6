"""Alias tables: a draw by weight takes one random word and one look at a table, whatever the number of rows.

Walker, "An efficient method for generating discrete random variables with general distributions" (1977). The 2**32
words are divided among as many buckets as there are rows, evenly. The first words of a bucket draw its own row, the
others one other row, so that each row has as many words as its weight says. A table has a pair of integers for each
row: the first word of its bucket that draws the other row, less 2**31, and that row; or, for a row without weight, -1
less that row. Both are in the range of int32, because JAX has no wider integers by default.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.graph.typing import IntegerArray
from wyrm.ops.kernels.sums import natural

# The words that a generator draws, and what is subtracted from those in a table.
WORDS, HALF = 2**32, 2**31


def alias_table(weights: NDArray[Any]) -> NDArray[np.int64]:
    """Return the table, of shape (rows, 2), for finite weights of at least 0, some above 0, of less than 2**31 rows.

    A row has its share of the 2**32 words, rounded up or down. Buckets of rows with too few words are filled up, in
    ascending order, by rows with too many, in ascending order; what these then lack themselves, the next one fills up.

    >>> (alias_table(np.array([1.0, 0.0, 3.0])) + [2**31, 0]).tolist()
    [[1073741824, 2], [0, -3], [4294967295, 2]]
    """
    rows = len(weights)
    total = np.cumsum(weights / np.float64(weights.max()))  # the sum stays finite
    counts = np.diff(np.ceil(total / total[-1] * WORDS), prepend=0.0).astype(np.int64)
    bounds = -(-np.arange(rows + 1) * WORDS // rows)
    starts, room = bounds[:-1], np.diff(bounds)
    few, many = np.flatnonzero(counts < room), np.flatnonzero(counts > room)
    missing, excess = np.cumsum((room - counts)[few]), np.cumsum((counts - room)[many])
    kept, others = room.copy(), np.arange(rows)
    if many.size:
        kept[few] = counts[few]
        others[few] = many[np.searchsorted(excess, missing - (room - counts)[few], side="right")]
        given = missing[np.searchsorted(missing, excess)] - excess  # beyond the excess: the next row gives it back
        kept[many] -= given
        others[many[:-1]] = np.where(given[:-1] > 0, many[1:], many[:-1])
    limits = np.minimum(starts + kept, WORDS - 1) - HALF
    empty = weights == 0
    return np.stack([np.where(empty, -HALF, limits), np.where(empty, -1 - others, others)], axis=-1)


def row_of(word: np.integer, bucket: int, table: IntegerArray) -> int:
    """Return the row that a random word draws, whose bucket is that of row `bucket`."""
    other = int(table[natural(bucket), 1])
    return bucket if np.int64(word) - HALF < table[natural(bucket), 0] else other ^ (other >> 63)


def rows_of(words: NDArray[np.uint32], table: IntegerArray) -> NDArray[np.int64]:
    """Return the rows that random words draw: `row_of` for an array of words."""
    buckets = ((words.astype(np.uint64) * np.uint64(len(table))) >> np.uint64(32)).astype(np.int64)
    limits, others = table[buckets].T
    return np.where(words.astype(np.int64) - HALF < limits, buckets, others ^ (others >> 63))


def striped_table(table: IntegerArray, stripes: int) -> NDArray[np.int64]:
    """Return an alias table for each stripe, the groups of 16 rows whose number has the same remainder by `stripes`.

    Each pair stands in the place of its row. A stripe without weight has the table of equal weights.
    """
    rows = len(table)
    result: NDArray[np.int64] = np.empty((rows, 2), np.int64)
    bounds = -(-np.arange(rows + 1) * WORDS // rows)
    kept = np.where(table[:, 1] < 0, 0, table[:, 0] + HALF - bounds[:-1])
    others = table[:, 1] ^ (table[:, 1] >> 63)
    weights = kept + np.bincount(others, np.diff(bounds) - kept, rows)
    for stripe in range(stripes):
        members = np.flatnonzero(np.arange(rows) // 16 % stripes == stripe)
        if not members.size:
            continue
        own = weights[members]
        part = alias_table(own if own.any() else np.ones(members.size))
        part[:, 1] = np.where(part[:, 1] < 0, -1 - members[-1 - part[:, 1]], members[part[:, 1]])
        result[members] = part
    return result


__all__ = ["HALF", "WORDS", "alias_table", "row_of", "rows_of", "striped_table"]
