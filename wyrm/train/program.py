"""`Program`: a compiled graph that computes outputs or trains, as `wyrm.compile` returns it."""

from __future__ import annotations

import copy
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

import numpy as np
from typing_extensions import TypeVar, Unpack

from wyrm.engines.columns import check_open_ranges, checked_columns
from wyrm.engines.engine import Engine, ProgramPlan
from wyrm.engines.epochs import EpochOptions, ThreadMode, checked_options, drawing, refuse_epoch, train_epochs
from wyrm.engines.evaluation import AnyRunningMetrics, Evaluator, RunningMetrics, merged
from wyrm.engines.graph import ProgramGraph, simplified
from wyrm.engines.optimizer import OptimizerInterface
from wyrm.engines.progress import Bar, LossBar
from wyrm.engines.recomputing import checked_names, recomputed
from wyrm.engines.registry import DEFAULT, engine_class
from wyrm.engines.registry import checked_options as checked_engine_options
from wyrm.engines.tables import DataT, FeedT, OptionalFeedT, is_batches
from wyrm.engines.totals import Totals, likely_columns
from wyrm.errors import OptionError, ShapeError
from wyrm.graph.axes import Dim
from wyrm.graph.base import BaseNode, label
from wyrm.graph.modes import modes_of, warn_of_evaluation, warn_of_training
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.graph.traversal import Records, copied, flatten_all, restore_all
from wyrm.graph.values import checked_weight
from wyrm.ops.random.philox import pinned_step
from wyrm.reach.evaluated import warn_of_targets
from wyrm.support.files import FilePath
from wyrm.support.foreign_names import ExplainsNames, ExplainsNamesOfClass, explains_keywords
from wyrm.support.imports import Late
from wyrm.support.options import whole
from wyrm.train.arguments import (
    EngineOptions,
    check_metrics,
    check_optimizer,
    checked_counts,
    checked_outputs,
    without_defaults,
)

if TYPE_CHECKING:
    from wyrm.exporting.exported import Exported
    from wyrm.profile.peaks import Peaks
    from wyrm.profile.result import Profile


# The result of a program: an array for one node, a list of arrays for several.
R = TypeVar("R", default=Any)
# The means of an epoch or an evaluation: a float for one output, a list for several, with metrics a dict.
E = TypeVar("E", default=float)


