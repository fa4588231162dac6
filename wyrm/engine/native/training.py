"""Steps and epochs: chunks of steps in native code, and between them what Python has to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wyrm.engine.native.averaging import Averager
from wyrm.engine.native.binding import Binding
from wyrm.engine.native.feeding import as_column
from wyrm.engine.native.ordering import compiled
from wyrm.engine.native.partition import Division, Part, divide, key_columns
from wyrm.engine.native.runner import Graph, Runner
from wyrm.errors import Diverged, ShapeError
from wyrm.node.base import BaseNode, label
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


def _check(batch_size: int, threads: int, mode: str) -> None:
    for name, value in (("batch_size", batch_size), ("threads", threads)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise TypeError(f"{name} is a whole number, not {value!r}")
        if value < 1:
            raise ValueError(f"{name} is at least 1, not {value}")
    if mode not in ("hogwild", "synchronized"):
        raise ValueError(f"mode is 'hogwild' or 'synchronized', not {mode!r}")


class _Snapshot:
    """A copy of parameters and state to return to."""

    def __init__(self, graph: Graph) -> None:
        optimizer = graph.optimizer
        assert optimizer is not None
        self.arrays: list[NDArray[Any]] = []
        for parameter in graph.parameters:
            self.arrays += [bound_array(parameter), *optimizer.state_of(parameter).values()]
        self._parameters = [(p, bound_array(p)) for p in graph.parameters]
        self._copies = [np.empty_like(array) for array in self.arrays]
        self.cost = 0.0
        self.taken = 0.0

    def take(self) -> None:
        """Copy everything."""
        start = time.perf_counter()
        for array, copy in zip(self.arrays, self._copies, strict=True):
            np.copyto(copy, array)
        self.taken = time.perf_counter()
        self.cost = self.taken - start

    def is_finite(self) -> bool:
        """Whether everything is finite now."""
        return all(bool(np.isfinite(np.sum(array, dtype=np.float64))) for array in self.arrays) or all(
            bool(np.isfinite(array).all()) for array in self.arrays
        )

    def is_current(self) -> bool:
        """Whether these are still the arrays of the parameters."""
        return all(bound_array(p) is array for p, array in self._parameters)

    def restore(self) -> None:
        """Return to the copy."""
        for array, copy in zip(self.arrays, self._copies, strict=True):
            np.copyto(array, copy)


@dataclass
class _Pass:
    """One pass over the data, and how far it is."""

    given: dict[Leaf, NDArray[Any]]
    columns: dict[Leaf, NDArray[Any]]
    rows: int
    batch: int
    singly: bool
    bar: Any
    weighted_loss: float = 0.0
    steps: int = 0
    # Set where a thread is to stop at the end of its chunk.
    stop: threading.Event = field(default_factory=threading.Event)
    failed_at: int | None = None
    kept_steps: int = 0
    # Whether the optimizer has counted the steps itself.
    counted: bool = False


class Training:
    """Runs the steps of one program."""

    def __init__(self, graph: Graph, runner: Runner) -> None:
        self.graph, self.runner = graph, runner
        self.epochs = 0
        self.steps = 0
        self._rate = 0.0  # steps a second of one thread
        self._pool: ThreadPoolExecutor | None = None
        self._pool_size = 0
        self._blas: Any = None
        self._snapshot: _Snapshot | None = None
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
        _check(batch_size, threads, mode)
        self._check_batches(given, rows, singly, batch_size)
        threads = min(threads, max(1, rows // batch_size))
        self.runner.load()
        self._shuffle_rows = compiled().shuffle
        keys = key_columns(self.graph.lowering.rows, given)
        division = self._division(rows, threads, None if keys is None else [given[key] for key in keys])
        columns = {leaf: as_column(array) for leaf, array in given.items()}
        if self._snapshot is None or not self._snapshot.is_current():
            self._snapshot = _Snapshot(self.graph)
        self._snapshot.take()
        from tqdm import tqdm  # here, for it takes as long to import as half of this library

        work = _Pass(given, columns, rows, batch_size, singly, tqdm(total=rows, unit="row", disable=not progress))
        mixed = int(np.random.SeedSequence([seed, self.epochs]).generate_state(1, np.uint64)[0])
        with ExitStack() as scope:
            scope.enter_context(work.bar)
            if self.runner.compiled or threads > 1:
                scope.enter_context(self._one_blas_thread())
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

    def _check_batches(self, given: Mapping[Leaf, NDArray[Any]], rows: int, singly: bool, batch: int) -> None:
        if singly and batch != 1:
            raise ShapeError(
                f"the inputs take one row at a time, so batch_size is 1, not {batch}; for batches give them an axis, "
                f"as in wy.Input(dims=(Batch(),))"
            )
        for leaf in given:
            size = None if singly else axis_size(leaf.dims[0])
            if size is not None and (size != batch or rows % batch):
                raise ShapeError(
                    f"{label(leaf)} has {size} rows in every batch, so batch_size is {size} and divides the number of "
                    f"rows; it is {batch}, of {rows:,} rows. An axis without a size takes any batch"
                )

    def _raise_diverged(self, work: _Pass) -> None:
        optimizer = self.graph.optimizer
        assert optimizer is not None and work.failed_at is not None
        raise Diverged(
            f"the loss or a parameter of {self.runner.name} left the finite numbers in epoch {self.epochs + 1}, batch "
            f"{work.failed_at + 1} at learning rate {optimizer.learning_rate:g}; the parameters are as they were after "
            f"batch {work.kept_steps}. Lower the learning rate, or look for the cause with wy.watch_nan()"
        )

    def _finish(self, work: _Pass) -> None:
        work.stop.set()
        self.steps += work.steps
        self._moved(0 if work.counted else work.steps)

    def _one_blas_thread(self) -> Any:
        if self._blas is None:
            from threadpoolctl import ThreadpoolController

            self._blas = ThreadpoolController()
        return self._blas.limit(limits=1)

    # --- threads over parts of the data ---------------------------------------------------------------------------

    def _divided(self, work: _Pass, division: Division, seed: int | None) -> None:
        """Each thread steps through its parts; what does not fill a batch is left for the end."""
        rest = []
        for phase in division.phases:
            tails = self._phase(work, division, phase, seed)
            rest += tails
            if work.failed_at is not None:
                return
        order = np.concatenate(rest) if rest else np.empty(0, np.int64)
        full = len(order) // work.batch
        self._part(work, order, full, work.steps, 0, (0, 1), self._hyper(full + 1), in_main=True)
        if work.failed_at is None and len(order) > full * work.batch:
            self._last(work, order[full * work.batch :])

    def _phase(
        self, work: _Pass, division: Division, phase: Sequence[Sequence[Part]], seed: int | None
    ) -> list[NDArray[np.int64]]:
        """All threads on their parts; returns the rows that fill no batch."""
        threads, tails, jobs = len(phase), list[NDArray[np.int64]](), list[Callable[[], None]]()
        counts = [sum((part.stop - part.start) // work.batch for part in parts) for parts in phase]
        hyper = self._hyper_after(work.steps, max(counts, default=0) * threads)
        step = self.steps + work.steps
        for thread, (parts, count) in enumerate(zip(phase, counts, strict=True)):
            for part in parts:
                full = (part.stop - part.start) // work.batch * work.batch
                tails.append(division.order[part.start + full : part.stop])  # a view, of what is shuffled later
            own = np.ascontiguousarray(hyper[thread::threads])
            jobs.append(partial(self._parts, work, division, parts, step, thread, own, seed, threads == 1))
            step += count
        if threads == 1:
            jobs[0]()
        else:
            self._in_threads(jobs, work)
        return tails

    def _hyper_after(self, done: int, count: int) -> NDArray[np.float64]:
        """The numbers of the steps that come after the first `done` of this pass."""
        return self._hyper(done + count)[done:]

    def _parts(
        self,
        work: _Pass,
        division: Division,
        parts: Sequence[Part],
        step: int,
        thread: int,
        hyper: NDArray[np.float64],
        seed: int | None,
        in_main: bool,
    ) -> None:
        """One thread's parts of a phase, one after another."""
        parts = list(parts)
        if seed is not None:
            np.random.default_rng([seed, thread]).shuffle(parts)
        done = 0
        for part in parts:
            order = division.order[part.start : part.stop]
            if seed is not None:
                self._shuffle_rows(order, 0, len(order), (seed + part.start) % 2**63)
            count = len(order) // work.batch
            stripe = (part.stripe, division.stripes)
            self._part(work, order, count, step + done, thread, stripe, hyper[done:], in_main)
            done += count

    def _part(
        self,
        work: _Pass,
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

    def _keep(self, work: _Pass) -> None:
        """Copy the parameters where that is due, for `Diverged` to return to."""
        snapshot = self._snapshot
        assert snapshot is not None
        if time.perf_counter() - snapshot.taken > max(_CHUNK, _COPY_RARELY * snapshot.cost) and snapshot.is_finite():
            snapshot.take()
            work.kept_steps = work.steps

    def _last(self, work: _Pass, order: NDArray[np.int64]) -> None:
        """One step on the rows that are left, fewer than a batch."""
        binding = self._binding(work, len(order), 0)
        totals = np.zeros(1)
        made = self.runner.call(
            binding, work.columns, 0, 1, len(order), self.steps + work.steps, order, totals,
            self._hyper_after(work.steps, 1),
        )  # fmt: skip
        work.weighted_loss += totals[0] * len(order)
        work.bar.update(made * len(order))
        work.steps += made
        if made == 0:
            work.failed_at = work.steps

    def _binding(self, work: _Pass, batch: int, thread: int, runner: Runner | None = None) -> Binding:
        """The arrays for batches of this size, with what inputs hold that no column was given for."""
        shapes: dict[Leaf, tuple[int, ...]] = {}
        for leaf, _ in self.graph.source.fed:
            column = work.given.get(leaf)
            if column is None:
                shapes[leaf] = bound_array(leaf).shape
            else:
                shapes[leaf] = column.shape[1:] if work.singly else (batch, *column.shape[1:])
        runner = runner or self.runner
        binding = runner.binding(shapes, thread)
        for leaf, slot in runner.graph.source.fed:
            if leaf not in work.given:
                np.copyto(binding.array(slot), bound_array(leaf))
                work.columns.setdefault(leaf, np.empty((0, 1), leaf.dtype))
        return binding

    def _in_threads(self, jobs: Sequence[Callable[[], None]], work: _Pass) -> None:
        """Run jobs side by side; an interrupt stops all of them at the end of their chunks."""
        if self._pool is None or self._pool_size < len(jobs):
            self._pool, self._pool_size = ThreadPoolExecutor(len(jobs), "wyrm"), len(jobs)
        futures = [self._pool.submit(job) for job in jobs]
        try:
            for future in futures:
                future.result()
        except BaseException:
            work.stop.set()
            wait(futures)
            raise

    # --- synchronized steps over parts of each batch --------------------------------------------------------------

    def _averaged(self, work: _Pass, threads: int, seed: int | None) -> None:
        """Step after step, each on the mean gradient of as many parts of the batch as there are threads."""
        if self._averager is None:
            self._averager = Averager(self.graph.outputs[0], self.graph.optimizer)
        order = np.arange(work.rows, dtype=np.int64)
        if seed is not None:
            np.random.default_rng(seed).shuffle(order)
        work.counted = True
        for start in range(0, work.rows, work.batch):
            rows = order[start : start + work.batch]
            parts = [part for part in np.array_split(rows, threads) if len(part)]
            bindings = [
                self._binding(work, len(part), thread, self._averager.runner) for thread, part in enumerate(parts)
            ]
            step = self.steps + work.steps
            try:
                loss = self._averager.step(
                    bindings, work.columns, parts, step, lambda jobs: self._in_threads(jobs, work)
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
        # An input as a whole is a column of one row: the array with an axis put before it, loaded as it is.
        columns = {
            leaf: as_column(array[None]) if array.ndim == 0 else as_column(array)
            for leaf, array in self._complete(given).items()
        }
        rows = max((len(column) for column in columns.values()), default=0)
        hyper = self._hyper(1)
        totals = np.zeros(1)
        step = self.steps
        done = self.runner.call(binding, columns, 0, 1, 0, step, np.arange(rows), totals, hyper)
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
        return {leaf: given.get(leaf, stored(leaf).array) for leaf, _ in self.graph.source.fed}  # type: ignore[misc]  # checked before

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
        for parameter in self.graph.parameters:
            stored(parameter).version = tick()
