"""Measuring a program: a copy of it reads the clock between the calls of its steps, and makes a `Profile`."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.columns import checked_columns, checked_inputs
from wyrm.engines.epochs import checked_options, train_epochs
from wyrm.engines.native import LoopOption
from wyrm.engines.native.ir.arrays import Callee
from wyrm.engines.native.products.matrix import SHARED_PRODUCTS
from wyrm.engines.native.products.pool import LARGE_PRODUCTS, processors
from wyrm.engines.native.run.data_parallel import DataParallelStep
from wyrm.engines.native.run.engine import NativeEngine
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.engines.native.run.threads import Barrier, Pool, Stop
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.engines.native.stages.write import Head, Source
from wyrm.engines.optimizer import GradientArray
from wyrm.engines.tables import is_batches
from wyrm.engines.totals import Totals
from wyrm.errors import OptionError, ShapeError
from wyrm.graph.base import BaseNode
from wyrm.profile.instrument import (
    READ_CLOCK,
    SUM_ROWS,
    Instrumented,
    Site,
    check_clock,
    cost_of_reading,
    instrumented,
)
from wyrm.profile.memory import MemoryOfStep
from wyrm.profile.peaks import Peaks, measured_peaks
from wyrm.profile.result import Event, Profile
from wyrm.profile.stages import Description, Frame, Stage, StageKind, described, frame_inside, frame_of, text_of
from wyrm.profile.work import Work
from wyrm.support.options import choice, flag, whole

if TYPE_CHECKING:
    from wyrm.engines.engine import Engine
    from wyrm.engines.epochs import EpochOptions, ThreadMode
    from wyrm.engines.graph import ProgramGraph
    from wyrm.engines.native.run.engine import NativeEngine


# Readings kept for the timeline: those of the last steps.
_KEPT_READINGS = 40_000


class Span(NamedTuple):
    """A stretch of a thread's time outside native code, in nanoseconds of `perf_counter_ns`."""

    name: str
    kind: Literal["Python", "wait"]
    thread: int
    start: int
    stop: int


class NativeCall(NamedTuple):
    """A call of native code: its thread, when it started and stopped, the times of its steps, and sums in loops."""

    runner: RecordingRunner
    thread: int
    start: int
    stop: int
    times: NDArray[np.int64]
    sums: NDArray[np.int64]


@dataclass
class RecordedTimes:
    """The nanoseconds of each call of a step, summed over steps and threads.

    `typical_times` has, for each native call, its number of steps and the typical time of each timed part. `sums` has
    the nanoseconds and the number of each call inside loops, and `least` the least time. `binding` and `columns` have
    the arrays of the first native call, from which work is counted.
    """

    binding: Binding
    columns: Mapping[BaseNode, np.ndarray]
    nanoseconds: NDArray[np.int64]
    sums: NDArray[np.int64]
    least: NDArray[np.int64]
    steps: int = 0
    typical_times: list[tuple[int, NDArray[np.float64]]] = field(default_factory=list)

    @property
    def typical(self) -> NDArray[np.float64]:
        """The typical time of each call: the median of the native calls' typical times, weighted by their steps."""
        if not self.typical_times:
            return np.zeros(len(self.nanoseconds))
        counts = np.array([count for count, _ in self.typical_times])
        times = np.array([typical for _, typical in self.typical_times])
        order = np.argsort(times, axis=0)
        middle = (np.cumsum(counts[order], axis=0) >= counts.sum() / 2).argmax(axis=0)
        found: NDArray[np.float64] = np.take_along_axis(times, order, 0)[middle, np.arange(times.shape[1])]
        return found


