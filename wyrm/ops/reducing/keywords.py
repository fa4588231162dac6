"""Errors for keywords that NumPy's functions take and nodes do not, with what to use instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import numpy as np


def check_keepdims(name: str, keepdims: object) -> bool:
    """Return `keepdims` as a bool; raise `TypeError` for other values, such as NumPy's `dtype` at the same position."""
    if not isinstance(keepdims, bool | np.bool_) and not (
        isinstance(keepdims, int | np.integer) and keepdims in (0, 1)
    ):
        raise TypeError(
            f"{name}: keepdims must be True or False, not {keepdims!r}; pass keywords by name, convert with .astype"
        )
    return bool(keepdims)


def refuse_keywords(name: str, given: Iterable[str], taken: Iterable[str]) -> NoReturn:
    """Raise `TypeError` for the keywords `given`; the message lists those that are `taken` and what to use instead."""
    from wyrm.support.foreign_names.calls import ANSWERS

    names = sorted(given)
    instead = [ANSWERS[keyword] for keyword in names if keyword in ANSWERS]
    raise TypeError(
        f"{name} takes {', '.join(taken) or 'no keywords'}, not {', '.join(names)}"
        + (f"; {'; '.join(instead)}" if instead else "")
    )
