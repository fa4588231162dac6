"""Compiles LLVM modules to machine code, on two cores if there are many: in this process and in a second one.

The second process runs this file as a program: it reads modules from standard input, each preceded by its optimization
level and length, and writes their machine code to standard output. It imports nothing of wyrm, so it starts quickly.
Threads would gain nothing: llvmlite holds a lock during every call of LLVM.
"""

from __future__ import annotations

import struct
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import IO, TYPE_CHECKING, Any

import llvmlite.binding as llvm

if TYPE_CHECKING:
    from wyrm.engines.native.llvm.second_process import SecondProcess

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


def optimized(text: str, level: int, machine: Any = None) -> tuple[Any, Any]:
    """Return the optimized module, and the target machine: by default a new one for this processor."""
    machine = machine or target_machine(codegen_level(level))
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


def codegen_level(level: int) -> int:
    """Return the level at which machine code is chosen for a module of a level."""
    return 2 if level == AS_WRITTEN else level


def machine_code(text: str, level: int = 3) -> bytes:
    """Return the object code of a module. Level 0 compiles fast and suits code that only calls other code."""
    module, machine = optimized(text, level)
    return bytes(machine.emit_object(module))


def assembly(text: str, level: int = 3) -> str:
    """Return the assembly of the optimized module."""
    module, machine = optimized(text, level)
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


def _time(unit: Unit) -> float:
    """Return an estimate of the time that a module takes: code of level 0 and code as written take less a character."""
    return len(unit.text) * {0: 0.03, AS_WRITTEN: 0.12}.get(unit.level, 1.0)


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
        """Take the module that takes longest to compile; wait for one while more may follow; None after the last."""
        with self._changed:
            while not self._waiting and not self._complete:
                self._changed.wait()
            if not self._waiting:
                return None
            longest = max(self._waiting, key=_time)
            self._waiting.remove(longest)
            return longest

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
