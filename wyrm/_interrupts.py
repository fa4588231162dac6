"""Signals wait while state is changed: what Ctrl-C interrupts is between two steps, never inside one.

Python runs the handler of a signal in the main thread, between any two of its instructions. Where the handler raises,
as that of Ctrl-C does, what has changed by then and what has not is left to chance.
"""

from __future__ import annotations

# The module behind `signal`, whose own functions cost ten times as much, for they make enums of numbers.
import _signal  # type: ignore[import-not-found]  # typeshed has no stub of it
import os
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any]

# The signals whose handlers are known to raise, to end a process or to save what it has done.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
_NUMBERS: list[int] = [getattr(_signal, name) for name in _NAMES if hasattr(_signal, name)]

# All of this belongs to the main thread, the only one that handlers run in.
_main = threading.main_thread().ident
_depth = 0
_handlers: dict[int, Handler] = {}
_waiting: list[int] = []


def _hold(number: int, frame: FrameType | None) -> None:
    """The handler while signals wait."""
    if _depth:
        _waiting.append(number)
        return
    # An exception has kept `Deferred` from putting the handler back.
    _signal.signal(number, _handlers[number])
    _handlers[number](number, frame)


class Deferred:
    """Within it signals wait, for their handlers to run at its end, or where `deliver` is called.

    One within another ends with the outer one. In other threads than the main one it does nothing, for no handler runs
    there. A handler that was put in place by other means than Python's, and a signal without one, are left alone.
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
        # Last, and no call comes after it: until here a signal is passed on at once.
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
                if _signal.getsignal(number) is _hold:  # not where a handler has put another one in its place
                    _signal.signal(number, handler)
        finally:
            _depth = 0
            came, _waiting = _waiting, []
            _pass_on(came)


# `with deferred:` around what is done as a whole or not at all.
deferred = Deferred()


def deliver() -> None:
    """Run the handlers of the signals that wait; called between two steps, where all is as it should be."""
    global _waiting
    if _waiting and threading.get_ident() == _main:
        came, _waiting = _waiting, []
        _pass_on(came)


def _pass_on(numbers: list[int]) -> None:
    """Call each handler, whatever the one before it raises."""
    if numbers:
        try:
            _handlers[numbers[0]](numbers[0], None)
        finally:
            _pass_on(numbers[1:])


def _after_fork() -> None:
    """The thread that has forked is the main one of the new process; it holds no signal back but its own."""
    global _main, _depth
    now = threading.get_ident()
    if now != _main:
        _main, _depth = now, 0
        _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
