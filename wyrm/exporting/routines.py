"""Routines of an export: compiled functions whose arguments lie in the block of memory, and their tables of words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wyrm.engines.native.ir.types import ScalarType
from wyrm.engines.native.kernels.functions import Routine
from wyrm.engines.native.kernels.translate import Specialization
from wyrm.engines.native.kernels.values import GroupKind, Kind, NumKind, ViewKind, types_of
from wyrm.engines.native.llvm.calling import kind_of_argument, words_of
from wyrm.engines.native.llvm.library import Modules
from wyrm.engines.native.llvm.optimize import Unit
from wyrm.engines.native.llvm.product_modules import takes_packed_memory
from wyrm.engines.native.products.matrix import packed_bytes
from wyrm.engines.native.products.target import Target
from wyrm.exporting.batches import BatchDependent, BatchSizes, NotPolynomial, varying
from wyrm.exporting.image import Extents, Image, Region, SizeNumber, address_of, owner_of
from wyrm.exporting.image import Kind as RegionKind
from wyrm.ops.kernels.native import noting_scratch

if TYPE_CHECKING:
    from wyrm.exporting.tables import Table

# The layouts of views, the one that says most first.
_LAYOUTS = ("contiguous", "rows", "any")


class Base(Enum):
    """What a word counts from: nothing, the block of memory, or the constant data."""

    NUMBER = "number"
    BLOCK = "block"
    DATA = "data"


@dataclass(frozen=True)
class Word:
    """A word of a table: a number, or an address in a region, which is `value` bytes behind its start."""

    value: BatchDependent
    region: Region | None = None

    @property
    def base(self) -> Base:
        """What the word counts from."""
        if self.region is None:
            return Base.NUMBER
        return Base.DATA if self.region.kind is RegionKind.CONSTANT else Base.BLOCK

    def shifted(self) -> BatchDependent:
        """Return the value with the place of the region."""
        return self.value if self.region is None else self.value.plus(self.region.offset)


def number(value: int) -> Word:
    """Return the word of a number."""
    return Word(BatchDependent((value,)))


@dataclass(eq=False)
class Entry:
    """A compiled function: the symbol of its entry point, and the layout of the table that this takes.

    `starts` are the first words of the arguments. Behind those come the constants, the address of memory for packed
    operands if it takes one, and the results.
    """

    symbol: str
    kinds: tuple[Kind, ...]
    starts: tuple[int, ...]
    constants: list[int]
    packs: bool
    results: int
    written: frozenset[int]

    @property
    def packed_at(self) -> int:
        """The word with the address of memory for packed operands."""
        return self.starts[-1] + len(self.constants)

    @property
    def results_at(self) -> int:
        """The first word of the results."""
        return self.packed_at + self.packs

    @property
    def size(self) -> int:
        """The words of the table."""
        return self.results_at + self.results


@dataclass(eq=False)
class Bound:
    """An entry with the words of its table, which is itself a region of the block.

    `words` are those of its arguments and, behind all that the entry takes, those of arrays for the code around it,
    whose addresses count from the start of their memory. `size` is where the block has the batch size that the table
    was filled for last; `filled` says how it is filled, once all is placed.
    """

    entry: Entry
    words: list[Word]
    table: Region
    size: Region
    filled: Table = field(init=False)

    @property
    def length(self) -> int:
        """The words of the table."""
        return self.table.size // 8

    @property
    def kept(self) -> list[Region]:
        """The memory that the routine keeps from call to call, for batches of the same size."""
        regions = dict.fromkeys(word.region for word in self.words)
        kinds = (RegionKind.SCRATCH, RegionKind.COPY)
        return [each for each in regions if each is not None and each.kind in kinds and each.number is None]


class Code:
    """The compiled functions of an export, and the units that they are made of."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._modules = Modules(None, target)
        self._entries: dict[tuple[int, tuple[Kind, ...]], Entry] = {}
        self._units: dict[str, Unit] = {}
        self._keep: list[Routine] = []

    @property
    def units(self) -> list[Unit]:
        """The modules."""
        return list(self._units.values())

    @property
    def errors(self) -> dict[int, str]:
        """The messages of the statuses that entry points return."""
        return self._modules.translation.errors

    @property
    def packed_bytes(self) -> int:
        """The bytes of memory for packed operands of products."""
        return max((packed_bytes(self.target, number) for number in self._modules.packs), default=0)

    def entry(self, function: Routine, kinds: tuple[Kind, ...]) -> Entry:
        """Return a function compiled for arguments of these kinds."""
        key = id(function), kinds
        if key not in self._entries:
            self._keep.append(function)
            compiled = self._modules.translation.specialized(function, kinds)
            name = compiled.function.name
            units, constants = self._modules.all_of(name)
            self._units |= {unit.symbol: unit for unit in units}
            self._entries[key] = Entry(
                units[-1].symbol,
                kinds,
                tuple(accumulate((len(types_of(kind)) for kind in kinds), initial=0)),
                [word for each in constants for word in words_of(each.value, NumKind(each.type))],
                takes_packed_memory(self._modules.function(name)),
                len(compiled.function.results),
                compiled.written,
            )
        return self._entries[key]

    def translated(self, kernel: Routine, kinds: tuple[Kind, ...]) -> Specialization:
        """Return a function translated for arguments of these kinds; raise `NotCompiled` if it cannot be."""
        return self._modules.translation.specialized(kernel, kinds)

    def together(self, symbols: Mapping[str, str]) -> str:
        """Return the text of a module with translated functions by symbols; add the modules that it calls."""
        text, units = self._modules.together(symbols)
        self._units |= {unit.symbol: unit for unit in units}
        return text


