"""Sampling of the next token from a model's logits."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, NotFinite, OptionError, ShapeError
from wyrm.graph.arrays import as_array
from wyrm.support.options import number, whole

# Rows longer than `_LONG` are sampled in two levels: a block of `_BLOCK` tokens, then a token in it.
_LONG, _BLOCK = 2048, 128


def sample_tokens(
    logits: np.ndarray,
    rng: np.random.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> NDArray[np.int64]:
    """Sample a token from each row of logits, (..., vocab_size); the result has the leading axes.

    Probabilities are `softmax(logits / temperature)`. A `temperature` of 0 takes the most likely token and draws
    nothing. `top_k`, at least 1, keeps the most likely tokens. `top_p`, above 0 and at most 1, then keeps the smallest
    set of most likely tokens whose probability reaches `top_p` (nucleus sampling; Holtzman et al., "The Curious Case of
    Neural Text Degeneration", 2020). Of equal logits the lower token counts as more likely. A logit of minus infinity
    is never sampled.

    Raise `ValueError` for an option out of range, `DTypeError` for logits that are not floats or an option that is not
    a number, `ShapeError` for logits without a last axis of at least one token, and `NotFinite` for a NaN, an infinity,
    or a row of minus infinities.

    >>> logits = np.array([[0.0, 3.0, 1.0], [2.0, -np.inf, 1.0]])
    >>> sample_tokens(logits, np.random.default_rng(0), temperature=0.0).tolist()
    [1, 0]
    >>> sample_tokens(logits, np.random.default_rng(0), top_k=1).tolist()
    [1, 0]
    """
    temperature, top_p = number("temperature", temperature, 0.0), _top_p(top_p)
    top_k = None if top_k is None else whole("top_k", top_k, 1)
    array, maxima = _logits(logits)
    rows = array.reshape(-1, array.shape[-1])
    if temperature == 0.0 or not len(rows):
        sampled = rows.argmax(axis=-1)
    else:
        # The maximum becomes 0 before the division, so that no temperature is too low.
        with np.errstate(over="ignore", under="ignore"):
            weights = np.subtract(rows, maxima.reshape(-1, 1), dtype=np.float64)
            if temperature != 1.0:
                weights /= temperature
            np.exp(weights, out=weights)
        if top_k is None and top_p is None:
            sampled = _sample(weights, rng)
        else:
            order = _most_likely(rows, top_k)
            descending = _nucleus(np.take_along_axis(weights, order, axis=-1), top_p)
            sampled = np.take_along_axis(order, _sample(descending, rng)[:, None], axis=-1)[:, 0]
    return np.asarray(sampled, np.int64).reshape(array.shape[:-1])


def _most_likely(rows: NDArray[np.float64], top_k: int | None) -> NDArray[np.intp]:
    """Return the indices of the `top_k` largest logits of each row, or of all, descending, ties by lower index.

    Logits decide, not weights: different logits may round to the same weight.
    """
    if top_k is None or top_k >= rows.shape[-1]:
        return np.argsort(-rows, axis=-1, kind="stable")
    thresholds = np.partition(rows, -top_k, axis=-1)[:, -top_k]
    result = np.empty((len(rows), top_k), np.intp)
    for i, row in enumerate(rows):
        candidates = np.flatnonzero(row >= thresholds[i])
        result[i] = candidates[np.argsort(-row[candidates], kind="stable")][:top_k]
    return result


def _nucleus(descending: NDArray[np.float64], top_p: float | None) -> NDArray[np.float64]:
    """Return rows of descending weights, zero after the smallest prefix with `top_p` of each row's sum."""
    if top_p is None or top_p == 1.0:  # a rounded sum may reach 1 early
        return descending
    sums = np.cumsum(descending, axis=-1)
    last = (sums / sums[:, -1:] >= top_p).argmax(axis=-1)
    return np.where(np.arange(descending.shape[-1]) <= last[:, None], descending, 0.0)


def _sample(weights: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.intp]:
    """Return an index of each row, drawn in proportion to its weights, some of which are positive.

    A long row is sampled in two levels: its cumulative sum would take longer than all else.
    """
    draws = rng.random(len(weights))
    if weights.shape[-1] <= _LONG:
        sums = np.cumsum(weights, axis=-1)
        # The first sum above the draw. An index of weight zero repeats the sum before it and is never the first.
        return np.asarray((sums > draws[:, None] * sums[:, -1:]).argmax(axis=-1))
    starts = np.arange(0, weights.shape[-1], _BLOCK)
    return np.array([_sample_in_blocks(row, starts, draw) for row, draw in zip(weights, draws.tolist(), strict=True)])


def _sample_in_blocks(weights: NDArray[np.float64], starts: NDArray[np.intp], draw: float) -> int:
    """Return the index of a row that a draw from [0, 1) selects, from the sums of blocks of `_BLOCK` weights."""
    sums = np.add.reduceat(weights, starts).cumsum()
    draw *= float(sums[-1])
    block = int(sums.searchsorted(draw, "right"))
    first = block * _BLOCK
    in_block = weights[first : first + _BLOCK].cumsum()
    rest = draw - float(sums[block - 1]) if block else draw
    # The sums are rounded, so the rest may reach the sum of the block.
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
    top_p = number("top_p", value)
    if not 0.0 < top_p <= 1.0:
        raise OptionError(f"top_p must be in (0, 1], not {top_p}")
    return top_p
