"""Functions of kernels as machine code: compiled for the kinds of their arguments, kept on disk, and called.

Importing this imports llvmlite.
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

from wyrm._interrupts import deliver
from wyrm.backends.llvm import cache
from wyrm.backends.llvm import gemm as _products  # noqa: F401  # so that kernels can multiply
from wyrm.backends.llvm.arguments import kind_of_argument, results_of, words_of
from wyrm.backends.llvm.cache import Counted
from wyrm.backends.llvm.emit import Unit, emit
from wyrm.backends.llvm.machine import entry_of, provide
from wyrm.backends.llvm.optimize import assembly, machine_code
from wyrm.backends.llvm.parallel import Second, compile_all
from wyrm.ir.program import Number
from wyrm.ir.types import INT64, ScalarType
from wyrm.kernels.constants import parameterized
from wyrm.kernels.errors import NotCompiled
from wyrm.kernels.functions import Routine
from wyrm.kernels.translate import Translation
from wyrm.kernels.values import GroupKind, Kind, NumKind, types_of
from wyrm.ops.scratch import DEBUG

# So many sets of arguments of one function are remembered.
_REMEMBERED = 1024


@dataclass(frozen=True)
class Machine:
    """The machine code of a function for arguments of certain kinds."""

    entry: Callable[[int], int]
    # The words of its constants, which come after the arguments.
    constants: tuple[int, ...]
    results: tuple[NumKind, ...]
    single: bool
    errors: dict[int, str]
    # Whether it returns a whole number alone.
    whole: bool = False

    def run(self, table: NDArray[np.int64]) -> Any:
        """Call it with a table of arguments, after which there is room for the results."""
        status = self.entry(_address(table))
        return self.result(table.data) if status == 0 else self.refuse(status)

    def result(self, words: memoryview[int]) -> Any:
        """What it has put into the table."""
        if self.whole:
            return words[-1]
        if not self.results:
            return None
        found = results_of(words[len(words) - len(self.results) :].tolist(), self.results)
        return found[0] if self.single else tuple(found)

    def refuse(self, status: int) -> NoReturn:
        """Raise the error that a function has ended with."""
        raise IndexError(self.errors[status])


_lock = threading.RLock()


def _after_fork() -> None:
    """Have a lock that is free: a thread that held it is not there in a forked process."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

# What this process has loaded: the symbols of functions that others call, and the entries of programs.
_provided: set[str] = set()
_entries: dict[str, Callable[[int], int]] = {}


class CompiledFunction:
    """A function for Python to call: the first call with arguments of some kinds compiles it, or loads it."""

    def __init__(self, function: Routine) -> None:
        self.function = function
        self._machines: dict[tuple[Kind, ...], Machine] = {}
        self._tables: dict[tuple[int, ...], _Remembered] = {}

    def __call__(self, *arguments: Any) -> Any:
        key = tuple(map(id, arguments))
        found = self._tables.get(key)
        if found is None or not found.is_of(arguments):
            kinds = tuple(map(kind_of_argument, arguments))
            machine = self.machine(kinds)
            if len(self._tables) >= _REMEMBERED:
                self._tables.clear()
            found = self._tables[key] = _Remembered(machine, table_of(machine, arguments, kinds), arguments)
        return found.machine.run(found.table)

    def compile_for(self, arguments: Iterable[Any]) -> None:
        """Compile the function for arguments like these, or load it, where that has not been done."""
        self.machine(tuple(map(kind_of_argument, arguments)))

    def machine(self, kinds: tuple[Kind, ...]) -> Machine:
        """The machine code for arguments of these kinds."""
        found = self._machines.get(kinds)
        if found is None:
            with _lock:
                found = self._machines[kinds] = _load(self.function, kinds)
        return found


