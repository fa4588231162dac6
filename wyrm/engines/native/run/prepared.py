"""`PreparedEpoch`: all calls of a short epoch, which each thread does in one call of native code.

One thread can do several epochs in one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.columns import Columns
from wyrm.engines.native.llvm.calling import BoundFunction, address_of
from wyrm.engines.native.llvm.sequence import BARRIERS, Call, CallSequence, SharedState
from wyrm.engines.native.run.shuffle import PLACES, bound, copy, count_up, is_finite, put_pair, shuffle
from wyrm.engines.native.run.snapshot import Snapshot
from wyrm.engines.native.run.threads import Partition, RowRange, Share, Stop, order_of_ranges
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.write import Head
from wyrm.graph.base import BaseNode
from wyrm.graph.storage import bound_array
from wyrm.support.frozen import frozen
from wyrm.support.memory import ALIGNMENT, aligned

if TYPE_CHECKING:
    from wyrm.engines.native.run.engine import NativeEngine

# The positions of arguments of `run`.
_STEP, _TOTALS, _HYPERPARAMETERS = (Head._fields.index(name) for name in ("step", "totals", "hyperparameters"))
# The position of the seed among the arguments of `shuffle`.
_SEED = 1
# Numbers in a cache line, of which two threads share none.
_LINE = ALIGNMENT // 8
# Threads share the copy and the check of an array of at least this many bytes; those of a smaller one take less time
# than threads that meet.
_SHARED_BYTES = 2**18


@dataclass
class Steps:
    """Steps in one call of `run`: how many, on batches of which size and rows, with which arrays of the program."""

    function: BoundFunction
    count: int
    batch: int
    binding: Binding
    rows: NDArray[np.int64]
    # The number of the first step among those of the epoch.
    first: int = 0


@frozen
class _Range:
    """A range of rows: the calls that order them, among them the shuffle, and the steps on its full batches."""

    start: int
    before: list[Call]
    shuffled: BoundFunction | None
    steps: Steps | None


@frozen
class _Share:
    """One thread's part of a phase; its numbers are those of the epoch at `turns`."""

    ranges: list[_Range]
    first: int
    turns: NDArray[np.int64]
    numbers: NDArray[np.float64]


