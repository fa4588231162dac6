"""`JaxEpoch`: JAX runs chunks of steps, and Python acts between the chunks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.columns import Columns
from wyrm.engines.epochs import Epoch
from wyrm.engines.jax.processes import Part, agreed, check_same
from wyrm.engines.jax.state import Read, exchange, on_host
from wyrm.errors import Diverged
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import bound_array
from wyrm.ops.random.philox_jax import step_words
from wyrm.support.interrupts import deliver

if TYPE_CHECKING:
    from wyrm.engines.jax.engine import JaxEngine
    from wyrm.engines.jax.graph import JaxGraph

# Seconds that a chunk of steps should take: Python handles Ctrl-C and the progress bar only between chunks.
_CHUNK = 0.1
# Bytes of data on the devices for the batches of a chunk, and the largest number of batches in it.
_CHUNK_BYTES, _CHUNK_BATCHES = 2**24, 512


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
        engine, rows, batch = self.engine, self.columns.rows, self.batch
        self.order: NDArray[np.int64] = self.epoch.order(rows, engine.shuffle)
        left = len(self.order)
        with engine.running():
            if engine.placement.several_processes:
                check_same(self._common())
            # The optimizer's numbers of each step.
            self.numbers: dict[str, NDArray[np.float64]] = engine.numbers(-(-left // (batch * self.accumulate)))
            if self.accumulate > 1:
                self._accumulating()
            else:
                full = left // batch
                self._chunks(full, rows // batch)
                if left % batch:
                    self._single(self.order[full * batch :])
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

    # --- chunks of batches ----------------------------------------------------------------------------------------

    def _chunks(self, count: int, every: int) -> None:
        """Train on the last `count` of the epoch's `every` full batches."""
        # The capacity follows from `every`: a resumed epoch runs the same compiled function, so it rounds the same way.
        capacity = self._capacity(max(every, 2) if self.epoch.in_batches else every)
        if capacity == 1:
            for i in range(count):
                self._single(self.order[i * self.batch : (i + 1) * self.batch])
            return
        for start in range(0, count, capacity):
            self._chunk(start, min(capacity, count - start), capacity)

    def _capacity(self, count: int) -> int:
        """Return the number of batches of a chunk, a power of two, so that XLA compiles few loops."""
        row_bytes = sum(array.nbytes // max(1, len(array)) for array in self.columns.given.values())
        most = min(max(1, _CHUNK_BYTES // max(1, row_bytes * self.batch)), _CHUNK_BATCHES)
        enough = 1 << (min(count, most) - 1).bit_length() if count else 1
        known = self.engine.capacities.setdefault(self.batch, set())
        capacity = min((each for each in known if enough <= each <= 4 * enough), default=enough)
        known.add(capacity)
        return capacity

    def _chunk(self, start: int, count: int, capacity: int) -> None:
        """Copy `count` batches from batch `start` on to the devices, and train on them."""
        rows = self.order[start * self.batch : (start + count) * self.batch].reshape(count, self.batch)
        if count < capacity:  # the batches that fill the chunk are not used
            rows = np.concatenate([rows, np.broadcast_to(rows[:1], (capacity - count, self.batch))])
        feeds = self._batches(rows)
        numbers = {name: _filled(values[start : start + count], capacity) for name, values in self.numbers.items()}
        first_step, done = self.engine.steps, 0
        while done < count:
            size = min(count - done, max(1, int(_CHUNK / self.engine.seconds))) if self.engine.seconds else 1
            before = time.perf_counter()
            bounds = np.array([done, done + size], np.int32)
            _, (outputs, outside) = self.engine.compiled.advance(
                self.engine.compiled.loop, feeds, numbers, step_words(first_step), bounds
            )
            found = on_host(outputs)[done : done + size]
            if done:  # the first run may compile
                self._measured((time.perf_counter() - before) / size)
            self._record(found.astype(np.float64), self.batch, outside, self.engine.shapes(feeds, 1))
            done += size
            deliver()

    def _single(self, rows: NDArray[np.int64]) -> None:
        """Do one step on these rows."""
        feed = self._batches(rows)
        numbers = {name: values[self.steps] for name, values in self.numbers.items()}
        compiled = self.engine.compiled
        state, (outputs, outside) = compiled.advance(compiled.step, feed, numbers, step_words(self.engine.steps))
        found = np.array([[float(on_host(each)) for each in (*outputs, state.alive)]])
        self._record(found, len(rows), outside, self.engine.shapes(feed))
        deliver()

    def _measured(self, seconds: float) -> None:
        """Note the seconds of a step; all processes take those of the first, so that their chunks are equally long."""
        if not self.engine.placement.several_processes:
            self.engine.seconds = seconds
        elif not self.engine.seconds:
            self.engine.seconds = agreed(seconds)

    def _record(self, outputs: NDArray[np.float64], rows: int, outside: Any, shapes: Mapping[BaseNode, Any]) -> None:
        """Count finished steps, and raise `Diverged` or `IndexOutOfRange` after a bad one.

        `outputs` has a row for each step: the outputs, and 1 if the step moved the parameters, else 0.
        """
        done = int(outputs[:, -1].sum())
        self.steps += done
        self.engine.count(done)
        sums = outputs[:done, :-1].sum(axis=0) * self.epoch.totals.weights(rows)
        self.epoch.add(done, done * rows, sums, float(outputs[:done, 0].sum()) * rows)
        if done < len(outputs):
            self._check_computed(outside, shapes, self.epoch.done.batches + 1)
            raise self._diverged()

    def _check_computed(self, outside: Any, shapes: Mapping[BaseNode, Any], batch: int) -> None:
        """Raise `IndexOutOfRange` if an index that batch number `batch` computed is out of range."""
        where, after = f" in epoch {self.epoch.number}, batch {batch}", self.epoch.done.batches
        self.engine.check_indices(outside, shapes, f"; the parameters are as they were after batch {after}", where)

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
            finite = self.engine.compiled.finite(self.engine.state.stacked().values)
        if not bool(on_host(finite)):
            raise Diverged(
                f"a parameter became NaN or infinite in epoch {self.epoch.number}, though all losses and gradients "
                f"were finite: a step of the optimizer was too large for its dtype. Lower the learning rate, and "
                f"go on from a checkpoint"
            )

    # --- data -----------------------------------------------------------------------------------------------------

    def _batches(self, rows: NDArray[np.int64]) -> list[Any]:
        """Return the inputs' data for rows of shape (batch,) or (batches, batch) on the devices."""
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

    # --- accumulation ---------------------------------------------------------------------------------------------

    def _accumulating(self) -> None:
        """Do steps with the mean of the gradients of several batches each, weighted by their rows."""
        size = self.batch * self.accumulate
        for start in range(0, len(self.order), size):
            order = self.order[start : start + size]
            values: Any = None
            totals, sums, losses = None, np.zeros(len(self.graph.outputs)), 0.0
            # The row-sparse gradients of the batches, by the position of the parameter.
            rows_of: dict[int, list[RowSparse]] = {}
            for batch, position in enumerate(range(0, len(order), self.batch)):
                rows = order[position : position + self.batch]
                feed, weight = self._batches(rows), self.engine.real(len(rows) / len(order))
                with exchange:
                    if totals is None:
                        values = self.engine.state.values()
                        totals = self.engine.compiled.zeros(values)
                    buffers, totals, outputs, outside = self.engine.compiled.execute(
                        self.engine.compiled.add_gradients,
                        values,
                        totals,
                        self.engine.state.held(),
                        feed,
                        weight,
                        step_words(self.engine.steps + batch),
                    )
                values = [*values[: len(self.graph.parameters)], *buffers]
                self._check_computed(outside, self.engine.shapes(feed), self.epoch.done.batches + batch + 1)
                for i, total in enumerate(totals):
                    if isinstance(total, RowSparse):
                        rows_of[i], totals[i] = self._joined([*rows_of.get(i, []), total]), None
                found = np.array([float(on_host(output)) for output in outputs])
                sums += found * self.epoch.totals.weights(len(rows))
                losses += found[0] * len(rows)
            numbers = {name: array[self.steps] for name, array in self.numbers.items()}
            loss = np.asarray(losses / len(order), self.graph.outputs[0].dtype)
            buffers = values[len(self.graph.parameters) :]
            gradients = [rows_of.get(i, total) for i, total in enumerate(totals or [])]
            (state,) = self.engine.compiled.advance(self.engine.compiled.update, gradients, numbers, loss, buffers)
            self._record_accumulated(bool(on_host(state.alive)), sums, losses, len(order))
            deliver()

    def _record_accumulated(self, alive: bool, sums: NDArray[np.float64], losses: float, rows: int) -> None:
        """Count a step of several batches, given the sums of their weighted outputs, and of their losses times rows."""
        if not alive:
            raise self._diverged()
        batches = -(-rows // self.batch)
        self.steps += 1
        self.engine.steps += batches
        assert self.graph.optimizer is not None
        self.graph.optimizer.advance(1, self.graph.parameters)
        self.epoch.add(batches, rows, sums, losses)

    def _joined(self, gradients: list[RowSparse]) -> list[RowSparse]:
        """Join row-sparse gradients of one table into one if they have more rows than the table."""
        many = len(gradients) > 1 and sum(len(each.rows) for each in gradients) > gradients[0].shape[0]
        return [self.engine.compiled.join(gradients)] if many else gradients


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