class _Remembered:
    """A table of arguments; arrays are not kept alive for it."""

    def __init__(self, machine: Machine, table: NDArray[np.int64], arguments: Sequence[Any]) -> None:
        self.machine, self.table = machine, table
        self._arrays = [(i, weakref.ref(each)) for i, each in enumerate(arguments) if isinstance(each, np.ndarray)]
        self._others = [(i, each) for i, each in enumerate(arguments) if not isinstance(each, np.ndarray)]

    def is_of(self, arguments: Sequence[Any]) -> bool:
        """Whether these are the same objects."""
        return all(reference() is arguments[i] for i, reference in self._arrays) and all(
            each is arguments[i] for i, each in self._others
        )


def table_of(machine: Machine, arguments: Sequence[Any], kinds: Sequence[Kind]) -> NDArray[np.int64]:
    """The words of arguments, those of constants, and room for the results."""
    words = [word for each, kind in zip(arguments, kinds, strict=True) for word in words_of(each, kind)]
    return np.array([*words, *machine.constants, *[0] * len(machine.results)], np.int64)


class Bound:
    """A function with all its arguments; each call has those that come first of its own, and some of the others."""

    def __init__(
        self, function: CompiledFunction, own: Sequence[Any], others: Sequence[Any], changing: Sequence[int]
    ) -> None:
        self._arguments = [*own, *others]
        kinds = tuple(map(kind_of_argument, self._arguments))
        self._machine = function.machine(kinds)
        self._table = table_of(self._machine, self._arguments, kinds)
        self._words, self._address = self._table.data, _address(self._table)
        starts = list(accumulate((len(types_of(kind)) for kind in kinds), initial=0))
        places = [(place, starts[place], kinds[place]) for place in (*range(len(own)), *changing)]
        self._own, self._places_of_own, self._places = own, places[: len(own)], places[len(own) :]
        self._changed: Sequence[Any] | None = None

    def take(self, own: Sequence[Any] | None, changed: Sequence[Any]) -> bool:
        """Have these for the arguments that change; False where the function is compiled for other kinds.

        Without `own`, those of the last call stay. Neither sequence is changed by who gives it: the same one again is
        the same arguments.
        """
        if own is not None and own is not self._own:
            if not self._put(own, self._places_of_own):
                return False
            self._own = own
        if changed is not self._changed:
            self._changed = None  # until all of them are in their places
            if not self._put(changed, self._places):
                return False
            self._changed = changed
        return True

    def _put(self, values: Sequence[Any], places: Sequence[tuple[int, int, Kind]]) -> bool:
        words, arguments = self._words, self._arguments
        for value, (place, start, kind) in zip(values, places, strict=True):
            if value is arguments[place]:
                continue
            if type(value) is int and kind == _INTEGER:
                words[start] = value
            elif isinstance(value, np.ndarray) and _is_like(value, arguments[place]):
                words[start] = _address(value)
                for position, size in enumerate(value.shape, start + 1):
                    words[position] = size
            elif kind == kind_of_argument(value):
                for position, word in enumerate(words_of(value, kind), start):
                    words[position] = word
            else:
                return False
            arguments[place] = value
        return True

    def __call__(self) -> Any:
        """Call the function."""
        machine = self._machine
        status = machine.entry(self._address)
        return machine.result(self._words) if status == 0 else machine.refuse(status)


_INTEGER = NumKind(INT64)


def _is_like(array: np.ndarray, other: np.ndarray) -> bool:
    """Whether an array in row-major order is of the kind of another one."""
    same = array.dtype == other.dtype and array.ndim == other.ndim
    return same and array.flags.c_contiguous and other.flags.c_contiguous


