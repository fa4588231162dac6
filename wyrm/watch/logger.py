"""`RunLogger`, the callback of `fit` that writes the folder of a run."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wyrm.engines.columns import given_inputs
from wyrm.engines.progress import Bar, LossBar, loss_bar
from wyrm.engines.tables import is_batches
from wyrm.errors import DTypeError
from wyrm.graph.base import BaseNode, label
from wyrm.graph.parameters import Parameter
from wyrm.graph.traversal import topological_order
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.notices import say
from wyrm.support.options import number
from wyrm.train.callbacks import Callback, Run
from wyrm.watch import records as checks
from wyrm.watch.config import checked_config
from wyrm.watch.measures import Budget, Probe, unused
from wyrm.watch.points import EPOCHS
from wyrm.watch.writer import FilePath, RunWriter, stopped_by

if TYPE_CHECKING:
    from wyrm.module import Module

# Seconds between looks at the clock within an epoch.
_TICK = 0.2
# Seconds that the only measurement of gradients may take, at the end of a short training.
_LAST_SECONDS = 0.05


class RunLogger(Callback):
    """Writes what a training does to the folder of a run, which `python -m wyrm watch FOLDER` shows live in a browser.

    `fit(watch=True)` adds it, and so does `fit(watch=folder)`. It records the values of each epoch; within long epochs
    the loss and the rate; the norms of weights, gradients and updates by module; the dead units of each `relu`; and
    histograms. All of it takes at most the share `budget` of the time, see `RunWriter`. Of several processes of one
    training (`wy.jax.initialize`), only the first writes.

    Gradients and dead units are computed by the reference engine on a batch of the training's size, with fewer rows if
    it has more than 16 million elements. `batch` is the data for them, `{input: column}` or a table; by default rows of
    the training data are drawn. `model` gives the parameters their names. `sample` is a function without arguments that
    returns generated text; it is called after the last epoch, and after others when the budget affords the time of its
    last call. The record has the size of batches, the optimizer, its learning rate and the options of `config`. Other
    options are those of `RunWriter`.

    Raise `DTypeError` or `OptionError` for options that are none, and `DataError` before the first epoch if the folder
    cannot be written.

    >>> import tempfile
    >>> slope, x = wy.Parameter(0.0), wy.Input(name="x")
    >>> program = wy.compile((slope * x - 1.0).square(), wy.optim.SGD([slope], 0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     history = wy.train.fit(program, {"x": [1.0]}, epochs=2, callbacks=[RunLogger(folder, silent=True)])
    """

    @explains_keywords
    def __init__(
        self,
        folder: FilePath | None = None,
        model: Module | Mapping[str, Parameter] | None = None,
        *,
        name: str | None = None,
        batch: object = None,
        sample: Callable[[], str] | None = None,
        config: Mapping[str, object] | None = None,
        budget: float = 0.015,
        tensorboard: bool | None = None,
        silent: bool = False,
    ) -> None:
        if sample is not None and not callable(sample):
            raise DTypeError(f"sample must be a function without arguments that returns text, not {sample!r}")
        checks.check_tensorboard(tensorboard)
        number("budget", budget, 0.0, 1.0)
        checks.named_parameters("RunLogger", model)
        checked_config(config)
        self.folder: Path | None = checks.folder_or_none(folder)
        self.name: str | None = None if name is None else checks.text("name", name)
        self.batch = batch
        self.sample = sample
        self.silent = silent
        self.config: Mapping[str, object] = {} if config is None else config
        self._model, self._budget, self._tensorboard = model, budget, tensorboard
        self._writer: RunWriter | None = None

    def on_start(self, run: Run) -> None:
        """Create the folder, so that one that cannot be written is known before the first epoch."""
        process, processes = run.program._engine.processes
        if process > 0:
            return
        steps = run.program.state_dict()["steps"]
        # No process can read parameters of several processes alone.
        trained = run.program.trained if processes == 1 else ()
        parameters = [leaf for leaf in trained if isinstance(leaf, Parameter)]
        named = _named_parameters(self._model, parameters, run.program.outputs[0])
        self._writer = writer = RunWriter(
            self.folder, named, name=self.name or _script(), step=steps, epoch=run.epoch,
            epochs=run.epochs, rows=run.rows, engine=run.program.engine, budget=self._budget / 3,
            tensorboard=self._tensorboard, config={**_options(run), **self.config},
        )  # fmt: skip
        if not self.silent:
            command = f"python -m wyrm watch {shlex.quote(os.fspath(writer.folder))}"
            say(f"to see this training, run: {command}")
        self._live = _Live(run, writer, self._probe(run, parameters), self.batch, self._budget / 3)
        self._sample_budget, self._sample_seconds, self._sample_failed = Budget(self._budget / 3), 0.0, False

    def _probe(self, run: Run, parameters: Sequence[Parameter]) -> Probe | None:
        assert self._writer is not None
        if not parameters:
            self._writer.note("Norms are not recorded: the parameters lie on several processes.")
            return None
        if self.batch is None and is_batches(run.data) and not hasattr(run.data, "dataset"):
            self._writer.note("Gradients are not recorded: the data are batches; give RunLogger a batch=.")
            return None
        try:
            return Probe(run.program.outputs[0], parameters, run.program.inputs, _batch_size(run))
        except Exception as error:
            self._writer.note(f"Gradients are not recorded: {error}")
            return None

    def on_epoch_start(self, run: Run) -> None:
        """Follow the epoch, between its chunks of steps."""
        if self._writer is not None and run.bar is not True:
            self._live.begin_epoch(run)

    def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
        """Record the values of the epoch, and what is due."""
        writer = self._writer
        if writer is None:
            return
        self._live.end_epoch(run, values)
        if self.sample is not None and self._sample_budget.affords(self._sample_seconds):
            self._take_sample(writer)
        writer.warn_of_failure()

    def _take_sample(self, writer: RunWriter) -> None:
        """Record generated text; a function that fails is not called again."""
        if self.sample is None or self._sample_failed:
            return
        start = time.perf_counter()
        with self._sample_budget:
            try:
                writer.text(self.sample())
            except Exception as error:
                self._sample_failed = True
                writer.note(f"Samples are not recorded: {type(error).__name__}: {error}")
        self._sample_seconds = time.perf_counter() - start

    def on_end(self, run: Run) -> None:
        """Record why the training ended, and close the files."""
        writer, self._writer = self._writer, None
        if writer is None:
            return
        if isinstance(run.bar, _Live):
            run.bar = run.bar.inner
        if run.finished:
            self._take_sample(writer)
        self._live.end()
        reason = run.history.stopped if run.finished or run.history.stopped != "completed" else ""
        writer.close(reason or stopped_by(sys.exception()))


class _Live:
    """Records while training runs: engines call it between chunks of steps, as the progress bar of an epoch.

    An error in recording ends the recording, not the training.
    """

    def __init__(self, run: Run, writer: RunWriter, probe: Probe | None, batch: object, share: float) -> None:
        # The bar that this one stands in for: as the run had it, and as one that takes losses.
        self.inner: bool | Bar | LossBar = False
        self._shown: LossBar | None = None
        self._run, self._writer, self._probe, self._batch = run, writer, probe, batch
        self._probe_budget = Budget(share)
        self._batch_size = _batch_size(run)
        # Parameters on devices can be read only after an epoch.
        self._in_place = run.program._engine.in_place
        self._first_step = writer.step
        self._epoch_rows = 0
        self._next = 0.0
        self._compiling, self._measured, self._probed = True, False, probe is None

    def begin_epoch(self, run: Run) -> None:
        """Stand in for the run's progress bar, which goes on to be shown."""
        if run.bar is not self:
            self.inner = run.bar
            self._shown = None if isinstance(run.bar, bool) else loss_bar(run.bar)
            run.bar = self
        self._first_step = run.program.state_dict()["steps"]
        self._epoch_rows = 0
        self._next = time.perf_counter() + _TICK
        self._writer.restart_rate()

    def add(self, rows: int, losses: float) -> None:
        """Advance by `rows`, whose losses have the sum `losses`."""
        if self._shown is not None:
            self._shown.add(rows, losses)
        self._epoch_rows += rows
        writer, run = self._writer, self._run
        if rows == run.rows and not self._compiling and time.perf_counter() < self._next:
            return  # a whole epoch, which `end_epoch` records: many are short
        try:
            writer.step = self._first_step - (-self._epoch_rows // self._batch_size)
            # An epoch that is a single chunk of steps has a point of its own.
            if rows and rows != run.rows:
                epoch = run.epoch + (min(1.0, self._epoch_rows / run.rows) if run.rows else 0.0)
                found = {"running_loss": losses / rows}
                writer.collect(writer.step, found, epoch, 0 if self._compiling else rows, weight=rows)
            if self._compiling:  # the rate leaves out the first steps, whose time is that of compiling
                self._compiling = False
                self._next = time.perf_counter() + _TICK
                writer.restart_rate()
                return
            # A measurement of the parameters' change ends with the next chunk.
            if self._in_place and (time.perf_counter() >= self._next or writer.parameters.holds):
                self._next = time.perf_counter() + _TICK
                self._measure()
        except Exception as error:
            self._writer.fail(error)

    def end_epoch(self, run: Run, values: Mapping[str, float]) -> None:
        """Record the values of an epoch, and measure what is due."""
        try:
            found = dict(values)
            seconds = found.pop("seconds", 0.0)
            if self._epoch_rows and seconds:
                found["rows_per_second"] = self._epoch_rows / seconds
            self._writer.collect(run.program.state_dict()["steps"], found, run.epoch, full=EPOCHS)
            self._measure()
        except Exception as error:
            self._writer.fail(error)

    def end(self) -> None:
        """Record the last measurement; the gradients of a training too short for any are measured once."""
        try:
            late = not self._probed and self._probe is not None and self._probe.seconds <= _LAST_SECONDS
            if self._writer.moved or not self._measured or late:
                self._finish(at_most=_LAST_SECONDS if late else 0.0)
        except Exception as error:
            self._writer.fail(error)

    def _measure(self) -> None:
        """End the measurement that an earlier chunk or epoch began, or begin one that is due."""
        if self._writer.moved:
            self._finish()
        elif self._writer.measures_now():
            self._writer.hold()

    def _finish(self, at_most: float = 0.0) -> None:
        """Record the modules, and gradients if their time is affordable, or at most so many seconds."""
        self._measured = True
        writer, probe = self._writer, self._probe
        if probe is None or not (self._probe_budget.affords(probe.seconds) or probe.seconds <= at_most):
            writer.modules()
            return
        with self._probe_budget:
            start = time.perf_counter()
            try:
                probed = probe(self._columns())
            except Exception as error:
                self._probe = None
                writer.note(f"Gradients are not recorded: {type(error).__name__}: {error}")
                return
            probe.seconds, self._probed = time.perf_counter() - start, True
        writer.modules(probed)

    def _columns(self) -> Mapping[BaseNode, np.ndarray]:
        """Return the data that the batches of probes are drawn from."""
        run, inputs = self._run, self._run.program.inputs
        if self._batch is not None:
            return given_inputs(self._batch, inputs)
        if run.columns is not None:
            return run.columns
        dataset = run.data.dataset
        rows = np.random.default_rng(self._writer.step).integers(len(dataset), size=min(len(dataset), 1024))
        return given_inputs(dataset.take(rows), inputs)


def _batch_size(run: Run) -> int:
    """Return the rows of a step."""
    size = getattr(run.data, "batch_size", None) if is_batches(run.data) else None
    return size if isinstance(size, int) and size > 0 else run.batch_size


def _options(run: Run) -> dict[str, object]:
    """Return what a training says of its own options, for its record."""
    optimizer = run.optimizer
    rate = optimizer.groups[0].options()["learning_rate"]
    return {
        "batch_size": _batch_size(run), "optimizer": type(optimizer).__name__,
        # A schedule is named: its rate at the start tells little.
        "learning_rate": getattr(rate, "__name__", repr(rate)) if callable(rate) else float(rate),
    }  # fmt: skip


def _named_parameters(
    model: Module | Mapping[str, Parameter] | None, parameters: Sequence[Parameter], loss: BaseNode
) -> dict[str, Parameter]:
    """Return the trained parameters by their names in the model, or else by the module that uses them and their own."""
    given = checks.named_parameters("RunLogger", model)
    names: dict[BaseNode, str] = {parameter: name for name, parameter in given.items()}
    for node in topological_order([loss]):
        for parent in node.parents:
            if isinstance(parent, Parameter) and parent not in names:
                names[parent] = f"{node.module_path}.{label(parent)}" if node.module_path else label(parent)
    named: dict[str, Parameter] = {}
    for parameter in parameters:
        named[unused(names.get(parameter, label(parameter)), named)] = parameter
    return named


def _script() -> str:
    """Return the name of the program that runs, for the folder of its run."""
    name = Path(sys.argv[0]).stem if sys.argv and sys.argv[0] else ""
    return "run" if name in ("", "-c", "-m", "ipykernel_launcher") else name
