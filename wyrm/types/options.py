"""Checks of numeric options."""

from __future__ import annotations

import math

import numpy as np

from wyrm.errors import DTypeError, OptionError


def number(name: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """Return `value` as a finite float, `low <= value < high`; raise `OptionError`, or `DTypeError` if it is no number.

    >>> number("rate", 2, 0.0)
    2.0
    >>> number("rate", float("nan"))
    Traceback (most recent call last):
    wyrm.errors.OptionError: rate is finite, not nan
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DTypeError(f"{name} is a number, not {value!r}")
    try:
        found = float(value)
    except OverflowError:  # a Python integer too large for a float
        found = math.inf
    if not low <= found < high or math.isinf(found):
        bounds = [f"at least {low:g}"] if low > -math.inf else ["finite"]
        bounds += [f"below {high:g}"] if high < math.inf else []
        raise OptionError(f"{name} is {' and '.join(bounds)}, not {value}")
    return found


def whole(name: str, value: object, low: int, of: str = "") -> int:
    """Return `value` as an int of at least `low`; raise `OptionError`, or `DTypeError` if it is no integer.

    >>> whole("threads", 2, 1)
    2
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise DTypeError(f"{name} is a whole number{of and f' of {of}'}, not {value!r}")
    if value < low:
        raise OptionError(f"{name} is at least {low}, not {value}")
    return int(value)
