"""The progress bars of epochs."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any, Protocol


class Bar(Protocol):
    """A progress bar that counts rows."""

    def update(self, rows: int) -> object:
        """Advance by `rows`."""


class NoBar:
    """A bar that shows nothing."""

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, rows: int) -> None:
        pass


def bar(rows: int | None, shown: bool | Bar) -> AbstractContextManager[Bar]:
    """Return a bar for `rows` rows, the given bar, or one that shows nothing and costs nothing."""
    if not isinstance(shown, bool):
        return nullcontext(shown)
    return shown_bar()(total=rows, unit="row", miniters=1) if shown else NoBar()


@cache
def shown_bar() -> Any:
    """Return the class of visible bars, created on first use: importing tqdm takes as long as half of this library."""
    from tqdm import tqdm
    from tqdm.std import TqdmDefaultWriteLock  # type: ignore[attr-defined]  # its stubs leave it out

    class Shown(tqdm):  # type: ignore[type-arg]  # it goes through no iterable
        # tqdm's own lock is shared with forked processes; one that is killed while it holds the lock blocks all others.
        # This lock only synchronizes the threads of one process, across all bars.
        _lock = TqdmDefaultWriteLock.th_lock
        # Every chunk of steps updates the bar, so a monitor thread is not needed.
        monitor_interval = 0

    return Shown
