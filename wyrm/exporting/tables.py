"""The tables of words of bound routines: what is known of each once memory is placed, and the kernel that fills it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wyrm.engines.native.kernels.memory import address
from wyrm.engines.native.run.shuffle import copy
from wyrm.exporting.batches import BatchDependent
from wyrm.exporting.image import DataArray, Image, Kind, Region
from wyrm.exporting.intrinsics import array_at, kernel
from wyrm.exporting.kernels import clear, put_words
from wyrm.exporting.routines import Base, Bound, Word
from wyrm.ops.kernels.sums import natural

_BASES = {Base.NUMBER: 0, Base.BLOCK: 1, Base.DATA: 2}


@dataclass(eq=False)
class Varying:
    """An integer that depends on the batch size, its `listed` values, and the words of a table that it is added to."""

    value: BatchDependent
    listed: DataArray | None
    words: DataArray


@dataclass(eq=False)
class Number:
    """A float in the block that depends on the batch size: an integer, or its reciprocal."""

    region: Region
    value: BatchDependent
    listed: DataArray | None
    dtype: np.dtype
    reciprocal: bool


@dataclass(eq=False)
class Table:
    """How the table of a routine is filled.

    `kept` has the places and the sizes of what is cleared for another batch size than the last one, and `copies` what
    is copied then: where to, from where in the data, and how many bytes. Each word is that of `fixed`, an
    address in the block or the data if `bases` says so, and what varies.
    """

    bound: Bound
    kept: DataArray
    copies: tuple[tuple[Region, Region, int], ...]
    fixed: DataArray
    bases: DataArray
    varying: tuple[Varying, ...]
    numbers: tuple[Number, ...]


def table_of(image: Image, bound: Bound, packed: int) -> Table:
    """Return the table of a routine; `packed` is the place of memory for packed operands in the block."""
    entry, arguments = bound.entry, bound.entry.starts[-1]
    words, others = bound.words[:arguments], bound.words[arguments:]
    own = [*entry.constants, *([packed] * entry.packs), *([0] * entry.results)]
    fixed = np.array([*map(_start, words), *own, *map(_start, others)], np.int64)
    bases = np.zeros(len(fixed), np.uint8)
    bases[:arguments] = [_BASES[each.base] for each in words]
    bases[entry.packed_at : entry.results_at] = _BASES[Base.BLOCK]
    places: dict[BatchDependent, list[int]] = {}
    for position, word in zip([*range(arguments), *range(entry.size, len(fixed))], bound.words, strict=True):
        if word.value.constant is None:
            places.setdefault(word.value, []).append(position)
    listed: dict[tuple[int, ...], DataArray] = {}

    def table(value: BatchDependent) -> DataArray | None:
        if value.listed and value.listed not in listed:
            listed[value.listed] = image.append(np.array(value.listed, np.int64))
        return listed.get(value.listed)

    numbered = [word.region for word in words if word.region is not None and word.region.number is not None]
    kept = np.array([(each.offset, each.size) for each in bound.kept], np.int64).reshape(-1, 2)
    return Table(
        bound, image.append(kept),
        tuple(
            (each, replace(each, kind=Kind.CONSTANT, offset=image.copies[each]), len(each.content))
            for each in bound.kept if each.kind is Kind.COPY and each.content
        ),
        image.append(fixed), image.append(bases),
        tuple(
            Varying(value, table(value), image.append(np.array(positions, np.int32)))
            for value, positions in places.items()
        ),
        tuple(
            Number(each, of.value, table(of.value), of.dtype, of.reciprocal)
            for each in dict.fromkeys(numbered) if (of := each.number) is not None
        ),
    )  # fmt: skip


def _start(word: Word) -> int:
    return (word.value.constant or 0) + (0 if word.region is None else word.region.offset)


@kernel
def fill(table: Table, block: Any, size: int, place: int) -> Any:
    """Fill a table for a batch size, which has a place among the listed ones, and return it.

    What a routine keeps is of batches of one size, as in Python, where each size has arrays of its own.
    """
    last = array_at(block, table.bound.size, np.int64)
    if last[()] != size:
        last[()] = size
        _clear(block, array_at(block, *table.kept))
        for target, source, length in table.copies:
            copy(array_at(block, source, np.uint8, (length,)), array_at(block, target, np.uint8, (length,)))
    words = array_at(block, table.bound.table, np.int64, (table.bound.length,))
    places = address(block[0]), address(block[1])
    put_words(words, array_at(block, *table.fixed), array_at(block, *table.bases), *places)
    for each in table.numbers:
        number = float(_integer(block, each.value, each.listed, size, place))
        _put(array_at(block, each.region, each.dtype), 1.0 / number if each.reciprocal else number)
    for varying in table.varying:
        value = _integer(block, varying.value, varying.listed, size, place)
        _add(words, array_at(block, *varying.words), value)
    return words


@kernel
def _clear(block: Any, regions: np.ndarray) -> None:
    """Clear the block at these places, of these sizes."""
    for each in regions:
        clear(array_at(block, each[0], np.uint8, (each[1],)))


@kernel
def _add(words: np.ndarray, places: np.ndarray, value: int) -> None:
    for each in places:
        words[natural(each)] += value


@kernel
def _put(target: np.ndarray, number: float) -> None:
    target[()] = number


@kernel
def _integer(block: Any, value: BatchDependent, listed: DataArray | None, size: int, place: int) -> int:
    """Return an integer for a batch size."""
    if listed is not None:
        return int(array_at(block, *listed)[place])
    if value.divisor > 1:
        size = natural(size + value.divisor - 1) // value.divisor
    total, power = value.coefficients[0], 1
    for degree, factor in enumerate(value.coefficients):
        if degree > 0:
            # The binomial coefficient of `size - 1` and the degree, from that of the degree before.
            power = natural(power * (size - degree)) // degree
            total += power * factor
    return total if value.limit is None else min(total, value.limit)
