"""Calls of machine code from Python: arguments and results pass through a table of 64-bit words."""

from __future__ import annotations

import ctypes
import struct
import weakref
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.native.ir.types import BOOL, FLOAT64, INT64, scalar_of
from wyrm.engines.native.kernels.values import GroupKind, Kind, NotCompiled, NumKind, ViewKind, types_of
from wyrm.support.frozen import frozen

if TYPE_CHECKING:
    from wyrm.engines.native.llvm.library import CompiledFunction


# Equal kinds are one object, so that their identities tell them apart.
_view_kind, _number_kind, _group_kind = cache(ViewKind), cache(NumKind), cache(GroupKind)
_INTEGER = _number_kind(INT64)


def kind_of_argument(value: object) -> Kind:
    """Return the kind of a Python number, an array or a tuple of these; raise `NotCompiled` for anything else."""
    if isinstance(value, np.ndarray):
        element = scalar_of(value.dtype)
        if element is None:
            raise NotCompiled(f"unsupported array dtype {value.dtype}; kernels support bools, integers and floats")
        if not value.flags.aligned:
            raise NotCompiled("an array is not aligned; copy it")
        if value.flags.c_contiguous:
            return _view_kind(element, value.ndim, "contiguous")
        if any(stride % value.itemsize for stride in value.strides):
            raise NotCompiled("the strides of an array are not multiples of its item size; copy it")
        rows = value.ndim > 0 and value.strides[-1] == value.itemsize
        return _view_kind(element, value.ndim, "rows" if rows else "any")
    if isinstance(value, bool | np.bool_):
        return _number_kind(BOOL)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise NotCompiled(f"{value} does not fit an integer of 64 bits")
        return _INTEGER
    if isinstance(value, float) and not isinstance(value, np.generic):
        return _number_kind(FLOAT64)
    if isinstance(value, np.generic):
        scalar = scalar_of(value.dtype)
        if scalar is not None:
            return _number_kind(scalar)
    if isinstance(value, tuple):
        return _group_kind(tuple(map(kind_of_argument, value)))
    raise NotCompiled(f"an argument must be a number, an array or a tuple of these, not a {type(value).__name__}")


