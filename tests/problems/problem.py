"""The type of a problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Problem(NamedTuple):
    """A scalar function of `xp` and arrays, and its arguments."""

    function: Callable[..., Any]
    arrays: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__
