"""Windows over words, and the n-grams of their characters, as columns to train on."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wyrm.data.checks import whole_number
from wyrm.data.text import checked_tokens
from wyrm.errors import DataError, DTypeError, OptionError
from wyrm.graph.ragged import RaggedArray, as_ragged, rows_of_lengths
from wyrm.support.options import flag, number

# The 32-bit hash FNV-1a: where it begins, and what each byte multiplies.
_FNV_START, _FNV_PRIME = np.uint32(2166136261), np.uint32(16777619)


def skip_grams(
    tokens: NDArray[np.integer] | RaggedArray | Sequence[NDArray[np.integer]],
    window: int = 5,
    *,
    subsample: float | None = None,
    shrink: bool = True,
    seed: int = 0,
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return the pairs of words near each other, as word2vec trains on them (Mikolov et al., 2013).

    `tokens` are ids of words: integers of shape (tokens,), or sentences, rows of any length as a `wy.RaggedArray` or a
    list of arrays, and then no pair spans two of them. Each token is the center of pairs with up to `window` tokens on
    either side; with `shrink`, with 1 to `window`, drawn for each center.

    `subsample` is the threshold `t`, usually 1e-3 to 1e-5: before the windows are laid, an occurrence of a word with
    the share `f` of all tokens stays with the probability `min(1, sqrt(t / f) + t / f)`, as in the authors' program;
    the paper leaves out the last term.

    The result is the centers and their contexts, of shape (pairs,) and the tokens' dtype, in the order of the centers.
    The same `seed` gives the same pairs. Another seed for each epoch draws anew.

    Raises:
        DTypeError: the tokens are not integers, or an option has another type.
        ShapeError: the tokens, or those of a sentence, do not have exactly one axis.
        DataError: `window` is below 1, or `seed` below 0.
        OptionError: `subsample` is not above 0.
        IndexOutOfRange: an id is negative.

    >>> centers, contexts = skip_grams([np.array([7, 8, 9]), np.array([5])], window=2, shrink=False)
    >>> list(zip(centers.tolist(), contexts.tolist()))
    [(7, 8), (7, 9), (8, 7), (8, 9), (9, 7), (9, 8)]
    """
    one = isinstance(tokens, np.ndarray) and tokens.dtype != np.object_
    rows = None if one else as_ragged(tokens, "skip_grams", integers=True)
    words = checked_tokens(tokens if rows is None else rows.values)
    window = whole_number("window", window, minimum=1)
    bounds = np.array([0, len(words)]) if rows is None else rows.offsets
    random = np.random.default_rng(whole_number("seed", seed, minimum=0))
    if subsample is not None:
        threshold = number("subsample", subsample, 0.0)
        if threshold == 0.0:
            raise OptionError("subsample must be above 0, or None to keep all tokens")
        _, ids, counts = np.unique(words, return_inverse=True, return_counts=True)
        ratio = threshold * len(words) / counts
        kept = random.random(len(words)) < (np.sqrt(ratio) + ratio)[ids]
        words, bounds = words[kept], np.concatenate(([0], np.cumsum(kept)))[bounds]
    lengths = np.diff(bounds)
    places = np.arange(len(words))
    reach = random.integers(1, window, len(words), endpoint=True) if flag("shrink", shrink) else window
    first = np.maximum(places - reach, np.repeat(bounds[:-1], lengths))
    counts = np.minimum(places + reach, np.repeat(bounds[1:], lengths) - 1) - first
    # Pair `k` of a center is its `k`-th neighbour: from `first` on, without the center itself.
    others = np.arange(counts.sum()) + np.repeat(first - np.cumsum(counts) + counts, counts)
    others += others >= np.repeat(places, counts)
    return np.repeat(words, counts), words[others]


