"""Steps and epochs: chunks of steps in native code, and between them what Python has to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wyrm.engine.native.averaging import Averager, parts_of
from wyrm.engine.native.binding import Binding
from wyrm.engine.native.feeding import as_column, check_ranges
from wyrm.engine.native.ordering import compiled
from wyrm.engine.native.partition import Division, divide, key_columns
from wyrm.engine.native.passes import Pass, Share, check_batches, check_options
from wyrm.engine.native.pool import Pool
from wyrm.engine.native.runner import Graph, Runner
from wyrm.engine.native.snapshot import Snapshot
from wyrm.engine.reference import accumulate
from wyrm.errors import Diverged
from wyrm.node.base import BaseNode
from wyrm.node.storage import bound_array, stored, tick
from wyrm.types.dims import axis_size

Leaf = BaseNode[Any, Any]
Mode = Literal["hogwild", "synchronized"]
# Python comes between chunks of about this many seconds: for Ctrl-C, the progress bar, and the copy to return to.
_CHUNK = 0.05
# A copy of the parameters is made when training has taken this many times as long as the last copy.
_COPY_RARELY = 40.0
_FIRST_CHUNK = 16
# How large a data set may be for its division among threads to be kept for the next pass.
_REMEMBERED_ROWS = 2**21


class Training:
    """Runs the steps of one program."""

    def __init__(self, graph: Graph, runner: Runner) -> None:
        self.graph, self.runner = graph, runner
        self.epochs = 0
        self.steps = 0
        self._rate = 0.0  # steps a second of one thread
        self._pool = Pool()
        self._blas: Any = None
        self._snapshot: Snapshot | None = None
        self._count_lock = threading.Lock()
        self._averager: Averager | None = None
        self._shuffle_rows: Callable[..., Any]
        self._known_division: tuple[int, list[NDArray[np.int64]], Division] | None = None

    # --- one pass -------------------------------------------------------------------------------------------------

    def epoch(
        self,
        given: dict[Leaf, NDArray[Any]],
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
        check_options(batch_size, threads, mode)
        check_batches(given, rows, singly, batch_size)
        self._check_open_ranges(given, min(rows, batch_size), singly)
        # No more than there are steps to do.
        stepping = min(threads, max(1, rows // batch_size))
        self.runner.load()
        self._shuffle_rows = compiled().shuffle
        keys = key_columns(self.graph.lowering.rows, given)
        division = self._division(rows, stepping, None if keys is None else [given[key] for key in keys])
        columns = {leaf: as_column(array) for leaf, array in given.items()}
        if self._snapshot is None or not self._snapshot.is_current():
            self._snapshot = Snapshot(self.graph)
        self._snapshot.take()
        from tqdm import tqdm  # here, for it takes as long to import as half of this library

        work = Pass(given, columns, rows, batch_size, singly, tqdm(total=rows, unit="row", disable=not progress))
        mixed = int(np.random.SeedSequence([seed, self.epochs]).generate_state(1, np.uint64)[0])
        with ExitStack() as scope:
            scope.enter_context(work.bar)
            if self.runner.compiled or threads > 1:
                scope.enter_context(self._limited_blas(1))
            scope.callback(self._finish, work)
            separate = division.apart and all(parameter in self._sparse for parameter in self.graph.parameters)
            if threads > 1 and mode == "synchronized" and not separate:
                self._averaged(work, threads, mixed if shuffle else None)
            else:
                self._divided(work, division, mixed if shuffle else None)
            if work.failed_at is None and not self._snapshot.is_finite():
                work.failed_at = work.steps
            if work.failed_at is not None:
                self._snapshot.restore()
                work.steps = work.kept_steps
                self._raise_diverged(work)
        self.epochs += 1
        return work.weighted_loss / rows

    def _division(self, rows: int, threads: int, keys: list[NDArray[np.int64]] | None) -> Division:
        """The parts of the threads, those of the last pass where the columns that decide are as they were then."""
        if keys is None or threads == 1:
            return divide(rows, threads)
        known = self._known_division
        if known is None or known[0] != threads or not all(map(np.array_equal, known[1], keys)):
            tables = [bound_array(sums.parameter) for sums in self.graph.lowering.rows]
            division = divide(rows, threads, keys, 2 * max(table.nbytes for table in tables))
            if rows > _REMEMBERED_ROWS:
                return division
            known = self._known_division = threads, [key.copy() for key in keys], division
        return replace(known[2], order=known[2].order.copy())

    @property
    def _sparse(self) -> set[Leaf]:
        return {sums.parameter for sums in self.graph.lowering.rows}

    def _raise_diverged(self, work: Pass) -> None:
        optimizer = self.graph.optimizer
        assert optimizer is not None and work.failed_at is not None
        raise Diverged(
            f"the loss or a parameter of {self.runner.name} left the finite numbers in epoch {self.epochs + 1}, batch "
            f"{work.failed_at + 1} at learning rate {optimizer.learning_rate:g}; the parameters are as they were after "
            f"batch {work.kept_steps}. Lower the learning rate, or look for the cause with wy.watch_nan()"
        )

    def _finish(self, work: Pass) -> None:
        work.stop.set()
        self.steps += work.steps
        self._moved(0 if work.counted else work.steps)

    def _limited_blas(self, threads: int) -> Any:
        if self._blas is None:
            import scipy.linalg.cython_blas  # noqa: F401  # the BLAS of programs: one not yet loaded is not limited
            from threadpoolctl import ThreadpoolController

            self._blas = ThreadpoolController()
        return self._blas.limit(limits=threads)

    # --- threads over parts of the data ---------------------------------------------------------------------------

    def _divided(self, work: Pass, division: Division, seed: int | None) -> None:
        """Each thread steps through its parts, phase after phase; what does not fill a batch is left for the end."""
        batch, threads = work.batch, len(division.phases[0])
        full = [[sum((p.stop - p.start) // batch for p in parts) for parts in phase] for phase in division.phases]
        hyper = self._hyper(sum(max(counts) * threads for counts in full))
        rest, step, used = list[NDArray[np.int64]](), self.steps, 0
        shares = [list[Share]() for _ in range(threads)]
        for phase, counts in zip(division.phases, full, strict=True):
            of_phase = hyper[used : used + max(counts) * threads]
            used += len(of_phase)
            for thread, parts in enumerate(phase):
                shares[thread].append(Share(parts, step, np.ascontiguousarray(of_phase[thread::threads])))
                step += counts[thread]
                # Views, of what is shuffled later.
                rest += [division.order[part.stop - (part.stop - part.start) % batch : part.stop] for part in parts]
        barrier = threading.Barrier(threads)
        jobs = [partial(self._shares, work, division, own, i, seed, barrier) for i, own in enumerate(shares)]
        self._pool.run(jobs, work.stop)
        if work.failed_at is not None:
            return
        order = np.concatenate(rest)
        whole = len(order) // batch * batch
        self._part(
            work, order, whole // batch, self.steps + work.steps, 0, (0, 1), self._hyper_after(work), in_main=True
        )
        if work.failed_at is None and len(order) > whole:
            self._last(work, order[whole:])

    def _shares(
        self,
        work: Pass,
        division: Division,
        shares: Sequence[Share],
        thread: int,
        seed: int | None,
        barrier: threading.Barrier,
    ) -> None:
        """One thread's share of every phase; all threads begin a phase together."""
        try:
            for phase, share in enumerate(shares):
                if phase:
                    barrier.wait()
                self._share(work, division, share, thread, seed, in_main=barrier.parties == 1)
        except threading.BrokenBarrierError:
            pass  # another thread has failed, and says why
        except BaseException:
            barrier.abort()
            raise

    def _hyper_after(self, work: Pass) -> NDArray[np.float64]:
        """The numbers of the steps that come after those that are done; at most one for each batch that is left."""
        return self._hyper(-(-work.rows // work.batch) + 1)[work.steps :]

    def _share(
        self, work: Pass, division: Division, share: Share, thread: int, seed: int | None, in_main: bool
    ) -> None:
        """One thread's parts of a phase, one after another."""
        parts = list(share.parts)
        if seed is not None:
            np.random.default_rng([seed, thread]).shuffle(parts)
        done = 0
        for part in parts:
            order = division.order[part.start : part.stop]
            if seed is not None:
                self._shuffle_rows(order, 0, len(order), (seed + part.start) % 2**63)
            count = len(order) // work.batch
            stripe = (part.stripe, division.stripes)
            self._part(work, order, count, share.step + done, thread, stripe, share.hyper[done:], in_main)
            done += count

    def _part(
        self,
        work: Pass,
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
            chunk = min(count - done, max(1, int(self._rate * _CHUNK)) if self._rate else _FIRST_CHUNK)
            totals = np.zeros(1)
            start = time.perf_counter()
            made = self.runner.call(
                binding, work.columns, 0, chunk, work.batch, step + done, order[done * work.batch :], totals,
                hyper[done:],
            )  # fmt: skip
            seconds = time.perf_counter() - start
            if self.runner.warm_calls > 1:
                self._rate = chunk / max(seconds, 1e-6)
            with self._count_lock:
                work.weighted_loss += totals[0] * work.batch
                work.steps += made
                work.bar.update(made * work.batch)
                if made < chunk:
                    work.failed_at = work.steps
                    work.stop.set()
            done += made
            if in_main and work.failed_at is None:
                self._keep(work)

    def _keep(self, work: Pass) -> None:
        """Copy the parameters where that is due, for `Diverged` to return to."""
        snapshot = self._snapshot
        assert snapshot is not None
        if time.perf_counter() - snapshot.taken > max(_CHUNK, _COPY_RARELY * snapshot.cost) and snapshot.is_finite():
            snapshot.take()
            work.kept_steps = work.steps

    def _last(self, work: Pass, order: NDArray[np.int64]) -> None:
        """One step on the rows that are left, fewer than a batch."""
        binding = self._binding(work, len(order), 0)
        totals = np.zeros(1)
        made = self.runner.call(
            binding, work.columns, 0, 1, len(order), self.steps + work.steps, order, totals,
            self._hyper_after(work),
        )  # fmt: skip
        work.weighted_loss += totals[0] * len(order)
        work.bar.update(made * len(order))
        work.steps += made
        if made == 0:
            work.failed_at = work.steps

    def _batch_shapes(self, given: dict[Leaf, NDArray[Any]], batch: int, singly: bool) -> dict[Leaf, tuple[int, ...]]:
        """The shapes of the inputs for batches of this size: of the columns, or of what inputs hold without one."""
        shapes: dict[Leaf, tuple[int, ...]] = {}
        for leaf in self.graph.inputs:
            column = given.get(leaf)
            if column is None:
                shapes[leaf] = bound_array(leaf).shape
            else:
                shapes[leaf] = column.shape[1:] if singly else (batch, *column.shape[1:])
        return shapes

    def _check_open_ranges(self, given: dict[Leaf, NDArray[Any]], batch: int, singly: bool) -> None:
        """`IndexOutOfRange` for an index that is beyond an axis which has its size from the data."""
        limits = [limit for limit in self.graph.ranges.limits if axis_size(limit.axis) is None]
        if limits:
            sizes = self.graph.schedule.bind(self._batch_shapes(given, batch, singly))
            check_ranges(limits, given, sizes)

    def _binding(self, work: Pass, batch: int, thread: int, runner: Runner | None = None) -> Binding:
        """The arrays for batches of this size, with what inputs hold that no column was given for."""
        runner = runner or self.runner
        binding = runner.binding(self._batch_shapes(work.given, batch, work.singly), thread)
        for leaf, slot in runner.graph.source.fed:
            if leaf not in work.given:
                np.copyto(binding.array(slot), bound_array(leaf))
                work.columns.setdefault(leaf, np.empty((0, 1), leaf.dtype))
        return binding

    # --- synchronized steps over parts of each batch --------------------------------------------------------------

    def backward(
        self, given: dict[Leaf, NDArray[Any]], rows: int, singly: bool, threads: int, weight: float, blas_threads: int
    ) -> float:
        """Add the gradients of the loss of all rows, times `weight`, to what the parameters hold; the loss."""
        check_options(rows, threads, "synchronized")
        check_batches(given, rows, singly, rows)
        self._check_open_ranges(given, rows, singly)
        columns = {leaf: as_column(array) for leaf, array in given.items()}
        work = Pass(given, columns, rows, rows, singly, bar=None)
        whole = self._averaging.whole(given)
        parts = parts_of(np.arange(rows), threads, whole)
        with self._limited_blas(blas_threads):
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

    @property
    def averaged_bytes(self) -> int:
        """The bytes that gradients of parts of batches take."""
        return 0 if self._averager is None else self._averager.held_bytes

    @property
    def _averaging(self) -> Averager:
        if self._averager is None:
            self._averager = Averager(self.graph.outputs[0], self.graph.optimizer)
        return self._averager

    def _averaged(self, work: Pass, threads: int, seed: int | None) -> None:
        """Step after step, each on the gradient of a batch by as many parts of it as there are threads."""
        order = np.arange(work.rows, dtype=np.int64)
        if seed is not None:
            np.random.default_rng(seed).shuffle(order)
        work.counted = True
        whole = self._averaging.whole(work.given)
        for start in range(0, work.rows, work.batch):
            rows = order[start : start + work.batch]
            parts = parts_of(rows, threads, whole)
            bindings = [
                self._binding(work, len(part), thread, self._averaging.runner) for thread, part in enumerate(parts)
            ]
            step = self.steps + work.steps
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
            work.weighted_loss += loss * len(rows)
            work.bar.update(len(rows))
            self._keep(work)

    # --- one step -------------------------------------------------------------------------------------------------

    def once(self, given: dict[Leaf, NDArray[Any]]) -> list[NDArray[Any]]:
        """The outputs for these inputs, and one step where there is an optimizer."""
        graph, optimizer = self.graph, self.graph.optimizer
        shapes = self._shapes(given)
        binding = self.runner.binding(shapes)
        check_ranges(graph.ranges.limits, given, binding.sizes)
        # An input as a whole is a column of one row.
        columns = {leaf: as_column(array[None]) for leaf, array in self._complete(given).items()}
        hyper = self._hyper(1)
        totals = np.zeros(1)
        step = self.steps
        done = self.runner.call(binding, columns, 0, 1, 0, step, np.zeros(1, np.int64), totals, hyper)
        if optimizer is not None and done == 0:
            loss = float(binding.array(graph.lowering.outputs[0]))
            raise Diverged(
                f"the loss is {loss} in step {optimizer.steps + 1} at learning rate {optimizer.learning_rate:g}; "
                f"no parameter has moved"
            )
        self.steps += 1
        self._moved(1)
        return [np.array(binding.array(slot)) for slot in graph.lowering.outputs]

    def _complete(self, given: dict[Leaf, NDArray[Any]]) -> dict[Leaf, NDArray[Any]]:
        """The data of all inputs, that which they hold where none was given."""
        return {leaf: given.get(leaf, stored(leaf).array) for leaf in self.graph.inputs}  # type: ignore[misc]  # checked before

    def _shapes(self, given: dict[Leaf, NDArray[Any]]) -> dict[Leaf, tuple[int, ...]]:
        return {leaf: array.shape for leaf, array in self._complete(given).items()}

    def _hyper(self, count: int) -> NDArray[np.float64]:
        """The numbers of the optimizer's rule for the next steps, (steps, numbers)."""
        names, optimizer = self.graph.source.hyper, self.graph.optimizer
        if optimizer is None or not names:
            return np.zeros((count, 0))
        numbers = optimizer.numbers(count)
        return np.ascontiguousarray(np.stack([numbers[name] for name in names], axis=1))

    def _moved(self, count: int) -> None:
        """Say that parameters have changed, and count the steps."""
        optimizer = self.graph.optimizer
        if optimizer is None:
            return
        optimizer.advance(count)
        for leaf in (*self.graph.parameters, *self.graph.buffers):
            stored(leaf).version = tick()
