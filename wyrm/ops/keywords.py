"""Keywords that NumPy's functions take and nodes do not: refused by name, with what to do instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

import numpy as np


def check_keepdims(name: str, keepdims: object) -> bool:
    """`keepdims` as a bool; `TypeError` for another thing, such as the dtype that NumPy has in its place."""
    if not isinstance(keepdims, bool | np.bool_ | int | np.integer):
        raise TypeError(
            f"{name}: keepdims is True or False, not {keepdims!r}; give keywords by name, and convert with .astype"
        )
    return bool(keepdims)


def refuse_keywords(name: str, given: Iterable[str], taken: Iterable[str]) -> NoReturn:
    """`TypeError` for keywords that NumPy takes and nodes do not, with those that they take."""
    from wyrm.foreign_names.calls import ANSWERS

    names = sorted(given)
    instead = [ANSWERS[keyword] for keyword in names if keyword in ANSWERS]
    raise TypeError(
        f"{name} takes {', '.join(taken) or 'no keywords'}, not {', '.join(names)}"
        + (f"; {'; '.join(instead)}" if instead else "")
    )
