"""Epochs of the engine `jax`: JAX runs chunks of steps, and Python acts between the chunks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.epoch_position import Done
from wyrm.engines.epoch_state import EpochOptions, check_batches
from wyrm.engines.feeding import check_ranges
from wyrm.engines.jax.agreement import Part, agreed, check_same, part_of
from wyrm.engines.jax.engine import JaxEngine, refuse_threads
from wyrm.engines.jax.lower import Sizes
from wyrm.engines.jax.namespace import narrowed
from wyrm.engines.jax.state import Read, exchange, on_host
from wyrm.engines.jax.step import State, joined_rows
from wyrm.engines.jax.updates import all_finite
from wyrm.engines.native.run.shuffle import Shuffle
from wyrm.engines.progress import LossBar, NoBar, bar
from wyrm.engines.totals import Totals
from wyrm.errors import Diverged, OptionError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.rows import RowSparse
from wyrm.graph.storage import bound_array
from wyrm.ops.random.philox_jax import step_words
from wyrm.support.interrupts import deferred, deliver

Leaf = BaseNode
# Seconds that a chunk of steps should take; Ctrl-C and the progress bar come between chunks.
_CHUNK = 0.1
# Bytes of data on the devices for the batches of a chunk, and the largest number of batches in it.
_CHUNK_BYTES, _CHUNK_BATCHES = 2**24, 512


@dataclass
class _Epoch:
    """The data and the progress of one epoch."""

    given: Mapping[Leaf, np.ndarray]
    order: NDArray[np.int64]
    batch: int
    singly: bool
    # The optimizer's numbers of each step.
    numbers: Mapping[str, NDArray[np.float64]]
    # Which part of each batch the rows are: all of it, unless each process has batches of its own.
    part: Part
    totals: Totals
    bar: LossBar = field(default_factory=NoBar)
    steps: int = 0


class JaxTraining(JaxEngine):
    """An engine that also trains on whole data sets."""

    # Seconds of a step, 0 until one was measured.
    _seconds = 0.0
    # Whether `own_rows` is in force.
    _in_batches = False

    @cached_property
    def _capacities(self) -> dict[int, set[int]]:
        """The numbers of batches of a chunk that have been used, by the size of a batch."""
        return {}

    @cached_property
    def _shuffle(self) -> Shuffle:
        return Shuffle()

    def epoch(
        self,
        given: dict[Leaf, np.ndarray],
        rows: int,
        singly: bool,
        options: EpochOptions,
        first: int = 0,
    ) -> list[float]:
        """Train on all rows once; return the totals of the loss and of the other outputs, see `Totals`.

        Within `own_rows`, they are this process's part of each batch, and follow `first` batches.
        """
        batch_size, shuffle, seed, threads, _, progress, accumulate = options
        refuse_threads(threads)
        part = self._part(given) if self._in_batches else Part()
        check_batches(given, rows * part.count, singly, batch_size * part.count)
        sizes = self._check_sizes(given, min(rows, batch_size) * part.count, singly)
        if self.placement.sharding is not None and rows >= batch_size:
            for leaf in self.graph.inputs:
                self.placement.sharding.check_leaf(leaf, sizes)
        order = np.arange(rows, dtype=np.int64)
        if shuffle:
            mixed = int(np.random.SeedSequence([seed, self.epochs]).generate_state(1, np.uint64)[0])
            self._shuffle(order, mixed % 2**63)
        rows_of = {"rows": rows, "batch_size": batch_size, "shuffle": shuffle, "seed": seed, "accumulate": accumulate}
        with self.running(), deferred, self._of_epoch(rows_of) as before:
            if self.placement.several_processes:
                check_same(self._common(given, rows_of))
            left = order if self._in_batches else order[before.batches * batch_size :]
            numbers = self.numbers(-(-len(left) // (batch_size * accumulate)))
            epoch = _Epoch(given, left, batch_size, singly, numbers, part, self.totals.for_columns(given, singly))
            with bar(len(left), progress) as epoch.bar:
                if accumulate > 1:
                    self._accumulating(epoch, accumulate)
                else:
                    full = len(left) // batch_size
                    self._chunks(epoch, full, rows // batch_size)
                    if len(left) % batch_size:
                        self._single(epoch, left[full * batch_size :])
                self._check_finite()
            start = before if self._in_batches else Done.nothing(len(self.graph.outputs))
            values = self.position.done.values(start, epoch.totals)
        self.epochs += 1
        return values

    def _of_epoch(self, options: Mapping[str, Any]) -> AbstractContextManager[Done]:
        """Return a context that counts the batches of an epoch, and gives what was done of it before."""
        if self._in_batches:
            return nullcontext(self.position.done)
        return self.position.epoch(options, len(self.graph.outputs))

    @contextmanager
    def own_rows(self) -> Iterator[Done]:
        """Take the data of each call of `epoch` as the next part of one epoch; each process has its own rows.

        Give what was done of the epoch when a checkpoint was written.
        """
        with self.position.epoch({"batches": "of a loader"}, len(self.graph.outputs)) as done:
            self._in_batches = True
            try:
                yield done
            finally:
                self._in_batches = False

    def _part(self, given: Mapping[Leaf, np.ndarray]) -> Part:
        parts = {part_of(self.placement, leaf) for leaf in given}
        if len(parts) > 1:
            raise OptionError("the inputs' rows must all be divided over the processes, or none of them")
        return parts.pop() if parts else Part()

    def _common(self, given: Mapping[Leaf, np.ndarray], options: Mapping[str, Any]) -> dict[str, object]:
        """Return what all processes have in common at the start of an epoch."""
        optimizer = self.graph.optimizer
        assert optimizer is not None
        common: dict[str, object] = {
            "the options of the epoch or the number of rows": sorted(options.items()),
            "the number of steps so far": (self.steps, self.epochs, optimizer.steps, self.position.done.batches),
        }
        if not self._in_batches:
            common |= {f"the data of {describe(leaf)}": array for leaf, array in given.items()}
        return common

    def _check_sizes(self, given: Mapping[Leaf, np.ndarray], batch: int, singly: bool) -> Sizes:
        """Return the sizes of the axes in a batch.

        Raise an error for sizes that do not match, and for an index beyond an axis with a size from the data.
        """
        shapes = {
            leaf: (given[leaf].shape[1:] if singly else (batch, *given[leaf].shape[1:]))
            if leaf in given
            else bound_array(leaf).shape
            for leaf in self.graph.inputs
        }
        sizes = self.graph.schedule.bind(shapes)
        check_ranges(self.graph.ranges.limits, given, sizes)
        for leaf, array in given.items():
            if array.dtype.kind in "iu":
                with self.precision():
                    narrowed(leaf, array)
        return sizes

    # --- chunks of batches ----------------------------------------------------------------------------------------

    def _chunks(self, epoch: _Epoch, count: int, every: int) -> None:
        """Train on `count` full batches, the last ones of an epoch of `every`."""
        # An epoch that goes on must use the same compiled function, which rounds in the same way.
        capacity = self._capacity(epoch, max(every, 2) if self._in_batches else every)
        if capacity == 1:
            for i in range(count):
                self._single(epoch, epoch.order[i * epoch.batch : (i + 1) * epoch.batch])
            return
        for start in range(0, count, capacity):
            self._chunk(epoch, start, min(capacity, count - start), capacity)

    def _capacity(self, epoch: _Epoch, count: int) -> int:
        """Return how many batches lie on the devices together, a power of two, so that few numbers are compiled."""
        row_bytes = sum(array.nbytes // max(1, len(array)) for array in epoch.given.values())
        most = min(max(1, _CHUNK_BYTES // max(1, row_bytes * epoch.batch)), _CHUNK_BATCHES)
        enough = 1 << (min(count, most) - 1).bit_length() if count else 1
        known = self._capacities.setdefault(epoch.batch, set())
        capacity = min((each for each in known if enough <= each <= 4 * enough), default=enough)
        known.add(capacity)
        return capacity

    def _chunk(self, epoch: _Epoch, start: int, count: int, capacity: int) -> None:
        """Train on `count` batches from batch `start` on, which lie on the devices together."""
        rows = epoch.order[start * epoch.batch : (start + count) * epoch.batch].reshape(count, epoch.batch)
        if count < capacity:  # the batches that fill the chunk are not used
            rows = np.concatenate([rows, np.broadcast_to(rows[:1], (capacity - count, epoch.batch))])
        feeds = self._batches(epoch, rows)
        numbers = {name: _filled(values[start : start + count], capacity) for name, values in epoch.numbers.items()}
        first_step, done = self.steps, 0
        while done < count:
            size = min(count - done, max(1, int(_CHUNK / self._seconds))) if self._seconds else 1
            before = time.perf_counter()
            bounds = np.array([done, done + size], np.int32)
            _, (outputs, outside) = self.train(self.loop, feeds, numbers, step_words(first_step), bounds)
            found = on_host(outputs)[done : done + size]
            if done:  # the first run may compile
                self._measured((time.perf_counter() - before) / size)
            self._record(epoch, found.astype(np.float64), epoch.batch, outside, self.shapes(feeds, 1))
            done += size
            deliver()

    def _single(self, epoch: _Epoch, rows: NDArray[np.int64]) -> None:
        """Do one step on these rows."""
        feed = self._batches(epoch, rows)
        numbers = {name: values[epoch.steps] for name, values in epoch.numbers.items()}
        state, (outputs, outside) = self.train(self._train, feed, numbers, step_words(self.steps))
        found = np.array([[float(on_host(each)) for each in (*outputs, state.alive)]])
        self._record(epoch, found, len(rows), outside, self.shapes(feed))
        deliver()

    def _measured(self, seconds: float) -> None:
        """Note how long a step takes; several processes do as many steps at a time as the first one finds right."""
        if not self.placement.several_processes:
            self._seconds = seconds
        elif not self._seconds:
            self._seconds = agreed(seconds)

    def _record(
        self, epoch: _Epoch, outputs: NDArray[np.float64], rows: int, outside: Any, shapes: Mapping[Leaf, Any]
    ) -> None:
        """Count finished steps, and raise `Diverged` or `IndexOutOfRange` after a bad one.

        `outputs` has a row for each step: the outputs, and 1 if the step moved the parameters, else 0.
        """
        done = int(outputs[:, -1].sum())
        epoch.steps += done
        self.count(done)
        self.position.add(done, done * rows, outputs[:done, :-1].sum(axis=0) * epoch.totals.weights(rows))
        epoch.bar.add(done * rows, float(outputs[:done, 0].sum()) * rows)
        if done < len(outputs):
            self._check_computed(outside, shapes, self.position.done.batches + 1)
            raise self._diverged(epoch)

    def _check_computed(self, outside: Any, shapes: Mapping[Leaf, Any], batch: int) -> None:
        """Raise `IndexOutOfRange` if an index that batch number `batch` computed is out of range."""
        where, after = f" in epoch {self.epochs + 1}, batch {batch}", self.position.done.batches
        self.check_indices(outside, shapes, f"; the parameters are as they were after batch {after}", where)

    def _diverged(self, epoch: _Epoch) -> Diverged:
        optimizer = self.graph.optimizer
        assert optimizer is not None
        failed = self.position.done.batches
        return Diverged(
            f"the loss or a gradient of the training became NaN or infinite in epoch {self.epochs + 1}, batch "
            f"{failed + 1} at learning rate {optimizer.learning_rate:g}; the parameters are as they were after batch "
            f"{failed}. Lower the learning rate, or look for the cause with wy.watch_nan()"
        )

    def _check_finite(self) -> None:
        """Raise `Diverged` if a parameter is not finite after the last step."""
        with exchange:
            finite = self._finite(self.state.stacked().values)
        if not bool(on_host(finite)):
            raise Diverged(
                f"a parameter became NaN or infinite in epoch {self.epochs + 1}, though all losses and gradients were "
                f"finite: a step of the optimizer was too large for its dtype. Lower the learning rate, and go on from "
                f"a checkpoint"
            )

    @cached_property
    def _finite(self) -> Any:
        import jax

        return jax.jit(lambda values: all_finite([value for value in values if value.dtype.kind != "i"]))

    # --- data -----------------------------------------------------------------------------------------------------

    def _batches(self, epoch: _Epoch, rows: NDArray[np.int64]) -> list[Any]:
        """Return the inputs' data for rows of shape (batch,) or (batches, batch) on the devices."""
        chosen = rows[..., 0] if epoch.singly else rows
        part, feeds = epoch.part, []
        for leaf in self.graph.inputs:
            column = epoch.given.get(leaf)
            if column is None:
                # One for all batches.
                array = bound_array(leaf)[(np.newaxis,) * (rows.ndim - 1)]
                feeds.append(self.placement.batch(leaf, array.shape, array.__getitem__))
            else:
                # The shape is that of the whole batch.
                shape = (*chosen.shape[:-1], *(size * part.count for size in chosen.shape[-1:]), *column.shape[1:])
                before = part.index * chosen.shape[-1] if part.count > 1 else 0
                feeds.append(self.placement.batch(leaf, shape, _rows(column, chosen, before)))
        return feeds

    # --- accumulation ---------------------------------------------------------------------------------------------

    def _accumulating(self, epoch: _Epoch, accumulate: int) -> None:
        """Do steps with the mean of the gradients of `accumulate` batches each, weighted by their rows."""
        size = epoch.batch * accumulate
        for start in range(0, len(epoch.order), size):
            order = epoch.order[start : start + size]
            values: Any = None
            totals, sums, losses = None, np.zeros(len(self.graph.outputs)), 0.0
            # The row-sparse gradients of the batches, by the position of the parameter.
            rows_of: dict[int, list[RowSparse]] = {}
            for batch, position in enumerate(range(0, len(order), epoch.batch)):
                rows = order[position : position + epoch.batch]
                feed, weight = self._batches(epoch, rows), self.real(len(rows) / len(order))
                with exchange:
                    if totals is None:
                        values = self.state.values()
                        totals = self._zeros(values)
                    buffers, totals, outputs, outside = self.run(
                        self._accumulate,
                        values,
                        totals,
                        self.state.held(),
                        feed,
                        weight,
                        step_words(self.steps + batch),
                    )
                values = [*values[: len(self.graph.parameters)], *buffers]
                self._check_computed(outside, self.shapes(feed), self.position.done.batches + batch + 1)
                for i, total in enumerate(totals):
                    if isinstance(total, RowSparse):
                        rows_of[i], totals[i] = self._joined([*rows_of.get(i, []), total]), None
                found = np.array([float(on_host(output)) for output in outputs])
                sums += found * epoch.totals.weights(len(rows))
                losses += found[0] * len(rows)
            numbers = {name: array[epoch.steps] for name, array in epoch.numbers.items()}
            loss = np.asarray(losses / len(order), self.graph.outputs[0].dtype)
            buffers = values[len(self.graph.parameters) :]
            gradients = [rows_of.get(i, total) for i, total in enumerate(totals or [])]
            (state,) = self.train(self._update, gradients, numbers, loss, buffers)
            self._record_accumulated(epoch, bool(on_host(state.alive)), sums, losses, len(order))
            deliver()

    def _record_accumulated(
        self, epoch: _Epoch, alive: bool, sums: NDArray[np.float64], losses: float, rows: int
    ) -> None:
        """Count a step of several batches, given the sums of their weighted outputs, and of their losses times rows."""
        if not alive:
            raise self._diverged(epoch)
        batches = -(-rows // epoch.batch)
        epoch.steps += 1
        self.steps += batches
        assert self.graph.optimizer is not None
        self.graph.optimizer.advance(1, self.graph.parameters)
        self.position.add(batches, rows, sums)
        epoch.bar.add(rows, losses)

    def _joined(self, gradients: list[RowSparse]) -> list[RowSparse]:
        """Return row-sparse gradients of one table as fewer, where together they have more rows than the table."""
        many = len(gradients) > 1 and sum(len(each.rows) for each in gradients) > gradients[0].shape[0]
        return [self._join(gradients)] if many else gradients

    @cached_property
    def _join(self) -> Any:
        import jax

        return jax.jit(joined_rows)

    @cached_property
    def _accumulate(self) -> Any:
        import jax

        options: dict[str, Any] = {}
        sharding = self.placement.sharding
        if sharding is not None:
            ((placed, *_), _) = self.kept()["out_shardings"]
            buffers = placed[len(self.graph.parameters) :]
            options["out_shardings"] = buffers, self.functions.accumulator_shardings(sharding, True), None, None
        return jax.jit(self.functions.accumulate, donate_argnums=1, **options)

    @cached_property
    def _update(self) -> Any:
        import jax

        def update(state: State, _: Sequence[Any], *arguments: Any) -> tuple[State]:
            return (self.functions.update_by(state, *arguments),)

        return jax.jit(update, donate_argnums=0, **self.kept(1))

    @cached_property
    def _zeros(self) -> Any:
        import jax

        sharding = self.placement.sharding
        if sharding is None:
            return jax.jit(self.functions.zeros)
        return jax.jit(self.functions.zeros, out_shardings=self.functions.accumulator_shardings(sharding, False))


def _rows(column: np.ndarray, rows: NDArray[np.int64], before: int = 0) -> Read:
    """Return a function that reads a part of `column[rows]`, of which it reads nothing else.

    The rows follow `before` rows of other processes along the last axis.
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
