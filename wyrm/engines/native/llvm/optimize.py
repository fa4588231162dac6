"""Compiles LLVM modules to machine code, on two cores if there are many: in this process and in a second one.

The second process runs this file as a program: it reads modules from standard input, each preceded by its optimization
level and length, and writes their machine code to standard output. It imports nothing of wyrm, so it starts quickly.
Threads would gain nothing: llvmlite holds a lock during every call of LLVM.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

import llvmlite
import llvmlite.binding as llvm

# The header of a message: an optimization level or a success flag, and the number of bytes that follow.
_HEAD = struct.Struct("<BQ")

# The level of modules whose instructions stay as they are written; machine code is chosen as for level 2.
AS_WRITTEN = 4


@cache
def _processor() -> tuple[Any, str, str]:
    """Return the LLVM target, the processor's name and its features."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def target_machine(level: int = 3) -> Any:
    """Return a new target machine for this processor; a JIT engine takes ownership of it."""
    target, name, features = _processor()
    return target.create_target_machine(
        cpu=name, features=features, opt=level, reloc="default", codemodel="jitdefault", jit=True
    )


def _optimized(text: str, level: int) -> tuple[Any, Any]:
    machine = target_machine(2 if level == AS_WRITTEN else level)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    if level == AS_WRITTEN:
        return module, machine
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = options.slp_vectorization = level > 1
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module, machine


def machine_code(text: str, level: int = 3) -> bytes:
    """Return the object code of a module. Level 0 compiles fast and suits code that only calls other code."""
    module, machine = _optimized(text, level)
    return bytes(machine.emit_object(module))


def assembly(text: str, level: int = 3) -> str:
    """Return the assembly of the optimized module."""
    module, machine = _optimized(text, level)
    return str(machine.emit_assembly(module))


# --- the compile server -----------------------------------------------------------------------------------------------


def send(to: IO[bytes], number: int, content: bytes) -> None:
    """Write a message: a number and its content."""
    to.write(_HEAD.pack(number, len(content)))
    to.write(content)
    to.flush()


def receive(source: IO[bytes]) -> tuple[int, bytes] | None:
    """Read the next message; return None at the end of the stream."""
    head = source.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    number, length = _HEAD.unpack(head)
    content = source.read(length)
    return (number, content) if len(content) == length else None


def serve(source: IO[bytes], to: IO[bytes]) -> None:
    """Say that the process is ready; then compile each module received and send its code, or LLVM's error message."""
    target_machine()
    send(to, 1, b"")
    while (message := receive(source)) is not None:
        level, text = message
        try:
            send(to, 1, machine_code(text.decode(), level))
        except RuntimeError as error:
            send(to, 0, str(error).encode())


# --- two processes ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unit:
    """A module: the symbol that others call its exported function by, its LLVM IR, and its level, 0 to 4."""

    symbol: str
    text: str
    level: int = 3


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
        self._ready = False
        if early:
            self.start()

    def __enter__(self) -> SecondProcess:
        return self

    def __exit__(self, *_: object) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()

    @property
    def runs(self) -> bool:
        """Whether the process was started."""
        return self._process is not None

    def start(self) -> bool:
        """Start the process unless it runs already or no core is idle; return whether it runs."""
        if self._process is None and _has_a_core():
            paths = [str(Path(llvmlite.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
            with suppress(OSError):
                self._process = subprocess.Popen(
                    [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
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


class Compilation:
    """Compiles modules here and in a second process, which begins with the first while others are still being made.

    `keep` receives each module's code as soon as it is compiled.
    """

    def __init__(self, compile_one: Compile, keep: Keep, second: SecondProcess) -> None:
        self._compile, self._keep, self._second = compile_one, keep, second
        self._units: list[Unit] = []
        self._waiting: list[Unit] = []
        self._found: dict[str, bytes] = {}
        self._helper: threading.Thread | None = None
        # Held to change `_waiting` and `_complete`, which says that no module will follow.
        self._changed = threading.Condition()
        self._complete = False

    def __enter__(self) -> Compilation:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._complete = True
            self._waiting.clear()
            self._changed.notify()

    def add(self, unit: Unit) -> None:
        """Let the second process compile a module, if one runs or is worth starting; else it waits for `finish`."""
        with self._changed:
            self._units.append(unit)
            self._waiting.append(unit)
            self._changed.notify()
        if self._helper is None and self._is_worth_it() and self._second.start():
            self._helper = threading.Thread(target=self._help, daemon=True)
            self._helper.start()

    def _is_worth_it(self) -> bool:
        sizes = sorted(len(unit.text) for unit in self._waiting)
        return self._second.runs or sum(sizes[:-1]) > _WORTH

    def finish(self) -> dict[str, bytes]:
        """Compile what is left; return the machine code of all modules by symbol."""
        from wyrm.support.interrupts import deliver  # not in the second process

        with self._changed:
            self._complete = True
            self._changed.notify()
        while (unit := self._next()) is not None:
            deliver()
            self._add(unit, self._compile(unit))
        while self._helper is not None and self._helper.is_alive():
            self._helper.join(0.05)
            deliver()
        for unit in self._units:
            if unit.symbol not in self._found:  # the second process failed
                self._add(unit, self._compile(unit))
        return {unit.symbol: self._found[unit.symbol] for unit in self._units}

    def _next(self) -> Unit | None:
        """Take the largest module that waits; wait for one while more may follow, and return None after the last."""
        with self._changed:
            while not self._waiting and not self._complete:
                self._changed.wait()
            if not self._waiting:
                return None
            largest = max(self._waiting, key=lambda unit: len(unit.text))
            self._waiting.remove(largest)
            return largest

    def _add(self, unit: Unit, code: bytes) -> None:
        self._found[unit.symbol] = code
        self._keep(unit, code)

    def _help(self) -> None:
        """Let the second process compile modules until none is left or it fails."""
        if not self._second.is_ready():
            return
        while (unit := self._next()) is not None:
            code = self._second.machine_code(unit)
            if code is None:
                return
            self._add(unit, code)


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
