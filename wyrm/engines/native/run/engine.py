"""`NativeEngine`: programs as machine code for this processor."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.columns import Columns, check_ranges, completed, flat_columns
from wyrm.engines.dtypes import check_dtype
from wyrm.engines.engine import TOO_LARGE, Engine, ProgramPlan
from wyrm.engines.epochs import Done, Epoch, EpochOptions, Pace
from wyrm.engines.native import LoopOption, NativeOptions
from wyrm.engines.native.llvm.lapack import limited
from wyrm.engines.native.run.calls import BoundCall, FixedShapeProgram
from wyrm.engines.native.run.data_parallel import DataParallelStep, parts_of
from wyrm.engines.native.run.epoch import NativeEpoch
from wyrm.engines.native.run.runner import NativeRunner
from wyrm.engines.native.run.shuffle import Shuffle
from wyrm.engines.native.run.snapshot import Snapshot
from wyrm.engines.native.run.steps import CheckedSteps
from wyrm.engines.native.run.threads import Barrier, Partition, Partitioner, Pool, Stop
from wyrm.engines.native.stages.loops import loop_index
from wyrm.engines.native.stages.memory import Binding
from wyrm.engines.native.stages.pipeline import NativeGraph
from wyrm.engines.native.stages.write import Head, Source
from wyrm.engines.numpy.reference import accumulate
from wyrm.errors import Diverged, OptionError
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode
from wyrm.graph.loop_form import LOOPS, LoopForm
from wyrm.graph.storage import bound_array, stored, touch
from wyrm.support.interrupts import deferred
from wyrm.support.memory import with_collector_paused
from wyrm.support.options import choice

if TYPE_CHECKING:
    from wyrm.engines.native.run.prepared import PreparedEpoch

# The row order of a step on inputs as wholes, which count as one row.
_ALONE = np.zeros(1, np.int64)


class _Seat:
    """What a call has to itself while it runs: one thread's arrays of the runner, and what the last call there left."""

    __slots__ = ("head", "last", "numbers", "repeated", "thread")

    def __init__(self, thread: int, graph: NativeGraph) -> None:
        self.thread = thread
        self.numbers: NDArray[np.float64] = np.zeros((1, len(graph.source.hyperparameters)))
        # The first arguments of `run`.
        self.head = Head(0, 1, 0, 0, _ALONE, np.zeros(1 + len(graph.outputs)), self.numbers)
        # The arrays of the last call, and what calls with data of the same shapes.
        self.last: Binding | None = None
        self.repeated: BoundCall | None = None


