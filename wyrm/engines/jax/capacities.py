"""How many entries of rows of different lengths the arrays of a step have room for, so that XLA compiles few steps."""

from __future__ import annotations

import math
from collections.abc import Sequence

# XLA compiles the functions of a program for each number of entries.
_MOST = 8


class Capacities:
    """The numbers of entries that arrays have room for: one for each ragged axis of a program, all powers of two.

    A step takes the smallest ones that were taken before and are large enough, unless fewer than eight are known. More
    are never kept: a step that is larger than all before it takes larger ones, in place of the smallest.

    >>> from wyrm.engines.jax.capacities import Capacities
    >>> capacities = Capacities()
    >>> [capacities.of([entries])[0] for entries in (5, 900, 6, 17)]
    [8, 1024, 8, 32]
    """

    def __init__(self) -> None:
        self._known: list[tuple[int, ...]] = []

    def of(self, entries: Sequence[int]) -> tuple[int, ...]:
        """Return the capacities for a step with so many entries along each axis; 0 along one without any."""
        wanted = tuple(1 << max(count - 1, 0).bit_length() for count in entries)
        if wanted not in self._known:
            enough = [each for each in self._known if all(x <= y for x, y in zip(wanted, each, strict=True))]
            if len(self._known) < _MOST:
                self._known.append(wanted)
            elif enough:
                wanted = min(enough, key=math.prod)
            else:
                wanted = tuple(map(max, zip(wanted, *self._known, strict=True)))
                self._known.remove(min(self._known, key=math.prod))
                self._known.append(wanted)
        return tuple(capacity if count else 0 for count, capacity in zip(entries, wanted, strict=True))
