"""`JaxEpoch`: JAX runs chunks of steps, and Python acts between the chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.columns import Columns
from wyrm.engines.epochs import Epoch
from wyrm.engines.jax.compiled import finite_check
from wyrm.engines.jax.processes import Part, agreed, check_same
from wyrm.engines.jax.state import Read, exchange, on_host
from wyrm.errors import Diverged
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.storage import bound_array
from wyrm.ops.random.philox_jax import step_words
from wyrm.support.interrupts import deliver

if TYPE_CHECKING:
    from wyrm.engines.jax.engine import JaxEngine
    from wyrm.engines.jax.graph import JaxGraph

# Seconds that a chunk of steps should take: Python handles Ctrl-C and the progress bar only between chunks.
_CHUNK = 0.1
# Bytes of data on the devices for the batches of a chunk, and the largest number of steps in it.
_CHUNK_BYTES, _CHUNK_STEPS = 2**24, 512


class JaxEpoch:
    """The steps of an epoch on one set of columns."""

    def __init__(self, engine: JaxEngine, columns: Columns, epoch: Epoch) -> None:
        self.engine = engine
        self.graph: JaxGraph = engine.graph
        self.columns = columns
        self.epoch = epoch
        self.batch: int = epoch.options.batch_size
        self.accumulate: int = epoch.options.accumulate
        # The part of each batch that the rows are: all, unless each process has its own loader.
        self.part: Part = engine.part(columns) if epoch.in_batches else Part()
        self.steps: int = 0

    def run(self) -> None:
        """Do all steps."""
        engine, rows, size = self.engine, self.columns.rows, self.batch * self.accumulate
        self.order: NDArray[np.int64] = self.epoch.order(rows, engine.shuffle)
        left = len(self.order)
        with engine.running():
            if engine.placement.several_processes:
                check_same(self._common())
            # The optimizer's numbers of each step.
            self.numbers: dict[str, NDArray[np.float64]] = engine.numbers(-(-left // size))
            full = left // size
            self._chunks(full, rows // size)
            if left % size:
                self._single(self.order[full * size :])
            self._check_finite()

    def _common(self) -> dict[str, object]:
        """Return what must be equal in all processes at the start of an epoch, by a name for errors."""
        optimizer = self.graph.optimizer
        assert optimizer is not None
        counts = self.engine.steps, self.engine.epochs, optimizer.steps, self.epoch.done.batches
        common: dict[str, object] = {
            "the options of the epoch or the number of rows": sorted(self.epoch.rows_of(self.columns.rows).items()),
            "the number of steps so far": counts,
        }
        if not self.epoch.in_batches:
            common |= {f"the data of {describe(leaf)}": array for leaf, array in self.columns.given.items()}
        return common

    # --- chunks of steps ------------------------------------------------------------------------------------------

    def _chunks(self, count: int, every: int) -> None:
        """Do the last `count` of the epoch's `every` full steps."""
        # The capacity follows from `every`: a resumed epoch runs the same compiled function, so it rounds the same way.
        capacity = self._capacity(max(every, 2) if self.epoch.in_batches else every)
        size = self.batch * self.accumulate
        if capacity == 1:
            for i in range(count):
                self._single(self.order[i * size : (i + 1) * size])
            return
        prepared: list[list[Any] | Exception] = []

        def prepare(start: int) -> None:
            try:
                if start < count:
                    prepared.append(self._feeds(start, min(capacity, count - start), capacity))
            except Exception as error:  # raised when the steps that run are counted
                prepared.append(error)

        prepare(0)
        for start in range(0, count, capacity):
            feeds = prepared.pop()
            if isinstance(feeds, Exception):
                raise feeds
            # The data of the next chunk is copied to the devices while they compute.
            self._chunk(start, min(capacity, count - start), capacity, feeds, partial(prepare, start + capacity))

    def _capacity(self, count: int) -> int:
        """Return the number of steps of a chunk, a power of two, so that XLA compiles few loops."""
        size = self.batch * self.accumulate
        row_bytes = sum(array.nbytes // max(1, len(array)) for array in self.columns.given.values())
        most = min(max(1, _CHUNK_BYTES // max(1, row_bytes * size)), _CHUNK_STEPS)
        enough = 1 << (min(count, most) - 1).bit_length() if count else 1
        known = self.engine.capacities.setdefault((self.batch, self.accumulate), set())
        capacity = min((each for each in known if enough <= each <= 4 * enough), default=enough)
        known.add(capacity)
        return capacity

    def _feeds(self, start: int, count: int, capacity: int) -> list[Any]:
        """Return the batches of `count` steps from step `start` on, on the devices."""
        size = self.batch * self.accumulate
        rows = self.order[start * size : (start + count) * size].reshape(count, size)
        if count < capacity:  # the batches that fill the chunk are not used
            rows = np.concatenate([rows, np.broadcast_to(rows[:1], (capacity - count, size))])
        return self._batches(rows if self.accumulate == 1 else rows.reshape(capacity, self.accumulate, self.batch))

    def _chunk(self, start: int, count: int, capacity: int, feeds: list[Any], meanwhile: Callable[[], object]) -> None:
        """Do `count` steps from step `start` on with these batches; `meanwhile` is called while the last ones run."""
        numbers = {name: _filled(values[start : start + count], capacity) for name, values in self.numbers.items()}
        shapes = self.engine.shapes(feeds, 1 if self.accumulate == 1 else 2)
        loop = self.engine.compiled.loop(self.accumulate)
        apart = 1 if self.engine.local_steps is None else self.engine.local_steps.count
        first_step, done = self.engine.steps, 0
        while done < count:
            seconds = self.engine.seconds * self.accumulate
            steps = max(1, int(_CHUNK / seconds)) if seconds else 1
            # Devices that do steps of their own are averaged at the end of a run.
            steps = min(count - done, -(-steps // apart) * apart)
            before = time.perf_counter()
            bounds = np.array([done, done + steps], np.int32)
            _, (outputs, outside) = self.engine.compiled.advance(
                loop, feeds, numbers, step_words(first_step), bounds,
                meanwhile=meanwhile if done + steps == count else None,
            )  # fmt: skip
            found = on_host(outputs)[done : done + steps]
            if done:  # the first run may compile
                self._measured((time.perf_counter() - before) / (steps * self.accumulate))
            self._record(found, [self.batch] * self.accumulate, outside, [shapes] * self.accumulate)
            done += steps
            deliver()

    def _single(self, rows: NDArray[np.int64]) -> None:
        """Do one step on these rows."""
        numbers = {name: values[self.steps] for name, values in self.numbers.items()}
        compiled, step = self.engine.compiled, step_words(self.engine.steps)
        if self.accumulate == 1:
            feed = self._batches(rows)
            state, (outputs, outside) = compiled.advance(compiled.step, feed, numbers, step)
            sizes, shapes = [len(rows)], [self.engine.shapes(feed)]
        else:
            full = max(1, len(rows) // self.batch)  # a step with fewer rows than a batch has one batch
            size = min(self.batch, len(rows))
            feeds, left = self._batches(rows[: full * size].reshape(full, size)), rows[full * size :]
            rest = self._batches(left) if len(left) else None
            sizes, shapes = [size] * full, [self.engine.shapes(feeds, 1)] * full
            if rest is not None:
                sizes, shapes = [*sizes, len(left)], [*shapes, self.engine.shapes(rest)]
            weights = np.array(sizes, self.engine.real) / self.engine.real(len(rows))
            state, (outputs, outside) = compiled.advance(compiled.several, feeds, rest, weights, numbers, step)
        columns = [np.broadcast_to(on_host(each), len(sizes)) for each in (*outputs, state.alive)]
        self._record(np.stack(columns, axis=-1), sizes, outside, shapes)
        deliver()

    def _measured(self, seconds: float) -> None:
        """Note the seconds of a step; all processes take those of the first, so that their chunks are equally long."""
        if not self.engine.placement.several_processes:
            self.engine.seconds = seconds
        elif not self.engine.seconds:
            self.engine.seconds = agreed(seconds)

    def _record(
        self, outputs: np.ndarray, sizes: Sequence[int], outside: Any, shapes: Sequence[Mapping[BaseNode, Any]]
    ) -> None:
        """Count finished steps, and raise `Diverged` or `IndexOutOfRange` after a bad one.

        `outputs` has a row for each batch of each step: the outputs, and 1 if the step moved the parameters, else 0.
        `sizes` and `shapes` are the numbers of rows of the batches of a step, and the shapes of their data.
        """
        batches = len(sizes)
        outputs = outputs.astype(np.float64).reshape(-1, batches, outputs.shape[-1])
        done, rows = int(outputs[:, 0, -1].sum()), np.array(sizes, np.float64)
        self.steps += done
        self.engine.count(done, done * batches)
        found = outputs[:done, :, :-1].sum(axis=0)
        sums = (found * self.epoch.totals.weights(rows[:, np.newaxis])).sum(axis=0)
        self.epoch.add(done * batches, done * sum(sizes), sums, float(found[:, 0] @ rows))
        if done < len(outputs):
            self._check_computed(outside, shapes)
            raise self._diverged()
        loops = self.engine.functions.loop_checks
        loops.raise_reported(
            f" in epoch {self.epoch.number}, by batch {self.epoch.done.batches}; parameters have moved"
        )

    def _check_computed(self, outside: Any, shapes: Sequence[Mapping[BaseNode, Any]]) -> None:
        """Raise `IndexOutOfRange` if a batch of the step after the last one computed an index out of range."""
        after = self.epoch.done.batches
        where = f" in epoch {self.epoch.number}, batch {after + 1}; the parameters are as they were after batch {after}"
        self.engine.functions.loop_checks.raise_reported(where)
        if not self.graph.checks:
            return
        of_batches = on_host(outside).reshape(len(shapes), -1, 3)
        for batch, (found, of_batch) in enumerate(zip(of_batches, shapes, strict=True), after + 1):
            where = f" in epoch {self.epoch.number}, batch {batch}"
            self.engine.check_indices(found, of_batch, f"; the parameters are as they were after batch {after}", where)

    def _diverged(self) -> Diverged:
        optimizer = self.graph.optimizer
        assert optimizer is not None
        failed = self.epoch.done.batches
        return Diverged(
            f"the loss or a gradient of the training became NaN or infinite in epoch {self.epoch.number}, batch "
            f"{failed + 1} at learning rate {optimizer.learning_rate:g}; the parameters are as they were after batch "
            f"{failed}. Lower the learning rate, or look for the cause with wy.watch_nan()"
        )

    def _check_finite(self) -> None:
        """Raise `Diverged` if a parameter is not finite after the last step."""
        with exchange:
            finite = finite_check()(self.engine.state.stacked().values)
        if not bool(on_host(finite)):
            raise Diverged(
                f"a parameter became NaN or infinite in epoch {self.epoch.number}, though all losses and gradients "
                f"were finite: a step of the optimizer was too large for its dtype. Lower the learning rate, and "
                f"go on from a checkpoint"
            )

    # --- data -----------------------------------------------------------------------------------------------------

    def _batches(self, rows: NDArray[np.int64]) -> list[Any]:
        """Return the inputs' data on the devices, for rows of shape (batch,), or with axes of batches before."""
        chosen = rows[..., 0] if self.columns.singly else rows
        part, feeds = self.part, []
        for leaf in self.graph.inputs:
            column = self.columns.given.get(leaf)
            if column is None:
                # One for all batches.
                array = bound_array(leaf)[(np.newaxis,) * (rows.ndim - 1)]
                feeds.append(self.engine.placement.batch(leaf, array.shape, array.__getitem__))
            else:
                # The shape is that of the whole batch.
                shape = (*chosen.shape[:-1], *(size * part.count for size in chosen.shape[-1:]), *column.shape[1:])
                before = part.index * chosen.shape[-1] if part.count > 1 else 0
                feeds.append(self.engine.placement.batch(leaf, shape, _rows(column, chosen, before)))
        return feeds


def _rows(column: np.ndarray, rows: NDArray[np.int64], before: int = 0) -> Read:
    """Return a function that reads a part of `column[rows]`, and no other rows of the column.

    Along the last axis of `rows`, `before` rows of other processes precede.
    """

    def read(index: tuple[slice, ...]) -> np.ndarray:
        if before:
            last = index[rows.ndim - 1]
            index = (*index[: rows.ndim - 1], slice(last.start - before, last.stop - before), *index[rows.ndim :])
        chosen = column[rows[index[: rows.ndim]]]
        found: np.ndarray = chosen[(slice(None),) * rows.ndim + tuple(index[rows.ndim :])]
        return found

    return read


def _filled(values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    return np.concatenate([values, np.zeros(size - len(values), values.dtype)])
