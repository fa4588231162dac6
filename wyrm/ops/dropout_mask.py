"""Which elements dropout keeps: a factor for each element of a row, 0 or a scale, by half a word each.

A row has a key of two words from Philox, by its number; its words are a hash of the key and the place, which costs a
tenth of Philox and can be vectorised. The hash is the one of least bias that Wellons found in "Prospecting for hash
functions" (2018), with the second word of the key put in between.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.node.base import label
from wyrm.ops.philox import WORD, philox, philox_block
from wyrm.types.typing import FloatArray, IntegerArray

# Of half a word: how many different ones there are.
HALVES = 65536


def drop_threshold(rate: float, different: int = HALVES) -> int:
    """An element is kept whose half of a word, or what else there are so many of, is this or more.

    The rate is at least 0 and below 1.
    """
    return min(round(rate * different), different - 1)


def check_rate(op: str, x: Any, rate: float) -> None:
    """`ValueError` for a rate of dropout outside of [0, 1)."""
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"{op} of {label(x)}: rate is at least 0 and below 1, not {rate}")


def hashed_word(place: Any, first: Any, second: Any) -> Any:
    """The word at a place of the row with these two words as its key; all are uint32."""
    word = np.uint32(place * np.uint32(0x9E3779B9) + first)
    word = np.uint32((word ^ (word >> np.uint32(16))) * np.uint32(0x21F0AAAD)) ^ second
    word = np.uint32((word ^ (word >> np.uint32(15))) * np.uint32(0x735A2D97))
    return np.uint32(word ^ (word >> np.uint32(15)))


def is_kept(place: Any, first: Any, second: Any, threshold: int) -> Any:
    """Whether the element at a place is kept, by its word and this key: those that are as large as `threshold`."""
    return hashed_word(np.uint32(place), first, second) >= np.uint32(threshold)


def row_keys(row: int, step: int, seed: int, stream: int, keys: IntegerArray) -> None:
    """The keys of rows from `row` on, into an array with the axes (2, rows)."""
    for i in range(keys.shape[1]):
        first, second, _, _ = philox_block(row + i, step, seed, stream)
        keys[0, i] = first
        keys[1, i] = second


def mask_row(
    first: np.uint32, second: np.uint32, threshold: int, scale: np.floating, words: IntegerArray, out: FloatArray
) -> None:
    """The factors of a row: 0, or `scale` where the element is kept.

    `out` is twice as long as `words`, which is scratch: the lower halves are for its first half, the upper ones for
    the rest.
    """
    count = words.size
    for j in range(count):
        words[j] = hashed_word(np.uint32(j), first, second)
    lower, upper = out[:count], out[count:]
    for j in range(count):
        lower[j] = scale if (words[j] & np.uint32(0xFFFF)) >= np.uint32(threshold) else scale * 0
    for j in range(count):
        upper[j] = scale if (words[j] >> np.uint32(16)) >= np.uint32(threshold) else scale * 0


def dropout_mask(rows: int, columns: int, threshold: int, step: int, seed: int, stream: int) -> NDArray[np.bool_]:
    """Whether each element is kept, of the axes (rows, columns): what `row_keys` and `mask_row` mean.

    >>> dropout_mask(2, 4, HALVES // 2, 0, 0, 0).shape
    (2, 4)
    """
    keys = philox(np.arange(rows, dtype=np.uint64), step, seed, stream)
    places = np.arange(-(-columns // 2), dtype=np.uint32)
    words = hashed_word(places, keys[:, 0, None], keys[:, 1, None])
    halves = np.concatenate([words & np.uint32(0xFFFF), words >> np.uint32(16)], axis=1)
    result: NDArray[np.bool_] = halves[:, :columns] >= threshold
    return result


__all__ = [
    "HALVES",
    "WORD",
    "check_rate",
    "drop_threshold",
    "dropout_mask",
    "hashed_word",
    "is_kept",
    "mask_row",
    "row_keys",
]
