"""What a problem is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Problem(NamedTuple):
    """A scalar function of `xp` and arrays, and the arrays."""

    function: Callable[..., Any]
    arrays: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__
