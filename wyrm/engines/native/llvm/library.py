"""Compiled functions: specialized for the kinds of their arguments, compiled, cached on disk, and callable from Python.

Importing this module imports llvmlite.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.native.ir.program import Number
from wyrm.engines.native.ir.types import INT64, ScalarType
from wyrm.engines.native.kernels.constants import parameterized
from wyrm.engines.native.kernels.errors import NotCompiled
from wyrm.engines.native.kernels.functions import Routine
from wyrm.engines.native.kernels.translate import Translation
from wyrm.engines.native.kernels.values import GroupKind, Kind, NumKind, types_of
from wyrm.engines.native.llvm import cache
from wyrm.engines.native.llvm import gemm as _products  # noqa: F401  # registers matrix multiplication
from wyrm.engines.native.llvm import lapack as _lapack  # noqa: F401  # registers calls of LAPACK
from wyrm.engines.native.llvm.arguments import kind_of_argument, results_of, words_of
from wyrm.engines.native.llvm.cache import CompilationCount
from wyrm.engines.native.llvm.emit import Unit, emit
from wyrm.engines.native.llvm.machine import entry_of, provide
from wyrm.engines.native.llvm.optimize import assembly, machine_code
from wyrm.engines.native.llvm.parallel import SecondProcess, compile_all
from wyrm.ops.kernels.scratch import DEBUG
from wyrm.support.interrupts import deliver

# The number of argument tables that are cached per function.
_TABLE_CACHE_SIZE = 1024


@dataclass(frozen=True)
class LoadedFunction:
    """A loaded function, specialized for arguments of certain kinds."""

    entry: Callable[[int], int]
    # The table words of its constants, which follow those of the arguments.
    constants: tuple[int, ...]
    results: tuple[NumKind, ...]
    single: bool
    errors: dict[int, str]
    # Whether its only result is an int64.
    whole: bool = False

    def run(self, table: NDArray[np.int64]) -> Any:
        """Call the function with a table of arguments; return its results, or raise the error that it ended with."""
        status = self.entry(_address(table))
        return self.result(table.data) if status == 0 else self.refuse(status)

    def result(self, words: memoryview[int]) -> Any:
        """Return the results from the table."""
        if self.whole:
            return words[-1]
        if not self.results:
            return None
        found = results_of(words[len(words) - len(self.results) :].tolist(), self.results)
        return found[0] if self.single else tuple(found)

    def refuse(self, status: int) -> NoReturn:
        """Raise the `IndexError` of a status code."""
        raise IndexError(self.errors[status])


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
    """A function to call from Python. The first call with new argument kinds compiles it or loads it from the cache."""

    def __init__(self, function: Routine) -> None:
        self.function = function
        self._machines: dict[tuple[Kind, ...], LoadedFunction] = {}
        self._tables: dict[tuple[int, ...], _CachedTable] = {}

    def __call__(self, *arguments: object) -> Any:
        key = tuple(map(id, arguments))
        found = self._tables.get(key)
        if found is None or not found.matches(arguments):
            kinds = tuple(map(kind_of_argument, arguments))
            machine = self.machine(kinds)
            if len(self._tables) >= _TABLE_CACHE_SIZE:
                self._tables.clear()
            found = self._tables[key] = _CachedTable(machine, table_of(machine, arguments, kinds), arguments)
        return found.machine.run(found.table)

    def compile_for(self, arguments: Iterable[object]) -> None:
        """Compile or load the function for the kinds of these arguments, unless that is done."""
        self.machine(tuple(map(kind_of_argument, arguments)))

    def machine(self, kinds: tuple[Kind, ...]) -> LoadedFunction:
        """Return the function compiled for arguments of these kinds."""
        found = self._machines.get(kinds)
        if found is None:
            with _lock:
                found = self._machines[kinds] = _load(self.function, kinds)
        return found


class _CachedTable:
    """A cached argument table; it holds only weak references to arrays."""

    def __init__(self, machine: LoadedFunction, table: NDArray[np.int64], arguments: Sequence[object]) -> None:
        self.machine, self.table = machine, table
        self._arrays = [
            (i, weakref.ref(each), each.shape, each.strides, each.dtype)
            for i, each in enumerate(arguments)
            if isinstance(each, np.ndarray)
        ]
        self._others = [(i, each) for i, each in enumerate(arguments) if not isinstance(each, np.ndarray)]

    def matches(self, arguments: Sequence[object]) -> bool:
        """Return whether these are the same argument objects, with arrays of the same shape, strides and dtype."""
        for i, reference, shape, strides, dtype in self._arrays:
            array = reference()
            # The memory is the same: NumPy does not resize an array that has a weak reference.
            if array is None or array is not arguments[i] or array.dtype is not dtype:
                return False
            if array.shape != shape or array.strides != strides:
                return False
        return all(each is arguments[i] for i, each in self._others)


def table_of(machine: LoadedFunction, arguments: Sequence[object], kinds: Sequence[Kind]) -> NDArray[np.int64]:
    """Return the table of a call: the words of the arguments, those of the constants, and space for the results."""
    words = [word for each, kind in zip(arguments, kinds, strict=True) for word in words_of(each, kind)]
    return np.array([*words, *machine.constants, *[0] * len(machine.results)], np.int64)


class BoundFunction:
    """A function bound to arguments. `take` replaces the first ones (`own`) and those at `changing` before a call.

    Unlike for `CompiledFunction`, shape, strides and dtype of an array must not be assigned in place between calls:
    programs copy what they are called with, and an epoch makes new views of its columns.
    """

    def __init__(
        self, function: CompiledFunction, own: Sequence[object], others: Sequence[object], changing: Sequence[int]
    ) -> None:
        self._arguments: list[Any] = [*own, *others]
        kinds = tuple(map(kind_of_argument, self._arguments))
        self._machine = function.machine(kinds)
        self._table = table_of(self._machine, self._arguments, kinds)
        self._words, self._address = self._table.data, _address(self._table)
        starts = list(accumulate((len(types_of(kind)) for kind in kinds), initial=0))
        positions = [(index, starts[index], kinds[index]) for index in (*range(len(own)), *changing)]
        self._own, self._own_positions, self._positions = own, positions[: len(own)], positions[len(own) :]
        self._changed: Sequence[object] | None = None

    def take(self, own: Sequence[object] | None, changed: Sequence[object]) -> bool:
        """Replace the arguments that change; return False if they need another specialization.

        With `own=None` the previous ones stay. The caller must not mutate the sequences: passing the same object again
        means that the arguments are unchanged.
        """
        if own is not None and own is not self._own:
            if not self._put(own, self._own_positions):
                return False
            self._own = own
        if changed is not self._changed:
            self._changed = None  # unknown until all of them are written
            if not self._put(changed, self._positions):
                return False
            self._changed = changed
        return True

    def _put(self, values: Sequence[object], positions: Sequence[tuple[int, int, Kind]]) -> bool:
        words, arguments = self._words, self._arguments
        for value, (index, start, kind) in zip(values, positions, strict=True):
            if value is arguments[index]:
                continue
            if type(value) is int and kind == _INTEGER:
                words[start] = value
            elif isinstance(value, np.ndarray) and _is_like(value, arguments[index]):
                words[start] = _address(value)
                for position, size in enumerate(value.shape, start + 1):
                    words[position] = size
            elif kind == kind_of_argument(value):
                for position, word in enumerate(words_of(value, kind), start):
                    words[position] = word
            else:
                return False
            arguments[index] = value
        return True

    def __call__(self) -> Any:
        """Call the function and return its results; raise the error that it ended with."""
        machine = self._machine
        status = machine.entry(self._address)
        return machine.result(self._words) if status == 0 else machine.refuse(status)


_INTEGER = NumKind(INT64)


def _is_like(array: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two row-major arrays are of the same kind."""
    same = array.dtype == other.dtype and array.ndim == other.ndim
    return same and array.flags.c_contiguous and other.flags.c_contiguous


def _address(array: np.ndarray) -> int:
    """Return the address of a row-major array, four times faster than `__array_interface__`."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    except (TypeError, ValueError):  # read-only or empty
        address: int = array.__array_interface__["data"][0]
        return address


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


__all__ = ["BoundFunction", "CompilationCount", "CompiledFunction", "Listing", "LoadedFunction", "table_of"]
