"""From the text of an LLVM module to machine code, and from machine code to a function that can be called."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from wyrm.backends.llvm.emit import ENTRY, SHARED

# LLVM is called by one thread at a time where it changes what a process shares.
_lock = threading.Lock()


@cache
def _processor() -> tuple[Any, str, str]:
    """The target for this processor, its name, and what it can do."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _machine() -> Any:
    """A target machine for this processor; what uses one takes it over."""
    target, name, features = _processor()
    return target.create_target_machine(
        cpu=name, features=features, opt=3, reloc="default", codemodel="jitdefault", jit=True
    )


def _optimized(text: str) -> tuple[Any, Any]:
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = True
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module, machine


def machine_code(text: str) -> bytes:
    """The object code of a module."""
    module, machine = _optimized(text)
    return bytes(machine.emit_object(module))


def assembly(text: str) -> str:
    """The optimized module as assembly for this processor."""
    module, machine = _optimized(text)
    return str(machine.emit_assembly(module))


class Loaded:
    """Machine code in memory."""

    def __init__(self, code: bytes, symbol: str) -> None:
        with _lock:
            _provide_blas()
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


@cache
def _provide_blas() -> None:
    """Make the products of BLAS known by their names in loop programs."""
    from scipy.linalg import cython_blas

    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    for name in ("sgemm", "dgemm"):
        capsule = cython_blas.__pyx_capi__[name]
        llvm.add_symbol(f"wyrm_{name}", get_pointer(capsule, get_name(capsule)))
