"""What all generated functions of an export share: constants, addresses, calls of entry points, and checks."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from wyrm.engines.native.products.writer import Writer
from wyrm.exporting.batches import BatchDependent
from wyrm.exporting.image import Image, Kind, SizeNumber
from wyrm.exporting.routines import Base, Bound, Entry, Word

# A type and a value of LLVM.
Value = tuple[str, str]
# The words of the stack that calls of kernels use.
ARGUMENT_WORDS = 24


def double(value: float) -> str:
    """Return a constant of LLVM."""
    return f"0x{struct.pack('>d', value).hex().upper()}"


def address(to: Writer, base: str, offset: int | str) -> str:
    """Return the address so many bytes behind another one."""
    return to.address("i8", base, offset)


def load(to: Writer, type: str, place: str) -> str:
    """Return the value at an address, which is aligned for it."""
    return to.new(f"load {type}, ptr {place}")


def store(to: Writer, type: str, value: str | int, place: str) -> None:
    """Write a value to an address, which is aligned for it."""
    to.do(f"store {type} {value}, ptr {place}")


def refuse_if(to: Writer, condition: str, code: int | str) -> None:
    """Return from the function with an error code if a condition holds."""
    to.branch(condition, lambda: to.leave(f"ret i32 {code}"))


def call_kernel(to: Writer, entry: Entry, values: Sequence[Value], result: str | None = None) -> str:
    """Call a kernel that cannot fail. Its words go into the table `%arguments`. Return its result of a type."""
    for position, (type, value) in enumerate(values):
        store(to, type, value, to.address("i64", "%arguments", position))
    for position, word in enumerate(entry.constants, entry.starts[-1]):
        store(to, "i64", word, to.address("i64", "%arguments", position))
    to.new(f"call i32 @{entry.symbol}(ptr %arguments)")
    if result is None:
        return ""
    return load(to, result, to.address("i64", "%arguments", entry.results_at))


def value_of(to: Writer, value: BatchDependent, size: str, place: str, tables: dict[tuple[int, ...], str]) -> str:
    """Return an integer for a batch size, at a place among the listed ones. `tables` gets the tables that it reads."""
    if value.constant is not None:
        return str(value.constant)
    if value.listed:
        name = tables.setdefault(value.listed, f"@listed{len(tables)}")
        return load(to, "i64", to.address("i64", name, place))
    if value.divisor > 1:
        size = to.divide(to.add(size, value.divisor - 1), value.divisor)
    total, power = str(value.coefficients[0]), "1"
    for degree, factor in enumerate(value.coefficients[1:], 1):
        # The binomial coefficient of `size - 1` and the degree, from that of the degree before.
        power = to.divide(to.multiply(power, to.subtract(size, degree)), degree)
        total = to.add(total, to.multiply(power, factor))
    return total if value.limit is None else to.lower(total, value.limit)


class TableFunctions:
    """Functions that fill the tables of words of bound routines."""

    def __init__(self, image: Image, packed: int) -> None:
        self.image, self.packed = image, packed
        self.listed: dict[tuple[int, ...], str] = {}
        self._names: dict[Bound, str] = {}
        self._parts: list[str] = []

    def fill(self, to: Writer, bound: Bound, size: str, place: str) -> str:
        """Write a call that fills a table; return the address of the table."""
        if bound not in self._names:
            self._names[bound] = f"@fill{len(self._names)}"
            self._parts += self._function(bound, self._names[bound])
        to.do(f"call void {self._names[bound]}(ptr %memory, i64 {size}, i64 {place})")
        return address(to, "%memory", bound.table.offset)

    def texts(self) -> list[str]:
        """Return the functions and their data."""
        listed = [
            f"{name} = internal constant [{len(values)} x i64] [{', '.join(f'i64 {each}' for each in values)}]"
            for values, name in self.listed.items()
        ]
        return [*listed, *self._parts]

    def _function(self, bound: Bound, name: str) -> list[str]:
        to, entry = Writer(), bound.entry
        words = [*bound.words]
        fixed = [word.shifted().constant or 0 for word in words] + entry.constants
        relative: dict[Base, list[int]] = {
            base: [at for at, word in enumerate(words) if word.base is base and word.shifted().constant is not None]
            for base in (Base.BLOCK, Base.DATA)
        }
        if entry.packs:
            relative[Base.BLOCK].append(len(fixed))
            fixed.append(self.packed)
        table, parts = address(to, "%memory", bound.table.offset), list[str]()

        def constants(kind: str, type: str, values: Sequence[int]) -> str:
            text = ", ".join(f"{type} {value}" for value in values)
            parts.append(f"{name}.{kind} = internal constant [{len(values)} x {type}] [{text}]")
            return f"{name}.{kind}"

        # What a routine keeps is of batches of one size, as in Python, where each size has arrays of its own.
        last = address(to, "%memory", bound.size.offset)
        kept = bound.kept

        def begin() -> None:
            store(to, "i64", "%size", last)
            ranges = [number for region in kept for number in (region.offset, region.size)]
            if not ranges:
                return
            found = constants("kept", "i64", ranges)

            def clear(index: str) -> None:
                start, count = (load(to, "i64", to.address("i64", found, to.add(index, i))) for i in range(2))
                to.do(f"call void @zero_bytes(ptr {address(to, '%memory', start)}, i64 {count})")

            to.loop(len(ranges), 2, clear)
            for region in kept:
                if region.kind is Kind.COPY and region.content:
                    source = address(to, "@data", self.image.copies[region])
                    target = address(to, "%memory", region.offset)
                    to.do(f"call void @copy_bytes(ptr {target}, ptr {source}, i64 {len(region.content)})")

        to.branch(to.compare("ne", load(to, "i64", last), "%size"), begin)
        first = constants("words", "i64", fixed)

        def copy(index: str) -> None:
            store(to, "i64", load(to, "i64", to.address("i64", first, index)), to.address("i64", table, index))

        to.loop(len(fixed), 1, copy)
        for base, source in ((Base.BLOCK, "%memory"), (Base.DATA, "@data")):
            if not relative[base]:
                continue
            start = to.new(f"ptrtoint ptr {source} to i64")
            places = constants(base.value, "i32", relative[base])

            def move(index: str, places: str = places, start: str = start) -> None:
                at = to.new(f"sext i32 {load(to, 'i32', to.address('i32', places, index))} to i64")
                word = to.address("i64", table, at)
                store(to, "i64", to.add(load(to, "i64", word), start), word)

            to.loop(len(relative[base]), 1, move)
        for region in dict.fromkeys(word.region for word in words):
            if region is not None and region.number is not None:
                self._write_number(to, region.number, address(to, "%memory", region.offset))
        for position, word in enumerate(words):
            if word.shifted().constant is None:
                found = self.word(to, word, "%size", "%place")
                store(to, "i64", found, to.address("i64", table, position))
        parts.append(to.function(f"internal void {name}(ptr %memory, i64 %size, i64 %place) noinline nounwind"))
        return parts

    def _write_number(self, to: Writer, number: SizeNumber, place: str) -> None:
        type = {"float32": "float", "float64": "double"}[number.dtype.name]
        value = to.new(f"sitofp i64 {value_of(to, number.value, '%size', '%place', self.listed)} to double")
        if number.reciprocal:
            value = to.new(f"fdiv double {double(1.0)}, {value}")
        store(to, type, to.new(f"fptrunc double {value} to float") if type == "float" else value, place)

    def word(self, to: Writer, word: Word, size: str, place: str) -> str:
        """Return a word as an integer."""
        found = value_of(to, word.shifted(), size, place, self.listed)
        if word.base is Base.NUMBER:
            return found
        start = to.new(f"ptrtoint ptr {'%memory' if word.base is Base.BLOCK else '@data'} to i64")
        return to.add(start, found)

    def pointer(self, to: Writer, word: Word, size: str, place: str) -> str:
        """Return the address that a word has."""
        found = value_of(to, word.shifted(), size, place, self.listed)
        return address(to, "%memory" if word.base is Base.BLOCK else "@data", found)
