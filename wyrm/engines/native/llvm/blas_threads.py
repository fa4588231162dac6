"""Limits on the number of BLAS threads while programs run: a process-wide setting that concurrent programs share."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wyrm.engines.native.llvm.blas import BLAS, address_of, scipy_is_loaded


class _Limits:
    """The limits in force. The lowest one applies; removing the last one restores the original setting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[int] = []
        self._controller: Any = None
        self._with_scipy = False
        self._before: Any = None

    @property
    def controller(self) -> Any:
        """The controller of all BLAS libraries that a program may call, created anew once SciPy's is loaded."""
        if self._controller is None or (not self._asked and self._with_scipy != scipy_is_loaded()):
            self._with_scipy = scipy_is_loaded()
            from threadpoolctl import ThreadpoolController

            for name in BLAS:  # the controller only finds libraries that are loaded
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
        """Drop all limits after a fork: the threads that set them do not exist in the child."""
        self._lock = threading.Lock()
        if self._asked:
            self._asked = []
            self._before.restore_original_limits()


limits = _Limits()


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Limit BLAS to this many threads inside the `with` block. Callers defer signals, so that it is always removed."""
    limits.add(threads)
    try:
        yield
    finally:
        limits.remove(threads)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=limits.forget)
