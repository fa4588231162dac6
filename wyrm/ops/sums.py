"""The addition that a kernel writes where the terms of a sum may be added up in any order."""

from __future__ import annotations

from typing import Any


def accumulated(total: Any, term: Any) -> Any:
    """`total + term`, of the type of `total`, in a loop that adds up terms.

    Compiled code keeps the order of all arithmetic as it is written, so a loop whose `total += x[j]` waits for one
    addition after another. With `total = accumulated(total, x[j])` a compiler may add up several parts of the sum at
    once; nothing else is reordered.
    """
    return total + term
