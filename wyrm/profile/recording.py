"""An engine that records times: of each call in native code, of Python's work, and of the threads' waits."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter_ns
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.native import LoopOption
from wyrm.engines.native.ir.arrays import Callee
from wyrm.engines.native.run.data_parallel import DataParallelStep
from wyrm.engines.native.run.engine import NativeEngine
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.engines.native.run.threads import Barrier, Pool, Stop
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.engines.native.stages.write import Head, Source
from wyrm.engines.optimizer import GradientArray
from wyrm.graph.base import BaseNode
from wyrm.profile.instrument import READ_CLOCK, SUM_ROWS, Instrumented, instrumented, provide_clock

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
        provide_clock()

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
        self._begin(graph, runner)
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


__all__ = ["Instrumented", "NativeCall", "Recorder", "RecordingEngine", "RecordingRunner", "Span"]