def array_kind(type: ScalarType, axes: int = 1) -> ViewKind:
    """Return the kind of a row-major array."""
    return ViewKind(type, axes, "contiguous")


# --- the words of arguments -------------------------------------------------------------------------------------------


class _Item(NamedTuple):
    """A word of an argument for one batch size: a number, or the address of an array."""

    word: int
    array: np.ndarray | None = None


def _items(argument: Any, kind: Kind) -> Iterator[_Item]:
    if isinstance(kind, GroupKind):
        for each, item in zip(argument, kind.items, strict=True):
            yield from _items(each, item)
        return
    words = words_of(argument, kind)
    is_array = isinstance(argument, np.ndarray)
    yield _Item(words[0], argument if is_array else None)
    yield from map(_Item, words[1:])


def arrays_of(argument: Any) -> Iterator[np.ndarray]:
    """Yield the arrays of an argument, or of several."""
    if isinstance(argument, np.ndarray):
        yield argument
    elif isinstance(argument, tuple):
        for each in argument:
            yield from arrays_of(each)


def joined(kinds: Sequence[Kind]) -> Kind:
    """Return the kind that holds for all of these; they differ in what is known of the layout of views."""
    first = kinds[0]
    if isinstance(first, GroupKind):
        members = zip(*(each.items for each in kinds if isinstance(each, GroupKind)), strict=True)
        return GroupKind(tuple(map(joined, members)))
    if isinstance(first, ViewKind):
        layouts = [each.layout for each in kinds if isinstance(each, ViewKind)]
        return replace(first, layout=max(layouts, key=_LAYOUTS.index))
    if any(each != first for each in kinds):
        raise NotPolynomial
    return first


class Arguments:
    """The arguments of a routine for each sample of the batch sizes."""

    def __init__(self, by_size: Mapping[int, Sequence[Any]], transient: Mapping[int, np.ndarray]) -> None:
        self.by_size = by_size
        self.sizes: list[int] = list(by_size)
        every = [[kind_of_argument(each) for each in arguments] for arguments in by_size.values()]
        self.kinds: tuple[Kind, ...] = tuple(map(joined, zip(*every, strict=True)))
        # The memory that only a call needs.
        self.transient: dict[int, int] = {size: id(owner_of(memory)) for size, memory in transient.items()}
        self.extents: dict[int, Extents] = {
            size: Extents(array for each in arguments for array in arrays_of(each))
            for size, arguments in by_size.items()
        }


