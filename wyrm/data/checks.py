"""Validation of options: counts, seeds and fractions."""

from __future__ import annotations

import numpy as np

from wyrm.errors import DataError, DTypeError
from wyrm.support.options import whole


def whole_number(name: str, value: object, minimum: int) -> int:
    """Return `value` as an int of at least `minimum`; raise `DataError`, or `DTypeError` for a float or a bool."""
    return whole(name, value, minimum, DataError)


def fraction(name: str, value: object) -> float:
    """Return `value` as a float strictly between 0 and 1, or raise."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DTypeError(f"{name} must be a number in (0, 1), not {value!r}")
    if not 0.0 < value < 1.0:
        raise DataError(f"{name} must be in (0, 1), such as 0.2 for one part in five, not {value}")
    return float(value)


def part_size(name: str, value: object, count: int, what: str, remedy: str) -> int:
    """Return the size of the part named by an option such as `test_fraction`; raise if either part would be empty."""
    share, part = fraction(name, value), name.removesuffix("_fraction")
    size = round(share * count)
    if not 0 < size < count:
        side = part if size == 0 else "training"
        raise DataError(f"{name}={share} of {count} {what} leaves none for the {side} part; {remedy}.")
    return size
