"""From machine code to a function that can be called."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import llvmlite.binding as llvm

from wyrm.backends.llvm.blas import BLAS, address_of
from wyrm.backends.llvm.emit import ENTRY, SHARED
from wyrm.backends.llvm.optimize import target_machine


class Loaded:
    """Machine code in memory."""

    def __init__(self, code: bytes, symbol: str) -> None:
        for name in BLAS:
            if f"wyrm_{name}".encode() in code:
                llvm.add_symbol(f"wyrm_{name}", address_of(name))
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
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
