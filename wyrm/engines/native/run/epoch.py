"""`NativeEpoch`: native code runs chunks of steps, and Python acts between the chunks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.columns import Columns, as_column
from wyrm.engines.epochs import Epoch
from wyrm.engines.native.run.data_parallel import parts_of
from wyrm.engines.native.run.snapshot import Snapshot, touched_rows
from wyrm.engines.native.run.threads import Barrier, Partition, RowRange, Stop, order_of_ranges, turns
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.write import Head
from wyrm.engines.optimizer import GradientArray, add
from wyrm.errors import Diverged, OptionError
from wyrm.graph.base import BaseNode
from wyrm.support.frozen import frozen
from wyrm.support.interrupts import deliver
from wyrm.support.memory import aligned

if TYPE_CHECKING:
    from wyrm.engines.native.run.engine import NativeEngine
    from wyrm.engines.native.run.prepared import PreparedEpoch

# Seconds that a chunk of steps should take; Ctrl-C, the progress bar and the snapshot come between chunks.
_CHUNK = 0.05
# A snapshot is taken when training has taken this many times as long as the last snapshot.
_COPY_RARELY = 40.0


@frozen
class ThreadWork:
    """One thread's share of a phase: its ranges of rows, its first step, and the optimizer's numbers for each step."""

    ranges: Sequence[RowRange]
    step: int
    numbers: NDArray[np.float64]


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
        # The step with a loss that is not finite, and its learning rate.
        self.failed_at: int | None = None
        self.failing_rate: float = 0.0
        # The steps before the last snapshot.
        self.snapshot_steps: int = 0
        # Whether native code has found all numbers finite after the last step.
        self.checked: bool = False
        # The rows of each range that are left after its full batches.
        self.rest: dict[RowRange, NDArray[np.int64]] = {}

    def run(self) -> None:
        """Do all steps, or raise `Diverged`."""
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
        separate = partition.disjoint and optimizer.average is None and all(p in sparse for p in graph.parameters)
        data_parallel = self.accumulate > 1 or (threads > 1 and options.mode == "synchronized" and not separate)
        used = given if data_parallel else reordered
        # The columns as (rows, elements), by input.
        self.flat: dict[BaseNode, np.ndarray] = {leaf: as_column(used[leaf]) for leaf in given}
        touched = touched_rows(graph, given)
        self.snapshot: Snapshot = Snapshot(graph, touched) if touched else engine.snapshot_of_all()
        prepared = None if data_parallel or touched else self._prepared(partition)
        if prepared is None:
            self.snapshot.take()
        deliver()
        with engine.runner.sharing(options.threads):
            try:
                if data_parallel:
                    self._run_data_parallel(threads)
                elif prepared is not None:
                    self._run_prepared(prepared)
                else:
                    self._run_partition(partition)
            finally:
                self.stop.set()
                self._return_if_diverged()
        if self.failed_at is not None:
            self._raise_diverged()

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

    def _raise_diverged(self) -> None:
        assert self.failed_at is not None
        failed, last = (self.first + steps * self.accumulate for steps in (self.failed_at, self.snapshot_steps))
        raise Diverged(
            f"the loss or a parameter of {self.engine.runner.name} became NaN or infinite in epoch "
            f"{self.epoch.number}, batch {failed + 1} at learning rate {self.failing_rate:g}; the parameters are as "
            f"they were after batch {last}. Lower the learning rate, or look for the cause with wy.watch_nan()"
        )

    # --- all steps in one call a thread ---------------------------------------------------------------------------

    def _prepared(self, partition: Partition) -> PreparedEpoch | None:
        """Return this epoch as one call a thread; None if it takes too long for that, or is the first of its kind."""
        engine, batch = self.engine, self.batch
        shuffled, rows, threads = self.seed is not None, self.columns.rows, len(partition.phases[0])
        last, engine.last_epoch = engine.last_epoch, (partition, batch, shuffled)
        again = last is not None and last[0] is partition and last[1:] == (batch, shuffled)
        longest = rows / (batch * threads)
        if not again or self.epoch.skipped or not engine.runner.compiled or longest > engine.rate * _CHUNK:
            return None
        if not engine.prepares:
            return None
        from wyrm.engines.native.run.prepared import PreparedEpoch, is_preparable

        prepared = engine.prepared
        if prepared is None or not prepared.fits(self.columns, self.flat, partition, batch, shuffled):
            prepared = None
            if is_preparable(self.snapshot, threads):
                prepared = PreparedEpoch(engine, self.columns, self.flat, partition, batch, shuffled, self.snapshot)
        engine.prepared = prepared
        return prepared

    def _run_prepared(self, prepared: PreparedEpoch) -> None:
        """Do all steps; those done before an error count too."""
        engine, start = self.engine, time.perf_counter()
        # What follows is not to be undone, unless native code ends early.
        self.checked = True
        try:
            prepared.run(self.seed, self.stop)
        finally:
            self._set_rate(prepared.longest, time.perf_counter() - start)
            self._count(prepared.totals, prepared.batches)
            self.epoch.show()
        ended = prepared.ended_by()
        if ended is None:
            return
        steps, status = ended
        if steps is None:
            self.failed_at = max(0, self.steps - 1)
            return
        if status:
            self.checked = False
            raise engine.runner.refused(steps.binding, steps.function.error(status))
        steps.binding.forget_rows()
        self.failed_at = self.steps

    # --- threads over ranges of the rows --------------------------------------------------------------------------

    def _run_partition(self, partition: Partition) -> None:
        """Run each thread through its ranges, phase by phase, and then the rows left over from full batches."""
        rows = self.columns.rows - self.epoch.skipped * self.batch
        # Compile before other threads need it, and in this thread, where Ctrl-C can interrupt it.
        self._binding(min(self.batch, self.columns.rows), 0)
        batch, threads = self.batch, len(partition.phases[0])
        full = [[sum((r.stop - r.start) // batch for r in ranges) for ranges in phase] for phase in partition.phases]
        full[0][0] -= self.epoch.skipped
        in_threads = sum(map(sum, full))
        # Exactly the steps of this epoch, because a learning-rate schedule may end with it.
        numbers = self.engine.numbers(in_threads + -(-(rows - in_threads * batch) // batch))
        shares: list[list[ThreadWork]] = [[] for _ in range(threads)]
        alike = bool((numbers == numbers[:1]).all())
        step, used = self.engine.steps, 0
        for phase, counts in zip(partition.phases, full, strict=True):
            of_phase = numbers[used : used + sum(counts)]
            used += len(of_phase)
            for thread, (ranges, count) in enumerate(zip(phase, counts, strict=True)):
                own = of_phase[:count] if alike else of_phase[turns(counts, thread)]
                shares[thread].append(ThreadWork(ranges, step, own))
                step += count
        barrier, seed = self.engine.barrier(threads, self.stop), self.seed
        jobs = [
            partial(self._run_phases, partition, own, thread, seed, barrier, in_main=threads == 1)
            for thread, own in enumerate(shares)
        ]
        self.engine.pool.run(jobs, self.stop)
        self.epoch.show()
        if self.failed_at is not None:
            return
        order = np.concatenate([self.rest[each] for phase in partition.phases for ranges in phase for each in ranges])
        filling = len(order) // batch * batch
        self._steps(order, filling // batch, self.engine.steps, 0, (0, 1), numbers[in_threads:], in_main=True)
        if self.failed_at is None and len(order) > filling:
            # One step on the remaining rows, fewer than a batch.
            rest = order[filling:]
            self._chunk(self._binding(len(rest), 0), 1, len(rest), self.engine.steps, rest, numbers[-1:])
            self.epoch.show()

    def _run_phases(
        self,
        partition: Partition,
        shares: Sequence[ThreadWork],
        thread: int,
        seed: int | None,
        barrier: Barrier,
        in_main: bool,
    ) -> None:
        """Run one thread through all phases; a phase begins when all threads have finished the one before."""
        for position, share in enumerate(shares):
            if position:
                barrier.wait()
            self._run_phase(partition, share, thread, seed, in_main)

    def _run_phase(self, partition: Partition, share: ThreadWork, thread: int, seed: int | None, in_main: bool) -> None:
        """Run one thread through its ranges of a phase, one after another."""
        done = 0
        for position in order_of_ranges(len(share.ranges), seed, thread):
            each = share.ranges[position]
            order = partition.rows_of(each)
            if seed is not None:
                self.engine.shuffles[thread](order, (seed + each.start) % 2**63)
            if self.epoch.skipped:  # there is one range
                order = order[self.epoch.skipped * self.batch :]
            count = len(order) // self.batch
            self.rest[each] = order[count * self.batch :].copy()
            stripe = (each.stripe, partition.stripes)
            self._steps(order, count, share.step + done, thread, stripe, share.numbers[done:], in_main)
            done += count

    def _steps(
        self,
        order: NDArray[np.int64],
        count: int,
        step: int,
        thread: int,
        stripe: tuple[int, int],
        numbers: NDArray[np.float64],
        in_main: bool,
    ) -> None:
        """Do `count` steps on the rows of `order`, in chunks."""
        if count == 0:
            return
        binding = self._binding(self.batch, thread)
        for _, array in binding.stripes:
            array[:] = stripe
        done = 0
        while done < count and not self.stop.is_set():
            # A single step as long as the speed is unknown.
            chunk = min(count - done, max(1, int(self.engine.rate * _CHUNK)))
            start = time.perf_counter()
            done += self._chunk(binding, chunk, self.batch, step + done, order[done * self.batch :], numbers[done:])
            self._set_rate(chunk, time.perf_counter() - start)
            if thread == 0:
                self.epoch.show()
            if in_main and self.failed_at is None:
                self._take_snapshot_if_due()
            deliver()

    def _set_rate(self, steps: int, seconds: float) -> None:
        """Take over the speed of these steps; a very short call tells only how slow it is at most."""
        rate = steps / max(seconds, 1e-6)
        self.engine.rate = rate if seconds > _CHUNK / 50 else max(rate, self.engine.rate)

    def _chunk(
        self,
        binding: Binding,
        count: int,
        batch: int,
        step: int,
        order: NDArray[np.int64],
        numbers: NDArray[np.float64],
    ) -> int:
        """Do steps and return how many; steps done before an exception are counted too."""
        engine = self.engine
        totals: NDArray[np.float64] = aligned((1 + len(engine.graph.outputs),), np.dtype(np.float64))
        try:
            engine.runner.call(binding, self.flat, Head(0, count, batch, step, order, totals, numbers))
        except BaseException:
            with engine.count_lock:
                self.steps += int(totals[1])
                engine.count(int(totals[1]))
            raise
        with engine.count_lock:
            steps_done = self._count(totals[None], np.array([float(batch)]))
            if steps_done < count:
                self.failed_at = self.steps
                self.stop.set()
        return steps_done

    def _count(self, totals: NDArray[np.float64], batches: NDArray[np.float64]) -> int:
        """Count the steps of calls, from the totals and the batch size of each, and return how many they are."""
        weighted = batches @ totals
        steps, rows = totals[:, 1], int(weighted[1])
        done = int(np.add.reduce(steps))
        # The totals are the sum of the losses, the number of steps and the sums of the other outputs.
        outputs = totals[:, :1] if totals.shape[1] == 2 else np.delete(totals, 1, axis=1)
        sums = np.add.reduce(outputs * self.epoch.totals.weights(batches[:, None]))
        self.steps += done
        self.engine.count(done)
        self.epoch.count(done, rows, sums, float(weighted[0]))
        return done

    def _take_snapshot_if_due(self) -> None:
        """Take a snapshot if one is due, for `Diverged` to restore."""
        snapshot = self.snapshot
        if time.perf_counter() - snapshot.taken > max(_CHUNK, _COPY_RARELY * snapshot.cost) and snapshot.is_finite():
            snapshot.take()
            self.snapshot_steps = self.steps

    def _binding(self, batch: int, thread: int) -> Binding:
        return self.engine.binding(self.columns, self.flat, batch, thread)

    # --- synchronized steps over parts of each batch --------------------------------------------------------------

    def _run_data_parallel(self, threads: int) -> None:
        """Do data-parallel steps: each computes the gradients of its batches in as many parts as there are threads."""
        rows, seed = self.columns.rows, self.seed
        if threads == 1:  # the order of an epoch that does not accumulate
            order = self.epoch.order(rows, self.engine.shuffles[0])
        else:
            order = np.arange(rows, dtype=np.int64)
            if seed is not None:
                np.random.default_rng(seed).shuffle(order)
        size = self.batch * self.accumulate
        for start in range(0, len(order), size):
            try:
                loss = self._data_parallel_step(order[start : start + size], threads)
            except Diverged:
                loss = float("nan")
            if not np.isfinite(loss):
                self.failed_at = self.steps
                return
            self.steps += 1
            self._take_snapshot_if_due()
            deliver()

    def _data_parallel_step(self, order: NDArray[np.int64], threads: int) -> float:
        """Do one step with the mean gradient of the batches of these rows; return a loss that is not finite, if any."""
        engine, epoch, loss = self.engine, self.epoch, 0.0
        step = engine.data_parallel
        combination = step.combination(self.columns.given)
        gradients: dict[BaseNode, GradientArray] = {}
        done, losses = epoch.done, 0.0
        for start in range(0, len(order), self.batch):
            rows = order[start : start + self.batch]
            parts = parts_of(rows, threads, combination)
            bindings = [
                engine.binding(self.columns, self.flat, len(part), thread, step.runner)
                for thread, part in enumerate(parts)
            ]
            loss, added = step.gradients(
                bindings, self.flat, parts, engine.steps, lambda jobs: engine.pool.run(jobs, self.stop), combination,
                len(rows) / len(order),
            )  # fmt: skip
            if not np.isfinite(loss):
                return loss
            add(gradients, added)
            step.move_buffers()
            engine.steps += 1  # the optimizer counts its own steps
            sums = np.array([loss, *step.metrics]) * epoch.totals.weights(len(rows))
            done = done.plus(1, len(rows), sums)
            losses += loss * len(rows)
        step.apply(gradients)
        # Only here: an interrupted epoch goes on with a whole step.
        epoch.position.done = done
        epoch.bar.add(len(order), losses)
        return loss
