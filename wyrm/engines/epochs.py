"""Epochs, the same for all engines: order of rows, chunks of steps, loaders, progress, and positions to resume from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.columns import Columns, check_contrast, checked_columns, given_inputs
from wyrm.engines.progress import Bar, LossBar, NoBar, bar, checked_bar
from wyrm.engines.tables import row_count
from wyrm.engines.totals import Totals
from wyrm.errors import Diverged, IndexOutOfRange, NotFinite, OptionError, ShapeError
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.ragged import RaggedArray, entries_of, infinite_if_empty, joined
from wyrm.ops.random.philox import STEP, pinned_step
from wyrm.support.frozen import frozen
from wyrm.support.interrupts import deferred, deliver
from wyrm.support.options import flag, whole

if TYPE_CHECKING:
    from wyrm.engines.engine import Engine

# How threads share the parameters in an epoch.
ThreadMode = Literal["hogwild", "synchronized"]
# Seconds that a chunk of steps should take: Ctrl-C and the progress bar have their turn between chunks.
_CHUNK = 0.1
# The rows of a batch that an error names.
_NAMED = 8
# The bytes of the batches of a loader that are joined for one call of an engine.
_BYTES = 1 << 26


class EpochOptions(NamedTuple):
    """Checked options of an epoch; the integers are Python's, which cannot overflow."""

    batch_size: int
    shuffle: bool
    seed: int
    threads: int
    mode: ThreadMode
    progress: bool | Bar | LossBar
    accumulate: int


class RowShuffle(Protocol):
    """What puts the rows of an epoch in a random order.

    Every engine takes the native kernel, `wyrm.engines.native.run.shuffle.Shuffle`: a seed gives the same order in all
    of them, and it is compiled, because a loop over all rows is slow in Python.
    """

    def __call__(self, order: NDArray[np.int64], seed: int, /) -> None:
        """Shuffle `order` in place by `seed`, which is at least 0 and below 2**63."""


def checked_options(
    *,
    batch_size: object,
    shuffle: object,
    seed: object,
    threads: object,
    mode: object,
    progress: Any,
    accumulate: object,
    in_batches: bool = False,
) -> EpochOptions:
    """Return the options of an epoch; raise `DTypeError` or `OptionError` for an invalid one.

    `in_batches`: the data comes in batches, whose size and order are given.
    """
    if mode not in ("hogwild", "synchronized"):
        raise OptionError(f"mode must be 'hogwild' or 'synchronized', not {mode!r}")
    options = EpochOptions(
        whole("batch_size", batch_size, 1), flag("shuffle", shuffle), whole("seed", seed, 0),
        whole("threads", threads, 1), "hogwild" if mode == "hogwild" else "synchronized", checked_bar(progress),
        whole("accumulate", accumulate, 1),
    )  # fmt: skip
    if options.accumulate > 1 and options.threads > 1 and options.mode == "hogwild":
        raise OptionError("threads in mode 'hogwild' do not accumulate gradients: use mode='synchronized' or threads=1")
    if in_batches and (options.batch_size != 1 or options.shuffle):
        raise OptionError("batches have their size and order already: set batch_size and shuffle there")
    return options


class Pace:
    """How fast an engine does steps."""

    def __init__(self) -> None:
        # Batches a second, 0 until some were measured.
        self.rate: float = 0.0

    @property
    def chunk(self) -> float:
        """The batches that take as long as a chunk of steps should; 0 until some were measured."""
        return self.rate * _CHUNK

    def took(self, batches: int, seconds: float) -> None:
        """Note the time of some batches; a very short one tells only how slow they are at most."""
        rate = batches / max(seconds, 1e-6)
        self.rate = rate if seconds > _CHUNK / 50 else max(rate, self.rate)


RunSteps: TypeAlias = Callable[[int, int, NDArray[np.int64]], int]
"""What an engine does for `Epoch.drive`."""