def _address(array: np.ndarray) -> int:
    """Where an array in row-major order begins: what NumPy says takes four times as long."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array.data))
    except (TypeError, ValueError):  # it is not writable, or empty
        address: int = array.__array_interface__["data"][0]
        return address


# --- compiling, and what is kept ----------------------------------------------------------------------------------


def _load(function: Routine, kinds: tuple[Kind, ...]) -> Machine:
    name = f"wyrm_{cache.key(repr((function.identity, kinds)))}.link"
    link = cache.store().read(name)
    if link is not None:
        symbols, *rest = marshal.loads(link)
        kept = [code for symbol in symbols if (code := cache.store().read(f"{symbol}.machine")) is not None]
        if len(kept) == len(symbols):
            return _made(symbols, kept, *rest)
    deliver()
    with Second(early=function.calls_shared and cache.store().is_empty()) as second:
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
    return _made(symbols, codes, *rest)


def _numbers(function: Routine, result: Kind | None) -> list[NumKind]:
    """The numbers that a function returns."""
    if result is None:
        return []
    found = result.items if isinstance(result, GroupKind) else (result,)
    numbers = [each for each in found if isinstance(each, NumKind)]
    if len(numbers) < len(found):
        raise NotCompiled("a function for Python that returns more than numbers", function.where())
    return numbers


def _made(
    symbols: Sequence[str],
    codes: Sequence[bytes],
    constants: Sequence[int],
    results: Sequence[tuple[Any, int]],
    single: bool,
    errors: dict[int, str],
) -> Machine:
    """The last of these modules, and the others, which it calls."""
    for symbol, code in zip(symbols[:-1], codes, strict=False):
        if symbol not in _provided:
            provide(symbol, code)
            _provided.add(symbol)
    if symbols[-1] not in _entries:
        _entries[symbols[-1]] = entry_of(codes[-1])
    kinds = tuple(NumKind(ScalarType(*each)) for each in results)
    whole = single and kinds == (_INTEGER,)
    return Machine(_entries[symbols[-1]], tuple(constants), kinds, single, errors, whole)


def _units(translation: Translation, root: str) -> tuple[list[Unit], tuple[Number, ...]]:
    """The modules that a function needs: one for each that programs share, after those that it calls, and its own.

    And the constants that it takes as arguments.
    """
    units: dict[str, Unit] = {}
    everything = translation.program(root).functions
    generated = {each.name for each in everything if translation.functions[each.name].source.generated}
    made, constants = parameterized(everything, generated)
    by_name = {each.name: each for each in made}

    def visit(name: str) -> str:
        outside = {each: (visit(each), by_name[each]) for each in translation.shared_by(name)}
        at_use = name == root and translation.functions[name].source.calls_apart
        text = emit([by_name[each] for each in translation.needed(name)], outside, name == root, at_use)
        symbol = f"wyrm_{cache.key(text)}"
        units.setdefault(symbol, Unit(symbol, text, level=0 if at_use else 3))
        return symbol

    visit(root)
    return list(units.values()), constants[root]


def _codes_of(units: Sequence[Unit], second: Second) -> list[bytes]:
    """The machine code of modules, from the store or put there."""
    found = {unit.symbol: cache.store().read(f"{unit.symbol}.machine") for unit in units}
    missing = [unit for unit in units if found[unit.symbol] is None]
    Counted.compiled += len(missing)

    def keep(unit: Unit, code: bytes) -> None:
        cache.store().write(f"{unit.symbol}.machine", code)

    made = compile_all(missing, lambda unit: machine_code(unit.text, unit.level), keep, second)
    return [code for code in (found | made).values() if code is not None]


class Listing:
    """The loop programs of functions, and the modules that are made of them."""

    def __init__(self) -> None:
        self.loop_programs: list[str] = []
        self._units: dict[str, Unit] = {}

    def add(self, function: Routine, arguments: Sequence[Any]) -> None:
        """Take in a function for arguments like these."""
        translation = Translation(checked=DEBUG)
        name = translation.specialized(function, tuple(map(kind_of_argument, arguments))).function.name
        text = str(translation.program(name))
        if text not in self.loop_programs:
            self.loop_programs.append(text)
        units, _ = _units(translation, name)
        self._units |= {unit.symbol: unit for unit in units}

    @property
    def llvm(self) -> str:
        """The modules as text."""
        return "\n".join(f"; module {unit.symbol}\n{unit.text}" for unit in self._units.values())

    @property
    def assembly(self) -> str:
        """The modules as they are for this processor."""
        return "\n".join(f"# module {each.symbol}\n{assembly(each.text, each.level)}" for each in self._units.values())


__all__ = ["Bound", "CompiledFunction", "Counted", "Listing", "Machine", "table_of"]
