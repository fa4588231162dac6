"""Steps and epochs: chunks of steps in native code, and between them what Python has to do."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from wyrm._interrupts import deferred, deliver
from wyrm.backends.llvm.blas_threads import limited
from wyrm.backends.numpy.reference import accumulate
from wyrm.compiler.arguments import Binding
from wyrm.compiler.pipeline import Graph
from wyrm.errors import Diverged
from wyrm.node.base import BaseNode
from wyrm.node.storage import bound_array, stored, touch
from wyrm.train.data_parallel import DataParallelStep, parts_of
from wyrm.train.epoch_state import EpochState, ThreadWork, check_batches, check_options, turns
from wyrm.train.feeding import as_column, check_ranges
from wyrm.train.partition import Partition, Partitioner
from wyrm.train.pool import Barrier, Pool
from wyrm.train.progress import bar
from wyrm.train.repeated_call import RepeatedCall
from wyrm.train.runner import NativeRunner, Own
from wyrm.train.shuffle import Shuffle
from wyrm.train.snapshot import Snapshot
from wyrm.types.dims import axis_size
from wyrm.types.memory import aligned

Leaf = BaseNode
Mode = Literal["hogwild", "synchronized"]
# Python comes between chunks of about this many seconds: for Ctrl-C, the progress bar, and the copy to return to.
_CHUNK = 0.05
# A copy of the parameters is made when training has taken this many times as long as the last copy.
_COPY_RARELY = 40.0
# The order of the only row of a step that takes its inputs as a whole.
_ALONE = np.zeros(1, np.int64)


class Training:
    """Runs the steps of one program."""

    def __init__(self, graph: Graph, runner: NativeRunner) -> None:
        self.graph, self.runner = graph, runner
        self.epochs = 0
        self.steps = 0
        self._rate = 0.0  # steps a second of one thread
        self._pool = Pool()
        self._snapshot: Snapshot | None = None
        self._count_lock = threading.Lock()
        self._averager: DataParallelStep | None = None
        self._shuffles = defaultdict[int, Shuffle](Shuffle)
        # What steps that take their inputs as a whole fill in and are given.
        self._totals, self._numbers = np.zeros(2), np.zeros((1, len(graph.source.hyper)))
        # What a step that takes its inputs as a whole has of its own, and the arrays of the last one.
        self._own: Own = (0, 1, 0, 0, _ALONE, self._totals, self._numbers)
        self._again: RepeatedCall | None = None
        self._divider = Partitioner()

    # --- one pass -------------------------------------------------------------------------------------------------

    def epoch(
        self,
        given: dict[Leaf, np.ndarray],
        rows: int,
        singly: bool,
        *,
        batch_size: int,
        shuffle: bool,
        seed: int,
        threads: int,
        mode: Mode,
        progress: bool,
    ) -> float:
        """Go through all rows once; the mean loss."""
        check_options(batch_size, threads, mode, seed)
        check_batches(given, rows, singly, batch_size)
        self._check_open_ranges(given, min(rows, batch_size), singly)
        with deferred:  # until the end of a chunk of steps, when `deliver` is called
            # No more than there are steps to do.
            stepping = min(threads, max(1, rows // batch_size))
            self.runner.load()
            division, columns = self._divider.divide(rows, stepping, given, self.graph.lowering.rows)
            mixed = int(np.random.SeedSequence([seed, self.epochs]).generate_state(1, np.uint64)[0])
            shuffled_by = mixed if shuffle else None
            separate = division.apart and all(parameter in self._sparse for parameter in self.graph.parameters)
            averaged = threads > 1 and mode == "synchronized" and not separate
            used = given if averaged else columns
            work = EpochState(given, {leaf: as_column(used[leaf]) for leaf in given}, rows, batch_size, singly)
            if self._snapshot is None or not self._snapshot.is_current():
                self._snapshot = Snapshot(self.graph)
            self._snapshot.take()
            deliver()
            free = not self.graph.source.multiplies or (self.runner.large and threads == 1)
            with bar(rows, progress) as work.bar, nullcontext() if free else limited(1):
                try:
                    if averaged:
                        self._averaged(work, threads, shuffled_by)
                    else:
                        self._divided(work, division, shuffled_by)
                finally:
                    work.stop.set()
                    self._return_if_diverged(work)
            if work.failed_at is not None:
                self._raise_diverged(work)
            self.epochs += 1
        return work.weighted_loss / rows

    @property
    def _sparse(self) -> set[Leaf]:
        return {sums.parameter for sums in self.graph.lowering.rows}

    def _return_if_diverged(self, work: EpochState) -> None:
        """Return to the last copy, and to the counts that it was made at, where not all is finite."""
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
            self._count(work.kept_steps - work.failed_at)
            work.steps = work.kept_steps

    def _raise_diverged(self, work: EpochState) -> None:
        assert work.failed_at is not None
        raise Diverged(
            f"the loss or a parameter of {self.runner.name} left the finite numbers in epoch {self.epochs + 1}, batch "
            f"{work.failed_at + 1} at learning rate {work.failing_rate:g}; the parameters are as they were after "
            f"batch {work.kept_steps}. Lower the learning rate, or look for the cause with wy.watch_nan()"
        )

    # --- threads over parts of the data ---------------------------------------------------------------------------

    def _divided(self, work: EpochState, division: Partition, seed: int | None) -> None:
        """Each thread steps through its parts, phase after phase; what does not fill a batch is left for the end."""
        # Compiled before other threads ask for it, and here, where Ctrl-C can end that.
        self._binding(work, min(work.batch, work.rows), 0)
        batch, threads = work.batch, len(division.phases[0])
        full = [[sum((p.stop - p.start) // batch for p in parts) for parts in phase] for phase in division.phases]
        in_threads = sum(map(sum, full))
        # Of the steps of the pass and of none beyond: a schedule may end with it.
        hyper = self._hyper(in_threads + -(-(work.rows - in_threads * batch) // batch))
        shares: list[list[ThreadWork]] = [[] for _ in range(threads)]
        alike = bool((hyper == hyper[:1]).all())
        step, used = self.steps, 0
        for phase, counts in zip(division.phases, full, strict=True):
            of_phase = hyper[used : used + sum(counts)]
            used += len(of_phase)
            for thread, (parts, count) in enumerate(zip(phase, counts, strict=True)):
                own = of_phase[:count] if alike else of_phase[turns(counts, thread)]
                shares[thread].append(ThreadWork(parts, step, own))
                step += count
        meeting = Barrier(threads, work.stop)
        jobs = [
            partial(self._phases, work, division, own, thread, seed, meeting, in_main=threads == 1)
            for thread, own in enumerate(shares)
        ]
        self._pool.run(jobs, work.stop)
        if work.failed_at is not None:
            return
        order = np.concatenate([work.rest[part] for phase in division.phases for parts in phase for part in parts])
        filling = len(order) // batch * batch
        self._part(work, order, filling // batch, self.steps, 0, (0, 1), hyper[in_threads:], in_main=True)
        if work.failed_at is None and len(order) > filling:
            self._last(work, order[filling:], hyper[-1:])

    def _phases(
        self,
        work: EpochState,
        partition: Partition,
        shares: Sequence[ThreadWork],
        thread: int,
        seed: int | None,
        barrier: Barrier,
        in_main: bool,
    ) -> None:
        """One thread's parts of all phases; none begins a phase before all have done the one before."""
        for position, share in enumerate(shares):
            if position:
                meeting.wait()
            self._share(work, division, share, thread, seed, in_main)

    def _share(
        self, work: EpochState, division: Partition, share: ThreadWork, thread: int, seed: int | None, in_main: bool
    ) -> None:
        """One thread's parts of a phase, one after another."""
        parts = list(share.parts)
        if seed is not None and len(parts) > 1:
            np.random.default_rng([seed, thread]).shuffle(parts)
        done = 0
        for part in parts:
            order = division.rows_of(part)
            if seed is not None:
                self._shuffles[thread](order, (seed + part.start) % 2**63)
            count = len(order) // work.batch
            work.rest[part] = order[count * work.batch :].copy()
            stripe = (part.stripe, division.stripes)
            self._part(work, order, count, share.step + done, thread, stripe, share.hyper[done:], in_main)
            done += count

    def _part(
        self,
        work: EpochState,
        order: NDArray[np.int64],
        count: int,
        step: int,
        thread: int,
        stripe: tuple[int, int],
        hyper: NDArray[np.float64],
        in_main: bool,
    ) -> None:
        """Steps through the rows of `order`, chunk after chunk."""
        if count == 0:
            return
        binding = self._binding(work, work.batch, thread)
        for _, array in binding.stripes:
            array[:] = stripe
        done = 0
        while done < count and not work.stop.is_set():
            # One step, where it is not known yet how long it takes.
            chunk = min(count - done, max(1, int(self._rate * _CHUNK)))
            start = time.perf_counter()
            done += self._chunk(work, binding, chunk, work.batch, step + done, order[done * work.batch :], hyper[done:])
            self._rate = chunk / max(time.perf_counter() - start, 1e-6)
            if in_main and work.failed_at is None:
                self._keep(work)
            deliver()

    def _chunk(
        self,
        work: EpochState,
        binding: Binding,
        count: int,
        batch: int,
        step: int,
        order: NDArray[np.int64],
        hyper: NDArray[np.float64],
    ) -> int:
        """Do steps; how many. They are counted as they were made, also where one raises."""
        totals: NDArray[np.float64] = aligned((2,), np.dtype(np.float64))
        try:
            self.runner.call(binding, work.columns, (0, count, batch, step, order, totals, hyper))
        except BaseException:
            with self._count_lock:
                work.steps += int(totals[1])
                self._count(int(totals[1]))
            raise
        made = int(totals[1])
        with self._count_lock:
            work.weighted_loss += totals[0] * batch
            work.steps += made
            self._count(made)
            work.bar.update(made * batch)
            if made < count:
                work.failed_at = work.steps
                work.stop.set()
        return made

    def _keep(self, work: EpochState) -> None:
        """Copy the parameters where that is due, for `Diverged` to return to."""
        snapshot = self._snapshot
        assert snapshot is not None
        if time.perf_counter() - snapshot.taken > max(_CHUNK, _COPY_RARELY * snapshot.cost) and snapshot.is_finite():
            snapshot.take()
            work.kept_steps = work.steps

    def _last(self, work: EpochState, order: NDArray[np.int64], hyper: NDArray[np.float64]) -> None:
        """One step on the rows that are left, fewer than a batch."""
        self._chunk(work, self._binding(work, len(order), 0), 1, len(order), self.steps, order, hyper)

    def _batch_shapes(self, given: dict[Leaf, np.ndarray], batch: int, singly: bool) -> dict[Leaf, tuple[int, ...]]:
        """The shapes of the inputs for batches of this size: of the columns, or of what inputs hold without one."""
        shapes: dict[Leaf, tuple[int, ...]] = {}
        for leaf in self.graph.inputs:
            column = given.get(leaf)
            if column is None:
                shapes[leaf] = bound_array(leaf).shape
            else:
                shapes[leaf] = column.shape[1:] if singly else (batch, *column.shape[1:])
        return shapes

    def _check_open_ranges(self, given: dict[Leaf, np.ndarray], batch: int, singly: bool) -> None:
        """`IndexOutOfRange` for an index that is beyond an axis which has its size from the data."""
        limits = [limit for limit in self.graph.ranges.limits if axis_size(limit.axis) is None]
        if limits:
            sizes = self.graph.schedule.bind(self._batch_shapes(given, batch, singly))
            check_ranges(limits, given, sizes)

    def _binding(self, work: EpochState, batch: int, thread: int, runner: NativeRunner | None = None) -> Binding:
        """The arrays for batches of this size, with what inputs hold that no column was given for."""
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
        """Add the gradients of the loss of all rows, times `weight`, to what the parameters hold; the loss."""
        check_options(rows, threads, "synchronized")
        check_batches(given, rows, singly, rows)
        self._check_open_ranges(given, rows, singly)
        columns = {leaf: as_column(array) for leaf, array in given.items()}
        work = EpochState(given, columns, rows, rows, singly)
        whole = self._averaging.whole(given)
        parts = parts_of(np.arange(rows), threads, whole)
        with deferred, limited(blas_threads):
            bindings = [self._binding(work, len(part), i, self._averaging.runner) for i, part in enumerate(parts)]
            loss, gradients = self._averaging.gradients(
                bindings, columns, parts, self.steps, lambda jobs: self._pool.run(jobs, work.stop), whole, weight
            )
            if not np.isfinite(loss):
                raise Diverged(f"the loss is {loss}; no gradient was added to those of the parameters")
            self.steps += 1
            for parameter, gradient in gradients.items():
                accumulate(parameter, gradient)  # type: ignore[arg-type]  # the leaves of gradients are parameters
            self._averaging.move_buffers()
        return loss

    def after_fork(self) -> None:
        """Forget what a thread was working on that is not there in a process that was forked."""
        self._count_lock = threading.Lock()
        self._again = None
        self.runner.after_fork()
        if self._averager is not None:
            self._averager.runner.after_fork()

    @property
    def averaged_bytes(self) -> int:
        """The bytes that gradients of parts of batches take."""
        return 0 if self._averager is None else self._averager.held_bytes

    @property
    def _averaging(self) -> DataParallelStep:
        if self._averager is None:
            self._averager = DataParallelStep(self.graph.outputs[0], self.graph.optimizer)
        return self._averager

    def _averaged(self, work: EpochState, threads: int, seed: int | None) -> None:
        """Step after step, each on the gradient of a batch by as many parts of it as there are threads."""
        order = np.arange(work.rows, dtype=np.int64)
        if seed is not None:
            np.random.default_rng(seed).shuffle(order)
        whole = self._averaging.whole(work.given)
        for start in range(0, work.rows, work.batch):
            rows = order[start : start + work.batch]
            parts = parts_of(rows, threads, whole)
            bindings = [
                self._binding(work, len(part), thread, self._averaging.runner) for thread, part in enumerate(parts)
            ]
            step = self.steps
            try:
                loss = self._averaging.step(
                    bindings, work.columns, parts, step, lambda jobs: self._pool.run(jobs, work.stop), whole
                )
            except Diverged:
                loss = float("nan")
            if not np.isfinite(loss):
                work.failed_at = work.steps
                return
            work.steps += 1
            self.steps += 1  # the optimizer has counted its own
            work.weighted_loss += loss * len(rows)
            work.bar.update(len(rows))
            self._keep(work)
            deliver()

    # --- one step -------------------------------------------------------------------------------------------------

    def once(self, given: dict[Leaf, np.ndarray]) -> list[np.ndarray]:
        """The outputs for these inputs, and one step where there is an optimizer."""
        graph, optimizer = self.graph, self.graph.optimizer
        shapes = self._shapes(given)
        binding = self.runner.binding(shapes)
        check_ranges(graph.ranges.limits, given, binding.sizes)
        complete = self._complete(given)
        for leaf, buffer in graph.source.fed:
            np.copyto(binding.array(buffer), complete[leaf])
        self._number()
        with nullcontext() if optimizer is None else deferred:
            done = self.runner.call(binding, graph.no_columns, self._own)
            if optimizer is not None and done == 0:
                loss = float(binding.array(graph.lowering.outputs[0]))
                raise Diverged(
                    f"the loss is {loss} in step {optimizer.steps + 1} at learning rate {optimizer.learning_rate:g}; "
                    f"no parameter has moved"
                )
            self._count(1)
        if self._again is None or self._again.binding is not binding:
            self._again = RepeatedCall(graph, binding)
        return self._again.answer()

    def again(self, feed: object) -> list[np.ndarray] | None:
        """As `once`, where data is of the same kinds as in the last call, and nothing is trained; else None."""
        last = self._again
        if last is None or self.graph.optimizer is not None or not last.take(feed):
            return None
        self._number()
        if self.runner.again(last.binding, self._own, last.columns) is None:
            return None
        self.steps += 1
        return last.answer()

    def _number(self) -> None:
        """Have the numbers that a step has of its own: where nothing draws by its number, it is not told."""
        if self.graph.source.hyper:
            self._numbers[...] = self._hyper(1)
        if self.graph.draws:
            self._own = (*self._own[:3], self.steps, *self._own[4:])

    def _complete(self, given: dict[Leaf, np.ndarray]) -> dict[Leaf, np.ndarray]:
        """The data of all inputs, that which they hold where none was given."""
        return {leaf: given.get(leaf, stored(leaf).array) for leaf in self.graph.inputs}  # type: ignore[misc]  # checked before

    def _shapes(self, given: dict[Leaf, np.ndarray]) -> dict[Leaf, tuple[int, ...]]:
        return {leaf: array.shape for leaf, array in self._complete(given).items()}

    def _hyper(self, count: int) -> NDArray[np.float64]:
        """The numbers of the optimizer's rule for the next steps, (steps, numbers)."""
        names, optimizer = self.graph.source.hyper, self.graph.optimizer
        if optimizer is None or not names:
            return np.zeros((count, 0))
        numbers = optimizer.numbers(count, self.graph.parameters)
        return np.ascontiguousarray(np.stack([numbers[name] for name in names], axis=1))

    def _count(self, count: int) -> None:
        """Count steps that were made, or below 0 taken back, and say that parameters have changed."""
        self.steps += count
        optimizer = self.graph.optimizer
        if optimizer is None:
            return
        optimizer.advance(count, self.graph.parameters)
        for leaf in (*self.graph.parameters, *self.graph.buffers):
            touch(stored(leaf))
