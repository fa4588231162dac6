"""Threads that persist between epochs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wyrm.support.interrupts import deferred, deliver

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# Seconds between two checks for signals while a thread waits for others.
_LOOK = 0.05


class Pool:
    """Threads beside the calling one, as many as any call has needed."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._size = 0
        self._process = 0

    def run(self, jobs: Sequence[Callable[[], None]], stop: threading.Event) -> None:
        """Run jobs in parallel, the first one in this thread; an interrupt or error sets `stop` and awaits the rest."""
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
        """Return an executor of at least `count` threads; a forked process has none of its parent's threads."""
        from concurrent.futures import ThreadPoolExecutor

        if count > self._size or self._process != os.getpid():
            self._executor = ThreadPoolExecutor(count, "wyrm") if count else None
            self._size, self._process = count, os.getpid()
        return self._executor


class Barrier:
    """A barrier that opens when all threads have arrived or `stop` is set; signals are delivered meanwhile."""

    def __init__(self, count: int, stop: threading.Event) -> None:
        self._count, self._stop = count, stop
        self._waiting, self._generation = 0, 0
        self._changed = threading.Condition()

    def wait(self) -> None:
        """Wait for the other threads."""
        with self._changed:
            before = self._generation
            self._waiting += 1
            if self._waiting == self._count:
                self._waiting, self._generation = 0, before + 1
                self._changed.notify_all()
            while self._generation == before and not self._stop.is_set():
                self._changed.wait(_LOOK)
                deliver()


def _stopping(job: Callable[[], None], stop: threading.Event) -> None:
    """Run a job; if it fails, stop the others."""
    try:
        job()
    except BaseException:
        stop.set()
        raise
