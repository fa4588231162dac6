"""The bar that shows how far a pass over the data is."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol


class Bar(Protocol):
    """What a pass tells how many rows it has gone through."""

    def update(self, rows: int) -> object:
        """So many rows more."""


class NoBar:
    """No bar."""

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, rows: int) -> None:
        pass


def bar(rows: int, shown: bool) -> AbstractContextManager[Bar]:
    """A bar for so many rows, or one that is not shown and costs nothing."""
    return _shown()(total=rows, unit="row", miniters=1) if shown else NoBar()


@cache
def _shown() -> Any:
    """The class of bars that are shown.

    It is made when it is first asked for, for importing tqdm takes as long as half of this library.
    """
    from tqdm import tqdm
    from tqdm.std import TqdmDefaultWriteLock  # type: ignore[attr-defined]  # its stubs leave it out

    class Shown(tqdm):  # type: ignore[type-arg]  # it goes through no iterable
        # The lock that tqdm takes by itself is shared with processes that are forked, and one that is killed while it
        # holds it stops all others. This one keeps the threads of a process apart, those of other bars too.
        _lock = TqdmDefaultWriteLock.th_lock
        # Every chunk of steps updates the bar, so no thread need do so.
        monitor_interval = 0

    return Shown
