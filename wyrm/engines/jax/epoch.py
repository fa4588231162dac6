"""`JaxEpoch`: JAX runs chunks of steps, and Python acts between the chunks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.columns import Columns
from wyrm.engines.epochs import Epoch
from wyrm.engines.jax.compiled import finite_check
from wyrm.engines.jax.processes import Part, agreed, by_name, check_same
from wyrm.engines.jax.state import Read, exchange, on_host
from wyrm.errors import Diverged
from wyrm.graph.base import BaseNode
from wyrm.graph.storage import bound_array
from wyrm.ops.random.philox_jax import step_words

if TYPE_CHECKING:
    from wyrm.engines.jax.engine import JaxEngine
    from wyrm.engines.jax.graph import JaxGraph

# Bytes of data on the devices at a time for the batches of some steps, and the largest number of these steps.
_CHUNK_BYTES, _CHUNK_STEPS = 2**24, 512
# The number of first steps of a program that one device does one by one, by the function that calls have. XLA compiles
# the loop over steps in about the time that it saves in a thousand of them.
_STEPS_BEFORE_LOOPS = 1024


class _Batches(NamedTuple):
    """Batches on the devices: equal ones, stacked if there are several, and a smaller one after them.

    `sizes` are the numbers of rows of those of a single step.
    """

    feeds: list[Any]
    rest: list[Any] | None = None
    sizes: Sequence[int] = ()


class JaxEpoch:
    """The steps of an epoch on one set of columns."""

    def __init__(self, engine: JaxEngine, columns: Columns, epoch: Epoch) -> None:
        self.engine = engine
        self.graph: JaxGraph = engine.graph
        self.columns = columns
        self.epoch = epoch
        self.batch: int = epoch.options.batch_size
        self.accumulate: int = epoch.options.accumulate
        self.size: int = self.batch * self.accumulate
        # The part of each batch that the rows are: all, unless each process has its own loader.
        self.part: Part = engine.part(columns) if epoch.in_batches else Part()
        # The batches that were copied to the devices ahead, or the error of the copy.
        self.copied: list[_Batches | Exception] = []

    def run(self) -> None:
        """Do all steps."""
        engine, rows = self.engine, self.columns.rows
        self.order: NDArray[np.int64] = self.epoch.order(rows, engine.shuffle)
        with engine.running():
            if engine.placement.several_processes:
                check_same(self._common())
            # The optimizer's numbers of each step, and the number of steps that are not a smaller last one.
            self.numbers: dict[str, NDArray[np.float64]] = engine.numbers(-(-len(self.order) // self.size))
            self.full: int = len(self.order) // self.size
            # From all steps of the epoch: a resumed one runs the same compiled function, so it rounds the same way.
            every = rows // self.size
            chunks = max(every, 2) if self.epoch.in_batches else every
            # Batches of rows of different lengths have shapes of their own.
            self.capacity: int = self._capacity(chunks) if self._loops(every) else 1
            # Whether steps have been done that did not check the new parameters.
            self.unchecked: bool = False
            self._make_room()
            self.epoch.drive(self.order, self._run_steps, engine.pace)
            if self.unchecked:
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
        return common if self.epoch.in_batches else common | by_name(self.columns.given)

    # --- chunks of steps ------------------------------------------------------------------------------------------

    def _loops(self, steps: int) -> bool:
        """Return whether a loop of XLA does the steps of this epoch, which has so many of full size.

        The answer follows from counters that a checkpoint has, so that a resumed epoch rounds the same way.
        """
        if self.graph.flat is not None:
            return False
        engine, began = self.engine, self.engine.steps - self.epoch.done.batches
        alone = engine.placement.sharding is None and not self.epoch.in_batches
        return not alone or began + steps * self.accumulate > _STEPS_BEFORE_LOOPS

    def _run_steps(self, first: int, count: int, rows: NDArray[np.int64]) -> int:
        """Do steps whose batches are on the devices at the same time, as many as asked for if there are that many."""
        if self.capacity == 1 or len(rows) < self.size:
            self._single(first)
            return 1
        done = first % self.capacity
        start = first - done
        if not done:
            self.feeds: list[Any] = self._taken(start).feeds
        # Devices that do steps of their own are averaged at the end of a run.
        apart = 1 if self.engine.local_steps is None else self.engine.local_steps.count
        stop = min(done + -(-count // apart) * apart, self.capacity, self.full - start)
        self._loop(start, done, stop)
        return stop - done

    def _taken(self, start: int) -> _Batches:
        """Return the batches of the steps from step `start` on, on the devices."""
        if not self.copied:
            self._copy(start)
        batches = self.copied.pop()
        if isinstance(batches, Exception):
            raise batches
        return batches

    def _copy(self, start: int) -> None:
        """Copy the batches of the steps from step `start` on to the devices, if there are any."""
        try:
            if self.capacity > 1 and start < self.full:
                count = min(self.capacity, self.full - start)
                self.copied.append(_Batches(self._feeds(start, count, self.capacity)))
            elif len(rows := self.order[start * self.size : (start + 1) * self.size]):
                self.copied.append(self._of_step(rows))
        except Exception as error:  # raised when the steps that run are counted
            self.copied.append(error)

    def _capacity(self, count: int) -> int:
        """Return the number of steps of a chunk, a power of two, so that XLA compiles few loops."""
        row_bytes = sum(array.nbytes // max(1, len(array)) for array in self.columns.given.values())
        most = min(max(1, _CHUNK_BYTES // max(1, row_bytes * self.size)), _CHUNK_STEPS)
        enough = 1 << (min(count, most) - 1).bit_length() if count else 1
        known = self.engine.capacities.setdefault((self.batch, self.accumulate), set())
        capacity = min((each for each in known if enough <= each <= 4 * enough), default=enough)
        known.add(capacity)
        return capacity

    def _feeds(self, start: int, count: int, capacity: int) -> list[Any]:
        """Return the batches of `count` steps from step `start` on, on the devices."""
        size = self.size
        rows = self.order[start * size : (start + count) * size].reshape(count, size)
        if count < capacity:  # the batches that fill the chunk are not used
            rows = np.concatenate([rows, np.broadcast_to(rows[:1], (capacity - count, size))])
        return self._batches(rows if self.accumulate == 1 else rows.reshape(capacity, self.accumulate, self.batch))

    def _loop(self, start: int, first: int, stop: int) -> None:
        """Do the steps from `first` to `stop` of those on the devices, which begin with step `start`."""
        engine = self.engine
        numbers = {name: _filled(values[start : start + stop], self.capacity) for name, values in self.numbers.items()}
        shapes = engine.shapes(self.feeds, 1 if self.accumulate == 1 else 2)
        bounds, base = np.array([first, stop], np.int32), step_words(engine.steps - first * self.accumulate)
        # The batches of the next steps are copied to the devices while they compute.
        last = stop == min(self.capacity, self.full - start)
        before = time.perf_counter()
        self.unchecked = True
        _, (outputs, outside) = engine.compiled.advance(
            engine.compiled.loop(self.accumulate), self.feeds, numbers, base, bounds,
            meanwhile=partial(self._copy, start + self.capacity) if last else None,
        )  # fmt: skip
        found = on_host(outputs)[first:stop]
        if first:  # the first run may compile
            self._measured((stop - first) * self.accumulate, time.perf_counter() - before)
        rows = self.order[(start + first) * self.size : (start + stop) * self.size]
        self._record(found, [self.batch] * self.accumulate, outside, [shapes] * self.accumulate, rows)

    def _single(self, first: int) -> None:
        """Do step `first`; the batches of the next one are copied to the devices while it computes."""
        numbers = {name: values[first] for name, values in self.numbers.items()}
        compiled, step = self.engine.compiled, step_words(self.engine.steps)
        feeds, rest, sizes = self._taken(first)
        ahead = partial(self._copy, first + 1)
        if self.accumulate == 1:
            state, (outputs, outside) = compiled.advance(compiled.step, feeds, numbers, step, meanwhile=ahead)
            shapes = [self.engine.shapes(feeds)]
            self.unchecked |= self.engine.placement.sharding is not None
        else:
            shapes = [self.engine.shapes(feeds, 1)] * (len(sizes) - (rest is not None))
            shapes += [] if rest is None else [self.engine.shapes(rest)]
            real = self.engine.real
            weights = np.array(sizes, real) / real(sum(sizes))
            state, (outputs, outside) = compiled.advance(
                compiled.several, feeds, rest, weights, numbers, step, meanwhile=ahead
            )
            self.unchecked = True
        columns = [np.broadcast_to(on_host(each), len(sizes)) for each in (*outputs, state.alive)]
        rows = self.order[first * self.size : (first + 1) * self.size]
        self._record(np.stack(columns, axis=-1), sizes, outside, shapes, rows)

    def _measured(self, batches: int, seconds: float) -> None:
        """Note the time of batches; all processes take that of the first, so that their chunks are equally long."""
        pace = self.engine.pace
        if not self.engine.placement.several_processes:
            pace.took(batches, seconds)
        elif not pace.rate:
            pace.took(batches, agreed(seconds))

    def _record(
        self, outputs: np.ndarray, sizes: Sequence[int], outside: Any, shapes: Sequence[Mapping[BaseNode, Any]],
        every: NDArray[np.int64],
    ) -> None:  # fmt: skip
        """Count finished steps, and raise `Diverged` or `IndexOutOfRange` after a bad one.

        `outputs` has a row for each batch of each step: the outputs, and 1 if the step moved the parameters, else 0.
        `sizes` and `shapes` are the numbers of rows of the batches of a step, and the shapes of their data; `every` has
        the rows of all steps.
        """
        batches = len(sizes)
        outputs = outputs.astype(np.float64).reshape(-1, batches, outputs.shape[-1])
        done, rows = int(outputs[:, 0, -1].sum()), np.array(sizes, np.float64)
        self.engine.count(done, done * batches)
        self.epoch.count(rows, np.full(batches, float(done)), outputs[:done, :, :-1].sum(axis=0))
        after = self.epoch.done.batches
        if done < len(outputs):
            self._check_computed(outside, shapes)
            optimizer = self.graph.optimizer
            assert optimizer is not None
            what = "the loss, a gradient or a new parameter of the training"
            failing = every[done * sum(sizes) : (done + 1) * sum(sizes)]
            raise self.epoch.diverged(what, after, after, optimizer.learning_rate, failing)
        self.engine.raise_reported(f" in epoch {self.epoch.number}, by batch {after}; parameters have moved")

    def _check_computed(self, outside: Any, shapes: Sequence[Mapping[BaseNode, Any]]) -> None:
        """Raise `IndexOutOfRange` if a batch of the step after the last one computed an index out of range."""
        after = self.epoch.done.batches
        state = f"; the parameters are as they were after batch {after}"
        self.engine.raise_reported(f" in {self.epoch.place(after)}{state}")
        if not self.graph.checks:
            return
        of_batches = on_host(outside).reshape(len(shapes), -1, 3)
        for batch, (found, of_batch) in enumerate(zip(of_batches, shapes, strict=True), after):
            self.engine.check_indices(found, of_batch, state, f" in {self.epoch.place(batch)}")

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

    def _of_step(self, rows: NDArray[np.int64]) -> _Batches:
        """Return the batches of a step on these rows, on the devices."""
        if self.accumulate == 1:
            return _Batches(self._batches(rows), None, [len(rows)])
        full = max(1, len(rows) // self.batch)  # a step with fewer rows than a batch has one batch
        size = min(self.batch, len(rows))
        equal, left = rows[: full * size].reshape(full, size), rows[full * size :]
        sizes = [size] * full + ([len(left)] if len(left) else [])
        if self.graph.flat is not None:
            feeds, *rest = self._of_entries([*equal, left] if len(left) else [*equal], full)
            return _Batches(feeds, rest[0] if rest else None, sizes)
        return _Batches(self._batches(equal), self._batches(left) if len(left) else None, sizes)

    def _of_entries(self, batches: Sequence[NDArray[np.int64]], stacked: int = 0) -> list[list[Any]]:
        """Return the data of batches with rows of different lengths, of which the first ones may be stacked."""
        given = [{leaf: column[rows] for leaf, column in self.columns.given.items()} for rows in batches]
        return self.engine.feeds(given, stacked)

    def _make_room(self) -> None:
        """Let the arrays have room for the largest batch, so that others take what is compiled for it, or less."""
        flat, given = self.graph.flat, self.columns.given
        if flat is None or not flat.padded or not len(self.order):
            return
        largest = []
        for name, leaves in flat.inputs.items():
            lengths = flat.rows(name, given).lengths
            if flat.is_given(name, given):
                rows = self.batch // self.engine.parts(leaves[0], self.batch)
                lengths = np.add.reduceat(lengths[self.order], np.arange(0, len(self.order), rows))
            largest.append(int(lengths.max(initial=0)))
        self.engine.room.of(largest)

    def _batches(self, rows: NDArray[np.int64]) -> list[Any]:
        """Return the inputs' data on the devices, for rows of shape (batch,), or with axes of batches before."""
        if self.graph.flat is not None:
            return self._of_entries([rows])[0]
        chosen = rows[..., 0] if self.columns.singly else rows
        part, feeds = self.part, []
        for leaf in self.graph.fed:
            column = self.columns.given.get(leaf)
            if column is None:
                # One for all batches.
                array = bound_array(leaf)[(np.newaxis,) * (rows.ndim - 1)]
                feeds.append(self.engine.placement.batch(leaf, array.shape, array.__getitem__))
            else:
                # The shape is that of the whole batch.
                shape = (*chosen.shape[:-1], *(size * part.count for size in chosen.shape[-1:]), *column.shape[1:])
                feeds.append(self.engine.placement.batch(leaf, shape, _row_reader(column, chosen, part)))
        return feeds


def _row_reader(column: np.ndarray, rows: NDArray[np.int64], part: Part) -> Read:
    """Return a function that reads a part of `column[rows]`, and no other rows of the column.

    The rows along the last axis of `rows` are `part` of a batch, whose rows the function takes. A batch of one row
    without an axis has no parts.
    """

    def read(index: tuple[slice, ...]) -> np.ndarray:
        if part.count > 1:
            own = part.own(index[rows.ndim - 1], rows.shape[-1] * part.count)
            index = (*index[: rows.ndim - 1], own, *index[rows.ndim :])
        chosen = column[rows[index[: rows.ndim]]]
        found: np.ndarray = chosen[(slice(None),) * rows.ndim + tuple(index[rows.ndim :])]
        return found

    return read


def _filled(values: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    return np.concatenate([values, np.zeros(size - len(values), values.dtype)])
