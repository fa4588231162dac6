"""The sampling of tokens from logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, IndexOutOfRange, NotFinite, OptionError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.ops.random.philox import philox_block
from wyrm.support.options import number, whole

# Rows longer than `_LONG` are sampled in two levels: a block of `_BLOCK` tokens, then a token in it.
_LONG, _BLOCK = 2048, 128
# Rows of at most so many tokens are sorted whole, all at once, in less time than it takes to find the largest of each.
_SHORT = 128


def sample_tokens(
    logits: np.ndarray,
    rng: np.random.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    previous: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Sample a token from each row of logits, (..., vocab_size); the result has the leading axes.

    Probabilities are `softmax(logits / temperature)`. A `temperature` of 0 takes the most likely token and draws
    nothing. `top_k`, at least 1, keeps the most likely tokens. `top_p`, above 0 and at most 1, then keeps the smallest
    set of most likely tokens whose probability reaches `top_p` (nucleus sampling; Holtzman et al., "The Curious Case of
    Neural Text Degeneration", 2020). `min_p`, in [0, 1], then keeps the tokens that are at least `min_p` times as
    likely as the most likely one (Nguyen et al., "Turning up the heat", 2025). Of equal logits the lower token counts
    as more likely. A logit of minus infinity is never sampled.

    `repetition_penalty`, above 0, comes first: it divides the logits of tokens in `previous` that are above 0, and
    multiplies the others (Keskar et al., "CTRL", 2019). `previous`, (..., count), has earlier tokens for each row.

    Raise `ValueError` for an option out of range or a penalty without `previous`, `DTypeError` for logits that are not
    floats or an option that is not a number, `ShapeError` for logits without a last axis of at least one token or a
    `previous` of other leading axes, `IndexOutOfRange` for tokens in it that are none, and `NotFinite` for a NaN, an
    infinity, or a row of minus infinities.

    >>> logits = np.array([[0.0, 3.0, 1.0], [2.0, -np.inf, 1.0]])
    >>> sample_tokens(logits, np.random.default_rng(0), temperature=0.0).tolist()
    [1, 0]
    >>> sample_tokens(logits, np.random.default_rng(0), top_k=1).tolist()
    [1, 0]
    >>> previous = np.array([[1], [1]])
    >>> sample_tokens(logits, np.random.default_rng(0), 0.0, repetition_penalty=4.0, previous=previous).tolist()
    [2, 0]
    """
    options = SamplingOptions(temperature, top_k, top_p, min_p, repetition_penalty)
    return tokens_of(logits, options, rng.random, previous)


@dataclass(frozen=True)
class SamplingOptions:
    """How tokens are sampled: see `sample_tokens`, which says what it raises for options out of range."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    def __post_init__(self) -> None:
        checked = {
            "temperature": number("temperature", self.temperature, 0.0), "top_p": _top_p(self.top_p),
            "top_k": None if self.top_k is None else whole("top_k", self.top_k, 1),
            "min_p": None if self.min_p is None else _probability("min_p", self.min_p),
            "repetition_penalty": None if self.repetition_penalty is None else _penalty(self.repetition_penalty),
        }  # fmt: skip
        for name, value in checked.items():  # the options are frozen
            object.__setattr__(self, name, value)


def draws_at(seeds: NDArray[np.uint64], positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return a number from [0, 1) for each seed, of 32 bits, and position of a text.

    An exported decoder draws the same numbers.
    """
    first, second, _, _ = philox_block(positions, np.zeros(1), seeds, np.zeros(1))
    high: NDArray[np.float64] = (first >> np.uint32(5)).astype(np.float64)
    draws: NDArray[np.float64] = (high * 2.0**26 + (second >> np.uint32(6))) / 2.0**53
    return draws


def tokens_of(
    logits: object,
    options: SamplingOptions,
    draw: Callable[[int], NDArray[np.float64]],
    previous: object = None,
) -> NDArray[np.int64]:
    """Return the result of `sample_tokens`; `draw` gives numbers from [0, 1) for so many rows, if any are needed."""
    temperature, top_k, top_p, min_p = options.temperature, options.top_k, options.top_p, options.min_p
    array, maxima = _logits(logits)
    if options.repetition_penalty is not None:
        array = _penalized(array, options.repetition_penalty, previous)
        maxima = np.asarray(array.max(axis=-1))
    rows = array.reshape(-1, array.shape[-1])
    if temperature == 0.0 or not len(rows):
        sampled = rows.argmax(axis=-1)
    else:
        # The maximum becomes 0 before the division, so that no temperature is too low.
        order = None if top_k is None and top_p is None else _most_likely(rows, top_k)
        ranked = rows if order is None else np.take_along_axis(rows, order, axis=-1)
        with np.errstate(over="ignore", under="ignore"):
            weights = np.subtract(ranked, maxima.reshape(-1, 1), dtype=np.float64)
            if temperature != 1.0:
                weights /= temperature
            np.exp(weights, out=weights)
        if order is None:
            sampled = _sample(_likely(weights, min_p), draw(len(rows)))
        else:
            descending = _likely(_nucleus(weights, top_p), min_p)
            sampled = np.take_along_axis(order, _sample(descending, draw(len(rows)))[:, None], axis=-1)[:, 0]
    return np.asarray(sampled, np.int64).reshape(array.shape[:-1])


