"""Threads that stay between passes over the data."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wyrm._interrupts import deferred, deliver

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# How often a thread that waits for others looks whether a signal has come, in seconds.
_LOOK = 0.05


class Pool:
    """Threads beside the one that calls, as many as were ever asked for."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._size = 0
        self._process = 0

    def run(self, jobs: Sequence[Callable[[], None]], stop: threading.Event) -> None:
        """Run jobs side by side, the first one here; an interrupt or an error sets `stop` and waits for the others."""
        from concurrent.futures import wait

        futures: list[Future[None]] = []
        with deferred:
            try:
                executor = self._threads(len(jobs) - 1)
                for job in jobs[1:]:
                    assert executor is not None
                    futures.append(executor.submit(_stopping, job, stop))
                jobs[0]()
                while wait(futures, _LOOK).not_done:
                    deliver()
                for future in futures:
                    future.result()
            except BaseException:
                stop.set()
                wait(futures)
                raise

    def _threads(self, count: int) -> ThreadPoolExecutor | None:
        """At least so many threads; a process that was forked has none of those that its parent had."""
        from concurrent.futures import ThreadPoolExecutor

        if count > self._size or self._process != os.getpid():
            self._executor = ThreadPoolExecutor(count, "wyrm") if count else None
            self._size, self._process = count, os.getpid()
        return self._executor


class Barrier:
    """Where threads wait for each other, until all are there or `stop` is set; signals are delivered meanwhile."""

    def __init__(self, count: int, stop: threading.Event) -> None:
        self._count, self._stop = count, stop
        self._waiting, self._meetings = 0, 0
        self._changed = threading.Condition()

    def wait(self) -> None:
        """Wait for the others."""
        with self._changed:
            before = self._meetings
            self._waiting += 1
            if self._waiting == self._count:
                self._waiting, self._meetings = 0, before + 1
                self._changed.notify_all()
            while self._meetings == before and not self._stop.is_set():
                self._changed.wait(_LOOK)
                deliver()


def _stopping(job: Callable[[], None], stop: threading.Event) -> None:
    """Do a job; one that fails stops the others."""
    try:
        job()
    except BaseException:
        stop.set()
        raise
