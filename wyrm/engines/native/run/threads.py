"""Threads that persist between epochs, and the division of rows among them.

Rows are divided so that threads rarely touch the same rows of a table.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.native.run.shuffle import by_block, compiled, fingerprint
from wyrm.engines.native.stages.loops import RowSums
from wyrm.graph.base import BaseNode
from wyrm.graph.loop_form import LOOPS
from wyrm.graph.storage import bound_array
from wyrm.support.frozen import frozen
from wyrm.support.interrupts import deferred, deliver

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# Threads wait too long for each other if the slowest one has more than this many times the mean number of rows.
_MOST_UNEVEN = 1.4
# A table stripe should about fit the cache of a core. Blocks must not be so small that starting one costs more than
# its steps, nor so many that sorting rows into them is slow.
_NEAR_BYTES = 2**19
_SMALLEST_BLOCK = 8192
_MOST_STRIPES = 32
# How many partitions for other numbers of rows are kept, which folds of cross-validation have.
_KEPT = 8
# Seconds between two checks for signals while a thread waits for others.
_LOOK = 0.05


# --- threads ----------------------------------------------------------------------------------------------------------


class Stop:
    """Tells threads to stop: the two methods of a `threading.Event` that nobody waits for, at a tenth of its price."""

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        """Tell the threads to stop."""
        self._is_set = True

    def is_set(self) -> bool:
        """Return whether the threads were told to stop."""
        return self._is_set


class Pool:
    """Threads beside the calling one, as many as any call has needed."""

    def __init__(self) -> None:
        self._executor: ThreadPoolExecutor | None = None
        self._size = 0
        self._process = 0

    def run(self, jobs: Sequence[Callable[[], None]], stop: Stop) -> None:
        """Run jobs in parallel, the first one in this thread; an interrupt or error sets `stop` and awaits the rest."""
        from concurrent.futures import wait

        futures: list[Future[None]] = []
        with deferred:
            try:
                executor = self._threads(len(jobs) - 1)
                for job in jobs[1:]:
                    assert executor is not None
                    futures.append(executor.submit(_stopping, job, stop))
                jobs[0]()
                while wait(futures, _LOOK).not_done:
                    deliver()
                for future in futures:
                    future.result()
            except BaseException:
                stop.set()
                wait(futures)
                raise

    def _threads(self, count: int) -> ThreadPoolExecutor | None:
        """Return an executor of at least `count` threads; a forked process has none of its parent's threads."""
        from concurrent.futures import ThreadPoolExecutor

        if count > self._size or self._process != os.getpid():
            self._executor = ThreadPoolExecutor(count, "wyrm") if count else None
            self._size, self._process = count, os.getpid()
        return self._executor


class Barrier:
    """A barrier that opens when all threads have arrived or `stop` is set; signals are delivered meanwhile."""

    def __init__(self, count: int, stop: Stop) -> None:
        self._count, self._stop = count, stop
        self._waiting, self._generation = 0, 0
        self._changed = threading.Condition()

    def wait(self) -> None:
        """Wait for the other threads."""
        with self._changed:
            before = self._generation
            self._waiting += 1
            if self._waiting == self._count:
                self._waiting, self._generation = 0, before + 1
                self._changed.notify_all()
            while self._generation == before and not self._stop.is_set():
                self._changed.wait(_LOOK)
                deliver()


def _stopping(job: Callable[[], None], stop: Stop) -> None:
    """Run a job; if it fails, stop the others."""
    try:
        job()
    except BaseException:
        stop.set()
        raise


# --- rows -------------------------------------------------------------------------------------------------------------


@frozen
class RowRange:
    """Consecutive rows of `order`, and the table stripe that random indices are drawn from."""

    start: int
    stop: int
    stripe: int


@frozen
class Share:
    """One thread's part of a phase: its ranges of rows, and the steps on their full batches.

    The steps of the phase begin with step `start` of the epoch; `counts` has how many each thread does.
    """

    ranges: list[RowRange]
    thread: int
    start: int
    counts: list[int]

    @property
    def first(self) -> int:
        """The number of its first step, when each thread's steps follow those of the thread before it."""
        return self.start + sum(self.counts[: self.thread])

    @property
    def turns(self) -> NDArray[np.int64]:
        """The positions of its steps among those of the epoch, when threads with steps left take turns.

        >>> [Share([], thread, 0, [3, 1]).turns.tolist() for thread in (0, 1)]
        [[0, 2, 3], [1]]
        """
        mine = np.arange(self.counts[self.thread], dtype=np.int64)
        positions = np.full_like(mine, self.start)
        for other, count in enumerate(self.counts):
            positions += np.minimum(mine + (other < self.thread), count)
        return positions


