"""Checks of numeric options."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence

import numpy as np
from typing_extensions import TypeIs

from wyrm.errors import DTypeError, OptionError, WyrmError
from wyrm.support.texts import nearest

# A count of steps or epochs is below this, so that 64 bits hold it whatever is added.
MOST_STEPS = 2**62


def number(name: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """Return `value` as a finite float, `low <= value < high`; raise `OptionError`, or `DTypeError` if it is no number.

    >>> number("rate", 2, 0.0)
    2.0
    >>> number("rate", float("nan"))
    Traceback (most recent call last):
    wyrm.errors.OptionError: rate must be finite, not nan
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise DTypeError(f"{name} must be a number, not {value!r}")
    try:
        result = float(value)
    except OverflowError:  # a Python integer too large for a float
        result = math.inf
    if not low <= result < high or math.isinf(result):
        at_least = "finite" if low == -math.inf else f"finite and at least {low:g}"
        raise OptionError(f"{name} must be {at_least if high == math.inf else f'in [{low:g}, {high:g})'}, not {value}")
    return result


def integer(name: str, value: object) -> int:
    """Return `value` as Python's int; raise `DTypeError` if it is no integer; a bool is none.

    NumPy's integers and arrays of one number become Python's, because their arithmetic overflows, and compiled code
    would take them for other types.

    >>> integer("axis", np.int8(-1))
    -1
    """
    if isinstance(value, bool | np.bool_) or not hasattr(type(value), "__index__"):
        raise DTypeError(f"{name} must be an integer, not {value!r}")
    try:
        return operator.index(value)  # type: ignore[arg-type]  # it has `__index__`
    except TypeError:  # such as an array of several numbers
        raise DTypeError(f"{name} must be an integer, not {value!r}") from None


def is_integer(value: object) -> TypeIs[int]:
    """Whether `value` is one integer, and no sequence of several: Python's, NumPy's, or an array of one number.

    >>> is_integer(3), is_integer(np.array(3)), is_integer((3,))
    (True, True, False)
    """
    return isinstance(value, int | np.integer) or (
        isinstance(value, np.ndarray) and not value.ndim and value.dtype.kind in "iu"
    )


def whole(name: str, value: object, low: int, error: type[WyrmError] = OptionError) -> int:
    """Return `value` as Python's int of at least `low`; raise `error`, or `DTypeError` if it is no integer.

    >>> whole("threads", np.uint8(2), 1)
    2
    """
    try:
        result = integer(name, value)
    except DTypeError:
        raise DTypeError(f"{name} must be an integer of at least {low}, not {value!r}") from None
    if result < low:
        raise error(f"{name} must be an integer of at least {low}, not {result}")
    return result


def flag(name: str, value: object) -> bool:
    """Return `value` as a bool; raise `DTypeError` for anything else, such as None, which Python would take for False.

    >>> flag("shuffle", True)
    True
    """
    if not isinstance(value, bool | np.bool_):
        raise DTypeError(f"{name} must be True or False, not {value!r}")
    return bool(value)


def choice(
    name: str, value: object, choices: Iterable[str], error: type[WyrmError] = OptionError, more: str = ""
) -> str:
    """Return `value` if it is one of the words; else raise `error`, which names them and the most similar one.

    `more` tells what else is allowed.

    >>> choice("mode", "sum", ("sum", "mean"))
    'sum'
    >>> choice("mode", "maen", ("sum", "mean"))
    Traceback (most recent call last):
    wyrm.errors.OptionError: mode must be 'sum' or 'mean', not 'maen'; did you mean 'mean'?
    """
    words = list(choices)
    if isinstance(value, str) and value in words:
        return value
    shown = [*map(repr, words), *([more] if more else [])]
    allowed = " or ".join(part for part in (", ".join(shown[:-1]), shown[-1]) if part)
    raise error(f"{name} must be {allowed}, not {value!r}{nearest(value, words) if isinstance(value, str) else ''}")


def pair(name: str, values: object) -> tuple[float, float]:
    """Return two numbers in [0, 1), such as the betas of Adam; raise `TypeError` unless `values` are two numbers."""
    if not isinstance(values, Sequence) or len(values) != 2:
        raise TypeError(f"{name} must be two numbers, as in {name}=(0.9, 0.999), not {values!r}")
    return number(f"{name}[0]", values[0], 0.0, 1.0), number(f"{name}[1]", values[1], 0.0, 1.0)
