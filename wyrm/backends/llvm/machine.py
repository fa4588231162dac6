"""From the text of an LLVM module to machine code, and from machine code to a function that can be called."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from wyrm.backends.llvm.blas import BLAS, address_of
from wyrm.backends.llvm.emit import ENTRY, SHARED


@cache
def _processor() -> tuple[Any, str, str]:
    """The target for this processor, its name, and what it can do."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _machine(level: int = 3) -> Any:
    """A target machine for this processor; what uses one takes it over."""
    target, name, features = _processor()
    return target.create_target_machine(
        cpu=name, features=features, opt=level, reloc="default", codemodel="jitdefault", jit=True
    )


def _optimized(text: str, level: int) -> tuple[Any, Any]:
    machine = _machine(level)
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


class Loaded:
    """Machine code in memory."""

    def __init__(self, code: bytes, symbol: str) -> None:
        for name in BLAS:
            if f"wyrm_{name}".encode() in code:
                llvm.add_symbol(f"wyrm_{name}", address_of(name))
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self.address: int = self._engine.get_function_address(symbol)


def entry_of(code: bytes) -> Callable[[int], int]:
    """The function of a module that Python calls with the address of a table; it runs without the lock of Python."""
    loaded = Loaded(code, ENTRY)
    function: Callable[[int], int] = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(loaded.address)
    _held.append(loaded)
    return function


def provide(symbol: str, code: bytes) -> None:
    """Load a module that others call, under this name."""
    loaded = Loaded(code, SHARED)
    llvm.add_symbol(symbol, loaded.address)
    _held.append(loaded)


# What has been loaded may be called until the process ends.
_held: list[Loaded] = []
