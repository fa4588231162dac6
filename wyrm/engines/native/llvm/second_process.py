"""The second compiler process: its start, its end, and messages to it; `optimize.py` is the program that it runs.

This module does not import llvmlite, so that the process can start before this one has imported it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from wyrm.engines.native.llvm import cache

if TYPE_CHECKING:
    from wyrm.engines.native.llvm.optimize import Unit


class SecondProcess:
    """A second compiler process. It starts only if a core is idle, and ends with the `with` block.

    `early`: start it at once, before the modules are known, which pays off if the cache is empty.
    """

    def __init__(self, early: bool) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._ready = False
        if early:
            self.start()

    def __enter__(self) -> SecondProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """End the process, if it runs."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            threading.Thread(target=process.communicate, daemon=True).start()

    @property
    def runs(self) -> bool:
        """Whether the process was started."""
        return self._process is not None

    def start(self) -> bool:
        """Start the process unless it runs already or no core is idle; return whether it runs."""
        if self._process is None and _has_a_core():
            found = find_spec("llvmlite")
            if found is None or found.origin is None:
                return False  # the first compilation says what is missing
            paths = [str(Path(found.origin).parents[1]), os.environ.get("PYTHONPATH", "")]
            program = str(Path(__file__).with_name("optimize.py"))
            with suppress(OSError):
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-S", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL, start_new_session=True,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
                )  # fmt: skip
        return self._process is not None

    def is_ready(self) -> bool:
        """Wait until the process can compile; return whether it can."""
        self._ready = self._ready or self._answer() == b""
        return self._ready

    def machine_code(self, unit: Unit) -> bytes | None:
        """Compile a module in the second process, which is ready; return None if that fails."""
        return self._answer((unit.level, unit.text.encode()))

    def _answer(self, *messages: tuple[int, bytes]) -> bytes | None:
        """Send messages and return what the process answers; None if it fails."""
        from wyrm.engines.native.llvm.optimize import receive, send

        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        try:
            for message in messages:
                send(process.stdin, *message)
            answer = receive(process.stdout)
        except (OSError, ValueError):
            return None
        return answer[1] if answer is not None and answer[0] == 1 else None


def _has_a_core() -> bool:
    """Return whether a second core is idle: in the mean of the last minute, or now."""
    try:
        if len(os.sched_getaffinity(0)) < 2:
            return False
        cores = os.cpu_count() or 1
        if os.getloadavg()[0] < cores:
            return True
        running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
        return running < cores
    except (AttributeError, OSError, ValueError, IndexError):  # not available on every system
        return False


# --- the first program ------------------------------------------------------------------------------------------------


class _First:
    """The process that starts while the first program of this process is still a graph."""

    process: SecondProcess | None = None
    asked = False
    lock = threading.Lock()


# A process that no program has taken ends after so many seconds.
_UNUSED = 20.0


def start_for_first_program() -> None:
    """Start the process, before the first program here, if the cache is empty: many modules will be compiled."""
    if _First.asked:
        return
    _First.asked = True
    if not cache.store().is_nearly_empty():
        return
    process = SecondProcess(early=True)
    if process.runs:
        _First.process = process
        ends = threading.Timer(_UNUSED, _end_unused)
        ends.daemon = True
        ends.start()


def _end_unused() -> None:
    process = _taken()
    if process is not None:
        process.end()


def _taken() -> SecondProcess | None:
    with _First.lock:
        process, _First.process = _First.process, None
        return process


def second_process(early: bool) -> SecondProcess:
    """Return the process that runs for the first program, or another one; see `SecondProcess`."""
    return _taken() or SecondProcess(early)


def _forget_process() -> None:
    """Forget the process: it belongs to the parent."""
    _First.process, _First.lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_process)
