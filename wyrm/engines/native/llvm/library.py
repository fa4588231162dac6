"""Compiled functions: specialized for the kinds of their arguments, compiled, cached on disk, and callable from Python.

Importing this module imports llvmlite.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Any

import llvmlite.binding as llvm

from wyrm.engines.native.ir.program import (
    Assign,
    For,
    Invoke,
    LoopFunction,
    Number,
    Return,
    ShiftedSums,
    TiledProduct,
    Variable,
    every,
)
from wyrm.engines.native.ir.types import INT64, ScalarType
from wyrm.engines.native.kernels.functions import Routine
from wyrm.engines.native.kernels.njit import OutsideFunction
from wyrm.engines.native.kernels.translate import Parameterized, Translation
from wyrm.engines.native.kernels.values import GroupKind, Kind, NotCompiled, NumKind
from wyrm.engines.native.llvm import cache
from wyrm.engines.native.llvm import library_calls as _calls  # noqa: F401  # registers calls of BLAS and LAPACK
from wyrm.engines.native.llvm.cache import CompilationCount
from wyrm.engines.native.llvm.calling import (
    CachedTable,
    LoadedFunction,
    kind_of_argument,
    read_only_stores,
    table_of,
    words_of,
)
from wyrm.engines.native.llvm.emit import ENTRY, emit
from wyrm.engines.native.llvm.lapack import LAPACK, address_of
from wyrm.engines.native.llvm.optimize import (
    Compilation,
    Unit,
    assembly,
    machine_code,
    target_machine,
)
from wyrm.engines.native.llvm.product_modules import calling_products, module_of, pool_module, product_module
from wyrm.engines.native.llvm.second_process import second_process
from wyrm.engines.native.llvm.shared_loops import shared_loops
from wyrm.engines.native.products import pool
from wyrm.engines.native.products.target import Target, host
from wyrm.engines.native.products.writer import SHARED
from wyrm.ops.kernels.native import DEBUG
from wyrm.support.imports import scipy_is_installed
from wyrm.support.interrupts import deliver
from wyrm.support.memory import with_collector_paused

# The number of argument tables that are cached per function.
_TABLE_CACHE_SIZE = 1024
_INTEGER = NumKind(INT64)


_lock = threading.RLock()


def _replace_lock() -> None:
    """Replace the lock: a thread that held it during the fork does not exist in the child."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_replace_lock)

# Machine code that this process has loaded: the symbols of shared modules, and the entry points of programs by symbol.
_provided: set[str] = set()
_entries: dict[str, Callable[[int], int]] = {}
# The functions that this process has loaded, by a hash of their code, the kinds of arguments, the kind of products and
# the level of optimization: programs of equal structure share them.
_functions: dict[tuple[bytes, tuple[Kind, ...], object, int], LoadedFunction] = {}


class CompiledFunction:
    """A function to call from Python. The first call with new argument kinds compiles it or loads it from the cache.

    That happens inside of the block that `around` opens. `target` is this processor, with products of its own kind.
    """

    def __init__(
        self,
        function: Routine,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
        target: Target | None = None,
    ) -> None:
        self.function = function
        self._around, self._target = around, target
        # By the identity of kinds, which are kept beside it: to compare them takes as long as a call.
        self._machines: dict[tuple[int, ...], tuple[tuple[Kind, ...], LoadedFunction]] = {}
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

    def compile_for(self, arguments: Sequence[object]) -> list[int]:
        """Compile or load the function for these arguments, unless that is done; return `read_only_stores`."""
        kinds = tuple(map(kind_of_argument, arguments))
        return read_only_stores(self.machine(kinds), arguments, kinds)

    def machine(self, kinds: tuple[Kind, ...]) -> LoadedFunction:
        """Return the function compiled for arguments of these kinds."""
        key = tuple(map(id, kinds))
        known = self._machines.get(key)
        if known is not None:
            return known[1]
        from hashlib import sha256

        code = sha256(self.function.identity.encode()).digest()
        made_of = code, kinds, None if self._target is None else self._target.pairs, cache.LEVEL
        with self._around(), _lock:
            found = _functions.get(made_of)
            if found is None:
                found = with_collector_paused(_load, self.function, kinds, self._target)
                _functions[made_of] = found
            self._machines[key] = kinds, found
        return found


# --- compiling and caching ----------------------------------------------------------------------------------------


