"""Compilation of LLVM modules to machine code.

Run as a program, it is a compile server: it reads modules from standard input, each preceded by its optimization level
and length, and writes their machine code to standard output. It imports nothing of wyrm, so it starts quickly.
"""

from __future__ import annotations

import struct
import sys
from functools import cache
from typing import IO, Any

import llvmlite.binding as llvm

# The header of a message: an optimization level or a success flag, and the number of bytes that follow.
_HEAD = struct.Struct("<BQ")


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
    machine = target_machine(level)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
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
    """Compile each module received and send its machine code, or LLVM's error message."""
    target_machine()
    while (message := receive(source)) is not None:
        level, text = message
        try:
            send(to, 1, machine_code(text.decode(), level))
        except RuntimeError as error:
            send(to, 0, str(error).encode())


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
