"""Compiled functions: specialized for the kinds of their arguments, compiled, cached on disk, and callable from Python.

Importing this module imports llvmlite.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import llvmlite.binding as llvm

from wyrm.engines.native.ir.program import Number
from wyrm.engines.native.ir.types import INT64, ScalarType
from wyrm.engines.native.kernels.functions import Routine
from wyrm.engines.native.kernels.translate import Translation, parameterized
from wyrm.engines.native.kernels.values import GroupKind, Kind, NotCompiled, NumKind
from wyrm.engines.native.llvm import cache
from wyrm.engines.native.llvm import gemm as _products  # noqa: F401  # registers products and calls of LAPACK
from wyrm.engines.native.llvm.blas import BLAS, LAPACK, address_of, of_scipy
from wyrm.engines.native.llvm.cache import CompilationCount
from wyrm.engines.native.llvm.calling import CachedTable, LoadedFunction, kind_of_argument, table_of, words_of
from wyrm.engines.native.llvm.emit import ENTRY, SHARED, emit
from wyrm.engines.native.llvm.optimize import SecondProcess, Unit, assembly, compile_all, machine_code, target_machine
from wyrm.ops.kernels.native import DEBUG
from wyrm.support.interrupts import deliver

# The number of argument tables that are cached per function.
_TABLE_CACHE_SIZE = 1024
_INTEGER = NumKind(INT64)


_lock = threading.RLock()


def _after_fork() -> None:
    """Replace the lock: a thread that held it during the fork does not exist in the child."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

# Machine code that this process has loaded: the symbols of shared modules, and the entry points of programs by symbol.
_provided: set[str] = set()
_entries: dict[str, Callable[[int], int]] = {}


