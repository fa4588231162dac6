"""Deferred signals: Ctrl-C interrupts between two steps, never inside one.

Python runs signal handlers in the main thread, between any two of its instructions. A handler that raises, such as that
of Ctrl-C, would leave state half changed.
"""

from __future__ import annotations

# The module behind `signal`, whose own functions are ten times slower because they convert numbers to enums.
import _signal  # type: ignore[import-not-found]  # typeshed has no stub of it
import os
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

Handler = Callable[[int, FrameType | None], Any]

# The signals whose handlers commonly raise, end the process or save its progress.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
_NUMBERS: list[int] = [getattr(_signal, name) for name in _NAMES if hasattr(_signal, name)]

# All of this state belongs to the main thread, the only one that runs handlers.
_main = threading.main_thread().ident
_depth = 0
_handlers: dict[int, Handler] = {}
_waiting: list[int] = []


def _hold(number: int, frame: FrameType | None) -> None:
    """Record a signal; the handler while signals are deferred."""
    if _depth:
        _waiting.append(number)
        return
    # An exception has kept `Deferred` from restoring the handler.
    _signal.signal(number, _handlers[number])
    _handlers[number](number, frame)


class Deferred:
    """Defers signals: their handlers run when the outermost `with` ends, or when `deliver` is called.

    Outside the main thread it does nothing, because no handler runs there. Handlers installed outside Python, and
    signals without a handler, are left alone.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        global _depth
        if threading.get_ident() != _main:
            return
        if not _depth:
            for number in _NUMBERS:
                handler = _signal.getsignal(number)
                if callable(handler) and handler is not _hold:
                    _handlers[number] = handler
                    _signal.signal(number, _hold)
        # Last, with no call after it: until here a signal is passed on at once.
        _depth += 1

    def __exit__(self, *_: object) -> None:
        global _depth, _waiting
        if threading.get_ident() != _main:
            return
        if _depth > 1:
            _depth -= 1
            return
        try:
            for number, handler in _handlers.items():
                if _signal.getsignal(number) is _hold:  # unless a handler has installed another one
                    _signal.signal(number, handler)
        finally:
            _depth = 0
            came, _waiting = _waiting, []
            _pass_on(came)


# Use `with deferred:` around changes that must happen as a whole or not at all.
deferred: Final = Deferred()


def deliver() -> None:
    """Run the handlers of deferred signals; called between two steps, where the state is consistent."""
    global _waiting
    if _waiting and threading.get_ident() == _main:
        came, _waiting = _waiting, []
        _pass_on(came)


def _pass_on(numbers: list[int]) -> None:
    """Call each handler, even if the one before it raises."""
    if numbers:
        try:
            _handlers[numbers[0]](numbers[0], None)
        finally:
            _pass_on(numbers[1:])


def _after_fork() -> None:
    """Make the thread that forked the main thread of the child; it drops the signals of the parent's main thread."""
    global _main, _depth
    now = threading.get_ident()
    if now != _main:
        _main, _depth = now, 0
        _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
