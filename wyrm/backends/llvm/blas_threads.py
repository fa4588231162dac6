"""How many threads BLAS uses while programs run: a setting of the whole process, which programs share."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wyrm.backends.llvm.blas import BLAS, address_of


class _Limits:
    """The limits that are asked for now; the lowest counts, and what was before comes back with the last one's end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[int] = []
        self._controller: Any = None
        self._before: Any = None

    @property
    def controller(self) -> Any:
        """Every BLAS that a program may call, found once."""
        if self._controller is None:
            from threadpoolctl import ThreadpoolController

            for name in BLAS:  # one not yet loaded would not be limited
                address_of(name)
            self._controller = ThreadpoolController()
        return self._controller

    def add(self, threads: int) -> None:
        with self._lock:
            limit = self.controller.limit(limits=min([threads, *self._asked]))
            if not self._asked:
                self._before = limit
            self._asked.append(threads)

    def remove(self, threads: int) -> None:
        with self._lock:
            self._asked.remove(threads)
            if self._asked:
                self.controller.limit(limits=min(self._asked))
            else:
                self._before.restore_original_limits()

    def forget(self) -> None:
        """In a process that was forked: the threads that had asked are not there."""
        self._lock = threading.Lock()
        if self._asked:
            self._asked = []
            self._before.restore_original_limits()


limits = _Limits()


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Within it, BLAS uses no more than so many threads; signals wait already, so that its end is never left out."""
    limits.add(threads)
    try:
        yield
    finally:
        limits.remove(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=limits.forget)
