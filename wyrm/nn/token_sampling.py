"""The choice of the next token from a model's logits."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from wyrm.errors import DTypeError, NotFinite, ShapeError
from wyrm.types.arrays import as_array

# Of rows of more places than `_LONG`, so many weights are summed at once.
_LONG, _PART = 2048, 128


def choose(
    logits: np.ndarray,
    random: np.random.Generator,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> NDArray[np.int64]:
    """Draw a token for each row of logits, (..., vocabulary): the result has the shape of the axes before the last.

    A token has the probability `softmax(logits / temperature)`. A `temperature` of 0 or more: towards 0 the likeliest
    prevails, and 0 is that token itself, nothing being drawn. `top_k`, 1 or more, leaves only so many likeliest tokens.
    `top_p`, above 0 and at most 1, leaves of those the smallest set whose probability among them reaches `top_p`, the
    token that crosses it included. Of equal logits the lower id counts as the likelier. A logit of minus infinity is
    never chosen. Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020).

    Raises `ValueError` for options out of their range, `DTypeError` for logits that are no floats or options that are
    no numbers, `ShapeError` for logits without a last axis or with none in it, and `NotFinite` for a NaN, an infinity,
    or a row that is minus infinity throughout.

    >>> logits = np.array([[0.0, 3.0, 1.0], [2.0, -np.inf, 1.0]])
    >>> choose(logits, np.random.default_rng(0), temperature=0.0).tolist()
    [1, 0]
    >>> choose(logits, np.random.default_rng(0), top_k=1).tolist()
    [1, 0]
    """
    heat, count, mass = _temperature(temperature), _top_k(top_k), _top_p(top_p)
    given, tops = _logits(logits)
    rows = given.reshape(-1, given.shape[-1])
    if heat == 0.0 or not len(rows):
        chosen = rows.argmax(axis=-1)
    else:
        # The greatest is zero before it is divided, so that no temperature is too low.
        with np.errstate(over="ignore", under="ignore"):
            weights = np.subtract(rows, tops.reshape(-1, 1), dtype=np.float64)
            if heat != 1.0:
                weights /= heat
            np.exp(weights, out=weights)
        if count is None and mass is None:
            chosen = _by_weight(weights, random)
        else:
            order = _likeliest(rows, count)
            falling = _nucleus(np.take_along_axis(weights, order, axis=-1), mass)
            chosen = np.take_along_axis(order, _by_weight(falling, random)[:, None], axis=-1)[:, 0]
    return np.asarray(chosen, np.int64).reshape(given.shape[:-1])


def _likeliest(rows: NDArray[np.float64], count: int | None) -> NDArray[np.intp]:
    """The places of the `count` greatest of each row, or of all, falling; of equal ones the lower place first.

    By logits, for weights that differ may be rounded to the same number.
    """
    if count is None or count >= rows.shape[-1]:
        return np.argsort(-rows, axis=-1, kind="stable")
    least = np.partition(rows, -count, axis=-1)[:, -count]
    found = np.empty((len(rows), count), np.intp)
    for i, row in enumerate(rows):
        places = np.flatnonzero(row >= least[i])
        found[i] = places[np.argsort(-row[places], kind="stable")][:count]
    return found


def _nucleus(falling: NDArray[np.float64], mass: float | None) -> NDArray[np.float64]:
    """Rows of falling weights, with zeros after the smallest set that holds `mass` of each."""
    if mass is None or mass == 1.0:  # which a sum may reach early, by rounding
        return falling
    sums = np.cumsum(falling, axis=-1)
    # Up to and with the first that reaches it.
    last = (sums / sums[:, -1:] >= mass).argmax(axis=-1)
    return np.where(np.arange(falling.shape[-1]) <= last[:, None], falling, 0.0)


def _by_weight(weights: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.intp]:
    """For each row a place drawn in proportion to the weights, some of which are above zero.

    Of a long row first a part is drawn, then a place in it: the sum up to each place would take longer than all else.
    """
    draws = random.random(len(weights))
    if weights.shape[-1] <= _LONG:
        sums = np.cumsum(weights, axis=-1)
        # The first sum above the draw; a place of weight zero has the sum of the one before it and is never the first.
        return np.asarray((sums > draws[:, None] * sums[:, -1:]).argmax(axis=-1))
    starts = np.arange(0, weights.shape[-1], _PART)
    return np.array([_in_parts(row, starts, draw) for row, draw in zip(weights, draws.tolist(), strict=True)])


def _in_parts(weights: NDArray[np.float64], starts: NDArray[np.intp], draw: float) -> int:
    """The place of a row that a draw from 0 to 1 falls on, by the sums of parts of `_PART` places."""
    sums = np.add.reduceat(weights, starts).cumsum()
    draw *= float(sums[-1])
    part = int(sums.searchsorted(draw, "right"))
    first = part * _PART
    inside = weights[first : first + _PART].cumsum()
    rest = draw - float(sums[part - 1]) if part else draw
    # Sums are rounded, so that the rest may be more than there is.
    return first + int(inside.searchsorted(min(rest, math.nextafter(inside[-1], 0.0)), "right"))


def _logits(logits: object) -> tuple[np.ndarray, np.ndarray]:
    """The logits as an array, and the greatest of each row."""
    given = as_array(logits)
    if given.dtype.kind != "f":
        raise DTypeError(f"logits have dtype {given.dtype}; expected floats")
    if given.ndim == 0 or given.shape[-1] == 0:
        raise ShapeError(f"logits have shape {given.shape}; expected (..., vocabulary), at least one token")
    tops = np.asarray(given.max(axis=-1))  # a NaN, where there is one
    if not np.isfinite(tops).all():
        wrong = np.isnan(given) | np.isposinf(given)
        if wrong.any():
            raise NotFinite(f"logits hold {given[wrong][0]} at {_place(wrong)}; expected numbers, or minus infinity")
        nothing = np.asarray(np.isneginf(tops))
        raise NotFinite(f"all logits of row {_place(nothing)} are minus infinity, so there is no token to choose")
    return given, tops


def _place(mask: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DTypeError(f"{name} is a number, not {value!r}")
    return float(value)


def _temperature(value: object) -> float:
    temperature = _number("temperature", value)
    if not 0.0 <= temperature < float("inf"):
        raise ValueError(f"temperature is at least 0 and finite, not {temperature}")
    return temperature


def _top_k(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise DTypeError(f"top_k is a whole number or None, not {value!r}")
    if value < 1:
        raise ValueError(f"top_k is at least 1, not {value}")
    return int(value)


def _top_p(value: object) -> float | None:
    if value is None:
        return None
    top_p = _number("top_p", value)
    if not 0.0 < top_p <= 1.0:
        raise ValueError(f"top_p is above 0 and at most 1, not {top_p}")
    return top_p