@dataclass
class ArrayRegions:
    """The regions of arrays. `known` are those of arrays that several routines share, by their owner."""

    image: Image
    known: dict[int, tuple[Region, int]] = field(default_factory=dict)
    # Arrays without content, whatever they hold, by their identity. Those of calls of kernels have a number each, and
    # share a region with those of other calls that have the same one.
    scratch: dict[int, int | None] = field(default_factory=dict)
    shared: dict[int, Region] = field(default_factory=dict)
    keep: list[np.ndarray] = field(default_factory=list)
    # The routines of programs.
    bound: list[Bound] = field(default_factory=list)

    def share(self, array: np.ndarray, kind: RegionKind, content: bytes = b"") -> Region:
        """Give an array a region that all routines use."""
        owner = owner_of(array)
        if id(owner) not in self.known:
            region = self.image.add(array.nbytes, kind, content)
            self.known[id(owner)] = region, address_of(array)
            self.keep.append(owner)
        return self.known[id(owner)][0]

    def words(self, given: Arguments, entry: Entry, sizes: BatchSizes) -> list[Word]:
        """Return the words of the arguments of an entry, and add regions for arrays that are not known."""
        rows = {
            size: [item for each, kind in zip(arguments, given.kinds, strict=True) for item in _items(each, kind)]
            for size, arguments in given.by_size.items()
        }
        columns = list(zip(*rows.values(), strict=True))
        # Memory of the routine's own, by the identity of its owner at the largest size: that of its owner at each size.
        # `written` holds those that the routine writes.
        owners: dict[int, tuple[int | None, ...]] = {}
        written: set[int] = set()
        dtypes: dict[int, np.dtype] = {}
        for position, items in enumerate(columns):
            arrays = [item.array for item in items]
            if arrays[-1] is None or arrays[-1].size == 0:
                continue
            last = id(owner_of(arrays[-1]))
            if last in self.known:
                continue
            found = tuple(id(owner_of(each)) if each is not None and each.size else None for each in arrays)
            owners[last] = tuple(map(_same, owners.get(last, found), found))
            dtypes[last] = arrays[-1].dtype
            if position in entry.written:
                written.add(last)
        regions = {
            last: self._region(given, found, last in written, dtypes[last], sizes) for last, found in owners.items()
        }
        return [self._word(given, items, regions, sizes) for items in columns]

    def _region(
        self, given: Arguments, owners: tuple[int | None, ...], written: bool, dtype: np.dtype, batches: BatchSizes
    ) -> tuple[Region, dict[int, int]]:
        """Return the region of an array that differs between batch sizes, and where each size's content begins."""
        sizes, last = given.sizes, owners[-1]
        lengths = [0 if own is None else given.extents[size].size(own) for size, own in zip(sizes, owners, strict=True)]
        assert last is not None
        # A smaller batch may need more room: the gradient of a table has the rows that a small batch touches, and for a
        # large batch those of the table.
        none, room = dict.fromkeys(sizes, 0), max(lengths)
        if last == given.transient[sizes[-1]]:
            return self.image.add(room, RegionKind.TRANSIENT), none
        if last in self.scratch:
            return self._scratch(self.scratch[last], room), none
        contents = [
            b"" if own is None else given.extents[size].content(own) for size, own in zip(sizes, owners, strict=True)
        ]
        kind = RegionKind.COPY if written else RegionKind.CONSTANT
        if not any(any(each) for each in contents):
            return self.image.add(room, RegionKind.SCRATCH), none
        if all(contents[-1].startswith(each) for each in contents):
            return self.image.add(lengths[-1], kind, contents[-1]), none
        if not written and dtype.kind == "f" and lengths == [dtype.itemsize] * len(lengths):
            found = _size_number(dict(zip(sizes, contents, strict=True)), dtype, batches)
            if found is not None:
                region = self.image.add(lengths[-1], RegionKind.SCRATCH)
                region.number = found
                return region, none
        # One after the other, as each size has its own.
        starts, whole = dict[int, int](), b""
        for size, content in zip(sizes, contents, strict=True):
            whole += bytes(-len(whole) % 64)
            starts[size] = len(whole)
            whole += content
        return self.image.add(len(whole), kind, whole), starts

    def _scratch(self, number: int | None, room: int) -> Region:
        """Return a region for scratch of a number among that of its call: one call at a time uses it."""
        if number is None:
            return self.image.add(room, RegionKind.SCRATCH)
        if number not in self.shared:
            self.shared[number] = self.image.add(room, RegionKind.SCRATCH)
        self.shared[number].size = max(self.shared[number].size, room)
        return self.shared[number]

    def _word(
        self, given: Arguments, items: tuple[_Item, ...], regions: Mapping[int, tuple[Region, dict[int, int]]],
        sizes: BatchSizes,
    ) -> Word:  # fmt: skip
        arrays = [item.array for item in items]
        if arrays[-1] is None:
            return Word(varying({size: item.word for size, item in zip(given.sizes, items, strict=True)}, sizes))
        if arrays[-1].size == 0:
            return number(0)
        last = id(owner_of(arrays[-1]))
        if last in self.known:
            region, start = self.known[last]
            offsets = {
                size: address_of(array) - start
                for size, array in zip(given.sizes, arrays, strict=True)
                if array is not None and array.size
            }
            return Word(varying(offsets, sizes), region)
        region, starts = regions[last]
        offsets = {
            size: address_of(array) - given.extents[size].bounds[id(owner_of(array))][0] + starts[size]
            for size, array in zip(given.sizes, arrays, strict=True)
            if array is not None and array.size
        }
        return Word(varying(offsets, sizes), region)


def _same(first: int | None, second: int | None) -> int | None:
    """Return the owner that two arrays of one size have; one of them may be empty."""
    if first is not None and second is not None and first != second:
        raise NotPolynomial
    return first if second is None else second


def _size_number(contents: Mapping[int, bytes], dtype: np.dtype, batches: BatchSizes) -> SizeNumber | None:
    """Return the integer that a float is for each batch size, or whose reciprocal it is; None if it is neither."""
    floats = {size: float(np.frombuffer(content, dtype)[0]) for size, content in contents.items()}
    for reciprocal in (False, True):
        if reciprocal and 0.0 in floats.values():
            continue
        whole = {size: round(1.0 / value if reciprocal else value) for size, value in floats.items()}
        exact = all(
            whole[size] and np.array(1.0 / whole[size] if reciprocal else whole[size], dtype).tobytes() == content
            for size, content in contents.items()
        )
        if exact:
            with suppress(NotPolynomial):
                return SizeNumber(varying(whole, batches), dtype, reciprocal)
    return None


__all__ = [
    "Arguments",
    "ArrayRegions",
    "Base",
    "Bound",
    "Code",
    "Entry",
    "Word",
    "array_kind",
    "arrays_of",
    "noting_scratch",
    "number",
]
