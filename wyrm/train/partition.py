"""Which rows of the data each thread goes through, so that threads rarely touch the same rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from wyrm.compiler.loops import RowSums
from wyrm.node.base import BaseNode
from wyrm.node.loop_form import LOOPS
from wyrm.node.storage import bound_array
from wyrm.train.shuffle import by_block, compiled, fingerprint

Leaf = BaseNode
# Blocks may differ this much from their mean before the threads would wait for each other too long.
_MOST_UNEVEN = 1.4
# Stripes of a table are made about as small as the cache of a core, blocks not so small that steps on them cost less
# than starting them, nor so many that sorting rows into them is slow.
_NEAR_BYTES = 2**19
_SMALLEST_BLOCK = 8192
_MOST_STRIPES = 32


@dataclass(frozen=True)
class Part:
    """Rows of `order` that come one after another, and the stripe of the tables that random indices draw from."""

    start: int
    stop: int
    stripe: int


@dataclass(frozen=True)
class Partition:
    """An order of all rows, None for the one that they have, and for each phase the parts of each thread.

    `apart`: threads share no row.
    """

    order: NDArray[np.int64] | None
    phases: list[list[list[Part]]]
    stripes: int
    apart: bool

    def rows_of(self, part: Part) -> NDArray[np.int64]:
        """The rows of a part, in an array of its own."""
        if self.order is None:
            return np.arange(part.start, part.stop, dtype=np.int64)
        return self.order[part.start : part.stop].copy()


class Partitioner:
    """Divides rows among threads; remembers how for the next pass over columns that are as they were in the last."""

    def __init__(self) -> None:
        # What the last division was made for, that division, and the columns in its order.
        self._known: tuple[tuple[int, ...], Partition, dict[Leaf, np.ndarray]] | None = None

    def divide(
        self, rows: int, threads: int, given: Mapping[Leaf, np.ndarray], sums: Sequence[RowSums]
    ) -> tuple[Partition, Mapping[Leaf, np.ndarray]]:
        """Parts of the rows for each thread, and the columns that they are parts of.

        Where all columns decide which rows of tables are touched, they are put in the order of the parts, so that what
        a part reads lies together in memory.
        """
        leaves = key_columns(sums, given) if threads > 1 else None
        if leaves is None:
            return divide(rows, threads), given
        keys = [given[leaf] for leaf in leaves]
        alone = given.keys() == set(leaves)
        now = threads, alone, *(compiled(fingerprint)(key) for key in keys)
        if self._known is None or self._known[0] != now:
            tables = [bound_array(each.parameter) for each in sums]
            division = divide(rows, threads, keys, 2 * max(table.nbytes for table in tables))
            columns: dict[Leaf, np.ndarray] = {}
            if alone and division.order is not None:
                columns = {leaf: given[leaf][division.order] for leaf in leaves}
                division = replace(division, order=None)
            self._known = now, division, columns
        _, division, columns = self._known
        return division, columns or given


def divide(rows: int, threads: int, keys: Sequence[NDArray[np.int64]] | None = None, table_bytes: int = 0) -> Partition:
    """Parts of the rows for each thread, by blocks of one or two key columns, or else simply cut.

    A block is a stripe of the first key crossed with one of the second; in each of `threads` phases no two threads
    have a stripe in common. Of tables that take `table_bytes` there are so many stripes that one stays near a core.
    """
    if keys is not None and threads > 1:
        stripes = threads * _finer(rows, threads, table_bytes)
        order, starts = np.empty(rows, np.int64), np.empty(stripes * stripes + 1, np.int64)
        compiled(by_block)(keys[0], keys[-1], stripes, np.empty(rows, np.uint32), starts, order)
        phases = [
            [_blocks(starts, stripes, threads, thread, (thread + phase) % threads) for thread in range(threads)]
            for phase in range(threads)
        ]
        # Of one key only the blocks on the diagonal have rows.
        phases = [phase for phase in phases if any(phase)]
        longest = sum(max(sum(part.stop - part.start for part in parts) for parts in phase) for phase in phases)
        if longest * threads <= _MOST_UNEVEN * rows:
            return Partition(order, phases, stripes, apart=True)
    bounds = [rows * thread // threads for thread in range(threads + 1)]
    parts = [[Part(start, stop, 0)] for start, stop in pairwise(bounds)]
    return Partition(None, [parts], 1, apart=False)


def _finer(rows: int, threads: int, table_bytes: int) -> int:
    """How many stripes a thread's share of the tables is cut into, for blocks that are not too small."""
    wanted = -(-table_bytes // (threads * _NEAR_BYTES))
    most = int((rows / _SMALLEST_BLOCK) ** 0.5) // threads
    # An odd number: of a power of two of stripes, all rows of one would fall into the same few sets of the cache.
    return max(1, min(wanted, most, _MOST_STRIPES // threads) - 1 | 1)


def _blocks(starts: NDArray[np.int64], stripes: int, threads: int, first: int, second: int) -> list[Part]:
    """The blocks that have rows, of the stripes that belong to two of the threads' shares."""
    return [
        Part(int(starts[i * stripes + j]), int(starts[i * stripes + j + 1]), j)
        for i in range(first, stripes, threads)
        for j in range(second, stripes, threads)
        if starts[i * stripes + j] < starts[i * stripes + j + 1]
    ]


def key_columns(sums: Sequence[RowSums], columns: Mapping[Leaf, np.ndarray]) -> list[Leaf] | None:
    """The one or two columns that decide which rows of the tables a step touches; None where that is not so simple.

    Beside them, random nodes may draw rows of the same tables.
    """
    keys: dict[Leaf, None] = {}
    draws: set[Leaf] = set()  # the keys of tables that random nodes draw from
    for rows in sums:
        size = int(rows.parameter.dims[0])
        sizes = {node: LOOPS.of(node).draws_from(node) for node in rows.indices}
        found = {node for node, drawn in sizes.items() if drawn is None}
        drawn = [drawn for drawn in sizes.values() if drawn is not None]
        if len(found) != 1 or not found <= columns.keys() or any(each != size for each in drawn):
            return None
        (key,) = found
        if columns[key].ndim != 1:
            return None
        keys[key] = None
        if drawn:
            draws.add(key)
    ordered = sorted(keys, key=draws.__contains__)  # random nodes draw from the stripe of the last one
    return ordered if len(draws) <= 1 and 1 <= len(keys) <= 2 else None