@dataclass
class Epoch:
    """An epoch in progress, which drives the steps of an engine.

    `number` counts epochs from 1. `totals` tells how outputs of batches add up. The columns of a data set have all
    rows, of which the first `skipped` batches are done. A loader (`in_batches`) gives columns with the next rows again
    and again; `options.batch_size` and `totals` are those of the current ones.
    """

    number: int
    options: EpochOptions
    totals: Totals
    position: EpochPosition
    in_batches: bool
    # The outputs of the program, as users wrote them.
    outputs: Sequence[BaseNode]
    bar: LossBar = field(default_factory=NoBar)
    skipped: int = 0
    # The rows and losses that are counted and not yet shown, in parts; and the thread of the epoch, which shows them.
    unshown: list[tuple[int, float]] = field(default_factory=list)
    thread: int = field(default_factory=threading.get_ident)

    @property
    def done(self) -> Done:
        """What is done of the epoch."""
        return self.position.done

    @cached_property
    def seed(self) -> int | None:
        """The seed of the shuffle of this epoch; None without a shuffle."""
        return self.seeds(1)[0]

    def seeds(self, epochs: int) -> list[int | None]:
        """Return the seeds of the shuffles of so many epochs, this one first."""
        numbers = range(self.number, self.number + epochs)
        return [_seed(self.options.seed, number) if self.options.shuffle else None for number in numbers]

    def rows_of(self, rows: int) -> dict[str, object]:
        """Return the options that decide which rows each batch has."""
        options = self.options
        return {
            "rows": rows, "batch_size": options.batch_size, "shuffle": options.shuffle, "seed": options.seed,
            "accumulate": options.accumulate,
        }  # fmt: skip

    def order(self, rows: int, shuffle: RowShuffle) -> NDArray[np.int64]:
        """Return the rows in the order of the epoch, without those that are done."""
        return self.shuffled(np.arange(rows, dtype=np.int64), shuffle)

    def shuffled(self, rows: NDArray[np.int64], shuffle: RowShuffle, start: int = 0) -> NDArray[np.int64]:
        """Bring rows into the order of the epoch, and return those that are not done; other rows have another start."""
        if (seed := self.seed) is not None:
            shuffle(rows, (seed + start) % 2**63)
        return rows[self.skipped * self.options.batch_size :]

    def drive(self, rows: NDArray[np.int64], run_steps: RunSteps, pace: Pace | None = None) -> None:
        """Have the steps on these rows done, in order and in chunks; the last step has the rows left over.

        `run_steps(first, count, rows)` does about `count` steps, from number `first` of this drive on: `rows` are those
        of so many. It calls `count` for their batches and returns how many steps it did; none ends the drive. A step
        has `options.accumulate` batches, the last one perhaps fewer, and a smaller one. Without a pace, each step is a
        chunk.
        """
        accumulate, start = self.options.accumulate, 0
        size = self.options.batch_size * accumulate
        while start < len(rows):
            chunk = 1 if pace is None else int(pace.chunk) // accumulate
            count = max(1, min(chunk, (len(rows) - start) // size))
            try:
                done = run_steps(start // size, count, rows[start : start + count * size])
            finally:
                self.show()
            deliver()
            if not done:
                return
            start += done * size

    def count(self, sizes: NDArray[np.float64], counts: NDArray[np.float64], outputs: NDArray[np.float64]) -> int:
        """Count finished batches, `counts` of them of each of the `sizes`, and return how many; `show` tells the bar.

        `outputs`, of shape (sizes, outputs), are the sums over the batches of each size.
        """
        found = self.done_in(sizes, counts, outputs)
        self.position.done = self.position.done.plus(found)
        if not isinstance(self.bar, NoBar):
            self.unshown.append((found.rows, float(found.sums[0])))
        return found.batches

    def done_in(self, sizes: NDArray[np.float64], counts: NDArray[np.float64], outputs: NDArray[np.float64]) -> Done:
        """Return what is done in the batches that `count` takes."""
        sums = np.add.reduce(outputs * self.totals.weights(sizes[:, None]))
        return Done(int(np.add.reduce(counts)), int(sizes.dot(counts)), sums)

    def show(self) -> None:
        """Tell the bar what was counted since, in the thread of the epoch alone, because callbacks may act there."""
        if self.unshown and threading.get_ident() == self.thread:
            taken = [self.unshown.pop() for _ in range(len(self.unshown))]
            self.bar.add(sum(rows for rows, _ in taken), sum(losses for _, losses in taken))

    def place(self, batches: int) -> str:
        """Return the place of the batch after so many others, for errors."""
        return f"epoch {self.number}, batch {batches + 1}"

    def diverged(
        self, what: str, failed: int, kept: int, rate: float, rows: NDArray[np.int64] | None = None
    ) -> Diverged:
        """Return the error of the batch after `failed` others, if the parameters are those after `kept` batches."""
        extreme = infinite_if_empty(self.outputs)
        advice = (
            ""
            if extreme is None
            else f". The infinity may be that of a row without entries in {describe(extreme)}: choose another value "
            f"there, wy.where(wy.row_lengths(x) > 0, value, 0.0)"
        )
        error = Diverged(
            f"{what} became NaN or infinite in {self.place(failed)} at learning rate {rate:g}; the parameters are as "
            f"they were after batch {kept}. Lower the learning rate, or look for the cause with wy.watch_nan(){advice}"
        )
        return self.with_rows(error, rows)

    def with_rows(self, error: Diverged, rows: NDArray[np.int64] | None) -> Diverged:
        """Give an error the rows of its batch; those of a loader's batches have no numbers in the data."""
        if rows is not None and not self.in_batches:
            error.rows = rows.copy()
            more = f" and {len(rows) - _NAMED} more, error.rows" if len(rows) > _NAMED else ""
            named = ("row " if len(rows) == 1 else "rows ") + ", ".join(map(str, rows[:_NAMED]))
            error.args = (f"{error}. The batch has the {named}{more}",)
        return error

    def result(self, done: Done) -> EpochResult:
        """Return the result of an epoch in which this was done."""
        values = self.totals.of_all_rows((done.sums / self.totals.weights(done.rows)).tolist())
        return EpochResult(values, done.mean_loss)


class EpochResult(NamedTuple):
    """The outputs for all rows of an epoch, and the loss of a row on average."""

    outputs: list[float]
    mean_loss: float


@lru_cache(maxsize=4096)  # the trainings of a search have the same ones
def _seed(seed: int, number: int) -> int:
    """Return the seed of the shuffle of an epoch."""
    return int(np.random.SeedSequence([seed, number - 1]).generate_state(1, np.uint64)[0])


def train_epochs(
    engine: Engine, data: Any, options: EpochOptions, totals: Totals, *, in_batches: bool, most: int = 1
) -> list[EpochResult]:
    """Train on a data set once, or several times and at most `most` times; return the results of these epochs.

    Data is checked once, and the caller's code runs after all of them. See `Program.epoch`.
    """
    epoch = Epoch(engine.epochs + 1, options, totals, engine.position, in_batches, engine.graph.outputs)
    if in_batches:
        _train_on_batches(engine, epoch, data)
        engine.epochs += 1
        return [epoch.result(epoch.done)]
    columns = _checked(engine, epoch, totals, data)
    with deferred, engine.position.epoch(epoch.rows_of(columns.rows), len(totals.nodes)) as done:
        epoch.skipped = done.batches
        several = [] if most == 1 or epoch.skipped else engine.train_several(columns, epoch, most)
        if not several:
            with bar(columns.rows - done.rows, options.progress, engine.processes[0]) as epoch.bar:
                engine.train(columns, epoch)
        found = several or [epoch.done]
        engine.epochs += len(found)
    return [epoch.result(each) for each in found]


def _checked(engine: Engine, epoch: Epoch, totals: Totals, data: Any, last: int | None = None) -> Columns:
    """Return the columns that an epoch trains on next, and let it add up their outputs; see `Columns.batch_sizes`."""
    graph, options, in_batches = engine.graph, epoch.options, epoch.in_batches
    with engine.checking():
        columns = checked_columns(data, graph.inputs, graph.ranges.limits)
        epoch.totals = totals.for_columns(columns.given, columns.singly)
        check_contrast(graph, columns, options.batch_size)
        engine.check_epoch(columns, options, in_batches=in_batches)
        engine.check_sizes(columns, columns.batch_sizes(options.batch_size, last), in_batches=in_batches)
    return columns


# --- batches of a loader ----------------------------------------------------------------------------------------------


@frozen
class Chunk:
    """Consecutive batches of one size, as columns; `first` is the number of batches before them."""

    columns: dict[BaseNode, np.ndarray]
    batch_size: int
    first: int

    @contextmanager
    def naming_its_place(self) -> Iterator[None]:
        """Add the chunk's first batch to errors that name a row of the chunk, before training on it."""
        try:
            yield
        except (NotFinite, IndexOutOfRange) as error:
            text, first = str(error).removesuffix("; no parameter has moved"), self.first
            state = f"the parameters are as they were after batch {first}" if first else "no parameter has moved"
            raise type(error)(
                f"{text}; rows are counted in the order of the batches, from batch {first + 1} on; {state}"
            ) from None


def _train_on_batches(engine: Engine, epoch: Epoch, batches: Any) -> None:
    """Train on all batches in order, a chunk at a time."""
    totals, options = epoch.totals, epoch.options
    # The rows of the last batch, if the loader knows them.
    last: int | None = getattr(batches, "last_batch_size", None)
    with (
        bar(row_count(batches), options.progress, engine.processes[0]) as epoch.bar,
        engine.position.epoch({"batches": "of a loader"}, len(totals.nodes)) as done,
    ):
        for chunk in chunks(islice(batches, done.batches, None), engine.graph.inputs, options.accumulate):
            epoch.options = options._replace(batch_size=chunk.batch_size)
            with chunk.naming_its_place():
                columns = _checked(engine, epoch, totals, chunk.columns, last)
            with deferred:
                engine.train(columns, epoch)
        engine.end_batches()
    if not epoch.done.rows:
        raise ShapeError("there are no batches, so there is nothing to train on; a generator yields its batches once")


def chunks(batches: Iterable[object], inputs: Sequence[BaseNode], accumulate: int = 1) -> Iterator[Chunk]:
    """Join consecutive batches of equal shapes into chunks of about 64 MB, each of whole steps of `accumulate` batches.

    A smaller batch, as at the end of a data set, may be the last one of a step. A larger one, and one with other sizes
    along the other axes, begins a new step.
    """
    held: list[dict[BaseNode, Any]] = []
    first = size = last = held_bytes = 0
    for batch in batches:
        given = given_inputs(batch, inputs)
        rows = _rows_of_batch(given)
        inside = len(held) % accumulate > 0
        fits = last == size and (rows == size or (rows < size and inside)) and (inside or held_bytes <= _BYTES)
        if held and not (fits and _shapes_of_rows(given) == _shapes_of_rows(held[0])):
            yield _joined_batches(held, size, first)
            first += len(held)
            held, held_bytes = [], 0
        size = size if held else rows
        held.append(given)
        last = rows
        held_bytes += sum(array.nbytes for array in given.values())
    if held:
        yield _joined_batches(held, size, first)


def _shapes_of_rows(given: Mapping[BaseNode, Any]) -> dict[BaseNode, tuple[int, ...]]:
    return {leaf: entries_of(array).shape[1:] for leaf, array in given.items()}


def _rows_of_batch(given: Mapping[BaseNode, Any]) -> int:
    sizes = {len(array) if isinstance(array, RaggedArray) or array.ndim else 0 for array in given.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise ShapeError("each column of a batch must have the same number of rows, at least one")
    return sizes.pop()


def _joined_batches(held: Sequence[Mapping[BaseNode, Any]], size: int, first: int) -> Chunk:
    columns = {leaf: joined([batch[leaf] for batch in held]) for leaf in held[0]}
    return Chunk(columns, size, first)


class Done(NamedTuple):
    """The numbers of finished batches and rows of an epoch, and the weighted sums of their outputs."""

    batches: int
    rows: int
    sums: NDArray[np.float64]

    @classmethod
    def nothing(cls, outputs: int) -> Done:
        """Return the state at the start of an epoch, for a number of outputs."""
        return cls(0, 0, np.zeros(outputs))

    def plus(self, more: Done) -> Done:
        """Return the state after more batches."""
        return Done(self.batches + more.batches, self.rows + more.rows, self.sums + more.sums)

    @property
    def mean_loss(self) -> float:
        """The loss of a row, on average."""
        return float(self.sums[0]) / self.rows


class EpochPosition:
    """What is done of the current epoch."""

    def __init__(self) -> None:
        self.done: Done = Done.nothing(0)
        # The options of the current epoch that decide which rows a batch has; None between epochs.
        self._options: Mapping[str, Any] | None = None
        # The position of a checkpoint, from which the next epoch resumes.
        self._loaded: Mapping[str, Any] | None = None

    @contextmanager
    def epoch(self, options: Mapping[str, Any], outputs: int) -> Iterator[Done]:
        """Begin an epoch, or resume a loaded one; give what is done of it. The end of the context ends the epoch.

        Raise `OptionError` if a loaded epoch had other options.
        """
        loaded = self._loaded
        self.done = Done.nothing(outputs)
        if loaded is not None:
            _check_resumed(loaded, options)
            self.done = Done(loaded["batches"], loaded["rows"], np.array(loaded["sums"]))
        self._options, self._loaded = dict(options), None
        try:
            yield self.done
        finally:
            self._options = None

    def state(self) -> dict[str, Any] | None:
        """Return the position as JSON values, None between epochs."""
        if self._options is None:
            return None
        batches, rows, sums = self.done
        return {"batches": batches, "rows": rows, "sums": sums.tolist(), "options": dict(self._options)}

    def load(self, state: Mapping[str, Any] | None) -> None:
        """Resume from a result of `state` in the next epoch."""
        self._loaded = state


def _check_resumed(loaded: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    saved: Mapping[str, Any] = loaded["options"]
    names = sorted(saved.keys() | options.keys())
    different = [name for name in names if saved.get(name) != options.get(name)]
    differences = [f"{name}={saved.get(name)!r}, not {options.get(name)!r}" for name in different]
    if differences:
        raise OptionError(
            f"the checkpoint was written after batch {loaded['batches']} of an epoch with {' and '.join(differences)}: "
            f"go on with the options and the data of that epoch"
        )


_NOTHING = nullcontext()


class _Counts(Protocol):
    """An engine or evaluation; random nodes draw from its count of steps."""

    steps: int


def drawing(runs: _Counts) -> AbstractContextManager[None]:
    """Return a context in which a program takes its random numbers from the step of `at_step`; `steps` stays.

    Outside `at_step` the context does nothing.
    """
    step = pinned_step()
    return _NOTHING if step is None else _pinned(runs, step)


@contextmanager
def _pinned(runs: _Counts, step: int) -> Iterator[None]:
    own, runs.steps = runs.steps, step
    try:
        yield
    finally:
        runs.steps = own


def refuse_epoch(leaves: Sequence[BaseNode]) -> None:
    """Raise `OptionError` inside `at_step` if a graph with these leaves has random nodes."""
    step = pinned_step()
    if step is not None and any(leaf is STEP for leaf in leaves):
        raise OptionError(
            f"epoch: each step of an epoch draws anew, but inside at_step({step}) everything draws for step {step}; "
            f"train outside it, or call the program with one batch after the other"
        )