class PreparedEpoch:
    """An epoch in one call a thread, over data and with options that `fits` compares with those of its creation.

    The threads copy what a divergence goes back to, do their ranges, phase by phase, and look for numbers that are not
    finite; the first thread does the rows left over from full batches. `totals` has what each epoch of a run did,
    `finished` how many of them came to their end, and `ended_by` the steps that ended the last one early.
    """

    def __init__(
        self, engine: NativeEngine, columns: Columns, flat: dict[BaseNode, np.ndarray], partition: Partition,
        batch: int, shuffled: bool, snapshot: Snapshot,
    ) -> None:  # fmt: skip
        self._engine, self._columns, self._flat = engine, columns, flat
        self._partition, self._batch, self._shuffled, self._snapshot = partition, batch, shuffled, snapshot
        self._shapes = columns.shapes(engine.graph.fed, batch)
        self._bindings: dict[tuple[int, int], Binding] = {}
        self._threads = len(partition.phases[0])
        self._state = SharedState(self._threads)
        self._order = np.empty(columns.rows, np.int64)
        self._scratch = [np.empty(PLACES, np.uint64) for _ in range(self._threads)]
        shares = partition.shares(batch)
        counts = [phase[0].counts for phase in shares]
        in_threads = sum(map(sum, counts))
        # The numbers of the optimizer that are the same in all steps.
        self._constants: dict[str, float | None] = {}
        steps = in_threads + -(-(columns.rows - in_threads * batch) // batch)
        self._numbers = engine.numbers(steps, constants=self._constants)
        self.steps: list[Steps] = []
        # A row for each range and two for the rest; calls of two threads share no cache line.
        most = sum(len(ranges) for phase in partition.phases for ranges in phase) + 2
        width = 1 + len(engine.graph.outputs)
        self._all_totals: NDArray[np.float64] = aligned((1, most, -(-width // _LINE) * _LINE), np.dtype(np.float64))
        self._shares = [[self._share(each) for each in phase] for phase in shares]
        self._last = self._tail(in_threads)
        parts = [self._parts(snapshot, thread) for thread in range(self._threads)]
        self._copies = [[Call(bound(copy, array, kept)) for array, kept in part] for part in parts]
        self._checks = [
            [Call(bound(is_finite, array), 1) for array, _ in part if array.dtype.kind == "f"] for part in parts
        ]
        # The most steps of one thread.
        self.longest: int = sum(map(max, counts)) + len(self._numbers) - in_threads
        # The arrays of inputs without a column, which keep the data that they hold.
        given = columns.leaves(engine.graph.fed)
        self._held = [
            (leaf, binding.array(buffer))
            for binding in self._bindings.values()
            for leaf, buffer in engine.graph.source.fed
            if leaf not in given
        ]
        # Ranges in another order each time need their calls anew.
        self._moves = shuffled and any(len(share.ranges) > 1 for phase in self._shares for share in phase)
        self._shuffles = [
            (each.shuffled, each.start)
            for phase in self._shares for share in phase for each in share.ranges if each.shuffled is not None
        ]  # fmt: skip
        # The words of arguments that differ from epoch to epoch, by table; and the addresses of those of one thread.
        self._places = self._places_of_words()
        self._addresses = [] if self._threads > 1 else [words_address(*each) for each in self._places]
        self._sequences = self._in_sequence(None)
        self._width = width
        # The totals of each epoch of the last run and each call, and the batch size of each call.
        self.totals: NDArray[np.float64] = self._all_totals[:, : len(self.steps), :width]
        self.batches: NDArray[np.float64] = np.array([float(each.batch) for each in self.steps])

    def fits(
        self, columns: Columns, flat: Mapping[BaseNode, np.ndarray], partition: Partition, batch: int, shuffled: bool
    ) -> bool:
        """Take these columns; return whether the epoch is one over such data, with these options."""
        if partition is not self._partition or batch != self._batch or shuffled != self._shuffled:
            return False
        if columns.given.keys() != self._columns.given.keys() or self._snapshot is not self._engine.snapshot:
            return False
        if columns.shapes(self._engine.graph.fed, batch) != self._shapes:
            return False
        self._flat.update(flat)
        return all(each.is_current() for each in self._bindings.values()) and all(
            each.function.take(None, [self._flat[leaf] for leaf in each.binding.columns]) for each in self.steps
        )

    @property
    def repeats(self) -> bool:
        """Whether a run may be several epochs."""
        return self._threads == 1 and not self._moves

    def run(self, seeds: Sequence[int | None], stop: Stop) -> None:
        """Do an epoch for each of the seeds of shuffles; `totals` then has what was done."""
        if len(seeds) == len(self._all_totals):
            self._all_totals[:] = 0.0
        else:
            self._all_totals = aligned((len(seeds), *self._all_totals.shape[1:]), self._all_totals.dtype)
            self.totals = self._all_totals[:, : len(self.steps), : self._width]
        for leaf, array in self._held:
            np.copyto(array, bound_array(leaf))
        numbers = self._set_numbers(len(seeds))
        if self._moves:
            self._sequences = self._in_sequence(seeds[0])
        turns = [self._words_of(epoch, seed, numbers) for epoch, seed in enumerate(seeds)]
        self._state.begin()
        if self._threads == 1:
            self._sequences[0].run(np.array(turns, np.int64))
            return
        for (words, place), word in zip(self._places, turns[0], strict=True):
            words[place] = word
        once: NDArray[np.int64] = np.empty((1, 0), np.int64)
        self._engine.pool.run([partial(each.run, once) for each in self._sequences], stop)

    @property
    def finished(self) -> int:
        """How many epochs of the last run came to their end."""
        return min(sequence.turns for sequence in self._sequences)

    def ended_by(self) -> tuple[Steps | None, int] | None:
        """Return the steps that ended the epoch early and the status they ended with, which is 0 if a loss is to blame.

        There are no steps if it was the check at the end. None if all was done.
        """
        for sequence in self._sequences:
            call = sequence.ended_by
            if call is not None:
                steps = next((each for each in self.steps if each.function is call.function), None)
                return steps, sequence.status
        return None

    def failing_rows(self, steps: Steps) -> NDArray[np.int64]:
        """Return the rows of the batch at which these steps ended the first epoch of a run early."""
        done = int(self.totals[0, self.steps.index(steps), 1])
        return steps.rows[done * steps.batch : (done + 1) * steps.batch]

    # --- making the calls -----------------------------------------------------------------------------------------

    def _full(self, rows: RowRange) -> int:
        return (rows.stop - rows.start) // self._batch

    def _share(self, share: Share) -> _Share:
        thread, first, positions = share.thread, share.first, share.turns
        numbers = self._numbers[first:] if self._threads == 1 else self._numbers[positions]
        made, done = list[_Range](), 0
        for each in share.ranges:
            order, given = self._order[each.start : each.stop], self._partition.order
            if given is None:
                fill = bound(count_up, order, each.start)
            else:
                fill = bound(copy, given[each.start : each.stop], order)
            calls, shuffled, steps, count = [Call(fill)], None, None, self._full(each)
            if self._shuffled:
                shuffled = bound(shuffle, order, 0, self._scratch[thread])
                calls.append(Call(shuffled))
            if count:
                stripes = each.stripe, self._partition.stripes
                calls += self._stripes(self._binding(self._batch, thread), stripes)
                steps = self._steps(self._batch, thread, count, first + done, order, numbers[done:])
            made.append(_Range(each.start, calls, shuffled, steps))
            done += count
        return _Share(made, first, positions, numbers)

    def _tail(self, first: int) -> list[Call]:
        """Return the calls for the rows left over from full batches."""
        batch, calls, left = self._batch, list[Call](), list[NDArray[np.int64]]()
        for each in (each for phase in self._partition.phases for ranges in phase for each in ranges):
            left.append(self._order[each.start + self._full(each) * batch : each.stop])
        order, place = np.empty(sum(map(len, left)), np.int64), 0
        for rows in left:
            if len(rows):
                calls.append(Call(bound(copy, rows, order[place : place + len(rows)])))
                place += len(rows)
        count = len(order) // batch
        if count:
            calls += self._stripes(self._binding(batch, 0), (0, 1))
            calls.append(_call_of_steps(self._steps(batch, 0, count, first, order, self._numbers[first:])))
        if rest := len(order) % batch:
            calls.append(
                _call_of_steps(self._steps(rest, 0, 1, first + count, order[count * batch :], self._numbers[-1:]))
            )
        return calls

    def _parts(self, snapshot: Snapshot, thread: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the parts of the snapshot's arrays and of their copies that are this thread's."""
        parts = list[tuple[np.ndarray, np.ndarray]]()
        for array, kept in snapshot.pairs:
            threads = self._threads if array.nbytes >= _SHARED_BYTES else 1
            first, last = (array.size * each // threads for each in (thread, thread + 1))
            if thread < threads and first < last:
                parts.append((array.reshape(-1)[first:last], kept.reshape(-1)[first:last]))
        return parts

    def _binding(self, batch: int, thread: int) -> Binding:
        if (batch, thread) not in self._bindings:
            self._bindings[batch, thread] = self._engine.binding(self._columns, self._flat, batch, thread)
        return self._bindings[batch, thread]

    def _steps(
        self, batch: int, thread: int, count: int, first: int, order: NDArray[np.int64], numbers: NDArray[np.float64]
    ) -> Steps:
        """Return a call of `run`."""
        binding, runner = self._binding(batch, thread), self._engine.runner
        totals = self._all_totals[0, len(self.steps), : 1 + len(self._engine.graph.outputs)]
        function = runner.bound(binding, self._flat, Head(0, count, batch, 0, order, totals, numbers))
        steps = Steps(function, count, batch, binding, order, first)
        self.steps.append(steps)
        return steps

    def _stripes(self, binding: Binding, stripes: tuple[int, int]) -> list[Call]:
        """Return the calls after which random nodes draw from a stripe of their table."""
        return [Call(bound(put_pair, array, *stripes)) for array in binding.stripes(stripes[1])]

    def _in_sequence(self, seed: int | None) -> list[CallSequence]:
        """Return the calls of each thread, with the ranges of a phase in the order of a seed."""
        meet: list[Call | None] = [None] if self._threads > 1 else []
        every: list[list[Call | None]] = [[] for _ in range(self._threads)]
        for calls, copies in zip(every, self._copies, strict=True):
            calls += copies
        for phase in self._shares:
            for thread, share in enumerate(phase):
                every[thread] += [*meet, *self._calls(share, thread, seed)]
        for calls in every:
            calls += meet
        every[0] += self._last
        for calls, checks in zip(every, self._checks, strict=True):
            calls += [*(meet if any(self._checks[1:]) else []), *checks]
        return [CallSequence(calls, self._state, self._addresses) for calls in every]

    def _calls(self, share: _Share, thread: int, seed: int | None) -> Iterator[Call]:
        done = 0
        for position in order_of_ranges(len(share.ranges), seed, thread):
            each = share.ranges[position]
            yield from each.before
            if each.steps is not None:
                steps, numbers = each.steps, share.numbers[done:]
                steps.first = share.first + done
                place = steps.function.word_of(_HYPERPARAMETERS)
                steps.function.words[place] = address_of(numbers)
                steps.function.words[place + 1] = len(numbers)
                done += steps.count
                yield _call_of_steps(steps)

    def _places_of_words(self) -> list[tuple[memoryview[int], int]]:
        """Return where the words of `_words_of` belong."""
        found = [(shuffled.words, shuffled.word_of(_SEED)) for shuffled, _ in self._shuffles]
        of_steps = (_STEP, _TOTALS, _HYPERPARAMETERS) if self._threads == 1 else (_STEP, _TOTALS)
        for each in self.steps:
            found += [(each.function.words, each.function.word_of(argument)) for argument in of_steps]
        return found

    def _words_of(self, epoch: int, seed: int | None, numbers: NDArray[np.float64]) -> list[int]:
        """Return the words of arguments in an epoch of a run, whose steps have these numbers of the optimizer."""
        found = [(seed + start) % 2**63 if seed is not None else 0 for _, start in self._shuffles]
        before, totals = epoch * len(self._numbers), address_of(self._all_totals[epoch])
        for position, each in enumerate(self.steps):
            found += [self._engine.steps + before + each.first, totals + position * self._all_totals.strides[1]]
            if self._threads == 1:  # the numbers of all calls are parts of these
                found.append(address_of(numbers) + (before + each.first) * numbers.strides[0])
        return found

    def _set_numbers(self, epochs: int) -> NDArray[np.float64]:
        """Take over the optimizer's numbers for the next steps; return them."""
        if epochs > 1:
            return self._engine.numbers(epochs * len(self._numbers))
        if self._threads == 1:
            return self._engine.numbers(len(self._numbers), self._numbers, self._constants)
        now = self._engine.numbers(len(self._numbers))
        if not np.array_equal(now, self._numbers):
            self._numbers[:] = now
            for share in (share for phase in self._shares for share in phase):
                share.numbers[:] = now[share.turns]
        return now


def is_preparable(snapshot: Snapshot, threads: int) -> bool:
    """Return whether native code can copy and check these arrays, and let the threads meet."""
    arrays = [array for array, _ in snapshot.pairs]
    return (threads == 1 or BARRIERS) and all(each.flags.c_contiguous and each.dtype.kind in "fi" for each in arrays)


def words_address(words: memoryview[int], place: int) -> int:
    """Return the address of a word."""
    return address_of(np.asarray(words)) + place * words.itemsize


def _call_of_steps(steps: Steps) -> Call:
    return Call(steps.function, steps.count)