@dataclass
class Recorder:
    """What all threads have recorded while `on` was true."""

    on: bool = False
    spans: list[Span] = field(default_factory=list)
    totals: dict[RecordingRunner, RecordedTimes] = field(default_factory=dict)
    # By thread: when its first native call started and its last one stopped, and the nanoseconds inside them.
    bounds: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    recent: deque[NativeCall] = field(default_factory=deque)
    # The nanoseconds that recording itself took between native calls.
    own: int = 0
    _readings: int = 0
    _unfinished: dict[int, int] = field(default_factory=dict)
    _threads: dict[int, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def restart(self) -> None:
        """Forget everything except the numbers of the threads."""
        for recorded in (self.spans, self.totals, self.bounds, self.recent, self._unfinished):
            recorded.clear()
        self._readings = self.own = 0

    def thread(self) -> int:
        """Return the number of the running thread, in order of appearance."""
        with self._lock:
            return self._threads.setdefault(threading.get_ident(), len(self._threads))

    def span(self, name: str, kind: Literal["Python", "wait"], thread: int, start: int, stop: int) -> None:
        """Record a stretch of time outside native code."""
        if self.on:
            with self._lock:
                self.spans.append(Span(name, kind, thread, start, max(start, stop)))

    def native(self, call: NativeCall, binding: Binding, columns: Mapping[BaseNode, np.ndarray]) -> None:
        """Record a call of native code."""
        if not self.on:
            return
        # If the clock differs between cores, a time would be negative.
        spent = np.maximum(np.diff(call.times, axis=1), 0)
        total = spent.sum(axis=0)
        # The mean without interruptions by the system: the clock is too coarse for the median of short stages.
        typical = np.minimum(spent, 4 * np.median(spent, axis=0) + 1).mean(axis=0) if len(spent) else None
        with self._lock:
            # Recording after a thread's last call is not within the measured time, so it counts with the next call.
            self.own += self._unfinished.pop(call.thread, 0)
            totals = self.totals.get(call.runner)
            if totals is None:
                totals = self.totals[call.runner] = RecordedTimes(
                    binding, columns, np.zeros_like(total), np.zeros_like(call.sums[:2]), call.sums[2].copy()
                )
            totals.nanoseconds += total
            totals.sums += call.sums[:2]
            np.minimum(totals.least, call.sums[2], out=totals.least)
            totals.steps += len(spent)
            if typical is not None:
                totals.typical_times.append((len(spent), typical))
            first, _, inside = self.bounds.get(call.thread, (call.start, 0, 0))
            self.bounds[call.thread] = first, call.stop, inside + call.stop - call.start
            # A copy, because a call of many steps has far more times.
            last = call.times[-max(1, _KEPT_READINGS // (4 * call.times.shape[1])) :].copy()
            self.recent.append(call._replace(times=last))
            self._readings += last.size
            while self._readings > _KEPT_READINGS and len(self.recent) > len(self._threads):
                self._readings -= self.recent.popleft().times.size
            self._unfinished[call.thread] = perf_counter_ns() - call.stop


class RecordingRunner(NativeRunner):
    """A runner of the instrumented form of a program."""

    def __init__(
        self, graph: NativeGraph, loop: LoopOption, recorder: Recorder, *, training: bool = False,
        source: Source | None = None,
    ) -> None:  # fmt: skip
        super().__init__(graph, loop, training=training, source=source)
        self.recorder = recorder
        self.instrumented: Instrumented = instrumented(self.source)
        self._routine = self.instrumented.routine
        self._head = timed_head(self._head, *self._arrays(0))
        check_clock()

    def call(self, binding: Binding, columns: Mapping[BaseNode, np.ndarray], head: Head) -> int:
        """Do steps as the plain runner does, and record their times."""
        times, sums = self._arrays(head.steps)
        head = timed_head(head, times, sums)
        thread, start = self.recorder.thread(), perf_counter_ns()
        done = super().call(binding, columns, head)
        call = NativeCall(self, thread, start, perf_counter_ns(), times[:done], sums)
        self.recorder.native(call, binding, columns)
        return done

    def repeat(self, binding: Binding, head: Head, changing: Sequence[np.ndarray]) -> int | None:
        """Leave every call to `call`."""
        return None

    def _arrays(self, steps: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return new arrays for the times of steps, and for the sums in loops."""
        times = np.empty((steps, len(self.instrumented.sites) + 1), np.int64)
        sums = np.zeros((SUM_ROWS, len(self.instrumented.inner) + 1), np.int64)
        sums[2] = np.iinfo(np.int64).max
        return times, sums

    def _called_by_python(self, function: Callee, arguments: list[Any], variables: dict[str, Any]) -> Any:
        if function is READ_CLOCK:
            times, row, column = arguments
            times[row, column] = perf_counter_ns()
            return None
        return super()._called_by_python(function, arguments, variables)


class _TimedHead(Head):
    """The first arguments of an instrumented `run`, which takes two arrays more than the plain one."""


def timed_head(head: Head, times: NDArray[np.int64], sums: NDArray[np.int64]) -> Head:
    """Return the arguments of an instrumented `run`, which takes these arrays after those of the plain one."""
    return tuple.__new__(_TimedHead, (*head, times, sums))


class RecordingEngine(NativeEngine):
    """An engine that records the times of its native code, of the threads' waits, and of the optimizer in Python."""

    prepares = False  # every step passes through `RecordingRunner.call`

    def __init__(self, graph: NativeGraph, runner: RecordingRunner) -> None:
        self._recorder = runner.recorder
        self._begin_runs(graph, runner)
        self.pool: Pool = _RecordingPool(self._recorder)

    def barrier(self, threads: int, stop: Stop) -> Barrier:
        """Return a barrier that records how long each thread waits."""
        return _RecordingBarrier(threads, stop, self._recorder)

    def _runner_of(self, source: Source) -> NativeRunner:
        return RecordingRunner(self.graph, self.runner.loop, self._recorder, source=source)

    def _new_step(self) -> DataParallelStep:
        return _RecordingStep(*self.graph.outputs, optimizer=self.graph.optimizer, recorder=self._recorder)


class _RecordingStep(DataParallelStep):
    """A data-parallel step that records its native code, and what Python adds to it."""

    def __init__(self, loss: BaseNode, *metrics: BaseNode, optimizer: Any, recorder: Recorder) -> None:
        super().__init__(loss, *metrics, optimizer=optimizer)
        self.runner: NativeRunner = RecordingRunner(self.runner.graph, "auto", recorder, training=True)
        self._recorder = recorder

    def _combined(
        self, outputs: Sequence[Sequence[np.ndarray]], weights: Sequence[float]
    ) -> dict[BaseNode, GradientArray]:
        start = perf_counter_ns()
        combined = super()._combined(outputs, weights)
        self._recorder.span(
            "add up the gradients of the parts", "Python", self._recorder.thread(), start, perf_counter_ns()
        )
        return combined

    def apply(self, gradients: Mapping[BaseNode, GradientArray]) -> None:
        """Do a step of the optimizer with these gradients, and record it."""
        start = perf_counter_ns()
        super().apply(gradients)
        self._recorder.span("step of the optimizer", "Python", self._recorder.thread(), start, perf_counter_ns())


class _RecordingPool(Pool):
    """A pool that records how long each thread waits for the last one."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def run(self, jobs: Sequence[Callable[[], None]], stop: Stop) -> None:
        """Run jobs in parallel."""
        if len(jobs) == 1:
            super().run(jobs, stop)
            return
        ends: dict[int, int] = {}
        super().run([partial(self._ending, job, ends) for job in jobs], stop)
        last = perf_counter_ns()
        for thread, end in ends.items():
            self._recorder.span("wait for the other threads", "wait", thread, end, last)

    def _ending(self, job: Callable[[], None], ends: dict[int, int]) -> None:
        job()
        # A fast thread may take a second job: it waits only after that.
        ends[self._recorder.thread()] = perf_counter_ns()


class _RecordingBarrier(Barrier):
    """A barrier that records how long each thread waits."""

    def __init__(self, count: int, stop: Stop, recorder: Recorder) -> None:
        super().__init__(count, stop)
        self._recorder = recorder

    def wait(self) -> None:
        """Wait for the other threads."""
        start = perf_counter_ns()
        super().wait()
        self._recorder.span("wait at a barrier", "wait", self._recorder.thread(), start, perf_counter_ns())


Method = Literal["epoch", "call", "backward"]
# Unless their number is given, the measured steps take about a second. Limits of their number.
_SECONDS, _FEWEST, _FEW, _MOST = 1.0, 3, 100, 200_000


class Asked(NamedTuple):
    """The arguments of `Program.profile` beside the columns."""

    method: Method | None
    steps: int | None
    batch_size: int
    threads: int
    mode: ThreadMode
    accumulate: int
    memory: bool
    peaks: Peaks | None


def checked(graph: ProgramGraph, columns: Any, asked: Asked) -> tuple[Method, EpochOptions, int | None]:
    """Return the method, the options of its steps and their number; raise an error for what does not fit."""
    method, steps, batch_size, threads, mode, accumulate, memory, peaks = asked
    trains = graph.optimizer is not None
    method = method or ("epoch" if trains else "call")
    choice("method", method, ("epoch", "call", "backward"))
    if method != "call" and not trains:
        raise OptionError(f"this program has no optimizer, so it has no {method} to measure: use method='call'")
    options = checked_options(
        batch_size=batch_size, shuffle=False, seed=0, threads=threads, mode=mode, progress=False, accumulate=accumulate
    )
    if columns is None and (batch_size, threads, accumulate) != (1, 1, 1):
        raise OptionError(
            "batch_size, threads and accumulate divide the rows of data, and there is none: give its columns first, as "
            "in program.profile({x: X}, batch_size=4)"
        )
    steps = None if steps is None else whole("steps", steps, 1)
    if method == "call" and options.threads > 1:
        raise OptionError("a call runs in one thread: use method='epoch' or 'backward' for several")
    if peaks is not None and not isinstance(peaks, Peaks):
        raise OptionError(f"peaks must be a wy.profile.Peaks, not {peaks!r}")
    if is_batches(columns):
        raise OptionError("profile takes the columns of a data set: give one batch of the loader, next(iter(loader))")
    flag("memory", memory)
    return method, options, steps


def enough_steps(steps_a_second: float, most: int) -> int:
    """Return the number of steps to measure if none is given."""
    return int(min(max(_SECONDS * steps_a_second, _FEWEST), most))


def steps_of(engine: Engine, columns: Any, method: Method, options: EpochOptions) -> tuple[Callable[[int], None], int]:
    """Check the data; return a function that does a number of steps, and the most steps that it should do."""
    graph = engine.graph
    limits = graph.ranges.limits
    if method == "call":
        inputs = checked_inputs({} if columns is None else columns, graph.inputs)
        if any(array.size == 0 for array in inputs.values()):
            raise ShapeError("the data has no elements, so there is nothing to measure")

        def call(steps: int) -> None:
            for _ in range(steps):
                engine.run(inputs)

        return call, _MOST
    data = checked_columns(columns, graph.inputs, limits)
    rows = data.rows
    if method == "backward":
        data.check_batches(rows)

        def backward(steps: int) -> None:
            for _ in range(steps):
                engine.backward(data, options.threads, 1.0, 1)

        return backward, _MOST
    options = options._replace(batch_size=min(options.batch_size, rows))
    rows_of_step = options.batch_size * options.accumulate

    def epoch(steps: int) -> None:
        # At least a step for each thread; rows are repeated if there are too few.
        chosen = np.arange(rows_of_step * max(steps, options.threads)) % rows
        part = {leaf: _chosen_rows(array, chosen) for leaf, array in data.given.items()}
        train_epochs(engine, part, options, Totals(graph.outputs), in_batches=False)

    # Rows are repeated only where there are few.
    return epoch, min(_MOST, max(_FEW, rows // rows_of_step))


def _chosen_rows(array: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return rows of a column, as a view if they are its first ones."""
    return array[: len(chosen)] if len(chosen) <= len(array) else array[chosen]


def measured(engine: NativeEngine, columns: Any, **arguments: Any) -> Profile:
    """Return the profile of a program; its parameters and optimizer change, so it must be a copy.

    See `Program.profile` for the arguments; all are checked before anything is compiled.
    """
    graph = engine.graph
    asked = Asked(**arguments)
    method, options, steps = checked(graph, columns, asked)
    recorder = Recorder()
    recording = RecordingEngine(graph, RecordingRunner(graph, engine.runner.loop, recorder))
    recording.steps, recording.epochs = engine.steps, engine.epochs
    run, most = steps_of(recording, columns, method, options)
    run(1)  # compiles, and touches all memory
    if steps is None:
        start, before, recorder.on = perf_counter_ns(), recording.steps, True
        run(1)
        # An epoch of many steps spends little time outside native code.
        spent = (
            sum(inside for _, _, inside in recorder.bounds.values()) if method == "epoch" else perf_counter_ns() - start
        )
        steps = enough_steps((recording.steps - before) / max(spent, 1) * 1e9, most)
        recorder.restart()
    before, recorder.on = recording.steps, True
    run(steps)
    recorder.on = False
    return _profile(
        graph, recorder, asked.peaks or measured_peaks(), method, recording.steps - before,
        _Sharing.of(recording, method, options.threads), asked.memory,
    )  # fmt: skip


class _Sharing(NamedTuple):
    """How many threads share a native call, and the multiplications from which they share a product."""

    threads: int
    least: int

    @classmethod
    def of(cls, recording: RecordingEngine, method: Method, threads: int) -> Self:
        alone = method == "call" or (method == "epoch" and threads == 1)
        least = SHARED_PRODUCTS if method == "call" or recording.runner.large else LARGE_PRODUCTS
        return cls(processors() if alone else 1, least)

    def threads_of(self, work: Work) -> int:
        """Return how many threads share a call."""
        return self.threads if work.divided or work.product_flops >= 2 * self.least else 1


# --- from what is recorded to a profile -------------------------------------------------------------------------------


def _profile(
    graph: NativeGraph, recorder: Recorder, peaks: Peaks, method: Method, steps: int, sharing: _Sharing, memory: bool
) -> Profile:
    cost = cost_of_reading()
    start = min(first for first, _, _ in recorder.bounds.values())
    stop = max(last for _, last, _ in recorder.bounds.values())
    readings, stages = 0, list[Stage]()
    positions: dict[RecordingRunner, list[int]] = {}
    for runner, totals in recorder.totals.items():
        frame = frame_of(runner.graph, set(graph.outputs), totals.binding, totals.columns)
        positions[runner] = []
        readings += totals.steps * (len(runner.instrumented.sites) + 1) + 2 * int(totals.sums[1].sum())
        for site, spent, typical in zip(runner.instrumented.sites, totals.nanoseconds, totals.typical, strict=True):
            positions[runner].append(len(stages))
            description = described(site, frame)
            # A stage that is shorter than a reading of the clock has no rates.
            own = float(typical) - cost
            times = totals.steps, _positive(float(spent) - cost * totals.steps), own / 1e9 if own > cost / 2 else 0.0
            stages.append(_stage(description, totals.binding, times, peaks, sharing))
            if description.kind == "scan":
                inside = _inside(site, frame, description, runner, totals, (cost, peaks, sharing))
                stages[-1] = _without(stages[-1], inside, cost)
                stages += inside
    spans = [span for span in recorder.spans if span.stop > start and span.start < stop]
    kinds: dict[str, StageKind] = {span.name: span.kind for span in spans}
    for name, kind in kinds.items():
        lengths = [(min(span.stop, stop) - max(span.start, start)) / 1e9 for span in spans if span.name == name]
        stages.append(Stage(name, kind, "", len(lengths), sum(lengths), float(np.median(lengths))))
    known, threads, wall = sum(stage.seconds for stage in stages), len(recorder.bounds), (stop - start) / 1e9
    # The program's time is without the readings of the clock and without the recording.
    total = max(known, wall * threads - (readings * cost + recorder.own) / 1e9)
    gaps = max(1, sum(len(totals.typical_times) for totals in recorder.totals.values()) - threads)
    stages.append(Stage("between native calls", "Python", "", gaps, total - known, (total - known) / gaps))
    return Profile(
        stages=tuple(stages),
        method=method,
        steps=steps,
        threads=threads,
        seconds=wall,
        thread_seconds=total,
        reading_seconds=cost / 1e9,
        readings=readings,
        peaks=peaks,
        events=_events(recorder, spans, positions, stages, start),
        memory=MemoryOfStep.of(runner.graph, totals.binding, graph) if memory else None,
    )


def _inside(
    scan: Site, frame: Frame, around: Description, runner: RecordingRunner, totals: RecordedTimes,
    measuring: tuple[float, Peaks, _Sharing],
) -> list[Stage]:  # fmt: skip
    """Return the stages of the calls inside a loop of the graph, also of inner loops."""
    (cost, peaks, sharing), stages = measuring, list[Stage]()
    arrays = frame_inside(scan, frame, around.part)
    for position, site in enumerate(runner.instrumented.inner):
        if site.around is not scan:
            continue
        description, calls = described(site, arrays), int(totals.sums[1, position])
        seconds = _positive(float(totals.sums[0, position]) - cost * calls)
        # As for the calls of a step, the mean without most of the time of interruptions.
        own = min(1e9 * seconds / max(1, calls), 4 * (float(totals.least[position]) - cost))
        typical = own / 1e9 if own > cost / 2 else 0.0
        stages.append(_stage(description, totals.binding, (calls, seconds, typical), peaks, sharing))
        if description.kind == "scan":
            inner = _inside(site, arrays, description, runner, totals, measuring)
            stages[-1] = _without(stages[-1], inner, cost)
            stages += inner
    return stages


def _without(scan: Stage, inside: Sequence[Stage], cost: float) -> Stage:
    """Return the stage of a loop inside the graph without its calls, which leaves the copies between them."""
    spent = sum(2e-9 * cost * stage.calls + stage.seconds for stage in inside)
    return replace(scan, seconds=max(0.0, scan.seconds - spent), typical_seconds=0.0)


def _positive(nanoseconds: float) -> float:
    """Return a time in seconds that is not negative."""
    return max(0.0, nanoseconds) / 1e9


def _stage(
    description: Description, binding: Binding, times: tuple[int, float, float], peaks: Peaks, sharing: _Sharing
) -> Stage:
    first, work = description.first, description.work
    common: dict[str, Any] = {
        "nodes": tuple(text_of(node, binding.sizes) for node in description.nodes),
        "modules": tuple(dict.fromkeys(node.module_path for node in description.nodes if node.module_path)),
        "location": "" if first is None else str(first.location),
        "source": "" if first is None else first.location.source,
    }
    if work is not None:
        threads = sharing.threads_of(work)
        arithmetic, moving = work.flops / peaks.flops(work, threads), work.bytes / peaks.bytes(work, threads)
        common |= {
            "flops": work.flops, "product_flops": work.product_flops, "bytes_read": work.bytes_read,
            "bytes_written": work.bytes_written, "exact": work.exact, "least_seconds": max(arithmetic, moving),
            "memory_bound": moving >= arithmetic,
        }  # fmt: skip
    return Stage(description.name, description.kind, description.part, *times, **common)


def _events(
    recorder: Recorder, spans: Sequence[Span], positions: Mapping[RecordingRunner, Sequence[int]],
    stages: Sequence[Stage], start: int,
) -> tuple[Event, ...]:  # fmt: skip
    """Return what each thread did in the last recorded steps, in microseconds after the start.

    `spans` are those that have a stage: others lie outside of all steps.
    """
    events = []
    since = min((int(call.times[0, 0]) for call in recorder.recent if len(call.times)), default=start)
    for call in recorder.recent:
        for step in call.times:
            # If the clock differs between cores, a stage would end before it starts.
            times = (np.maximum.accumulate(step) - start) / 1e3
            events.append(Event("step", -1, call.thread, float(times[0]), float(times[-1] - times[0])))
            for stage, first, last in zip(positions[call.runner], times, times[1:], strict=False):
                events.append(Event(stages[stage].name, stage, call.thread, float(first), float(last - first)))
    named = {(stage.name, stage.kind): position for position, stage in enumerate(stages)}
    for span in spans:
        if span.start >= since:
            length = (span.stop - span.start) / 1e3
            position = named[span.name, span.kind]
            events.append(Event(span.name, position, span.thread, (span.start - start) / 1e3, length))
    return tuple(sorted(events, key=lambda event: (event.thread, event.start, -event.duration)))