def words_of(value: Any, kind: Kind) -> list[int]:
    """Return the words of an argument of a kind."""
    match kind:
        case ViewKind(_, axes, layout):
            words = [value.__array_interface__["data"][0], *value.shape]
            if layout != "contiguous":
                size = value.itemsize
                words += [stride // size for stride in value.strides[: axes if layout == "any" else axes - 1]]
            return words
        case NumKind(type, _):
            return [_word_of_number(value, type.kind, type.bits)]
        case GroupKind(items):
            return [word for each, item in zip(value, items, strict=True) for word in words_of(each, item)]
        case _:
            raise NotCompiled(f"{kind} cannot be passed as an argument")


def _word_of_number(value: Any, kind: str, bits: int) -> int:
    if kind == "f":
        packed = struct.pack("<f", value) + b"\0\0\0\0" if bits == 32 else struct.pack("<d", value)
        return int.from_bytes(packed, "little", signed=True)
    number = int(value)
    return number - 2**64 if number >= 2**63 else number


def results_of(words: Sequence[int], kinds: Sequence[NumKind]) -> list[int | float]:
    """Return the results as Python numbers, from their words."""
    found: list[int | float] = []
    for word, kind in zip(words, kinds, strict=True):
        packed = int(word).to_bytes(8, "little", signed=True)
        if kind.type == BOOL:
            found.append(bool(packed[0]))
        else:
            size = kind.type.itemsize
            number: np.ndarray = np.frombuffer(packed[:size], kind.type.dtype)
            found.append(number[0].item())
    return found


@frozen
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
    # The words of the table whose memory it certainly writes to.
    stores: frozenset[int] = frozenset()

    def run(self, table: NDArray[np.int64]) -> Any:
        """Call the function with a table of arguments; return its results, or raise the error that it ended with."""
        status = self.entry(address_of(table))
        return self.result(table.data) if status == 0 else self.refuse(status)

    def result(self, words: memoryview[int]) -> Any:
        """Return the results from the table."""
        if self.whole:
            return words[-1]
        if not self.results:
            return None
        found = results_of(words[len(words) - len(self.results) :].tolist(), self.results)
        return found[0] if self.single else tuple(found)

    def error(self, status: int) -> IndexError:
        """Return the error of a status code."""
        return IndexError(self.errors[status])

    def refuse(self, status: int) -> NoReturn:
        """Raise the error of a status code."""
        raise self.error(status)


class CachedTable:
    """A cached argument table; it holds only weak references to arrays."""

    def __init__(self, machine: LoadedFunction, table: NDArray[np.int64], arguments: Sequence[object]) -> None:
        self.machine = machine
        self.table = table
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
    return _table_of_words(machine, [words_of(each, kind) for each, kind in zip(arguments, kinds, strict=True)])


def _table_of_words(machine: LoadedFunction, words: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    every = [word for each in words for word in each]
    return np.array([*every, *machine.constants, *[0] * len(machine.results)], np.int64)


def arrays_of(arguments: Sequence[object], kinds: Sequence[Kind]) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield the arrays of the arguments: the argument's position, the word with the array's address, the array."""
    word = 0
    for position, (argument, kind) in enumerate(zip(arguments, kinds, strict=True)):
        for start, found in _arrays_in(argument, kind, word):
            yield position, start, found
        word += len(types_of(kind))


def read_only_stores(machine: LoadedFunction, arguments: Sequence[object], kinds: Sequence[Kind]) -> list[int]:
    """Return the positions of the arguments with an array that is read-only and that the function stores to."""
    if not machine.stores:
        return []
    every = arrays_of(arguments, kinds)
    return [position for position, word, array in every if word in machine.stores and not array.flags.writeable]


class BoundFunction:
    """A function bound to arguments. `take` replaces the first ones (`head`) and those at `changing` before a call.

    Unlike for `CompiledFunction`, shape, strides and dtype of an array must not be assigned in place between calls:
    programs copy what they are called with, and an epoch makes new views of its columns.
    """

    def __init__(
        self, function: CompiledFunction, head: Sequence[object], others: Sequence[object], changing: Sequence[int]
    ) -> None:
        self.arguments: list[Any] = [*head, *others]
        self._kinds = kinds = tuple(map(kind_of_argument, self.arguments))
        self._machine = function.machine(kinds)
        every = [words_of(each, kind) for each, kind in zip(self.arguments, kinds, strict=True)]
        self._table = _table_of_words(self._machine, every)
        # The table of arguments, which a call reads.
        self.words: memoryview[int] = self._table.data
        self._address = address_of(self._table)
        starts = list(accumulate(map(len, every), initial=0))
        positions = [(index, starts[index], kinds[index]) for index in (*range(len(head)), *changing)]
        self._head, self._head_positions, self._positions = head, positions[: len(head)], positions[len(head) :]
        self._changed: Sequence[object] | None = None

    def copy(self) -> BoundFunction:
        """Return the function bound to the same arguments, in a table of its own."""
        other = BoundFunction.__new__(BoundFunction)
        vars(other).update(vars(self), arguments=list(self.arguments), _table=self._table.copy())
        other.words, other._address = other._table.data, address_of(other._table)
        return other

    def error(self, status: int) -> IndexError:
        """Return the error of a status code."""
        return self._machine.error(status)

    @property
    def entry(self) -> tuple[Callable[[int], int], int]:
        """The machine code, and the address of the table that it takes; it returns a status, 0 without an error."""
        return self._machine.entry, self._address

    def addresses(self) -> tuple[int, int, int]:
        """Return the addresses of the machine code, of the table that it takes, and of the result, 0 unless whole."""
        entry: Any = self._machine.entry
        address: int = ctypes.cast(entry, ctypes.c_void_p).value or 0
        return address, self._address, self._address + 8 * (len(self.words) - 1) if self._machine.whole else 0

    def word_of(self, position: int) -> int:
        """Return where the table has an argument of `head`, for a caller that replaces a number there."""
        word: int = self._head_positions[position][1]
        return word

    def pointers(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield the arrays of the arguments, as `arrays_of` does."""
        return arrays_of(self.arguments, self._kinds)

    def read_only_stores(self) -> list[int]:
        """Return the positions of arguments with a read-only array that the function stores to."""
        return read_only_stores(self._machine, self.arguments, self._kinds)

    def take(self, head: Sequence[object] | None, changed: Sequence[object]) -> bool:
        """Replace the arguments that change; return False if they need another specialization.

        With `head=None` the previous ones stay. The caller must not mutate the sequences: passing the same object again
        means that the arguments are unchanged.
        """
        if head is not None and head is not self._head:
            if not self._put(head, self._head_positions):
                return False
            self._head = head
        if changed is not self._changed:
            self._changed = None  # unknown until all of them are written
            if not self._put(changed, self._positions):
                return False
            self._changed = changed
        return True

    def _put(self, values: Sequence[object], positions: Sequence[tuple[int, int, Kind]]) -> bool:
        words, arguments = self.words, self.arguments
        for value, (index, start, kind) in zip(values, positions, strict=True):
            if value is arguments[index]:
                continue
            if type(value) is int and kind == _INTEGER:
                words[start] = value
            elif isinstance(value, np.ndarray) and _is_like(value, arguments[index]):
                words[start] = address_of(value)
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
        return machine.result(self.words) if status == 0 else machine.refuse(status)


class PlainFunction:
    """A function for new arguments in each call, of the same kinds: row-major arrays, and integers.

    It keeps no arguments, and threads may call it at the same time. The caller answers for their dtypes, their numbers
    of axes and their order in memory.
    """

    def __init__(self, function: CompiledFunction, arguments: Sequence[np.ndarray | int]) -> None:
        self._machine = function.machine(tuple(map(kind_of_argument, arguments)))
        self._rest = [*self._machine.constants, *[0] * len(self._machine.results)]

    def table(self, *arguments: np.ndarray | int) -> array[int]:
        """Return the table of a call: for an array its address and shape, for an integer itself.

        Whoever calls often may keep a table and replace some words. It holds no references.
        """
        words: list[int] = []
        for each in arguments:
            if isinstance(each, np.ndarray):
                words.append(address_of(each) if each.size else 0)
                words += each.shape
            else:
                words.append(each)
        return array("q", words + self._rest)

    def run(self, table: array[int]) -> Any:
        """Call the function with a table and return its results; raise the error that it ended with."""
        machine = self._machine
        status = machine.entry(table.buffer_info()[0])
        if status:
            machine.refuse(status)
        return table[-1] if machine.whole else machine.result(memoryview(table))

    def __call__(self, *arguments: np.ndarray | int) -> Any:
        """Call the function and return its results; raise the error that it ended with."""
        return self.run(self.table(*arguments))


_addressof = ctypes.addressof
_from_buffer: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer


def _arrays_in(argument: Any, kind: Kind, word: int) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the arrays of an argument whose words begin at `word`, each with the word that has its address."""
    if isinstance(kind, ViewKind):
        yield word, argument
    elif isinstance(kind, GroupKind):
        for each, item in zip(argument, kind.items, strict=True):
            yield from _arrays_in(each, item, word)
            word += len(types_of(item))


def _is_like(array: np.ndarray, other: np.ndarray) -> bool:
    """Return whether two row-major arrays are of the same kind."""
    same = array.dtype == other.dtype and array.ndim == other.ndim
    return same and array.flags.c_contiguous and other.flags.c_contiguous


def holding_the_gil(entry: Callable[[int], int]) -> Callable[[int], int]:
    """Return the machine code of an entry point to call without letting other threads run Python meanwhile."""
    code: Any = ctypes.cast(entry, ctypes.c_void_p).value  # type: ignore[arg-type]  # a ctypes function
    found: Callable[[int], int] = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(code)
    return found


def address_of(array: np.ndarray) -> int:
    """Return the address of a row-major array, five times faster than `__array_interface__`."""
    try:
        return _addressof(_from_buffer(array))
    except (TypeError, ValueError):  # read-only or empty
        address: int = array.__array_interface__["data"][0]
        return address