class NativeEngine(Engine):
    """Runs a program as native code: `runner` compiles it, `NativeEpoch` has the loops over the rows of a data set."""

    Options: ClassVar[type] = NativeOptions
    # Whether short epochs are one call of native code a thread, without the runner's `call`.
    prepares: ClassVar[bool] = True
    concurrent: ClassVar[bool] = True

    graph: NativeGraph

    def __init__(
        self,
        outputs: Sequence[BaseNode],
        optimizer: Any,
        *,
        evaluates: bool = False,
        loop: LoopOption = "auto",
        compute_dtype: str | None = None,
    ) -> None:
        graph = with_collector_paused(NativeGraph, outputs, optimizer)
        self._begin_runs(graph, NativeRunner(graph, "auto" if evaluates else loop, compute_dtype=compute_dtype))

    def _begin_runs(self, graph: NativeGraph, runner: NativeRunner) -> None:
        super().__init__(graph)
        self.runner = runner
        self.pace: Pace = Pace()  # that of one thread
        self.pool: Pool = Pool()
        self.snapshot: Snapshot | None = None
        # The last epoch's partition, batch size and whether it was shuffled; and the calls of epochs that were done
        # again, the last one at the end.
        self.last_epoch: tuple[Partition, int, bool] | None = None
        self.prepared: list[PreparedEpoch] = []
        self.shuffles: defaultdict[int, Shuffle] = defaultdict[int, Shuffle](Shuffle)
        self.partitioner: Partitioner = Partitioner()
        self.count_lock: threading.Lock = threading.Lock()
        self._step: DataParallelStep | None = None
        # Made for the first call with an optimizer.
        self._checked: CheckedSteps | None = None
        # The seats that no call has, the last one used at the end: as many as calls have run at the same time.
        self._free: list[_Seat] = []
        # Whether each call takes a step of its own before it runs, since threads may draw at the same time.
        self._reserves: bool = graph.draws and graph.optimizer is None
        # Thread 0 of the runner is left to what shows or measures a program.
        self._threads = itertools.count(1)

    @classmethod
    def check_options(cls, options: Mapping[str, Any]) -> None:
        """Raise `OptionError` for an unknown kind of loop, or an unknown dtype."""
        check_dtype(options)
        choice("loop", options.get("loop", "auto"), ("auto", "compiled", "python"))

    def snapshot_of_all(self) -> Snapshot:
        """Return the snapshot of the whole state, which epochs share."""
        if self.snapshot is None or not self.snapshot.is_current():
            self.snapshot = Snapshot(self.graph)
        return self.snapshot

    # --- calls ----------------------------------------------------------------------------------------------------

    def call(self, feed: object, *, checked: bool = False) -> list[np.ndarray]:
        """Return the outputs, at once if the data has the last call's shapes and dtypes."""
        if type(feed) is dict:
            try:
                seat = self._free.pop()
            except IndexError:
                return super().call(feed, checked=checked)
            try:
                repeated = seat.repeated
                if repeated is not None:
                    step = self._reserve() if self._reserves else self.steps
                    found = repeated.call(feed, step)
                    if found is not None:
                        # The count of a program without draws seeds nothing. A step is counted when it is done.
                        if not self._reserves and self._checked is None:
                            self.steps += 1
                        return found
                    if self._reserves:
                        self._give_back(step)
            finally:
                self._free.append(seat)
        return super().call(feed, checked=checked)

    def _reserve(self) -> int:
        """Return the next step, and count it: no other call draws for it."""
        with self.count_lock:
            step = self.steps
            self.steps += 1
        return step

    def _give_back(self, step: int) -> None:
        """Take back a step that was not done, unless another call has begun since."""
        with self.count_lock:
            if self.steps == step + 1:
                self.steps = step

    def run(self, given: dict[BaseNode, np.ndarray]) -> list[np.ndarray]:
        """Return the outputs for these inputs; with an optimizer, also do one step."""
        try:
            seat = self._free.pop()
        except IndexError:
            seat = _Seat(next(self._threads), self.graph)
        try:
            return self._run(seat, given)
        finally:
            self._free.append(seat)

    def _run(self, seat: _Seat, given: dict[BaseNode, np.ndarray]) -> list[np.ndarray]:
        graph, optimizer = self.graph, self.graph.optimizer
        complete = completed(graph, given)
        if optimizer is not None and self._checked is None:
            self._checked = CheckedSteps(self, self._runner_of(graph.source.checked()))
        runner = self.runner if self._checked is None else self._checked.runner
        binding = runner.binding({leaf: array.shape for leaf, array in complete.items()}, seat.thread)
        check_ranges(graph.ranges.limits, given, binding.sizes)
        for leaf, buffer in graph.source.fed:
            np.copyto(binding.array(buffer), complete[leaf])
        if optimizer is not None:
            self._do_step(seat, binding)
        elif self._reserves:
            step = self._reserve()
            try:
                runner.call(binding, graph.no_columns, seat.head._replace(step=step))
            except BaseException:
                self._give_back(step)
                raise
        else:
            runner.call(binding, graph.no_columns, seat.head)
            self.steps += 1
        if graph.flat is not None:  # the sizes of rows of different lengths hardly come again
            return [np.array(binding.array(buffer)) for buffer in graph.tree.outputs]
        if binding.repeated is None:
            run_step = None if optimizer is None else partial(self._do_step, seat)
            binding.repeated = BoundCall(runner, binding, graph.inputs, run_step=run_step)
        seat.last, seat.repeated = binding, binding.repeated
        return binding.repeated.outputs()

    def _do_step(self, seat: _Seat, binding: Binding) -> None:
        """Do a step with the data that a binding of the checked steps holds; raise `Diverged` if nothing has moved."""
        optimizer, checked = self.graph.optimizer, self._checked
        assert optimizer is not None and checked is not None
        if self.graph.source.hyperparameters:
            self.numbers(1, seat.numbers)
        if self.graph.draws:
            seat.head = seat.head._replace(step=self.steps)
        with deferred:
            if not checked.do(binding, seat.head):
                loss = float(binding.array(self.graph.tree.outputs[0]))
                what = TOO_LARGE if np.isfinite(loss) else f"the loss is {loss}"
                raise Diverged(
                    f"{what} in step {optimizer.steps + 1} at learning rate {optimizer.learning_rate:g}; no parameter "
                    f"has moved"
                )
            self.count(1)
            checked.done()

    def _runner_of(self, source: Source) -> NativeRunner:
        """Return what runs these functions instead of those of the graph."""
        return NativeRunner(self.graph, self.runner.loop, source=source, compute_dtype=self.runner.compute_dtype)

    def numbers(
        self, count: int, out: NDArray[np.float64] | None = None, constants: dict[str, float | None] | None = None
    ) -> NDArray[np.float64]:
        """Return the numbers of the rule for the next steps, of shape (steps, numbers), written to `out` if given.

        `constants` has the numbers by name that every row of `out` already holds; they are not written again. It gets
        those that are the same in all of these steps, and None for the others.
        """
        names, optimizer = self.graph.source.hyperparameters, self.graph.optimizer
        if optimizer is None or not names:
            return np.zeros((count, 0))
        numbers = optimizer.numbers(count, self.graph.parameters)
        result = np.empty((count, len(names))) if out is None else out
        for position, name in enumerate(names):
            values = numbers[name]
            if constants is not None:
                constant = float(values[0]) if values.strides == (0,) else None
                if constant is not None and constants.get(name) == constant:
                    continue
                constants[name] = constant
            result[:, position] = values
        return result

    def count(self, count: int) -> None:
        """Count finished steps, or take them back if `count` is negative, and mark the parameters as changed."""
        self.steps += count
        optimizer = self.graph.optimizer
        if optimizer is None:
            return
        optimizer.advance(count, self.graph.parameters)
        for leaf in self.graph.trained:
            touch(stored(leaf))

    @classmethod
    def function(cls, outputs: Sequence[BaseNode], inputs: Sequence[BaseNode]) -> FixedShapeProgram:
        """Return a function with little overhead per call."""
        return FixedShapeProgram(outputs, inputs)

    # --- epochs and gradients -------------------------------------------------------------------------------------

    def check_epoch(self, columns: Columns, options: EpochOptions, *, in_batches: bool) -> None:
        """Raise `OptionError` also for threads that would overwrite what another one has moved."""
        super().check_epoch(columns, options, in_batches=in_batches)
        if options.threads > 1 and options.mode == "hogwild" and self.graph.source.rules:
            raise OptionError(
                f"{self.graph.optimizer!r} has a rule over whole parameters, which threads would overwrite for each "
                f"other: use mode='synchronized', or threads=1"
            )

    def train(self, columns: Columns, epoch: Epoch) -> None:
        """Do the steps of an epoch on these columns."""
        NativeEpoch(self, columns, epoch).run()

    def train_several(self, columns: Columns, epoch: Epoch, most: int) -> list[Done]:
        """Do up to `most` short epochs in one call of native code."""
        return NativeEpoch(self, columns, epoch).several(most)

    def backward(self, columns: Columns, threads: int, weight: float, blas_threads: int) -> float:
        """Add `weight` times the gradients of the loss over all rows to the parameters' gradients; return the loss."""
        step, rows, stop = self.data_parallel, columns.rows, Stop()
        flat = flat_columns(columns, step.runner.graph.fed)
        combination = step.combination(columns.given)
        parts = parts_of(np.arange(rows), threads, combination)
        with deferred, limited(blas_threads, libraries=self.graph.source.calls_libraries):
            bindings = [self.binding(columns, flat, len(part), i, step.runner, part) for i, part in enumerate(parts)]
            loss, gradients = step.gradients(
                bindings, flat, parts, self.steps, lambda jobs: self.pool.run(jobs, stop), combination, weight
            )
            if not np.isfinite(loss):
                raise Diverged(f"the loss is {loss}; no gradient was added to those of the parameters")
            self.steps += 1
            for parameter, gradient in gradients.items():
                accumulate(parameter, gradient)  # type: ignore[arg-type]  # the leaves of gradients are parameters
            step.move_buffers()
        return loss

    def binding(
        self,
        columns: Columns,
        flat: dict[BaseNode, np.ndarray],
        batch: int,
        thread: int,
        runner: NativeRunner | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> Binding:
        """Return the arrays for batches of this size, compiled; inputs without a column keep the data that they hold.

        With rows of different lengths they are for these `rows`, or else for any. `flat` are the columns as (rows,
        elements); an input without a column gets one without rows.
        """
        runner = runner or self.runner
        binding = runner.binding(columns.shapes(runner.graph.fed, batch, rows), thread)
        given: Collection[BaseNode] = columns.given
        if self.graph.flat is not None:
            given = columns.leaves(runner.graph.fed)
        for leaf, buffer in runner.graph.source.fed:
            if leaf not in given:
                np.copyto(binding.array(buffer), bound_array(leaf))
        if len(flat) < len(runner.graph.no_columns):
            for leaf, column in runner.graph.no_columns.items():
                flat.setdefault(leaf, column)
        runner.prepare(binding, flat)
        return binding

    @property
    def data_parallel(self) -> DataParallelStep:
        """The step that differentiates parts of a batch in threads."""
        if self._step is None:
            self._step = self._new_step()
        return self._step

    def _new_step(self) -> DataParallelStep:
        return DataParallelStep(
            *self.graph.outputs, optimizer=self.graph.optimizer, compute_dtype=self.runner.compute_dtype
        )

    def barrier(self, threads: int, stop: Stop) -> Barrier:
        """Return where the threads of an epoch wait for each other."""
        return Barrier(threads, stop)

    # --- what a program shows -------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The kernels, and `run`, which loops over the data."""
        return self._shown.text

    @property
    def llvm(self) -> str:
        """The LLVM modules before optimization, one for each part that is compiled separately."""
        return str(self._shown.listing().llvm)

    @property
    def assembly(self) -> str:
        """The machine code for this processor as text."""
        return str(self._shown.listing().assembly)

    def stages(self) -> dict[str, str]:
        """Return the program after each stage as text; buffers have the sizes of an earlier run, else size 1."""
        return self._shown.stages()

    def plan(self) -> ProgramPlan:
        """Return statistics of all runs so far, or else of a run on the data that the inputs hold."""
        shown = self._shown
        plan = shown.plan()
        others = 0 if shown is self.runner else self.runner.allocated_bytes
        others += 0 if self._step is None else self._step.allocated_bytes
        return plan._replace(peak_bytes=plan.peak_bytes + others)

    @property
    def sizes(self) -> Mapping[type[Dim], int]:
        """The sizes of the named axes in a run so far; empty before the first one."""
        return self._shown.sizes

    @property
    def _shown(self) -> NativeRunner:
        """The runner of calls if a program with an optimizer was called, else that of epochs."""
        return self.runner if self._checked is None else self._checked.runner

    def profile(self, columns: Any, **options: Any) -> Any:
        """Measure some steps, with a clock between the calls of native code."""
        from wyrm.profile.measure import measured

        return measured(self, columns, **options)

    @classmethod
    def rule(cls, node: BaseNode) -> object:
        """Return the loop form of the op."""
        return LOOPS.of(node)

    @classmethod
    def rule_name(cls, node: BaseNode) -> str | None:
        """Return the member of the loop form that the compiler uses: the first that it asks for and finds."""
        form = LOOPS.of(node)
        member = None if type(form) is LoopForm else _member(node, form)
        return None if member is None else f"{type(form).__name__}.{member}"

    def after_fork(self) -> None:
        """Forget half-written arrays and locks of threads that do not exist in a forked process."""
        self.count_lock = threading.Lock()
        self._free.clear()
        self._checked = None
        self.prepared.clear()
        self.runner.after_fork()
        if self._step is not None:
            self._step.runner.after_fork()


def _member(node: BaseNode, form: LoopForm) -> str | None:
    """Return the member of a loop form that an op is compiled by."""
    if form.decompose(node) is not None:
        return "decompose"
    if form.by_flat_index is not None:
        return "by_flat_index"
    if node.formula:
        return None
    if form.reducer is not None:
        return "reducer"
    index = loop_index(node.dims)
    if form.gather_index(node, index) is not None:
        return "gather_index"
    if any(form.scatter_index(node, i, loop_index(parent.dims)) is not None for i, parent in enumerate(node.parents)):
        return "scatter_index"
    return None if form.kernel is None else "kernel"
