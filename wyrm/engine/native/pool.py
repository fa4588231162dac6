"""Threads that stay between passes over the data."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait


class Pool:
    """Threads beside the one that calls, as many as were ever asked for."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._size = 0

    def run(self, jobs: Sequence[Callable[[], None]], stop: threading.Event) -> None:
        """Run jobs side by side, the first one here; an interrupt or an error sets `stop` and waits for the others."""
        others = len(jobs) - 1
        if others > self._size:
            self._executor, self._size = ThreadPoolExecutor(others, "wyrm"), others
        futures = [] if self._executor is None else [self._executor.submit(job) for job in jobs[1:]]
        try:
            jobs[0]()
            for future in futures:
                future.result()
        except BaseException:
            stop.set()
            wait(futures)
            raise