class CompiledFunction:
    """A function to call from Python. The first call with new argument kinds compiles it or loads it from the cache.

    That happens inside of the block that `around` opens.
    """

    def __init__(self, function: Routine, around: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self.function, self._around = function, around
        self._machines: dict[tuple[Kind, ...], LoadedFunction] = {}
        self._tables: dict[tuple[int, ...], CachedTable] = {}

    def __call__(self, *arguments: object) -> Any:
        key = tuple(map(id, arguments))
        found = self._tables.get(key)
        if found is None or not found.matches(arguments):
            kinds = tuple(map(kind_of_argument, arguments))
            machine = self.machine(kinds)
            if len(self._tables) >= _TABLE_CACHE_SIZE:
                self._tables.clear()
            found = self._tables[key] = CachedTable(machine, table_of(machine, arguments, kinds), arguments)
        return found.machine.run(found.table)

    def compile_for(self, arguments: Iterable[object]) -> None:
        """Compile or load the function for the kinds of these arguments, unless that is done."""
        self.machine(tuple(map(kind_of_argument, arguments)))

    def machine(self, kinds: tuple[Kind, ...]) -> LoadedFunction:
        """Return the function compiled for arguments of these kinds."""
        found = self._machines.get(kinds)
        if found is None:
            with self._around(), _lock:
                found = self._machines[kinds] = _load(self.function, kinds)
        return found


# --- compiling and caching ----------------------------------------------------------------------------------------


def _load(function: Routine, kinds: tuple[Kind, ...]) -> LoadedFunction:
    name = f"wyrm_{cache.key(repr((function.identity, kinds)))}.link"
    link = cache.store().read(name)
    if link is not None:
        symbols, *rest = marshal.loads(link)
        kept = [code for symbol in symbols if (code := cache.store().read(f"{symbol}.machine")) is not None]
        if len(kept) == len(symbols):
            return _loaded(symbols, kept, *rest)
    deliver()
    with SecondProcess(early=function.calls_shared and cache.store().is_empty()) as second:
        translation = Translation(checked=DEBUG)
        compiled = translation.specialized(function, kinds)
        units, numbers = _units(translation, compiled.function.name)
        codes = _codes_of(units, second)
    symbols = [unit.symbol for unit in units]
    constants = [word for each in numbers for word in words_of(each.value, NumKind(each.type))]
    results = [(each.type.kind, each.type.bits) for each in _numbers(function, compiled.result)]
    single = not isinstance(compiled.result, GroupKind)
    rest = constants, results, single, translation.errors
    cache.store().write(name, marshal.dumps((symbols, *rest)))
    return _loaded(symbols, codes, *rest)


def _numbers(function: Routine, result: Kind | None) -> list[NumKind]:
    """Return the kinds of the scalars that a function returns; raise `NotCompiled` if it returns anything else."""
    if result is None:
        return []
    found = result.items if isinstance(result, GroupKind) else (result,)
    numbers = [each for each in found if isinstance(each, NumKind)]
    if len(numbers) < len(found):
        raise NotCompiled(
            "a function called from Python may return only scalars or a tuple of scalars", function.where()
        )
    return numbers


def _loaded(
    symbols: Sequence[str],
    codes: Sequence[bytes],
    constants: Sequence[int],
    results: Sequence[tuple[Any, int]],
    single: bool,
    errors: dict[int, str],
) -> LoadedFunction:
    """Load modules and return the function of the last one, which calls the others."""
    for symbol, code in zip(symbols[:-1], codes, strict=False):
        if symbol not in _provided:
            provide(symbol, code)
            _provided.add(symbol)
    if symbols[-1] not in _entries:
        _entries[symbols[-1]] = entry_of(codes[-1])
    kinds = tuple(NumKind(ScalarType(*each)) for each in results)
    whole = single and kinds == (_INTEGER,)
    return LoadedFunction(_entries[symbols[-1]], tuple(constants), kinds, single, errors, whole)


def _units(translation: Translation, root: str) -> tuple[list[Unit], tuple[Number, ...]]:
    """Return the modules of a function, callees first: one per shared function and its own; and its constants."""
    units: dict[str, Unit] = {}
    everything = translation.program(root).functions
    generated = {each.name for each in everything if translation.functions[each.name].source.generated}
    parameterized_functions, constants = parameterized(everything, generated)
    by_name = {each.name: each for each in parameterized_functions}

    def visit(name: str) -> str:
        outside = {each: (visit(each), by_name[each]) for each in translation.shared_by(name)}
        at_use = name == root and translation.functions[name].source.calls_apart
        text = emit([by_name[each] for each in translation.needed(name)], outside, name == root, at_use)
        symbol = f"wyrm_{cache.key(text)}"
        units.setdefault(symbol, Unit(symbol, text, level=0 if at_use else cache.LEVEL))
        return symbol

    visit(root)
    return list(units.values()), constants[root]


def _codes_of(units: Sequence[Unit], second: SecondProcess) -> list[bytes]:
    """Return the machine code of modules, read from the cache or compiled and stored there."""
    found = {unit.symbol: cache.store().read(f"{unit.symbol}.machine") for unit in units}
    missing = [unit for unit in units if found[unit.symbol] is None]
    CompilationCount.compiled += len(missing)

    def keep(unit: Unit, code: bytes) -> None:
        cache.store().write(f"{unit.symbol}.machine", code)

    compiled = compile_all(missing, lambda unit: machine_code(unit.text, unit.level), keep, second)
    return [code for code in (found | compiled).values() if code is not None]


class Listing:
    """The loop programs of functions and the LLVM modules generated from them, as text for inspection."""

    def __init__(self) -> None:
        self.loop_programs: list[str] = []
        self._units: dict[str, Unit] = {}

    def add(self, function: Routine, arguments: Sequence[object]) -> None:
        """Add a function, specialized for the kinds of these arguments."""
        translation = Translation(checked=DEBUG)
        name = translation.specialized(function, tuple(map(kind_of_argument, arguments))).function.name
        text = str(translation.program(name))
        if text not in self.loop_programs:
            self.loop_programs.append(text)
        units, _ = _units(translation, name)
        self._units |= {unit.symbol: unit for unit in units}

    @property
    def llvm(self) -> str:
        """The LLVM IR of the modules."""
        return "\n".join(f"; module {unit.symbol}\n{unit.text}" for unit in self._units.values())

    @property
    def assembly(self) -> str:
        """The assembly of the modules for this processor."""
        return "\n".join(f"# module {each.symbol}\n{assembly(each.text, each.level)}" for each in self._units.values())


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
    _kept.append(loaded)
    return function


def provide(symbol: str, code: bytes) -> None:
    """Load a shared module and make its function available to other modules under this symbol."""
    loaded = Loaded(code, SHARED)
    llvm.add_symbol(symbol, loaded.address)
    _kept.append(loaded)


# Keeps modules loaded until the process ends: their functions may be called at any time.
_kept: list[Loaded] = []
