"""The progress bars of epochs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from types import MappingProxyType
from typing import Any, Protocol

from wyrm.errors import DTypeError
from wyrm.support.notices import is_silent


class Bar(Protocol):
    """A progress bar that counts rows."""

    def update(self, rows: int) -> object:
        """Advance by `rows`."""


class LossBar(Protocol):
    """A progress bar of rows and their mean loss."""

    def add(self, rows: int, losses: float) -> object:
        """Advance by `rows`, whose losses have the sum `losses`."""


class NoBar:
    """A bar that shows nothing."""

    def add(self, rows: int, losses: float) -> None:
        pass


class _RowsOnly:
    """A bar that counts rows, without their losses."""

    def __init__(self, given: Bar) -> None:
        self._given = given

    def add(self, rows: int, losses: float) -> None:
        self._given.update(rows)


def checked_bar(shown: Any) -> bool | Bar | LossBar:
    """Return the option `progress` of an epoch; raise `DTypeError` unless it is a bool or a bar."""
    known: bool | Bar | LossBar = shown
    # A dict and a set have methods of these names, which take no rows.
    takes_rows = any(callable(getattr(shown, name, None)) for name in ("add", "update"))
    if isinstance(shown, bool) or (takes_rows and not isinstance(shown, type | dict | set)):
        return known
    raise DTypeError(f"progress must be True, False or a bar with a method update(rows), not {shown!r}")


def bar(rows: int | None, shown: bool | Bar | LossBar, process: int) -> AbstractContextManager[LossBar]:
    """Return a bar for `rows` rows, the given bar, or one that shows nothing and costs nothing.

    Of several processes that train together, the first one alone, `process` 0, shows a bar of its own.
    """
    if isinstance(shown, bool):
        return shown_bar()(total=rows) if shown and process == 0 else nullcontext(NoBar())
    return nullcontext(loss_bar(shown))


def loss_bar(given: Bar | LossBar) -> LossBar:
    """Return the bar as one that takes losses; a bar that cannot show them counts rows alone."""
    # Not `isinstance`, which takes ten microseconds for a protocol, in every epoch.
    known: Any = given
    return known if callable(getattr(given, "add", None)) else _RowsOnly(known)


@cache
def shown_bar() -> Any:
    """Return the class of visible bars, made on first use, because importing tqdm takes half as long as wyrm.

    Notebooks show a widget, or text where ipywidgets is not installed.
    """
    with warnings.catch_warnings():  # `autonotebook` is experimental, ipywidgets may be missing
        warnings.simplefilter("ignore")
        # `tqdm.auto` would be the same, but imports asyncio.
        from tqdm.autonotebook import tqdm
    from tqdm.std import TqdmDefaultWriteLock  # type: ignore[attr-defined]  # its stubs leave it out

    class Shown(tqdm):  # type: ignore[type-arg]  # it goes through no iterable
        # tqdm's own lock is shared with forked processes: if one is killed while it holds the lock, the others hang.
        # This one synchronizes only threads.
        _lock = TqdmDefaultWriteLock.th_lock
        # Every chunk of steps updates the bar, so a monitor thread is not needed.
        monitor_interval = 0
        # The values shown behind the bar; the rows and losses since `begin`; whether the clock of the rate runs.
        values: Mapping[str, str] = MappingProxyType({})
        rows, losses = 0, 0.0
        timed = False

        def __init__(self, **options: Any) -> None:
            # Without smoothing the rate is the mean since the clock was started, so that one slow step does not stay.
            super().__init__(**options, unit="row", miniters=1, smoothing=0.0, disable=is_silent())

        def begin(self, description: str) -> None:
            """Show the description of a new epoch, and start its mean loss."""
            self.rows, self.losses = 0, 0.0
            self.set_description(description, refresh=False)

        def add(self, rows: int, losses: float) -> None:
            """Advance by `rows`, and show the mean of the losses so far."""
            if self.disable:
                return
            self.rows += rows
            self.losses += losses
            self.set_postfix({**self.values, "loss": f"{self.losses / max(self.rows, 1):.4g}"}, refresh=False)
            if not self.timed and (self.total is None or self.n + rows < self.total):
                self._start_clock(self.n + rows)
            self.timed = True
            self.update(rows)

        def _start_clock(self, rows: float) -> None:
            """Count the time of the rows after the first `rows`: that of the first steps is the compiler's."""
            self.start_t = self.last_print_t = self._time()  # type: ignore[attr-defined]  # its stubs leave it out
            self.initial = rows
            self.last_print_t -= self.mininterval  # shown at once, without a rate

    return Shown
