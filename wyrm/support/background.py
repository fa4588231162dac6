"""One job after another in a thread, whose errors are raised where the work was given."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable


class Background:
    """Does one job at a time in a thread of its own; `wait` and the next `start` raise what the last one raised.

    Python waits for the thread before the process ends. An error that nobody has asked for by then is a warning.

    >>> done = []
    >>> work = Background("example")
    >>> work.start(lambda: done.append(1))
    >>> work.wait()
    >>> done
    [1]
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._thread: threading.Thread | None = None
        self._errors: list[BaseException] = []
        weakref.finalize(self, _tell, self._errors)

    @property
    def is_running(self) -> bool:
        """Whether a job runs."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, job: Callable[[], object]) -> None:
        """Wait for the job before, then begin this one and return."""
        self.wait()
        # The thread holds no reference to this object, so that `_tell` is called when nobody can ask any more.
        self._thread = threading.Thread(target=_run_job, args=(job, self._errors), name=f"wyrm: {self._what}")
        self._thread.start()

    def wait(self) -> None:
        """Return when no job runs; raise the error of the last one, once."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._errors:
            raise self._errors.pop()

    def check(self) -> None:
        """Raise the error of a job that has ended; do not wait."""
        if not self.is_running:
            self.wait()


def _run_job(job: Callable[[], object], errors: list[BaseException]) -> None:
    try:
        job()
    except BaseException as error:
        errors.append(error)


def _tell(errors: list[BaseException]) -> None:
    for error in errors:
        warnings.warn(
            f"work in the background failed, and nothing waited for it: {error}", RuntimeWarning, stacklevel=2
        )
