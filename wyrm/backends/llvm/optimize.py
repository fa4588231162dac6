"""From the text of an LLVM module to machine code.

Run as a program, it does so for another process: it reads modules from standard input, each after its level and length,
and writes their machine code to standard output. It needs nothing of this library, so that it starts quickly.
"""

from __future__ import annotations

import struct
import sys
from functools import cache
from typing import IO, Any

import llvmlite.binding as llvm

# A level of optimization or whether it went well, and how many bytes follow.
_HEAD = struct.Struct("<BQ")


@cache
def _processor() -> tuple[Any, str, str]:
    """The target for this processor, its name, and what it can do."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def target_machine(level: int = 3) -> Any:
    """A target machine for this processor; what uses one takes it over."""
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
    """The object code of a module; with level 0, quickly, for code that only calls other code."""
    module, machine = _optimized(text, level)
    return bytes(machine.emit_object(module))


def assembly(text: str, level: int = 3) -> str:
    """The optimized module as assembly for this processor."""
    module, machine = _optimized(text, level)
    return str(machine.emit_assembly(module))


# --- for another process ----------------------------------------------------------------------------------------------


def send(to: IO[bytes], number: int, content: bytes) -> None:
    """Write a message: a number and what it is about."""
    to.write(_HEAD.pack(number, len(content)))
    to.write(content)
    to.flush()


def receive(source: IO[bytes]) -> tuple[int, bytes] | None:
    """The next message; None at the end."""
    head = source.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    number, length = _HEAD.unpack(head)
    content = source.read(length)
    return (number, content) if len(content) == length else None


def serve(source: IO[bytes], to: IO[bytes]) -> None:
    """Answer each module with its machine code, or with what LLVM says of it."""
    target_machine()
    while (message := receive(source)) is not None:
        level, text = message
        try:
            send(to, 1, machine_code(text.decode(), level))
        except RuntimeError as error:
            send(to, 0, str(error).encode())


if __name__ == "__main__":
    serve(sys.stdin.buffer, sys.stdout.buffer)
