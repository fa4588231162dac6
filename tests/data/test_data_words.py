"""Windows over words and n-grams of their characters, beside loops in plain Python and fastText's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wyrm import RaggedArray
from wyrm.data import ngram_buckets, skip_grams
from wyrm.errors import DataError, DTypeError, IndexOutOfRange, OptionError, ShapeError

LENGTHS = st.lists(st.integers(0, 9), min_size=1, max_size=6)


def pairs(*arguments: Any, **options: Any) -> list[tuple[int, int]]:
    centers, contexts = skip_grams(*arguments, **options)
    return list(zip(centers.tolist(), contexts.tolist(), strict=True))


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 12))
def test_pairs_are_those_of_a_loop_over_sentences(lengths: list[int], window: int) -> None:
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    tokens, expected = np.arange(offsets[-1]), []
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        for center in range(begin, end):
            near = range(max(begin, center - window), min(end, center + window + 1))
            expected += [(center, other) for other in near if other != center]
    assert pairs(RaggedArray(tokens, offsets), window, shrink=False) == expected


@settings(deadline=None)
@given(LENGTHS, st.integers(1, 6), st.integers(0, 9))
def test_a_shrunk_window_has_the_same_reach_on_both_sides(lengths: list[int], window: int, seed: int) -> None:
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    rows = RaggedArray(np.arange(offsets[-1]), offsets)
    found = pairs(rows, window, seed=seed)
    assert found == pairs(list(rows), window, seed=seed)
    for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        for center in range(begin, end):
            near = {other for one, other in found if one == center}
            assert any(
                near == set(range(max(begin, center - reach), min(end, center + reach + 1))) - {center}
                for reach in range(1, window + 1)
            )


def test_each_reach_is_as_likely() -> None:
    centers, contexts = skip_grams(np.arange(100_000), 4, seed=3)
    distances = np.bincount(np.abs(centers - contexts)) / 2e5
    np.testing.assert_allclose(distances[1:], [1.0, 0.75, 0.5, 0.25], atol=0.01)


def test_frequent_words_are_left_out_before_the_windows() -> None:
    # Of word 0, which is 0.9 of all tokens, the share sqrt(t / f) + t / f stays; every tenth word is rarer than t.
    tokens = np.where(np.arange(200_000) % 10 == 9, np.arange(200_000), 0)
    centers, contexts = skip_grams(tokens, 1, subsample=0.01, seed=5)
    share = np.sqrt(0.01 / 0.9) + 0.01 / 0.9
    stays = np.count_nonzero(centers == 0) / 2 / 180_000
    assert abs(stays - share) < 0.01
    rare = tokens[9::10]
    assert set(rare.tolist()) <= set(centers.tolist())  # all of them stay
    # Neighbours are those after the others have gone: here about one word in two follows a rare one at once.
    assert np.abs(centers - contexts)[(centers > 0) & (contexts > 0)].max() >= 10
    assert (skip_grams(tokens, 1, subsample=0.01, seed=6)[0][:1000] != centers[:1000]).any()


def test_no_pair_spans_two_sentences_of_which_words_are_left_out() -> None:
    random = np.random.default_rng(0)
    lengths = random.integers(0, 6, 5000)
    sentence = np.repeat(np.arange(5000), lengths)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    # Ids tell the sentence, and one word of every sentence is frequent.
    tokens = np.where(random.random(len(sentence)) < 0.5, 0, sentence + 1)
    centers, contexts = skip_grams(RaggedArray(tokens, offsets), 5, subsample=1e-3)
    both = (centers > 0) & (contexts > 0)
    assert both.any() and (centers == contexts)[both].all()


@pytest.mark.parametrize("dtype", ["u1", "i4", "i8"])
def test_pairs_have_the_dtype_of_the_tokens(dtype: str) -> None:
    centers, contexts = skip_grams(np.array([1, 2, 3], dtype), subsample=0.5)
    assert centers.dtype == contexts.dtype == dtype
    assert [len(each) for each in skip_grams(np.zeros(0, dtype))] == [0, 0]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"tokens": np.array([0.5])}, DTypeError, "tokens have dtype float64"),
        ({"tokens": np.ones((2, 2), int)}, ShapeError, r"tokens have shape \(2, 2\)"),
        ({"tokens": np.array([3, -1])}, IndexOutOfRange, "position 1 has the id -1"),
        ({"window": 0}, DataError, "window must be an integer of at least 1"),
        ({"seed": -1}, DataError, "seed must be an integer of at least 0"),
        ({"subsample": 0.0}, OptionError, "subsample must be above 0"),
        ({"subsample": True}, DTypeError, "subsample must be a number"),
        ({"shrink": 2}, DTypeError, "shrink"),
        ({"tokens": [np.array([1]), np.array([0.5])]}, DTypeError, "tokens have dtype float64"),
        ({"tokens": [np.ones((2, 2), int)]}, ShapeError, "tokens have shape"),
        ({"tokens": 3}, TypeError, "skip_grams takes rows of different lengths, not int"),
    ],
)
def test_bad_windows_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        skip_grams(**({"tokens": np.array([1, 2, 3])} | options))


# --- n-grams ----------------------------------------------------------------------------------------------------------


def looped(words: list[str], buckets: int, minn: int, maxn: int) -> list[list[int]]:
    """Return the buckets of each word as the source of fastText finds them, character by character."""
    found = []
    for word in words:
        marked, own = f"<{word}>", []
        for start in range(len(marked)):
            for length in range(minn, min(maxn, len(marked) - start) + 1):
                if length == 1 and (start == 0 or start == len(marked) - 1):
                    continue
                code = 2166136261
                for byte in marked[start : start + length].encode():
                    code = (code ^ (byte if byte < 128 else byte | 0xFFFFFF00)) * 16777619 % 2**32
                own.append(code % buckets)
        found.append(own)
    return found


@settings(deadline=None)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=9), max_size=5),
    st.integers(1, 3), st.integers(0, 4), st.sampled_from([1, 1000, 2**32]),
)  # fmt: skip
def test_buckets_are_those_of_a_loop_over_bytes(words: list[str], minn: int, more: int, buckets: int) -> None:
    found = ngram_buckets(words, buckets, minn=minn, maxn=minn + more)
    assert found.dtype == np.int64 and found.tolist() == looped(words, buckets, minn, minn + more)


def test_buckets_are_those_of_fasttext() -> None:
    # By `get_subwords` of fasttext 0.9.3, less the number of words.
    expected = {
        "sun": [608, 271, 419, 362, 541, 417, 277, 648, 802, 548, 553, 877],
        "größe": [988, 866, 807, 982, 756, 985, 915, 981, 124, 38, 137, 540, 774, 321, 149, 919, 950, 512, 744, 490],
        "日本語": [687, 587, 581, 749, 409, 559, 923, 417, 575, 355, 283, 255],
        "😀x": [818, 798, 744, 496, 120, 594, 695, 91],
    }
    assert ngram_buckets(list(expected), 1000, minn=1, maxn=4).tolist() == list(expected.values())


@pytest.mark.parametrize(
    ("words", "options", "error", "message"),
    [
        ("sun", {}, DTypeError, "words is one string, 'sun'; expected a list"),
        (["a", 3], {}, DTypeError, r"words\[1\] is 3; expected a string"),
        (["a", "b\ud800"], {}, DataError, r"words\[1\] .* lone surrogate"),
        (["a"], {"buckets": 0}, DataError, "buckets must be an integer of at least 1"),
        (["a"], {"buckets": 2**32 + 1}, DataError, r"buckets must be at most 2 \*\* 32"),
        (["a"], {"minn": 0}, DataError, "minn must be an integer of at least 1"),
        (["a"], {"minn": 4, "maxn": 3}, DataError, "maxn must be an integer of at least 4"),
    ],
)
def test_bad_ngrams_are_refused(words: Any, options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ngram_buckets(words, **options)
