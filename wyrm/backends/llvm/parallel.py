"""Modules compiled on two cores: some by this process, some by a second one.

Threads would gain nothing, for llvmlite holds a lock whenever it calls LLVM.
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

from wyrm._interrupts import deliver
from wyrm.backends.llvm import optimize
from wyrm.backends.llvm.emit import Unit

Compile = Callable[[Unit], bytes]
Keep = Callable[[Unit, bytes], None]

# A second process takes longer to start than modules of fewer characters to compile.
_WORTH = 40_000


class Second:
    """A second process that compiles; it starts where there is a core for it, and ends with the `with` statement.

    Where nothing has been compiled on a machine, it is worth to start it `early`, before it is known what there is to
    compile.
    """

    def __init__(self, early: bool) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if early:
            self.start()

    def __enter__(self) -> Second:
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    def start(self) -> bool:
        """Start it, if it has not been; whether there is one."""
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
        """The machine code of a module; None where it has not been made."""
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
    """Whether a second core has nothing else to do."""
    try:
        return len(os.sched_getaffinity(0)) > 1 and os.getloadavg()[0] < (os.cpu_count() or 1)
    except (AttributeError, OSError):  # not every system tells
        return False


def compile_all(units: Sequence[Unit], compile_one: Compile, keep: Keep, second: Second) -> dict[str, bytes]:
    """The machine code of modules by their symbols; `keep` is given each as soon as it is made."""
    waiting = deque(sorted(units, key=lambda unit: -len(unit.text)))
    found: dict[str, bytes] = {}

    def made(unit: Unit, code: bytes) -> None:
        found[unit.symbol] = code
        keep(unit, code)

    helper = threading.Thread(target=_help, args=(second, waiting, made), daemon=True)
    if sum(len(unit.text) for unit in list(waiting)[1:]) > _WORTH and second.start():
        helper.start()
    while True:
        deliver()
        try:
            unit = waiting.popleft()
        except IndexError:
            break
        made(unit, compile_one(unit))
    while helper.is_alive():
        helper.join(0.05)
        deliver()
    for unit in units:
        if unit.symbol not in found:  # the second process has not made it
            made(unit, compile_one(unit))
    return {unit.symbol: found[unit.symbol] for unit in units}


def _help(second: Second, waiting: deque[Unit], made: Keep) -> None:
    """Have a second process compile modules until none is left."""
    while True:
        try:
            unit = waiting.popleft()
        except IndexError:
            return
        code = second.machine_code(unit)
        if code is None:
            return
        made(unit, code)
