"""Compilation of modules on two cores, by this process and a second one.

Threads would gain nothing: llvmlite holds a lock during every call of LLVM.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import llvmlite

from wyrm.engines.native.llvm import optimize
from wyrm.engines.native.llvm.emit import Unit
from wyrm.support.interrupts import deliver

Compile = Callable[[Unit], bytes]
Keep = Callable[[Unit, bytes], None]

# The number of characters of LLVM IR for which starting a second process pays off.
_WORTH = 40_000


class SecondProcess:
    """A second compiler process. It starts only if a core is idle, and ends with the `with` block.

    `early`: start it at once, before the modules are known, which pays off if the cache is empty.
    """

    def __init__(self, early: bool) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if early:
            self.start()

    def __enter__(self) -> SecondProcess:
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def start(self) -> bool:
        """Start the process unless it runs already or no core is idle; return whether it runs."""
        if self._process is None and _has_a_core():
            paths = [str(Path(llvmlite.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
            with suppress(OSError):
                self._process = subprocess.Popen(
                    [sys.executable, "-P", optimize.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL, start_new_session=True,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
                )  # fmt: skip
        return self._process is not None

    def machine_code(self, unit: Unit) -> bytes | None:
        """Compile a module in the second process; return None if that fails."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        try:
            optimize.send(process.stdin, unit.level, unit.text.encode())
            answer = optimize.receive(process.stdout)
        except (OSError, ValueError):
            return None
        return answer[1] if answer is not None and answer[0] == 1 else None


def _has_a_core() -> bool:
    """Return whether a second core is idle."""
    try:
        return len(os.sched_getaffinity(0)) > 1 and os.getloadavg()[0] < (os.cpu_count() or 1)
    except (AttributeError, OSError):  # not available on every system
        return False


def compile_all(units: Sequence[Unit], compile_one: Compile, keep: Keep, second: SecondProcess) -> dict[str, bytes]:
    """Compile modules and return their machine code by symbol; `keep` receives each as soon as it is compiled."""
    waiting = deque(sorted(units, key=lambda unit: -len(unit.text)))
    found: dict[str, bytes] = {}

    def add(unit: Unit, code: bytes) -> None:
        found[unit.symbol] = code
        keep(unit, code)

    helper = threading.Thread(target=_help, args=(second, waiting, add), daemon=True)
    if sum(len(unit.text) for unit in list(waiting)[1:]) > _WORTH and second.start():
        helper.start()
    while True:
        deliver()
        try:
            unit = waiting.popleft()
        except IndexError:
            break
        add(unit, compile_one(unit))
    while helper.is_alive():
        helper.join(0.05)
        deliver()
    for unit in units:
        if unit.symbol not in found:  # the second process failed
            add(unit, compile_one(unit))
    return {unit.symbol: found[unit.symbol] for unit in units}


def _help(second: SecondProcess, waiting: deque[Unit], add: Keep) -> None:
    """Let the second process compile modules until none is left or it fails."""
    while True:
        try:
            unit = waiting.popleft()
        except IndexError:
            return
        code = second.machine_code(unit)
        if code is None:
            return
        add(unit, code)