@frozen
class Partition:
    """The rows that each thread visits: `phases[phase][thread]` lists its ranges of `order` (None: rows as they are).

    `disjoint`: threads of one phase share no table row.
    """

    order: NDArray[np.int64] | None
    phases: list[list[list[RowRange]]]
    stripes: int
    disjoint: bool

    def rows_of(self, rows: RowRange) -> NDArray[np.int64]:
        """Return the rows of a range as a new array."""
        if self.order is None:
            return np.arange(rows.start, rows.stop, dtype=np.int64)
        return self.order[rows.start : rows.stop].copy()

    def shares(self, batch: int, skipped: int = 0) -> list[list[Share]]:
        """Return the threads' shares of each phase, without the first `skipped` batches of the only range."""
        found, start = list[list[Share]](), 0
        for phase in self.phases:
            counts = [sum((each.stop - each.start) // batch for each in ranges) - skipped for ranges in phase]
            found.append([Share(ranges, thread, start, counts) for thread, ranges in enumerate(phase)])
            start += sum(counts)
        return found


class Partitioner:
    """Divides rows among threads; reuses the last partition while the columns stay the same."""

    def __init__(self) -> None:
        # A key of the last partition's inputs, the partition, and the columns in its order.
        self._known: tuple[tuple[int, ...], Partition, dict[BaseNode, np.ndarray]] | None = None
        # Partitions that no column decides, by rows and threads.
        self._plain: dict[tuple[int, int], Partition] = {}

    def divide(
        self, rows: int, threads: int, given: Mapping[BaseNode, np.ndarray], sums: Sequence[RowSums]
    ) -> tuple[Partition, Mapping[BaseNode, np.ndarray]]:
        """Return the rows that each thread visits, and the columns that these rows refer to.

        If every column decides which table rows are touched, the columns are reordered so that a range is contiguous
        memory.
        """
        leaves = key_columns(sums, given) if threads > 1 else None
        if leaves is None:
            if (rows, threads) not in self._plain:
                if len(self._plain) >= _KEPT:
                    self._plain.clear()
                self._plain[rows, threads] = divide(rows, threads)
            return self._plain[rows, threads], given
        keys = [given[leaf] for leaf in leaves]
        alone = given.keys() == set(leaves)
        table_bytes = max(bound_array(each.parameter).nbytes for each in sums)
        now = threads, alone, table_bytes, *(compiled(fingerprint)(key) for key in keys)
        if self._known is None or self._known[0] != now:
            partition = divide(rows, threads, keys, 2 * table_bytes)
            columns: dict[BaseNode, np.ndarray] = {}
            if alone and partition.order is not None:
                columns = {leaf: given[leaf][partition.order] for leaf in leaves}
                partition = replace(partition, order=None)
            self._known = now, partition, columns
        _, partition, columns = self._known
        return partition, columns or given


def divide(rows: int, threads: int, keys: Sequence[NDArray[np.int64]] | None = None, table_bytes: int = 0) -> Partition:
    """Split the rows into ranges for each thread: by blocks of one or two key columns, or else into equal ones.

    A block crosses a stripe of the first key with a stripe of the second. In each of the `threads` phases no two
    threads share a stripe. `table_bytes` is the size of the tables; stripes are small enough for the cache of a core.
    """
    if keys is not None and threads > 1:
        stripes = threads * _finer(rows, threads, table_bytes)
        order, starts = np.empty(rows, np.int64), np.empty(stripes * stripes + 1, np.int64)
        compiled(by_block)(keys[0], keys[-1], stripes, np.empty(rows, np.uint32), starts, order)
        phases = [
            [
                _blocks_of_thread(starts, stripes, threads, thread, (thread + phase) % threads)
                for thread in range(threads)
            ]
            for phase in range(threads)
        ]
        # With a single key only the blocks on the diagonal have rows.
        phases = [phase for phase in phases if any(phase)]
        longest = sum(max(sum(each.stop - each.start for each in ranges) for ranges in phase) for phase in phases)
        if longest * threads <= _MOST_UNEVEN * rows:
            return Partition(order, phases, stripes, disjoint=True)
    bounds = [rows * thread // threads for thread in range(threads + 1)]
    ranges = [[RowRange(start, stop, 0)] for start, stop in pairwise(bounds)]
    return Partition(None, [ranges], 1, disjoint=False)


def _finer(rows: int, threads: int, table_bytes: int) -> int:
    """Return the number of stripes in a thread's share of the tables, limited so that blocks are not too small."""
    ideal = -(-table_bytes // (threads * _NEAR_BYTES))
    limit = int((rows / _SMALLEST_BLOCK) ** 0.5) // threads
    # Odd: with a power of two, all rows of a stripe would map to the same few sets of the cache.
    return max(1, min(ideal, limit, _MOST_STRIPES // threads) - 1 | 1)


def _blocks_of_thread(starts: NDArray[np.int64], stripes: int, threads: int, first: int, second: int) -> list[RowRange]:
    """Return the non-empty blocks that cross the stripes of thread `first` with the stripes of thread `second`."""
    return [
        RowRange(int(starts[i * stripes + j]), int(starts[i * stripes + j + 1]), j)
        for i in range(first, stripes, threads)
        for j in range(second, stripes, threads)
        if starts[i * stripes + j] < starts[i * stripes + j + 1]
    ]


def order_of_ranges(count: int, seed: int | None, thread: int) -> list[int]:
    """Return the order in which a thread goes through its ranges of a phase."""
    order = list(range(count))
    if seed is not None and count > 1:
        np.random.default_rng([seed, thread]).shuffle(order)
    return order


def key_columns(sums: Sequence[RowSums], columns: Mapping[BaseNode, np.ndarray]) -> list[BaseNode] | None:
    """Return the one or two columns that decide which table rows a step touches; None if no such columns suffice.

    Random nodes may also draw rows of the same tables.
    """
    keys: dict[BaseNode, None] = {}
    draws: set[BaseNode] = set()  # the keys of tables that random nodes draw from
    for rows in sums:
        size = len(bound_array(rows.parameter)), rows.parameter.dims[0]
        sizes = {node: LOOPS.of(node).draws_from(node) for node in rows.indices}
        found = {node for node, drawn in sizes.items() if drawn is None}
        drawn = [drawn for drawn in sizes.values() if drawn is not None]
        if len(found) != 1 or not found <= columns.keys() or any(each not in size for each in drawn):
            return None
        (key,) = found
        if columns[key].ndim != 1:
            return None
        keys[key] = None
        if drawn:
            draws.add(key)
    ordered = sorted(keys, key=draws.__contains__)  # random nodes draw from the stripe of the last key
    return ordered if len(draws) <= 1 and 1 <= len(keys) <= 2 else None
