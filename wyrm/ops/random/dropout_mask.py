"""Dropout masks: each element is kept or dropped by half of a 32-bit random word.

Philox gives each row a key of two words. The words of the row are a hash of the key and the position, which costs a
tenth of Philox and vectorizes. The hash is the one of lowest bias in Wellons, "Prospecting for hash functions" (2018),
with the second word of the key mixed in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.graph.base import label
from wyrm.graph.typing import FloatArray, IntegerArray
from wyrm.ops.random.philox import WORD, philox, philox_block

# The number of values that half of a 32-bit word takes.
HALVES = 65536


def drop_threshold(rate: float, count: int = HALVES) -> int:
    """Return the smallest random value below `count` for which an element is kept; `rate` lies in [0, 1)."""
    return min(round(rate * count), count - 1)


def kept_factor(rate: float) -> float:
    """Return the factor of kept elements where halves of words decide: the inverse of the share that is kept.

    That share is `1 - rate`, rounded to a multiple of 2**-16 above 0. A rate too small to drop anything has factor 1.

    >>> kept_factor(0.5), kept_factor(1e-7)
    (2.0, 1.0)
    """
    return HALVES / (HALVES - drop_threshold(rate))


def check_rate(op: str, x: Any, rate: float, name: str = "rate") -> None:
    """Raise `ValueError` for a dropout rate outside of [0, 1); `name` is the name of the argument."""
    if not 0.0 <= rate < 1.0:
        raise ValueError(f"{op} of {label(x)}: {name} must be in [0, 1), not {rate}")


def hashed_word(position: Any, first: Any, second: Any) -> Any:
    """Return the random word at a position of the row whose key is (first, second); all are uint32."""
    word = position * np.uint32(0x9E3779B9) + first
    word = (word ^ (word >> np.uint32(16))) * np.uint32(0x21F0AAAD) ^ second
    word = (word ^ (word >> np.uint32(15))) * np.uint32(0x735A2D97)
    return word ^ (word >> np.uint32(15))


def is_kept(position: Any, first: Any, second: Any, threshold: int) -> Any:
    """Return whether the element at a position is kept: whether its random word is at least `threshold`."""
    return hashed_word(np.uint32(position), first, second) >= np.uint32(threshold)


def row_keys(row: int, step: int, seed: int, stream: int, keys: IntegerArray) -> None:
    """Write the keys of the rows from `row` on into `keys`, of shape (2, rows)."""
    for i in range(keys.shape[1]):
        first, second, _, _ = philox_block(row + i, step, seed, stream)
        keys[0, i] = first
        keys[1, i] = second


def mask_row(
    first: np.uint32, second: np.uint32, threshold: int, scale: np.floating, words: IntegerArray, out: FloatArray
) -> None:
    """Write the factors of a row into `out`: `scale` where the element is kept, else 0.

    `words` is scratch memory, half as long as `out`. The lower halves of its words decide over the first half of `out`,
    the upper halves over the second.
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
    """Return whether each element is kept, of shape (rows, columns): `row_keys` and `mask_row` in NumPy.

    >>> dropout_mask(2, 4, HALVES // 2, 0, 0, 0).shape
    (2, 4)
    """
    keys = philox(np.arange(rows, dtype=np.uint64), step, seed, stream)
    positions = np.arange(-(-columns // 2), dtype=np.uint32)
    words = hashed_word(positions, keys[:, 0, None], keys[:, 1, None])
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
    "kept_factor",
    "mask_row",
    "row_keys",
]