def _most_likely(rows: NDArray[np.float64], top_k: int | None) -> NDArray[np.intp]:
    """Return the indices of the `top_k` largest logits of each row, or of all: the largest first, of equals the lower.

    Logits decide, not weights: different logits may round to the same weight.
    """
    if top_k is None or top_k >= rows.shape[-1] or rows.shape[-1] <= _SHORT:
        return np.argsort(-rows, axis=-1, kind="stable")[:, :top_k]
    thresholds = np.partition(rows, -top_k, axis=-1)[:, -top_k]
    result = np.empty((len(rows), top_k), np.intp)
    for i, row in enumerate(rows):
        candidates = np.flatnonzero(row >= thresholds[i])
        result[i] = candidates[np.argsort(-row[candidates], kind="stable")][:top_k]
    return result


def _nucleus(descending: NDArray[np.float64], top_p: float | None) -> NDArray[np.float64]:
    """Keep the first weights of each row until they reach `top_p` of its sum, and set the others to zero."""
    if top_p is None or top_p == 1.0:  # a rounded sum may reach 1 early
        return descending
    sums = np.cumsum(descending, axis=-1)
    last = (sums / sums[:, -1:] >= top_p).argmax(axis=-1)
    return np.where(np.arange(descending.shape[-1]) <= last[:, None], descending, 0.0)


def _likely(weights: NDArray[np.float64], min_p: float | None) -> NDArray[np.float64]:
    """Set weights below `min_p` to zero; the largest of each row is 1."""
    return weights if min_p is None else np.where(weights < min_p, 0.0, weights)


def _penalty(value: object) -> float:
    factor = number("repetition_penalty", value)
    if factor <= 0.0:
        raise OptionError(f"repetition_penalty must be above 0, not {factor}")
    return factor


def _penalized(logits: np.ndarray, factor: float, previous: object) -> np.ndarray:
    """Return the logits with those of earlier tokens made less likely."""
    if previous is None:
        raise OptionError("repetition_penalty needs previous, the earlier tokens of each row")
    tokens = as_array(previous)
    if tokens.dtype.kind not in "iu":
        raise DTypeError(f"previous must hold the numbers of tokens, not {tokens.dtype}")
    if tokens.ndim != logits.ndim or tokens.shape[:-1] != logits.shape[:-1]:
        raise ShapeError(
            f"previous has the shape {tokens.shape}; for logits of {logits.shape} it must be {logits.shape[:-1]} with "
            f"an axis of tokens"
        )
    outside = tokens[(tokens < 0) | (tokens >= logits.shape[-1])]
    if outside.size:
        raise IndexOutOfRange(f"previous has the token {outside[0]}; it must be in 0..{logits.shape[-1] - 1}")
    result, scores = logits.copy(), np.take_along_axis(logits, tokens, axis=-1)
    np.put_along_axis(result, tokens, np.where(scores < 0, scores * factor, scores / factor), axis=-1)
    return result


def _sample(weights: NDArray[np.float64], draws: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the index of each row that its draw selects, with probabilities proportional to its weights.

    A long row is sampled in two levels: its cumulative sum would take longer than all else.
    """
    if weights.shape[-1] <= _LONG:
        sums = np.cumsum(weights, axis=-1)
        # The first sum above the draw. An index of weight zero repeats the sum before it and is never the first.
        return np.asarray((sums > draws[:, None] * sums[:, -1:]).argmax(axis=-1))
    starts = np.arange(0, weights.shape[-1], _BLOCK)
    return np.array([_sample_in_blocks(row, starts, draw) for row, draw in zip(weights, draws.tolist(), strict=True)])


def _sample_in_blocks(weights: NDArray[np.float64], starts: NDArray[np.intp], draw: float) -> int:
    """Return the index that a draw from [0, 1) selects: first the block of `_BLOCK` weights, then the index in it."""
    sums = np.add.reduceat(weights, starts).cumsum()
    draw *= float(sums[-1])
    block = int(sums.searchsorted(draw, "right"))
    first = block * _BLOCK
    in_block = weights[first : first + _BLOCK].cumsum()
    rest = draw - float(sums[block - 1]) if block else draw
    # By rounding, the rest may equal the sum of the block, or exceed it; the search would then leave the block.
    return first + int(in_block.searchsorted(min(rest, math.nextafter(in_block[-1], 0.0)), "right"))


def _logits(logits: object) -> tuple[np.ndarray, np.ndarray]:
    """Return the logits as an array and the maximum of each row; raise where they cannot be sampled."""
    array = as_array(logits)
    if array.dtype.kind != "f":
        raise DTypeError(f"logits have dtype {array.dtype}; expected floats")
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ShapeError(f"logits have shape {array.shape}; expected (..., vocab_size), at least one token")
    maxima = np.asarray(array.max(axis=-1))  # NaN in a row that holds one
    if not np.isfinite(maxima).all():
        wrong = np.isnan(array) | np.isposinf(array)
        if wrong.any():
            raise NotFinite(f"logits hold {array[wrong][0]} at {_first(wrong)}; expected numbers, or minus infinity")
        empty = np.asarray(np.isneginf(maxima))
        raise NotFinite(f"all logits of row {_first(empty)} are minus infinity, so there is no token to sample")
    return array, maxima


def _first(mask: NDArray[np.bool_]) -> tuple[int, ...]:
    """Return the index of the first true element."""
    return tuple(int(i) for i in np.argwhere(mask)[0])


def _top_p(value: object) -> float | None:
    if value is None:
        return None
    top_p = _probability("top_p", value)
    if top_p == 0.0:
        raise OptionError("top_p must be in (0, 1], not 0.0")
    return top_p


def _probability(name: str, value: object) -> float:
    """Return an option as a number from 0 to 1."""
    probability = number(name, value)
    if not 0.0 <= probability <= 1.0:
        raise OptionError(f"{name} must be in {'(' if name == 'top_p' else '['}0, 1], not {probability}")
    return probability