def ngram_buckets(
    words: Sequence[str], buckets: int = 2_000_000, *, minn: int = 3, maxn: int = 6
) -> RaggedArray[NDArray[np.int64]]:
    """Return the hashed n-grams of the characters of words, as in fastText (Bojanowski et al., 2017).

    The n-grams of a word are the parts of `"<word>"` with `minn` to `maxn` characters, without the two that are `"<"`
    or `">"` alone. The bucket of one is the FNV-1a hash of 32 bits of its UTF-8 bytes, each as a signed number, modulo
    `buckets`: the numbers of fastText.

    The result has a row for each word: its buckets, from 0 to `buckets - 1`, by their first character, then their
    length. It is what a `wy.IndexInput` with a ragged axis takes.

    Raises:
        DTypeError: the words are one string, or an element is not a string, or an option is not a whole number.
        DataError: a word has a lone surrogate, which is no character, `buckets` or `minn` is below 1, `buckets` is
            above 2 ** 32, or `maxn` is below `minn`.

    >>> ngram_buckets(["sun", "a"], buckets=1000, minn=3, maxn=4).tolist()
    [[271, 419, 417, 277, 548], [600]]
    """
    buckets = whole_number("buckets", buckets, minimum=1)
    minn = whole_number("minn", minn, minimum=1)
    maxn = whole_number("maxn", maxn, minimum=minn)
    if buckets > 2**32:
        raise DataError(f"buckets must be at most 2 ** 32, the number of hashes, not {buckets}")
    if isinstance(words, str):
        raise DTypeError(f"words is one string, {words[:40]!r}; expected a list of words")
    codes = _characters(words)
    lengths = np.fromiter(map(len, words), np.int64, len(words)) + 2
    ends = np.cumsum(lengths)
    size, signed = _utf8(codes)
    places, count = np.arange(len(codes)), maxn - minn + 1
    first, end = np.repeat(ends - lengths, lengths), np.repeat(ends, lengths)
    hashes, inside = np.empty((len(codes), count), np.uint32), np.empty((len(codes), count), np.bool_)
    found = np.full(len(codes), _FNV_START)
    for length in range(1, maxn + 1):  # the hash of each n-gram goes on from that of the n-gram before
        last = np.minimum(places + length - 1, max(len(codes) - 1, 0))
        for byte, values in enumerate(signed):
            found = np.where(size[last] > byte, (found ^ values[last]) * _FNV_PRIME, found)
        if length >= minn:
            hashes[:, length - minn], inside[:, length - minn] = found, places + length <= end
    if minn == 1:
        inside[:, 0] &= (places > first) & (places < end - 1)
    before = np.concatenate(([0], np.cumsum(inside.sum(axis=1))))
    return rows_of_lengths(hashes[inside].astype(np.int64) % buckets, np.diff(before[np.concatenate(([0], ends))]))


def _characters(words: Sequence[str]) -> NDArray[np.uint32]:
    """Return the code points of the words one after the other, each between `"<"` and `">"`."""
    try:
        text = f"<{'><'.join(words)}>" if len(words) else ""
        return np.frombuffer(text.encode("utf-32-le"), np.uint32)
    except TypeError:
        at, word = next((at, word) for at, word in enumerate(words) if not isinstance(word, str))
        raise DTypeError(f"words[{at}] is {word!r}; expected a string") from None
    except UnicodeEncodeError:
        at, word = next((at, word) for at, word in enumerate(words) if re.search("[\ud800-\udfff]", word))
        raise DataError(f"words[{at}] is {word!r}, which has a lone surrogate, no character") from None


def _utf8(codes: NDArray[np.uint32]) -> tuple[NDArray[np.int64], list[NDArray[np.uint32]]]:
    """Return how many bytes each character has in UTF-8, and the first, second, ... bytes, as signed numbers."""
    size = np.searchsorted([0x80, 0x800, 0x10000], codes, side="right") + 1
    found = []
    for byte in range(int(size.max(initial=1))):
        bits = (codes >> (6 * np.maximum(size - 1 - byte, 0)).astype(np.uint32)).astype(np.uint32)
        mark = np.where(size == 1, 0, (0xF00 >> size) & 0xFF) if byte == 0 else 0x80
        value = (bits | mark) if byte == 0 else (bits & 0x3F | mark)
        found.append(value.astype(np.uint8).view(np.int8).astype(np.uint32))
    return size, found
