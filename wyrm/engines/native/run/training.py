"""Steps and epochs: native code runs chunks of steps, and Python acts between the chunks."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.epoch_state import EpochOptions, EpochState, ThreadWork, check_batches, turns
from wyrm.engines.feeding import as_column, check_ranges
from wyrm.engines.native.llvm.blas import limited
from wyrm.engines.native.run.calls import Calls
from wyrm.engines.native.run.data_parallel import DataParallelStep, Gradient, add, parts_of
from wyrm.engines.native.run.partition import Partition, Partitioner
from wyrm.engines.native.run.pool import Barrier, Pool
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.engines.native.run.shuffle import Shuffle
from wyrm.engines.native.run.snapshot import Snapshot
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.pipeline import Graph
from wyrm.engines.numpy.reference import accumulate
from wyrm.engines.progress import bar
from wyrm.errors import Diverged, OptionError
from wyrm.graph.axes import axis_size
from wyrm.graph.base import BaseNode
from wyrm.graph.storage import bound_array
from wyrm.support.interrupts import deferred, deliver
from wyrm.support.memory import aligned

Leaf = BaseNode
# Seconds that a chunk of steps should take; Ctrl-C, the progress bar and the snapshot come between chunks.
_CHUNK = 0.05
# A snapshot is taken when training has taken this many times as long as the last snapshot.
_COPY_RARELY = 40.0


class Training(Calls):
    """Runs the steps of one program: single ones, and those of epochs."""

    # Native code runs on one processor.
    sharding: None = None

    def __init__(self, graph: Graph, runner: NativeRunner) -> None:
        super().__init__(graph, runner)
        self.epochs = 0
        self._rate = 0.0  # steps a second of one thread
        self._pool = Pool()
        self._snapshot: Snapshot | None = None
        self._count_lock = threading.Lock()
        self._data_parallel_step: DataParallelStep | None = None
        self._shuffles = defaultdict[int, Shuffle](Shuffle)
        self._partitioner = Partitioner()

    # --- one pass -------------------------------------------------------------------------------------------------

    def epoch(
        self,
        given: dict[Leaf, np.ndarray],
        rows: int,
        singly: bool,
        options: EpochOptions,
        first: int = 0,
    ) -> list[float]:
        """Train on all rows once; return the totals of the loss and of the other outputs, see `Totals`."""
        batch_size, shuffle, seed, threads, mode, progress, accumulate = options
        check_batches(given, rows, singly, batch_size)
        self._check_open_ranges(given, min(rows, batch_size), singly)
        optimizer = self.graph.optimizer
        assert optimizer is not None
        if threads > 1 and mode == "hogwild" and self.graph.source.rules:
            raise OptionError(
                f"{optimizer!r} has a rule over whole parameters, which threads would overwrite for each "
                f"other: use mode='synchronized', or threads=1"
            )
        with deferred:  # until the end of a chunk of steps, when `deliver` is called
            # At most one thread per full batch.
            stepping = min(threads, max(1, rows // batch_size))
            self.runner.load()
            partition, columns = self._partitioner.divide(rows, stepping, given, self.graph.lowering.rows)
            mixed = int(np.random.SeedSequence([seed, self.epochs]).generate_state(1, np.uint64)[0])
            shuffled_by = mixed if shuffle else None
            separate = (
                partition.disjoint
                and optimizer.average is None
                and all(parameter in self._sparse for parameter in self.graph.parameters)
            )
            data_parallel = accumulate > 1 or (threads > 1 and mode == "synchronized" and not separate)
            used = given if data_parallel else columns
            work = EpochState(given, {leaf: as_column(used[leaf]) for leaf in given}, rows, batch_size, singly, first)
            work.sums, work.totals = np.zeros(len(self.graph.outputs)), self.totals.for_columns(given, singly)
            work.accumulate, work.first_step = accumulate, self.steps
            if self._snapshot is None or not self._snapshot.is_current():
                self._snapshot = Snapshot(self.graph)
            self._snapshot.take()
            deliver()
            free = not self.graph.source.multiplies or (self.runner.large and threads == 1)
            with bar(rows, progress) as work.bar, nullcontext() if free else limited(1):
                try:
                    if data_parallel:
                        self._run_data_parallel(work, threads, shuffled_by)
                    else:
                        self._run_partition(work, partition, shuffled_by)
                finally:
                    work.stop.set()
                    self._return_if_diverged(work)
            if work.failed_at is not None:
                self._raise_diverged(work)
            self.epochs += 1
        values: list[float] = (work.sums / work.totals.weights(rows)).tolist()
        return values

    @property
    def _sparse(self) -> set[Leaf]:
        return {sums.parameter for sums in self.graph.lowering.rows}

    def _return_if_diverged(self, work: EpochState) -> None:
        """Unless everything is finite, restore the last snapshot and its step counts."""
        snapshot, optimizer = self._snapshot, self.graph.optimizer
        assert snapshot is not None and optimizer is not None
        if work.failed_at is None and not snapshot.is_finite():
            work.failed_at = max(0, work.steps - 1)
        if work.failed_at is None:
            return
        self._count(work.failed_at - work.steps)
        try:
            work.failing_rate = optimizer.learning_rate
        finally:
            snapshot.restore()
            self._count(work.snapshot_steps - work.failed_at)
            work.steps = work.snapshot_steps
            self.steps = work.first_step + work.steps * work.accumulate

    def _raise_diverged(self, work: EpochState) -> None:
        assert work.failed_at is not None
        failed, last = (work.first + steps * work.accumulate for steps in (work.failed_at, work.snapshot_steps))
        raise Diverged(
            f"the loss or a parameter of {self.runner.name} became NaN or infinite in epoch {self.epochs + 1}, batch "
            f"{failed + 1} at learning rate {work.failing_rate:g}; the parameters are as they were after batch "
            f"{last}. Lower the learning rate, or look for the cause with wy.watch_nan()"
        )

    # --- threads over parts of the data ---------------------------------------------------------------------------

    def _run_partition(self, work: EpochState, partition: Partition, seed: int | None) -> None:
        """Run each thread through its parts, phase by phase, and then the rows left over from full batches."""
        # Compile before other threads need it, and in this thread, where Ctrl-C can interrupt it.
        self._binding(work, min(work.batch, work.rows), 0)
        batch, threads = work.batch, len(partition.phases[0])
        full = [[sum((p.stop - p.start) // batch for p in parts) for parts in phase] for phase in partition.phases]
        in_threads = sum(map(sum, full))
        # Exactly the steps of this epoch, because a learning-rate schedule may end with it.
        hyperparameters = self._hyperparameters(in_threads + -(-(work.rows - in_threads * batch) // batch))
        shares: list[list[ThreadWork]] = [[] for _ in range(threads)]
        alike = bool((hyperparameters == hyperparameters[:1]).all())
        step, used = self.steps, 0
        for phase, counts in zip(partition.phases, full, strict=True):
            of_phase = hyperparameters[used : used + sum(counts)]
            used += len(of_phase)
            for thread, (parts, count) in enumerate(zip(phase, counts, strict=True)):
                own = of_phase[:count] if alike else of_phase[turns(counts, thread)]
                shares[thread].append(ThreadWork(parts, step, own))
                step += count
        barrier = Barrier(threads, work.stop)
        jobs = [
            partial(self._run_phases, work, partition, own, thread, seed, barrier, in_main=threads == 1)
            for thread, own in enumerate(shares)
        ]
        self._pool.run(jobs, work.stop)
        if work.failed_at is not None:
            return
        order = np.concatenate([work.rest[part] for phase in partition.phases for parts in phase for part in parts])
        filling = len(order) // batch * batch
        self._part(work, order, filling // batch, self.steps, 0, (0, 1), hyperparameters[in_threads:], in_main=True)
        if work.failed_at is None and len(order) > filling:
            self._do_rest(work, order[filling:], hyperparameters[-1:])

    def _run_phases(
        self,
        work: EpochState,
        partition: Partition,
        shares: Sequence[ThreadWork],
        thread: int,
        seed: int | None,
        barrier: Barrier,
        in_main: bool,
    ) -> None:
        """Run one thread's parts of all phases; a phase begins when all threads have finished the one before."""
        for position, share in enumerate(shares):
            if position:
                barrier.wait()
            self._run_phase(work, partition, share, thread, seed, in_main)

    def _run_phase(
        self, work: EpochState, partition: Partition, share: ThreadWork, thread: int, seed: int | None, in_main: bool
    ) -> None:
        """Run one thread's parts of a phase, one after another."""
        parts = list(share.parts)
        if seed is not None and len(parts) > 1:
            np.random.default_rng([seed, thread]).shuffle(parts)
        done = 0
        for part in parts:
            order = partition.rows_of(part)
            if seed is not None:
                self._shuffles[thread](order, (seed + part.start) % 2**63)
            count = len(order) // work.batch
            work.rest[part] = order[count * work.batch :].copy()
            stripe = (part.stripe, partition.stripes)
            self._part(work, order, count, share.step + done, thread, stripe, share.hyperparameters[done:], in_main)
            done += count

    def _part(
        self,
        work: EpochState,
        order: NDArray[np.int64],
        count: int,
        step: int,
        thread: int,
        stripe: tuple[int, int],
        hyperparameters: NDArray[np.float64],
        in_main: bool,
    ) -> None:
        """Do `count` steps on the rows of `order`, in chunks."""
        if count == 0:
            return
        binding = self._binding(work, work.batch, thread)
        for _, array in binding.stripes:
            array[:] = stripe
        done = 0
        while done < count and not work.stop.is_set():
            # A single step as long as the speed is unknown.
            chunk = min(count - done, max(1, int(self._rate * _CHUNK)))
            start = time.perf_counter()
            done += self._chunk(
                work, binding, chunk, work.batch, step + done, order[done * work.batch :], hyperparameters[done:]
            )
            self._rate = chunk / max(time.perf_counter() - start, 1e-6)
            if in_main and work.failed_at is None:
                self._take_snapshot_if_due(work)
            deliver()

    def _chunk(
        self,
        work: EpochState,
        binding: Binding,
        count: int,
        batch: int,
        step: int,
        order: NDArray[np.int64],
        hyperparameters: NDArray[np.float64],
    ) -> int:
        """Do steps and return how many; steps done before an exception are counted too."""
        totals: NDArray[np.float64] = aligned((1 + len(self.graph.outputs),), np.dtype(np.float64))
        try:
            self.runner.call(binding, work.columns, (0, count, batch, step, order, totals, hyperparameters))
        except BaseException:
            with self._count_lock:
                work.steps += int(totals[1])
                self._count(int(totals[1]))
            raise
        steps_done = int(totals[1])
        with self._count_lock:
            weights = work.totals.weights(batch)
            work.sums[0] += totals[0] * weights[0]
            work.sums[1:] += totals[2:] * weights[1:]
            work.steps += steps_done
            self._count(steps_done)
            work.bar.add(steps_done * batch, totals[0] * batch)
            if steps_done < count:
                work.failed_at = work.steps
                work.stop.set()
        return steps_done

    def _take_snapshot_if_due(self, work: EpochState) -> None:
        """Take a snapshot if one is due, for `Diverged` to restore."""
        snapshot = self._snapshot
        assert snapshot is not None
        if time.perf_counter() - snapshot.taken > max(_CHUNK, _COPY_RARELY * snapshot.cost) and snapshot.is_finite():
            snapshot.take()
            work.snapshot_steps = work.steps

    def _do_rest(self, work: EpochState, order: NDArray[np.int64], hyperparameters: NDArray[np.float64]) -> None:
        """Do one step on the remaining rows, fewer than a batch."""
        self._chunk(work, self._binding(work, len(order), 0), 1, len(order), self.steps, order, hyperparameters)

    def _batch_shapes(self, given: dict[Leaf, np.ndarray], batch: int, singly: bool) -> dict[Leaf, tuple[int, ...]]:
        """Return the input shapes for batches of this size, from the columns or from the data that inputs hold."""
        shapes: dict[Leaf, tuple[int, ...]] = {}
        for leaf in self.graph.inputs:
            column = given.get(leaf)
            if column is None:
                shapes[leaf] = bound_array(leaf).shape
            else:
                shapes[leaf] = column.shape[1:] if singly else (batch, *column.shape[1:])
        return shapes

    def _check_open_ranges(self, given: dict[Leaf, np.ndarray], batch: int, singly: bool) -> None:
        """Raise `IndexOutOfRange` for an index beyond an axis whose size comes from the data."""
        limits = [limit for limit in self.graph.ranges.limits if axis_size(limit.axis) is None]
        if limits:
            sizes = self.graph.schedule.bind(self._batch_shapes(given, batch, singly))
            check_ranges(limits, given, sizes)

    def _binding(self, work: EpochState, batch: int, thread: int, runner: NativeRunner | None = None) -> Binding:
        """Return the arrays for batches of this size; inputs without a column keep the data that they hold."""
        runner = runner or self.runner
        binding = runner.binding(self._batch_shapes(work.given, batch, work.singly), thread)
        for leaf, buffer in runner.graph.source.fed:
            if leaf not in work.given:
                np.copyto(binding.array(buffer), bound_array(leaf))
                work.columns.setdefault(leaf, runner.graph.no_columns[leaf])
        runner.prepare(binding, work.columns)
        return binding

    # --- synchronized steps over parts of each batch --------------------------------------------------------------

    def backward(
        self, given: dict[Leaf, np.ndarray], rows: int, singly: bool, threads: int, weight: float, blas_threads: int
    ) -> float:
        """Add `weight` times the gradients of the loss over all rows to the parameters' gradients; return the loss."""
        check_batches(given, rows, singly, rows)
        self._check_open_ranges(given, rows, singly)
        columns = {leaf: as_column(array) for leaf, array in given.items()}
        work = EpochState(given, columns, rows, rows, singly)
        combination = self._data_parallel.combination(given)
        parts = parts_of(np.arange(rows), threads, combination)
        with deferred, limited(blas_threads):
            bindings = [self._binding(work, len(part), i, self._data_parallel.runner) for i, part in enumerate(parts)]
            loss, gradients = self._data_parallel.gradients(
                bindings, columns, parts, self.steps, lambda jobs: self._pool.run(jobs, work.stop), combination, weight
            )
            if not np.isfinite(loss):
                raise Diverged(f"the loss is {loss}; no gradient was added to those of the parameters")
            self.steps += 1
            for parameter, gradient in gradients.items():
                accumulate(parameter, gradient)  # type: ignore[arg-type]  # the leaves of gradients are parameters
            self._data_parallel.move_buffers()
        return loss

    def after_fork(self) -> None:
        """Forget the state of threads that do not exist in a forked process."""
        self._count_lock = threading.Lock()
        self._repeated_call = None
        self.runner.after_fork()
        if self._data_parallel_step is not None:
            self._data_parallel_step.runner.after_fork()

    @property
    def data_parallel_bytes(self) -> int:
        """The bytes of the data-parallel step."""
        return 0 if self._data_parallel_step is None else self._data_parallel_step.allocated_bytes

    @property
    def _data_parallel(self) -> DataParallelStep:
        if self._data_parallel_step is None:
            self._data_parallel_step = DataParallelStep(*self.graph.outputs, optimizer=self.graph.optimizer)
        return self._data_parallel_step

    def _run_data_parallel(self, work: EpochState, threads: int, seed: int | None) -> None:
        """Do data-parallel steps: each computes the gradients of its batches in as many parts as there are threads."""
        order = np.arange(work.rows, dtype=np.int64)
        if seed is not None and threads == 1:  # the order of an epoch that does not accumulate
            self._shuffles[0](order, seed % 2**63)
        elif seed is not None:
            np.random.default_rng(seed).shuffle(order)
        size = work.batch * work.accumulate
        for start in range(0, work.rows, size):
            try:
                loss = self._data_parallel_step_on(work, order[start : start + size], threads)
            except Diverged:
                loss = float("nan")
            if not np.isfinite(loss):
                work.failed_at = work.steps
                return
            work.steps += 1
            self._take_snapshot_if_due(work)
            deliver()

    def _data_parallel_step_on(self, work: EpochState, order: NDArray[np.int64], threads: int) -> float:
        """Do one step with the mean gradient of the batches of these rows; return a loss that is not finite, if any."""
        step, loss = self._data_parallel, 0.0
        combination = step.combination(work.given)
        gradients: dict[Leaf, Gradient] = {}
        for start in range(0, len(order), work.batch):
            rows = order[start : start + work.batch]
            parts = parts_of(rows, threads, combination)
            bindings = [self._binding(work, len(part), thread, step.runner) for thread, part in enumerate(parts)]
            loss, added = step.gradients(
                bindings, work.columns, parts, self.steps, lambda jobs: self._pool.run(jobs, work.stop), combination,
                len(rows) / len(order),
            )  # fmt: skip
            if not np.isfinite(loss):
                return loss
            add(gradients, added)
            step.move_buffers()
            self.steps += 1  # the optimizer counts its own steps
            work.sums += np.array([loss, *self._data_parallel.metrics]) * work.totals.weights(len(rows))
            work.bar.add(len(rows), loss * len(rows))
        step.apply(gradients)
        return loss
