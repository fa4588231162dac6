"""Loading of machine code into the process."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import llvmlite.binding as llvm

from wyrm.engines.native.llvm.blas import BLAS, LAPACK, address_of, of_scipy
from wyrm.engines.native.llvm.emit import ENTRY, SHARED
from wyrm.engines.native.llvm.optimize import target_machine


class Loaded:
    """A module loaded into memory, and the address of its exported function."""

    def __init__(self, code: bytes, symbol: str) -> None:
        for name in BLAS:
            if f"wyrm_{name}".encode() in code:
                llvm.add_symbol(f"wyrm_{name}", address_of(name))
        for name in LAPACK:
            if f"wyrm_{name}".encode() in code:
                llvm.add_symbol(f"wyrm_{name}", of_scipy(name))
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        self.address: int = self._engine.get_function_address(symbol)


def entry_of(code: bytes) -> Callable[[int], int]:
    """Load a module; return its entry point, which takes the address of an argument table. It runs without the GIL."""
    loaded = Loaded(code, ENTRY)
    function: Callable[[int], int] = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(loaded.address)
    _loaded.append(loaded)
    return function


def provide(symbol: str, code: bytes) -> None:
    """Load a shared module and make its function available to other modules under this symbol."""
    loaded = Loaded(code, SHARED)
    llvm.add_symbol(symbol, loaded.address)
    _loaded.append(loaded)


# Keeps modules loaded until the process ends: their functions may be called at any time.
_loaded: list[Loaded] = []
