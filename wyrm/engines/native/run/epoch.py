"""`NativeEpoch`: native code runs chunks of steps, and Python acts between the chunks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.columns import Columns, entries_as_columns, flat_columns
from wyrm.engines.epochs import Done, Epoch, Pace
from wyrm.engines.native.run.data_parallel import parts_of
from wyrm.engines.native.run.snapshot import Snapshot, touched_rows
from wyrm.engines.native.run.threads import Barrier, Partition, RowRange, Share, Stop, order_of_ranges
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.write import Head
from wyrm.engines.optimizer import GradientArray, add
from wyrm.errors import Diverged, OptionError
from wyrm.graph.base import BaseNode
from wyrm.support.interrupts import deliver
from wyrm.support.memory import aligned

if TYPE_CHECKING:
    from wyrm.engines.native.run.engine import NativeEngine
    from wyrm.engines.native.run.prepared import PreparedEpoch

# A snapshot is taken when training has taken this many seconds, and this many times as long as the last snapshot.
_COPY_SECONDS, _COPY_RARELY = 0.05, 40.0
# How many prepared epochs an engine keeps: the folds of a cross-validation have two numbers of rows.
_KEPT = 2


class NativeEpoch:
    """The steps of an epoch on one set of columns."""

    def __init__(self, engine: NativeEngine, columns: Columns, epoch: Epoch) -> None:
        self.engine = engine
        self.columns = columns
        self.epoch = epoch
        self.batch: int = epoch.options.batch_size
        self.accumulate: int = epoch.options.accumulate
        # The optimizer's steps on these columns; the batches of the epoch and the program's steps before them.
        self.steps: int = 0
        self.first: int = epoch.done.batches
        self.first_step: int = engine.steps
        self.seed: int | None = epoch.seed
        # Tells the threads to stop at the end of their chunk.
        self.stop: Stop = Stop()
        # The step with a loss that is not finite, the rows of its batch if they are known, and its learning rate.
        self.failed_at: int | None = None
        self.failing_rows: NDArray[np.int64] | None = None
        self.failing_rate: float = 0.0
        # The steps before the last snapshot.
        self.snapshot_steps: int = 0
        # Whether no other thread does steps, so that a snapshot can be taken.
        self.alone: bool = True
        # Whether native code has found all numbers finite after the last step.
        self.checked: bool = False
        # The arrays of each thread's last steps.
        self.bindings: dict[int, Binding] = {}
        # The rows of each range that are left after its full batches.
        self.rest: dict[RowRange, NDArray[np.int64]] = {}
        # None if each step has arrays of its own sizes, so that it is a chunk, and no call does all steps.
        same = engine.graph.flat is None or engine.graph.source.changes_sizes
        self.pace: Pace | None = engine.pace if same else None

    def run(self) -> None:
        """Do all steps, or raise `Diverged`."""
        partition, prepared, data_parallel = self._prepare()
        if prepared is None:
            self.snapshot.take()
        deliver()
        engine, threads = self.engine, self.epoch.options.threads
        with engine.runner.sharing(threads):
            try:
                if data_parallel:
                    self.epoch.drive(self._data_parallel_order(threads), partial(self._data_parallel_step, threads))
                elif prepared is not None:
                    self._run_prepared(prepared)
                else:
                    self._run_partition(partition)
            finally:
                self.stop.set()
                self._return_if_diverged()
        if self.failed_at is not None:
            failed, kept = (self.first + steps * self.accumulate for steps in (self.failed_at, self.snapshot_steps))
            what = f"the loss or a parameter of {engine.runner.name}"
            failing = self.failing_rows if self.in_order else None
            raise self.epoch.diverged(what, failed, kept, self.failing_rate, failing)

    def several(self, most: int) -> list[Done]:
        """Do up to `most` epochs in one call of native code, as many as a chunk of steps may take time.

        Return what was done in each; one that would end early is not done.
        """
        engine = self.engine
        if self.columns.rows / self.batch * 2 > engine.pace.chunk:
            return []
        prepared = self._prepare(again=True)[1]
        if prepared is None or not prepared.repeats:
            return []
        seeds, start = self.epoch.seeds(min(most, int(engine.pace.chunk / prepared.longest))), time.perf_counter()
        with engine.runner.sharing(1):
            prepared.run(seeds, self.stop)
        finished = prepared.finished
        if finished < len(seeds):
            self.snapshot.restore()
            for steps in prepared.steps:
                steps.binding.forget_rows()
        if not finished:
            return []
        engine.pace.took(prepared.longest * finished, time.perf_counter() - start)
        found = [self.epoch.done_in(prepared.batches, *_parts(totals)) for totals in prepared.totals[:finished]]
        engine.count(sum(done.batches for done in found))
        self.epoch.position.done = found[-1]
        return found

    def _prepare(self, *, again: bool = False) -> tuple[Partition, PreparedEpoch | None, bool]:
        """Return the rows of each thread, the epoch as one call a thread, and whether threads share each batch."""
        engine, (given, rows, _), options = self.engine, self.columns, self.epoch.options
        graph, optimizer, threads = engine.graph, engine.graph.optimizer, options.threads
        assert optimizer is not None
        # At most one thread per full batch.
        stepping = min(threads, max(1, rows // self.batch))
        if self.epoch.skipped and threads > 1:
            raise OptionError("an epoch that was interrupted goes on in one thread: use threads=1")
        engine.runner.load()
        partition, reordered = engine.partitioner.divide(rows, stepping, given, graph.tree.rows)
        sparse = {sums.parameter for sums in graph.tree.rows}
        # Columns in another order have other numbers of rows.
        self.in_order: bool = reordered is given
        separate = partition.disjoint and optimizer.average is None and all(p in sparse for p in graph.parameters)
        data_parallel = self.accumulate > 1 or (threads > 1 and options.mode == "synchronized" and not separate)
        used = given if data_parallel else reordered
        # The columns as (rows, elements), by input.
        columns = self.columns._replace(given={leaf: used[leaf] for leaf in given})
        read = engine.data_parallel.runner.graph.fed if data_parallel else graph.fed
        self.flat: dict[BaseNode, np.ndarray] = flat_columns(columns, read)
        touched = touched_rows(graph, entries_as_columns(given))
        self.snapshot: Snapshot = Snapshot(graph, touched) if touched else engine.snapshot_of_all()
        prepared = None if data_parallel or touched else self._prepared(partition, again=again)
        return partition, prepared, data_parallel

    def _return_if_diverged(self) -> None:
        """Unless everything is finite, restore the last snapshot and its step counts."""
        engine, optimizer = self.engine, self.engine.graph.optimizer
        assert optimizer is not None
        if self.failed_at is None and not self.checked and not self.snapshot.is_finite():
            self.failed_at = max(0, self.steps - 1)
        if self.failed_at is None:
            return
        engine.count(self.failed_at - self.steps)
        try:
            self.failing_rate = optimizer.learning_rate
        finally:
            self.snapshot.restore()
            engine.count(self.snapshot_steps - self.failed_at)
            self.steps = self.snapshot_steps
            engine.steps = self.first_step + self.steps * self.accumulate

    # --- all steps in one call a thread ---------------------------------------------------------------------------

    def _prepared(self, partition: Partition, *, again: bool) -> PreparedEpoch | None:
        """Return this epoch as one call a thread; None if it takes too long for that, or is the first of its kind.

        `again`: others of its kind follow.
        """
        engine, batch = self.engine, self.batch
        shuffled, rows, threads = self.seed is not None, self.columns.rows, len(partition.phases[0])
        last, engine.last_epoch = engine.last_epoch, (partition, batch, shuffled)
        again = again or (last is not None and last[0] is partition and last[1:] == (batch, shuffled))
        longest = rows / (batch * threads)
        if not again or self.epoch.skipped or not engine.runner.compiled or longest > engine.pace.chunk:
            return None
        if not engine.prepares or self.pace is None:
            return None
        from wyrm.engines.native.run.prepared import PreparedEpoch, is_preparable

        known = (each for each in engine.prepared if each.fits(self.columns, self.flat, partition, batch, shuffled))
        prepared = next(known, None)
        if prepared is not None:
            engine.prepared.remove(prepared)
        elif is_preparable(self.snapshot, threads):
            prepared = PreparedEpoch(engine, self.columns, self.flat, partition, batch, shuffled, self.snapshot)
        else:
            return None
        engine.prepared = [*engine.prepared, prepared][-_KEPT:]
        return prepared

    def _run_prepared(self, prepared: PreparedEpoch) -> None:
        """Do all steps; those done before an error count too."""
        engine, start = self.engine, time.perf_counter()
        # What follows is not to be undone, unless native code ends early.
        self.checked = True
        try:
            prepared.run([self.seed], self.stop)
        finally:
            engine.pace.took(prepared.longest, time.perf_counter() - start)
            self._count_steps(prepared.totals[0], prepared.batches)
            self.epoch.show()
        ended = prepared.ended_by()
        if ended is None:
            return
        steps, status = ended
        if steps is None:
            self._fail(max(0, self.steps - 1))
        elif status:
            self.checked = False
            raise engine.runner.refused(steps.binding, steps.function.error(status))
        else:
            steps.binding.forget_rows()
            self._fail(self.steps, prepared.failing_rows(steps))

    # --- threads over ranges of the rows --------------------------------------------------------------------------

    def _run_partition(self, partition: Partition) -> None:
        """Run each thread through its ranges, phase by phase, and then the rows left over from full batches."""
        batch, threads, skipped = self.batch, len(partition.phases[0]), self.epoch.skipped
        # Compile before other threads need it, and in this thread, where Ctrl-C can interrupt it.
        self.engine.binding(self.columns, self.flat, min(batch, self.columns.rows), 0)
        shares = partition.shares(batch, skipped)
        in_threads = sum(sum(phase[0].counts) for phase in shares)
        # Exactly the steps of this epoch, because a learning-rate schedule may end with it.
        numbers = self.engine.numbers(in_threads + -(-(self.columns.rows - (skipped + in_threads) * batch) // batch))
        in_turn = threads > 1 and bool((numbers != numbers[:1]).any())
        barrier, self.alone = self.engine.barrier(threads, self.stop), threads == 1
        jobs = [
            partial(self._run_phases, partition, barrier, [
                (share, numbers[share.turns if in_turn else slice(share.first, None)]) for share in own
            ])
            for own in zip(*shares, strict=True)
        ]  # fmt: skip
        self.engine.pool.run(jobs, self.stop)
        self.alone = True
        self.epoch.show()
        if self.failed_at is None:
            rest = [self.rest[each] for phase in partition.phases for ranges in phase for each in ranges]
            run_steps = partial(self._run_steps, 0, (0, 1), self.engine.steps, numbers[in_threads:])
            self.epoch.drive(np.concatenate(rest), run_steps, self.pace)

    def _run_phases(
        self, partition: Partition, barrier: Barrier, shares: Sequence[tuple[Share, NDArray[np.float64]]]
    ) -> None:
        """Run one thread through its ranges; a phase begins when all threads have finished the one before."""
        for phase, (share, numbers) in enumerate(shares):
            if phase:
                barrier.wait()
            thread, done = share.thread, 0
            for position in order_of_ranges(len(share.ranges), self.seed, thread):
                each = share.ranges[position]
                order = self.epoch.shuffled(partition.rows_of(each), self.engine.shuffles[thread], each.start)
                full = len(order) - len(order) % self.batch
                self.rest[each] = order[full:].copy()
                step, stripe = self.first_step + share.first + done, (each.stripe, partition.stripes)
                run_steps = partial(self._run_steps, thread, stripe, step, numbers[done:])
                self.epoch.drive(order[:full], run_steps, self.pace)
                done += full // self.batch

    def _run_steps(
        self, thread: int, stripe: tuple[int, int], step: int, numbers: NDArray[np.float64],
        first: int, count: int, rows: NDArray[np.int64],
    ) -> int:  # fmt: skip
        """Do steps in a thread and return how many; steps done before an exception are counted too.

        Random nodes draw from a `stripe` of their tables. The drive's first step is number `step` of the program and
        has the first of these `numbers`.
        """
        if self.stop.is_set():
            return 0
        self._take_snapshot_if_due()
        engine, batch = self.engine, len(rows) // count
        if not first or batch < self.batch or self.pace is None:
            own = rows if self.pace is None else None
            self.bindings[thread] = engine.binding(self.columns, self.flat, batch, thread, rows=own)
            for array in self.bindings[thread].stripes(stripe[1]):
                array[:2] = stripe
        bound, start = self.bindings[thread], time.perf_counter()
        totals: NDArray[np.float64] = aligned((1 + len(engine.graph.outputs),), np.dtype(np.float64))
        try:
            engine.runner.call(bound, self.flat, Head(0, count, batch, step + first, rows, totals, numbers[first:]))
        finally:
            steps = self._count_steps(totals[None], np.array([float(batch)]))
        if batch == self.batch:
            engine.pace.took(count, time.perf_counter() - start)
        done = int(totals[1])
        if done < count:
            self._fail(steps, rows[done * batch : (done + 1) * batch])
        return done

    def _fail(self, steps: int, rows: NDArray[np.int64] | None = None) -> None:
        """Note that the step after so many others, on these rows, had a loss that is not finite; stop all threads."""
        self.failed_at, self.failing_rows = steps, rows
        self.stop.set()

    def _count_steps(self, totals: NDArray[np.float64], batches: NDArray[np.float64]) -> int:
        """Count the steps of calls, from the totals and the batch size of each; return those of all threads so far."""
        with self.engine.count_lock:
            done = self.epoch.count(batches, *_parts(totals))
            self.engine.count(done)
            self.steps += done
            return self.steps

    def _take_snapshot_if_due(self) -> None:
        """Take a snapshot if one is due, for `Diverged` to restore."""
        if not self.alone:
            return
        snapshot, due = self.snapshot, max(_COPY_SECONDS, _COPY_RARELY * self.snapshot.cost)
        since = time.perf_counter() - snapshot.taken
        if self.steps > self.snapshot_steps and since > due and snapshot.is_finite():
            snapshot.take()
            self.snapshot_steps = self.steps

    # --- synchronized steps over parts of each batch --------------------------------------------------------------

    def _data_parallel_order(self, threads: int) -> NDArray[np.int64]:
        if threads == 1:  # as in an epoch that does not accumulate
            return self.epoch.order(self.columns.rows, self.engine.shuffles[0])
        order = np.arange(self.columns.rows, dtype=np.int64)
        if self.seed is not None:
            np.random.default_rng(self.seed).shuffle(order)
        return order

    def _data_parallel_step(self, threads: int, _first: int, _count: int, rows: NDArray[np.int64]) -> int:
        """Do one step with the mean gradient of the batches of these rows, each in a part for each thread."""
        self._take_snapshot_if_due()
        engine, step = self.engine, self.engine.data_parallel
        combination = step.combination(self.columns.given)
        batches = [rows[start : start + self.batch] for start in range(0, len(rows), self.batch)]
        gradients, outputs = dict[BaseNode, GradientArray](), list[list[float]]()
        for i, own in enumerate(batches):
            parts = parts_of(own, threads, combination)
            bindings = [
                engine.binding(self.columns, self.flat, len(part), thread, step.runner, part)
                for thread, part in enumerate(parts)
            ]
            loss, added = step.gradients(
                bindings, self.flat, parts, engine.steps + i, lambda jobs: engine.pool.run(jobs, self.stop),
                combination, len(own) / len(rows),
            )  # fmt: skip
            if not np.isfinite(loss):
                self._fail(self.steps, rows)
                return 0
            add(gradients, added)
            step.move_buffers()
            outputs.append([loss, *step.metrics])
        try:
            step.apply(gradients)
        except Diverged:
            self._fail(self.steps, rows)
            return 0
        self.steps += 1
        engine.steps += len(batches)  # the optimizer counts its own steps
        self.epoch.count(np.array([float(len(own)) for own in batches]), np.ones(len(batches)), np.array(outputs))
        return 1


def _parts(totals: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the number of steps of each call, and the sums of its outputs, from the totals of calls.

    These are the sum of the losses, the number of steps and the sums of the other outputs.
    """
    return totals[:, 1], totals[:, :1] if totals.shape[1] == 2 else np.delete(totals, 1, axis=1)