class Program(ExplainsNames, Generic[R, E], metaclass=ExplainsNamesOfClass):
    """Compiled code that computes outputs or, with an optimizer, trains a loss; `wyrm.compile` creates it.

    A call with `{input: array}` computes the outputs, and does one step if the program has an optimizer. `epoch`
    trains on a whole data set. The program is compiled on first use and cached on disk for other processes.

    Threads may use a program at the same time. Calls without an optimizer run together on the engine "native", with the
    bits that each gives alone; all else waits for its turn. A call reads the parameters as they are: while another
    thread trains them, it may read some before and others after a step. A copy has its own.

    A program can be copied and pickled at any time. A pickle has the graph with its parameters and constants, the
    optimizer with its state, and the counts, but no code: that comes from the cache, or is compiled again.
    `copy.deepcopy` copies the parameters and the optimizer and keeps the step and epoch counts; the copy takes data for
    the same inputs. An unpickled program has its own inputs: pickle them beside it, or take them from `inputs`. What is
    pickled in one object, such as modules and several programs, shares its parameters afterwards too.
    """

    _foreign = "programs"

    def __init__(
        self,
        outputs: BaseNode | Sequence[BaseNode],
        optimizer: OptimizerInterface | None = None,
        *,
        metrics: Mapping[str, BaseNode] | None = None,
        **options: Unpack[EngineOptions],
    ) -> None:
        self._single = isinstance(outputs, BaseNode)
        nodes = checked_outputs(outputs)
        self._metrics = {} if metrics is None else metrics
        check_metrics(self._metrics, self._single, optimizer is not None and len(nodes) > 1)
        nodes += self._metrics.values()
        check_optimizer(optimizer)
        self._engine_name: str = options.pop("engine", DEFAULT)
        self._remat = checked_names(options.pop("remat", ()))
        if self._remat and optimizer is None:
            raise OptionError("remat recomputes values in a backward pass, and a program without an optimizer has none")
        kind: Any = engine_class(self._engine_name)
        self._options = checked_engine_options(self._engine_name, without_defaults(options))
        # A program with an optimizer is meant to be in training mode; others warn of it when they run.
        self._modes = modes_of(nodes) if optimizer is None else []
        self._predicts = any(node.dims for node in nodes)
        if optimizer is not None:
            warn_of_evaluation(nodes[:1], optimizer.parameters)
        if self._single and not nodes[0].dims:
            warn_of_targets(nodes[0])
        self._outputs = nodes
        # An epoch also adds up the means and sums that the loss and the metrics for all rows are computed from.
        self._totals = Totals(nodes)
        if optimizer is not None:
            self._totals = Totals(nodes, likely_columns(nodes), simplified, only_scalars=True)
        computed = recomputed(self._totals.nodes, self._remat) if self._remat else self._totals.nodes
        self._engine: Engine = kind(computed, optimizer, **self._options)
        # Without a reference to the program or engine, whose arrays on devices must be freed with the program.
        self._made_for_evaluation = partial(kind, optimizer=None, evaluates=True, **self._options)
        self._evaluator = Evaluator(self._made_for_evaluation)
        # Reentrant, because a signal handler that runs between two steps may read the state.
        self._lock = threading.RLock()
        # Whether calls change nothing but the count of steps, and threads may make them at the same time.
        self._at_once = optimizer is None and self._engine.concurrent
        # Whether an epoch is in progress: its callbacks, its bar and its batches run in the thread that has the lock.
        self._in_epoch = False
        _programs.add(self)

    @property
    def _choices(self) -> dict[str, Any]:
        """The engine and its options, for copies."""
        return {"engine": self._engine_name, "remat": self._remat, **self._options}

    def __call__(self, feed: OptionalFeedT = None) -> R:  # type: ignore[assignment]  # None fits its bound
        """Compute the outputs: one array for one output, else a list. With an optimizer, also do one step.

        Raise `ShapeError`, `DTypeError`, `NotFinite` or `IndexOutOfRange` for invalid data, and `Diverged` for a loss,
        a gradient or a new parameter that is not finite; nothing has changed then. Raise `OptionError` for a step
        within an epoch of this program.
        """
        if self._modes:
            warn_of_training(self._modes, self._predicts)
        data: object = {} if feed is None else feed
        if pinned_step() is not None:
            with self._lock, drawing(self._engine):
                values = self._locked_call(data)
        elif self._at_once:
            values = self._engine.call(data)
        else:
            with self._lock:
                values = self._locked_call(data)
        if self._single and not self._metrics:  # at once, for calls of a microsecond
            first: Any = values[0]
            return first  # type: ignore[no-any-return]  # R is an array then
        return self._answer(values)

    def _locked_call(self, data: object) -> list[np.ndarray]:
        if self._in_epoch:
            raise _inside_epoch("a step")
        return self._engine.call(data)

    def _answer(self, values: list[np.ndarray]) -> R:
        answer: Any = values[0] if self._single else values
        if self._metrics:  # behind the metrics come the means and sums that they are computed from
            answer = dict(zip(("loss", *self._metrics), values, strict=False))
        result: R = answer
        return result

    @explains_keywords
    def epoch(
        self,
        columns: DataT,
        *,
        batch_size: int = 1,
        shuffle: bool = False,
        seed: int = 0,
        threads: int = 1,
        mode: ThreadMode = "hogwild",
        progress: bool | Bar | LossBar = False,
        accumulate: int = 1,
    ) -> E:
        """Train on a data set once; return the loss over all its rows, or with metrics all of them by name.

        That is what `evaluate` would return, for scalars of scalar means and sums, if the parameters did not move: a
        mean over rows is the mean over all rows, whatever the size of batches, and a quotient of sums over rows, such
        as a loss with weights of classes or with ignored labels, is that of the sums over all rows. A loss that is a
        sum is the sum over all rows: the bar shows its mean for a row, the history of `fit` has that as "mean_loss",
        and `metrics={"mean_loss": losses.mean()}` returns it here.

        The data is `{input: column}`, or columns by the inputs' names: a dict, a `wy.data.Dataset`, or a table of
        pandas, polars, Arrow or Hugging Face, of which other columns are not read. A `wy.data.DataLoader`, or another
        iterable of such batches, has its own `batch_size` and order.

        The first axis of a column is its rows. The inputs have the batch axis first, or take one row at a time
        (`batch_size=1`). A smaller last batch is a step too. `shuffle` permutes the rows by `seed` and the number of
        epochs so far. `threads` share the parameters. Mode "hogwild" updates them without locks: fast and not
        reproducible. Mode "synchronized" gives the same bits for the same seed and number of threads: threads that
        touch different table rows step independently, else they divide the rows of each batch. One thread computes
        batches whose axis has a fixed size or whose rows depend on each other, as in batch normalization. In an epoch
        of one thread, all processors share large products and loops, which changes no bit. `progress` shows a bar with
        the mean loss so far, unless the logger `wyrm` is silent, or is one with a method `update(rows)`. `accumulate`
        batches make one step with the mean of their gradients, weighted by their rows: for a mean over rows, the step
        of one batch that large, in the memory of a small one. The last step of an epoch may have fewer batches, and so
        may one that is followed by a batch of another shape, unless that has fewer rows and is the last. Threads that
        accumulate are synchronized.

        On several processes (`wy.jax.initialize`), each passes the same columns and reads the rows of its own devices.
        The batches of a loader are each process's own rows, see `wy.jax.part_of_process`.

        Raise `DataError` for a column that is missing or has nulls, `ShapeError`, `DTypeError`, `NotFinite`, or
        `IndexOutOfRange` naming the column and row, before any parameter changes: the size of a smaller last batch is
        checked before the first step too, unless an iterable other than a `wy.data.DataLoader` gives it. Raise
        `Diverged`, with the rows of the batch, for a loss that is not finite, and go back to the parameters of an
        earlier batch, which are finite. Raise `OptionError` within an epoch of this program, as in a callback or in a
        generator of batches; `evaluate` and other programs can be used there.
        """
        in_batches = is_batches(columns)
        options = checked_options(
            batch_size=batch_size, shuffle=shuffle, seed=seed, threads=threads, mode=mode, progress=progress,
            accumulate=accumulate, in_batches=in_batches,
        )  # fmt: skip
        return self._epochs(columns, options, in_batches=in_batches)[0][0]

    def _epochs(self, columns: Any, options: EpochOptions, *, in_batches: bool, most: int = 1) -> list[tuple[E, float]]:
        """Train for up to `most` epochs, at least one; return the losses of each, and its mean loss of a row."""
        with self._lock:
            if self.optimizer is None:
                raise ShapeError(
                    "this program has no optimizer, so there is no epoch to train; call it for its outputs"
                )
            if self._in_epoch:
                raise _inside_epoch("an epoch")
            refuse_epoch(self._engine.graph.schedule.leaves)
            self._in_epoch = True
            try:
                found = train_epochs(self._engine, columns, options, self._totals, in_batches=in_batches, most=most)
                return [(self._means(each.outputs), each.mean_loss) for each in found]
            finally:
                self._in_epoch = False

    def _means(self, values: Sequence[float]) -> E:
        answer: Any = values[0] if self._single else list(values)
        if self._metrics:
            answer = dict(zip(("loss", *self._metrics), values, strict=True))
        result: E = answer
        return result

    @overload
    def evaluate(self, columns: FeedT, *, batch_size: int | None = None, metrics: None = None) -> E: ...
    @overload
    def evaluate(
        self, columns: FeedT, *, batch_size: int | None = None, metrics: RunningMetrics
    ) -> dict[str, float]: ...
    @overload
    def evaluate(
        self, columns: FeedT, *, batch_size: int | None = None, metrics: AnyRunningMetrics
    ) -> dict[str, object]: ...
    @explains_keywords
    def evaluate(
        self, columns: Any, *, batch_size: int | None = None, metrics: Mapping[str, Any] | None = None
    ) -> E | dict[str, Any]:
        """Return the outputs for all rows of a data set, computed in batches; nothing changes.

        The data is as in `epoch`, without batches. `batch_size` is by default that of a fixed batch axis, else 256.

        An output with one number for each row gives their mean. A scalar gives what it would be for all rows as one
        batch, whatever the size of batches and up to rounding, if it is computed from means and sums over rows: a mean
        loss, a sum, a weighted mean such as `(w * l).sum() / w.sum()`, a loss with weights of classes, ignored labels
        or a mask, the root of a mean square. An output in which rows depend on each other in another way, as in a
        maximum or a variance over rows, is the mean of its values for batches, weighted by their rows, and depends on
        their size: use a running metric, or give each row a number. So does any if the batch axis is a number, as in
        `wy.Input(dims=(16, 4))`, and not a `Dim`.

        `metrics` are running metrics with the nodes of their arguments, `{name: (metric, targets, predictions)}`. They
        are reset, then updated with the nodes' values of each batch. The result is then a dict: of the outputs ("loss"
        for a single one, else by their names) and of the metrics' results.

        Raise what `epoch` raises for the data, and `OptionError` for a graph built in training mode, as with dropout.

        >>> class Batch(wy.Dim): ...
        >>> x, y = wy.Input(dims=(Batch(),), name="x"), wy.Input(dims=(Batch(),), name="y")
        >>> program = wy.compile((y - 2.0 * x).square().mean())
        >>> data = {x: [0.0, 1.0, 2.0], y: [0.0, 2.0, 7.0]}
        >>> program.evaluate(data, batch_size=2)
        3.0
        >>> wy.compile((y - 2.0 * x).square().mean().sqrt()).evaluate(data, batch_size=1)
        1.7320508075688772
        >>> program.evaluate(data, metrics={"largest": (wy.metrics.MaxError(), y, 2.0 * x)})
        {'loss': 3.0, 'largest': 3.0}
        """
        with self._lock:
            running = {} if metrics is None else metrics
            means, measured = self._evaluator(self._outputs, columns, batch_size, running)
        if metrics is None:
            return self._means(means)
        names = ["loss", *self._metrics] if self._single else list(map(label, self._outputs))
        return merged(names, means, measured)

    @explains_keywords
    def backward(self, columns: FeedT, *, threads: int = 1, weight: float = 1.0, blas_threads: int = 1) -> float:
        """Add `weight` times the gradients of a batch's loss to the parameters' gradients; return the loss.

        This is `loss.backward()` in native code, with the rows of the batch divided among `threads`; the same number
        of threads gives the same bits in every run. One thread computes batches whose axis has a fixed size or whose
        rows depend on each other, as in batch normalization. Use it to clip gradients or to accumulate those of
        several batches before an optimizer step. `blas_threads` above 1 parallelizes matrix products instead: faster
        and in less memory if they are large, but rounding may differ between runs.

        Raise what `epoch` raises, `ValueError` for less than one thread or a weight that is not finite, and `Diverged`
        for a loss that is not finite; no gradient has been added then.

        >>> class Batch(wy.Dim): ...
        >>> x, slope = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0)
        >>> program = wy.compile((slope * x).mean(), wy.optim.SGD([slope], 0.1))
        >>> program.backward({x: [1.0, 3.0]}), float(slope.gradient)
        (2.0, 2.0)
        """
        with self._lock:
            if self.optimizer is None:
                raise ShapeError("this program has no optimizer, so it has no gradients; call it for its outputs")
            if self._in_epoch:
                raise _inside_epoch("a backward pass")
            threads, blas_threads = whole("threads", threads, 1), whole("blas_threads", blas_threads, 1)
            checked_weight(weight, self._outputs[0].dtype)
            graph = self._engine.graph
            with self._engine.checking():
                batch = checked_columns(columns, graph.inputs, graph.ranges.limits)
                batch.check_batches(batch.rows)
                check_open_ranges(graph, batch, batch.rows)
            with drawing(self._engine):
                return self._engine.backward(batch, threads, weight, blas_threads)

    def state_dict(self) -> dict[str, int]:
        """Return the program's counters: `steps`, which seeds random nodes, and `epochs`, which seeds the shuffle.

        With the parameters and the optimizer's state, they are all that a resumed run needs to continue identically.

        >>> x = wy.Input(name="x")
        >>> program = wy.compile(x * 2.0)
        >>> float(program({x: 3.0})), program.state_dict()
        (6.0, {'steps': 1, 'epochs': 0})
        """
        with self._lock:
            return {"steps": self._engine.steps, "epochs": self._engine.epochs}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue counting from the result of `state_dict`.

        Raise `CheckpointError`, and change nothing, for other names, or numbers that are no integers from 0 to 2**62.
        """
        steps, epochs = checked_counts(state)
        with self._lock:
            self._engine.steps, self._engine.epochs = steps, epochs

    # --- copies ---------------------------------------------------------------------------------------------------

    def __copy__(self) -> Program[R, E]:
        """Return a program with the same nodes and optimizer that counts its own steps from here on."""
        with self._lock:
            return _new_program(self._outputs, *self._form, self.optimizer, self._choices, self.state_dict())

    @property
    def _form(self) -> tuple[bool, list[str]]:
        """Whether there is a single output beside the metrics, and the names of the metrics."""
        return self._single, list(self._metrics)

    def __deepcopy__(self, memo: dict[int, object]) -> Program[R, E]:
        """Return a program with its own parameters, buffers and optimizer.

        The inputs stay the same nodes, because calls refer to them, unless `memo` already has copies of them.
        """
        with self._lock:
            for leaf in self._engine.graph.inputs:
                memo.setdefault(id(leaf), leaf)
            outputs = [copied(output, memo) for output in self._outputs]
            optimizer = copy.deepcopy(self.optimizer, memo)
            return _new_program(outputs, *self._form, optimizer, self._choices, self.state_dict())

    def __reduce__(self) -> tuple[object, ...]:
        with self._lock:
            records, roots = flatten_all(self._outputs)
            return _restored, (records, roots, *self._form, self.optimizer, self._choices, self.state_dict())

    def _after_fork(self) -> None:
        """In a forked process, replace a lock that another thread held, since that thread does not exist there."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
            if self._at_once:
                self._engine.after_fork()
        else:
            self._lock, self._in_epoch = threading.RLock(), False
            self._engine.after_fork()
            self._evaluator = Evaluator(self._made_for_evaluation)

    # What notebooks display.
    _repr_mimebundle_ = Late("wyrm.view.notebook", "of_program")

    def __repr__(self) -> str:
        what = ", ".join(map(label, self._outputs))
        return f"<Program {what}{'' if self.optimizer is None else f', trained by {self.optimizer!r}'}>"

    # --- what it shows ---------------------------------------------------------------------------------------------

    @property
    def engine(self) -> str:
        """The name of the engine that runs the program, such as "native" or "jax"."""
        return self._engine_name

    @property
    def sharding(self) -> object:
        """A table to print of how parameters are divided among the devices of a mesh; None without a mesh."""
        return self._engine.sharding

    @property
    def source(self) -> str:
        """The generated source: the kernels, and `run`, which loops over the data."""
        return self._engine.source

    @property
    def llvm(self) -> str:
        """The LLVM modules before optimization, one for each part that is compiled separately."""
        with self._lock:
            return self._engine.llvm

    @property
    def assembly(self) -> str:
        """The machine code for this processor as text; generating it may take a second."""
        with self._lock:
            return self._engine.assembly

    def stages(self) -> dict[str, str]:
        """Return the program after each stage of compilation as text, by the stage's name and in order.

        "graph" lists the nodes of the outputs with the lines of code that made them; "differentiate" adds the
        gradients; "decompose" replaces composite nodes by simpler ones; "deduplicate" merges equal nodes. "fuse" shows
        the fused loops, "materialize" the stored arrays. "write" is `source`; "plan memory" gives the arrays' offsets.
        "loop program" has types, pointers and strides; "emit" is `llvm`.

        >>> x = wy.Input(dims=(3,), name="x")
        >>> stages = wy.compile(x.tanh() + x.tanh()).stages()
        >>> [text.count("tanh(x)") for text in (stages["graph"], stages["deduplicate"])]
        [2, 1]
        """
        with self._lock:
            return self._engine.stages()

    @property
    def inputs(self) -> tuple[BaseNode, ...]:
        """The inputs that take data, in order of first use."""
        return tuple(self._engine.graph.inputs)

    @property
    def graph(self) -> ProgramGraph:
        """The graph after each stage of compilation; for the JAX engine, before JAX compiles it."""
        return self._engine.graph

    @property
    def sizes(self) -> Mapping[type[Dim], int]:
        """The sizes of named axes in the last run; empty before the first one, and for the JAX engine."""
        return self._engine.sizes

    @property
    def outputs(self) -> tuple[BaseNode, ...]:
        """The nodes whose values a call returns, metrics last."""
        return tuple(self._outputs)

    @property
    def optimizer(self) -> OptimizerInterface | None:
        """The optimizer, None if the program only computes outputs."""
        return self._engine.graph.optimizer

    @property
    def trained(self) -> tuple[Parameter | Buffer, ...]:
        """The parameters and buffers that an epoch changes."""
        return tuple(self._engine.graph.trained)

    @property
    def plan(self) -> ProgramPlan:
        """The calls of a step, the buffers and their bytes, and the nodes that cost nothing.

        The bytes cover everything run so far, for all threads and batch sizes, without the parameters and the
        optimizer's state. Before the first run they are 0 if input sizes are unknown.
        """
        return self._engine.plan()

    @overload
    def profile(
        self,
        columns: None = None,
        *,
        method: Literal["epoch", "call", "backward"] | None = None,
        steps: int | None = None,
        memory: bool = False,
        peaks: Peaks | None = None,
    ) -> Profile: ...
    @overload
    def profile(
        self,
        columns: FeedT,
        *,
        method: Literal["epoch", "call", "backward"] | None = None,
        steps: int | None = None,
        batch_size: int = 1,
        threads: int = 1,
        mode: ThreadMode = "hogwild",
        accumulate: int = 1,
        memory: bool = False,
        peaks: Peaks | None = None,
    ) -> Profile: ...
    @explains_keywords
    def profile(
        self,
        columns: FeedT | None = None,
        *,
        method: Literal["epoch", "call", "backward"] | None = None,
        steps: int | None = None,
        batch_size: int = 1,
        threads: int = 1,
        mode: ThreadMode = "hogwild",
        accumulate: int = 1,
        memory: bool = False,
        peaks: Peaks | None = None,
    ) -> Profile:
        """Measure where the time of a step goes: each loop, product and other kernel, and the waits.

        A copy of the program runs some steps of `epoch`, or calls of the program ("call", the default without an
        optimizer) or of `backward`, with a clock between the calls of its native code. This program, its parameters
        and its optimizer stay as they are. `columns`, `batch_size`, `threads`, `mode` and `accumulate` are those of the
        method. By default the `steps` (batches, or calls) take about a second; too few rows are used again.

        The result prints as a table, with the bytes and FLOPs of each part beside what the machine can do. These
        `peaks` are measured once in a process, or given as a `wy.profile.Peaks`. `memory` adds the arrays of a step.
        See `wy.profile` for the page and the trace.

        Raise what `epoch` raises for the data, and `OptionError` for options that do not fit the program, and for the
        engine "jax": `jax.profiler.trace` measures what XLA compiles, by the names of nodes.

        >>> class Batch(wy.Dim): ...
        >>> x, slope = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0)
        >>> program = wy.compile((slope * x).square().mean(), wy.optim.SGD([slope], 0.1))
        >>> profile = program.profile({x: np.ones(64)}, batch_size=32, steps=4)
        >>> profile.steps, [stage.kind for stage in profile.stages][:2], float(slope)
        (4, ['load', 'loop'], 1.0)
        """
        program: Any = self
        if type(self._engine).profile is not Engine.profile:  # which raises an error, so nothing is copied
            with self._lock:
                program = copy.copy(program) if self.optimizer is None else copy.deepcopy(program)
        profile: Profile = program._engine.profile(
            columns, method=method, steps=steps, batch_size=batch_size, threads=threads, mode=mode,
            accumulate=accumulate, memory=memory, peaks=peaks,
        )  # fmt: skip
        return profile

    @explains_keywords
    def export(
        self,
        folder: FilePath,
        *,
        target: str = "c",
        cpu: str | None = None,
        features: str | None = None,
        blas: Literal["cblas"] | None = None,
        name: str = "model",
        batch_sizes: int | Sequence[int] = 32,
        sizes: Mapping[type[Dim], int] | None = None,
        embed: bool | Literal["float32", "float16", "int8"] = False,
        ram: int | None = None,
        flash: int | None = None,
        columns: Mapping[Any, Any] | None = None,
    ) -> Exported:
        """Write the program as code that needs no Python; see `wyrm.export`, which takes several programs.

        >>> import tempfile
        >>> x = wy.Input(dims=(3,), name="x")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     exported = wy.compile(x.tanh() + x).export(folder, name="smooth")
        ...     sorted(path.name for path in exported.files)
        ['example.c', 'smooth.h', 'smooth.o']
        """
        from wyrm.exporting.exported import export

        program: Any = self
        role = "predict" if program.optimizer is None else "train"
        options: dict[str, Any] = {role: program}
        return export(
            folder, **options, target=target, cpu=cpu, features=features, blas=blas, name=name,
            batch_sizes=batch_sizes, sizes=sizes, embed=embed, columns=columns, ram=ram, flash=flash,
        )  # fmt: skip


def _inside_epoch(what: str) -> OptionError:
    return OptionError(
        f"this program is in an epoch, so its callbacks, its progress bar and its batches cannot begin {what}: train "
        f"after the epoch, or compile another program to train. evaluate() and other programs can be used within it"
    )


def _new_program(
    outputs: Sequence[BaseNode],
    single: bool,
    names: Sequence[str],
    optimizer: Any,
    choices: Mapping[str, Any],
    state: Mapping[str, int],
) -> Program[Any, Any]:
    metrics = dict(zip(names, outputs[1:], strict=True)) if names else None
    program: Program[Any, Any] = Program(outputs[0] if single else outputs, optimizer, metrics=metrics, **choices)
    program.load_state_dict(state)
    return program


def _restored(records: Records, roots: Sequence[int], *rest: Any) -> Program[Any, Any]:
    nodes = restore_all(records)
    return _new_program([nodes[root] for root in roots], *rest)


_programs: weakref.WeakSet[Program[Any, Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for program in list(_programs):
        program._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
