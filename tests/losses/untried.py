"""Losses that no table of a test lists: they are tried on as many operands of the same axes as they take."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from wyrm import losses


def untried(tried: Iterable[str]) -> dict[str, int]:
    """Return the number of operands of each loss that has no entry of its own, `name` or `name-case`.

    Raise `AssertionError` for one that needs an entry, since it has an option without a default.
    """
    own = {name.partition("-")[0] for name in tried}
    return {name: _operands(name) for name in losses.__all__ if name not in own}


def _operands(name: str) -> int:
    parameters = inspect.signature(getattr(losses, name)).parameters.values()
    needed = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    assert not needed, f"{name} has options without a default, {', '.join(needed)}: give it an entry in this table"
    return sum(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters)