def _load(function: Routine, kinds: tuple[Kind, ...], target: Target | None) -> LoadedFunction:
    given = (function.identity, kinds, None if target is None else target.pairs)
    # Where there is no LAPACK, kernels that call it are others.
    name = f"wyrm_{cache.key(repr(given) if scipy_is_installed() else repr((given, 'without SciPy')))}.link"
    link = cache.store().read(name)
    if link is not None:
        symbols, outside, *rest = marshal.loads(link)
        kept = [code for symbol in symbols if (code := cache.store().read(f"{symbol}.machine")) is not None]
        if len(kept) == len(symbols):
            _provide_outside(OutsideFunction.decoded(*each) for each in outside)
            return _loaded(symbols, kept, *rest)
    deliver()
    with (
        second_process(early=function.calls_shared and cache.store().is_nearly_empty()) as second,
        Compilation(lambda unit: machine_code(unit.text, unit.level), _keep_code, second) as compilation,
    ):
        modules = Modules(compilation, target)
        compiled = modules.translation.specialized(function, kinds)
        units, numbers = modules.all_of(compiled.function.name)
        found = modules.cached | compilation.finish()
    codes = [found[unit.symbol] for unit in units]
    symbols = [unit.symbol for unit in units]
    constants = [word for each in numbers for word in words_of(each.value, NumKind(each.type))]
    results = [(each.type.kind, each.type.bits) for each in _scalar_kinds(function, compiled.result)]
    single = not isinstance(compiled.result, GroupKind)
    rest = constants, results, single, modules.translation.errors, compiled.stores
    outside = modules.translation.outside.values()
    cache.store().write(name, marshal.dumps((symbols, [each.encoded() for each in outside], *rest)))
    _provide_outside(outside)
    return _loaded(symbols, codes, *rest)


def _scalar_kinds(function: Routine, result: Kind | None) -> list[NumKind]:
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
    stores: frozenset[int],
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
    return LoadedFunction(_entries[symbols[-1]], tuple(constants), kinds, single, errors, whole, stores)


def _provide_outside(functions: Iterable[OutsideFunction]) -> None:
    """Make functions of numba available to modules that are loaded later."""
    for each in functions:
        if each.symbol not in _provided:
            llvm.add_symbol(each.symbol, each.address())
            _provided.add(each.symbol)


def _keep_code(unit: Unit, code: bytes) -> None:
    cache.store().write(f"{unit.symbol}.machine", code)


