"""Keys that distinguish values that `==` does not: 0.0 and -0.0, and 1, 1.0 and True."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np


def exact(value: object) -> Hashable:
    """Return a key that is equal for values of the same type and bits, in tuples too; any NaN equals itself.

    >>> exact(0.0) == exact(-0.0), exact(1) == exact(True), exact((1, 2.0)) == exact((1, 2.0))
    (False, False, True)
    """
    kind = type(value)
    if kind is int or kind is str or value is None:
        return value
    if isinstance(value, tuple):
        return kind, tuple(map(exact, value))
    if isinstance(value, float):  # `np.float64` too
        return kind, float.hex(value)
    if isinstance(value, bool | np.generic):
        return kind, value.tobytes() if isinstance(value, np.generic) else int(value)
    return value  # if unhashable, the dict that looks it up raises