class Modules:
    """The modules of a function: one per shared function, made as soon as that is translated, and its own.

    Those that are not in the cache are added to the compilation.
    """

    def __init__(self, compilation: Compilation | None = None, target: Target | None = None) -> None:
        self.target: Target = target or host()
        self.translation: Translation = Translation(checked=DEBUG, translated=self._shared, target=self.target)
        # The machine code that the cache has, by symbol.
        self.cached: dict[str, bytes] = {}
        self._compilation = compilation
        self._functions = Parameterized()
        # By symbol, callees first; and the symbols by the names of the functions that the modules export.
        self._units: dict[str, Unit] = {}
        self._symbols: dict[str, str] = {}
        # The symbols of the modules with products that a function's own module calls, by the function's name.
        self._products: dict[str, list[str]] = {}
        # The functions as modules have them.
        self._known: dict[str, LoopFunction] = {}
        # The types of the floats of products, whose packed operands a caller has memory for.
        self.packs: set[ScalarType] = set()

    def all_of(self, root: str) -> tuple[list[Unit], tuple[Number, ...]]:
        """Return the modules of a translated function, callees first, and its constants."""
        own = self._module(root, entry=True)
        used = dict.fromkeys([*self._outside(root), own])
        return [self._units[symbol] for symbol in used], self._functions.constants[root]

    def together(self, symbols: Mapping[str, str]) -> tuple[str, list[Unit]]:
        """Return the text of a module with these translated functions by symbols, and the modules that it calls."""
        for name in symbols:
            self._complete(name)
        functions = [self._known[each] for each in dict.fromkeys(chain(*map(self.translation.needed, symbols)))]
        shared = dict.fromkeys(chain(*map(self.translation.shared_by, symbols)))
        outside = {each: (self._shared(each), self._known[each]) for each in shared}
        units = [self._units[each] for each in chain(*map(self._outside, symbols))]
        return emit(functions, outside, entry=False, small=True, target=self.target, named=symbols), units

    def function(self, name: str) -> LoopFunction:
        """Return a function as its module has it, with the parameters for constants and for memory."""
        return self._known[name]

    def _outside(self, name: str) -> Iterator[str]:
        """Yield the symbols of the modules that the module of a function calls, callees first."""
        for each in self.translation.shared_by(name):
            yield from self._outside(each)
            yield self._shared(each)
        yield from self._products.get(name, ())

    def _shared(self, name: str) -> str:
        """Return the symbol of the module of a shared function."""
        return self._symbols[name] if name in self._symbols else self._module(name, entry=False)

    def _complete(self, name: str) -> None:
        """Add the parameters for constants and for memory to a function and to all that it calls."""
        known = self._known
        for each in self.translation.all_of(name):
            if each not in known:
                translated = self.translation.functions[each]
                self._functions.add(translated.function, translated.source.generated)
                function = self._functions.functions[each]
                known[each] = calling_products(function, known, self.target)

    def _module(self, name: str, *, entry: bool) -> str:
        translation, known = self.translation, self._known
        self._complete(name)
        outside = {each: (self._shared(each), known[each]) for each in translation.shared_by(name)}
        needed = translation.needed(name)
        # A function that only calls others gains nothing from optimization.
        only_calls = len(needed) == 1 and _only_calls(known[name])
        at_use = entry and (translation.functions[name].source.calls_apart or only_calls)
        functions = single = [known[each] for each in needed]
        if self.target.allocates:
            functions = [each for function in single for each in shared_loops(function, self.target)]
        products = {
            module_of(each)
            for one in needed
            for each in every(translation.functions[one].function.body)
            if isinstance(each, TiledProduct | ShiftedSums)
        }
        modules = [product_module(*each, self.target) for each in sorted(products, key=str)]
        self.packs |= {number for number, right, _ in products if right is not None}
        shares = len(functions) > len(single)
        if self.target.allocates and (shares or any(right is not None for _, right, _ in products)):
            modules.insert(0, pool_module(self.target))
        self._products[name] = list(map(self._unit, modules))
        small = entry and translation.functions[name].source.small
        text = emit(functions, outside, entry, at_use, small, self.target)
        self._symbols[name] = self._unit(Unit(f"wyrm_{cache.key(text)}", text, level=0 if at_use else cache.LEVEL))
        return self._symbols[name]

    def _unit(self, unit: Unit) -> str:
        """Return the symbol of a module; add a new one to the compilation."""
        if unit.symbol not in self._units:
            self._units[unit.symbol] = unit
            self._compile(unit)
        return unit.symbol

    def _compile(self, unit: Unit) -> None:
        """Have a module compiled that is not in the cache."""
        if self._compilation is None:
            return
        code = cache.store().read(f"{unit.symbol}.machine")
        if code is not None:
            self.cached[unit.symbol] = code
            return
        CompilationCount.compiled += 1
        self._compilation.add(unit)


def _only_calls(function: LoopFunction) -> bool:
    """Return whether a function calls others, maybe in a loop, and does nothing else that takes time."""
    return all(isinstance(each, Invoke | For | Return | Assign) for each in every(function.body)) and not any(
        isinstance(each, Assign) and not isinstance(each.value, Number | Variable) for each in every(function.body)
    )


class Listing:
    """The loop programs of functions and the LLVM modules generated from them, as text for inspection."""

    def __init__(self, target: Target | None = None) -> None:
        self._target = target
        self.loop_programs: list[str] = []
        self._units: dict[str, Unit] = {}

    def add(self, function: Routine, arguments: Sequence[object]) -> None:
        """Add a function, specialized for the kinds of these arguments."""
        modules = Modules(target=self._target)
        name = modules.translation.specialized(function, tuple(map(kind_of_argument, arguments))).function.name
        text = str(modules.translation.program(name))
        if text not in self.loop_programs:
            self.loop_programs.append(text)
        self._units |= {unit.symbol: unit for unit in modules.all_of(name)[0]}

    @property
    def llvm(self) -> str:
        """The LLVM IR of the modules."""
        return "\n".join(f"; module {unit.symbol}\n{unit.text}" for unit in self._units.values())

    @property
    def assembly(self) -> str:
        """The assembly of the modules for this processor."""
        return "\n".join(f"# module {each.symbol}\n{assembly(each.text, each.level)}" for each in self._units.values())


# The functions that products call for the memory of packed blocks; they need no GIL.
_MEMORY = {"wyrm_allocate": ctypes.pythonapi.PyMem_RawMalloc, "wyrm_free": ctypes.pythonapi.PyMem_RawFree}


class Loaded:
    """A module loaded into memory, and the address of its exported function."""

    def __init__(self, code: bytes, symbol: str) -> None:
        for name, function in _MEMORY.items():
            if name.encode() in code:
                llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
        for name in LAPACK:
            if f"wyrm_{name}".encode() in code:
                llvm.add_symbol(f"wyrm_{name}", address_of(name))
        if pool.STATE.encode() in code:
            llvm.add_symbol(pool.STATE, pool.state_address())
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
