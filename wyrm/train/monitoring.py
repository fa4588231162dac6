"""Callbacks of `fit` that follow one value, and that save and resume a training."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.engines.tables import is_batches
from wyrm.errors import CheckpointError, DTypeError, NotFinite, OptionError
from wyrm.graph.base import BaseNode, label
from wyrm.graph.parameters import Buffer, Parameter
from wyrm.support.files import path_of
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.interrupts import deferred
from wyrm.support.options import flag, number, whole
from wyrm.train.arguments import checked_counts
from wyrm.train.callbacks import Callback, Run, is_score, known, states_of

if TYPE_CHECKING:
    from pathlib import Path

    from wyrm.io.training import Checkpoints
    from wyrm.module import Module


class Monitor(Callback):
    """The base class of callbacks that follow one value: whether it improves, and for how long it has not.

    `monitor` is the value's name, by default "validation_loss", or without validation "loss". A value improves on the
    best so far if it is lower, or with `higher_is_better` higher, by more than `minimum_change`. Without
    `higher_is_better` its name decides: an accuracy, recall, AUC and the like is better if it is higher, and anything
    else if it is lower.

    >>> EarlyStopping(3, "validation_recall").higher_is_better, EarlyStopping(3).higher_is_better
    (True, False)
    """

    @explains_keywords
    def __init__(
        self, monitor: str | None = None, *, higher_is_better: bool | None = None, minimum_change: float = 0.0
    ) -> None:
        if not isinstance(monitor, str | None):
            raise DTypeError(f"monitor must be the name of a value, such as 'validation_loss', not {monitor!r}")
        self.monitor = monitor
        self.higher_is_better: bool = (
            is_score(monitor) if higher_is_better is None else flag("higher_is_better", higher_is_better)
        )
        self.minimum_change: float = number("minimum_change", minimum_change, 0.0)
        self.reset()

    def reset(self) -> None:
        """Forget all epochs."""
        self.best: float = -math.inf if self.higher_is_better else math.inf
        self.epochs_without_improvement: int = 0

    def on_start(self, run: Run) -> None:
        """Forget an earlier training, and take the epochs of `run.history` into account."""
        self.reset()
        for position in range(run.epoch):
            self.improved(run.history.record(position).values)

    def value(self, values: Mapping[str, float]) -> float:
        """Return the monitored value of an epoch; raise `OptionError` if there is none of its name."""
        name = self.monitor or ("validation_loss" if "validation_loss" in values else "loss")
        return values[known(name, values, self._advice)]

    def _advice(self, name: str) -> str:
        """Return how to get a value of this name."""
        metric = name.removeprefix("validation_")
        return (
            f"; a callback before {type(self).__name__} may set values[{name!r}] in its on_epoch_end, and fit(..., "
            f"validation=columns, metrics={{{metric!r}: (metric, *nodes)}}) gives 'validation_{metric}'"
        )

    def improved(self, values: Mapping[str, float]) -> bool:
        """Return whether an epoch improves on the best so far, and count it if it does not."""
        value = self.value(values)
        change = value - self.best if self.higher_is_better else self.best - value
        if change > self.minimum_change:
            self.best, self.epochs_without_improvement = value, 0
            return True
        self.epochs_without_improvement += 1
        return False


class EarlyStopping(Monitor):
    """Stops after `patience` epochs without an improvement, and restores the parameters of the best epoch.

    `restore_best=False` keeps those of the last epoch, as an interrupt and an error do. The optimizer's state stays
    that of the last epoch. Options are those of `Monitor`. The parameters of the best epoch are a part of checkpoints,
    so that a resumed training restores them too.

    To stop by a value of your own, such as the recall of `wy.recommend(...)`, let a callback before this one set it; or
    take a running metric, as in `fit(..., validation=data, metrics={"recall": (metric, *nodes)})`, and monitor
    "validation_recall".

    Raise `OptionError` for a patience below 1, and `CheckpointError` for a checkpoint with another best epoch, as other
    options would have found.

    >>> slope = wy.Parameter(0.0)
    >>> x = wy.Input(name="x")
    >>> program = wy.compile((slope * x - 1.0).square(), wy.optim.SGD([slope], 0.9))
    >>> stopping = EarlyStopping(patience=2)
    >>> history = wy.train.fit(program, {"x": [1.0]}, epochs=100, callbacks=[stopping])
    >>> history.stopped, history.epochs < 100
    ('early', True)
    >>> class Recall(wy.train.Callback):
    ...     def on_epoch_end(self, run, values):
    ...         values["recall"] = 1.0 / run.epoch  # wy.metrics.recall_at_k(wy.recommend(...), validation.seen(), k=50)
    >>> callbacks = [Recall(), EarlyStopping(2, "recall")]
    >>> wy.train.fit(program, {"x": [1.0]}, epochs=100, callbacks=callbacks)["recall"]
    [1.0, 0.5, 0.3333333333333333]
    """

    @explains_keywords
    def __init__(
        self,
        patience: int = 5,
        monitor: str | None = None,
        *,
        higher_is_better: bool | None = None,
        minimum_change: float = 0.0,
        restore_best: bool = True,
    ) -> None:
        super().__init__(monitor, higher_is_better=higher_is_better, minimum_change=minimum_change)
        self.patience: int = whole("patience", patience, 1)
        self.restore_best: bool = flag("restore_best", restore_best)
        # The parameters and buffers, the best epoch, and their values after that epoch.
        self._leaves: tuple[Parameter | Buffer, ...] = ()
        self._best_epoch = 0
        self._best_values: list[np.ndarray] = []

    def on_start(self, run: Run) -> None:
        """Forget an earlier training, and stop if the epochs of `run.history` are enough."""
        super().on_start(run)
        self._leaves, self._best_values = run.program.trained, []
        self._best_epoch = run.epoch - self.epochs_without_improvement
        if self.epochs_without_improvement >= self.patience:
            run.stop()

    def epochs_ahead(self, run: Run) -> int:
        """Return the epochs up to the first one that could stop the training; 1 if each could be the best to keep."""
        is_known = self.monitor in (None, "loss") or self.monitor in run.history
        if self.restore_best or not is_known or type(self) is not EarlyStopping:
            return 1
        return max(1, self.patience - self.epochs_without_improvement)

    def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
        """Keep the parameters of the best epoch, or stop."""
        if self.improved(values):
            self._best_epoch = run.epoch
            if self.restore_best:
                run.program._engine.gather()
                self._best_values = [np.array(leaf.value) for leaf in self._leaves]
        elif self.epochs_without_improvement >= self.patience:
            run.stop()

    def on_end(self, run: Run) -> None:
        """Restore the parameters and buffers of the best epoch."""
        if run.finished and self.epochs_without_improvement:
            with deferred:
                for leaf, array in zip(self._leaves, self._best_values, strict=bool(self._best_values)):
                    leaf.set(array)

    def state_dict(self) -> dict[str, Any]:
        """Return the best epoch, and the parameters and buffers after it."""
        return {"epoch": self._best_epoch, "values": list(self._best_values)} if self.restore_best else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Keep the parameters of the best epoch of the earlier training."""
        if not self.restore_best:
            return
        epoch, values = state.get("epoch"), state.get("values")
        if epoch != self._best_epoch:
            raise CheckpointError(
                f"the checkpoint holds the parameters of epoch {epoch}, the best one for the EarlyStopping that saved "
                f"them; this one finds epoch {self._best_epoch} the best: resume with the options of that training, or "
                f"with restore_best=False"
            )
        shapes = [np.shape(array) for array in values] if isinstance(values, list) else None
        if shapes is None or (shapes and shapes != [leaf.shape for leaf in self._leaves]):
            raise CheckpointError("the state of EarlyStopping is not that of these parameters: their shapes differ")
        self._best_values = list(values or [])


class ReduceOnPlateau(Monitor):
    """Multiplies the learning rates by `factor` after each `patience` epochs without an improvement.

    Rates never fall below `minimum`. Groups with a `learning_rate_factor` follow the optimizer's rate. Options are
    those of `Monitor`. All rates must be numbers.

    Raise `OptionError` for a factor outside (0, 1), a patience below 1, and for an optimizer with a schedule.

    >>> slope = wy.Parameter(0.0)
    >>> x = wy.Input(name="x")
    >>> program = wy.compile((0.0 * slope * x).square(), wy.optim.SGD([slope], learning_rate=1.0))
    >>> reduce = ReduceOnPlateau(factor=0.5, patience=2)
    >>> wy.train.fit(program, {"x": [1.0]}, epochs=6, callbacks=[reduce])["learning_rate"]
    [1.0, 1.0, 1.0, 0.5, 0.5, 0.25]
    """

    @explains_keywords
    def __init__(
        self,
        factor: float = 0.1,
        patience: int = 5,
        monitor: str | None = None,
        *,
        minimum: float = 0.0,
        higher_is_better: bool | None = None,
        minimum_change: float = 0.0,
    ) -> None:
        super().__init__(monitor, higher_is_better=higher_is_better, minimum_change=minimum_change)
        self.factor: float = number("factor", factor, 0.0, 1.0)
        if not self.factor:
            raise OptionError("factor must be above 0, because a learning rate of 0 ends all learning")
        self.patience: int = whole("patience", patience, 1)
        self.minimum: float = number("minimum", minimum, 0.0)
        # The optimizers whose rates are reduced: the program's, and its groups with rates of their own.
        self._rated: Sequence[Any] = ()

    def state_dict(self) -> dict[str, Any]:
        """Return the learning rates."""
        return {"learning_rates": [group.learning_rate for group in self._rated]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the learning rates of the earlier training."""
        rates = state.get("learning_rates")
        if not isinstance(rates, list) or len(rates) != len(self._rated):
            raise CheckpointError(
                f"the checkpoint holds the learning rates {rates!r}, and this optimizer has {len(self._rated)} of them"
            )
        for group, rate in zip(self._rated, rates, strict=True):
            group.learning_rate = rate

    def on_start(self, run: Run) -> None:
        """Start at the optimizer's rates; after a restore, repeat the reductions of the earlier epochs."""
        if run.optimizer.has_schedule:
            raise OptionError(
                f"ReduceOnPlateau changes a learning rate that is a number; {run.optimizer!r} has a schedule: use "
                f"one of the two"
            )
        self._rated = run.optimizer.rated_groups
        self.reset()
        if run.epoch and (rate := run.optimizer.learning_rate):
            # First undo the reductions that this optimizer already has.
            run.optimizer.scale_learning_rates(run.history["learning_rate"][0] / rate)
        for position in range(run.epoch):
            self._reduce_if_due(run, run.history.record(position).values)

    def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
        """Reduce the rates if the value has not improved for long enough."""
        self._reduce_if_due(run, values)

    def _reduce_if_due(self, run: Run, values: Mapping[str, float]) -> None:
        if not self.improved(values) and self.epochs_without_improvement >= self.patience:
            self.epochs_without_improvement = 0
            run.optimizer.scale_learning_rates(self.factor, self.minimum)


class Checkpoint(Monitor):
    """Saves a `wy.io.Checkpoints` checkpoint every `every` epochs and after the last, and can continue from the latest.

    With `every_seconds`, it also saves within an epoch, between two steps, when so many seconds have passed since the
    last checkpoint. A checkpoint holds parameters, buffers, optimizer, the program's counters and its position in the
    epoch, the history and the states of all callbacks (see `Callback`). `parameters` is the model, or a mapping from
    names; by default the program's parameters are saved under their positions and names. The best and the last
    `keep_last` checkpoints are kept; the best has the best monitored value, see `Monitor`. With `best_only`, only
    epochs that improve are saved.

    With `resume`, training continues after the latest checkpoint in the directory, if there is one: `epochs` of `fit`
    counts from the start, and the result is that of a training without a break. An epoch that was not finished goes on
    where it was, with the same batches.

    Training waits only while arrays are copied: a thread writes the copy, into a file that is renamed when it is
    complete. A kill at any moment leaves the checkpoints before. An error of writing is raised after the next steps or
    at the end of the training. With `background=False` training waits for the disk.

    Of several processes that train together, the first one writes; all of them restore, from a folder that they share.

    Raise `OptionError` for `every` or `keep_last` below 1, `every_seconds` below 0 or with threads or `best_only`,
    `CheckpointError` for what cannot be written or does not match.

    >>> import tempfile
    >>> slope = wy.Parameter(0.0, name="slope")
    >>> x = wy.Input(name="x")
    >>> program = wy.compile((slope * x - 1.0).square(), wy.optim.SGD([slope], 0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(folder, resume=True)
    ...     first = wy.train.fit(program, {"x": [1.0]}, epochs=2, callbacks=[checkpoint])
    ...     history = wy.train.fit(program, {"x": [1.0]}, epochs=3, callbacks=[checkpoint])
    >>> history.epochs, history["loss"][:2] == first["loss"]
    (3, True)
    """

    @explains_keywords
    def __init__(
        self,
        directory: str | os.PathLike[str],
        parameters: Module | Mapping[str, Any] | None = None,
        *,
        every: int = 1,
        every_seconds: float | None = None,
        monitor: str | None = None,
        higher_is_better: bool | None = None,
        best_only: bool = False,
        keep_last: int = 3,
        resume: bool = False,
        background: bool = True,
    ) -> None:
        super().__init__(monitor, higher_is_better=higher_is_better)
        self.directory: Path = path_of("directory", directory)
        self.parameters = parameters
        if parameters is not None and not hasattr(parameters, "keys") and not hasattr(parameters, "named_parameters"):
            raise DTypeError(
                f"Checkpoint: parameters must be the model, or a dict of parameters by name, not {parameters!r}; how "
                f"many checkpoints to keep is keep_last="
            )
        self.every: int = whole("every", every, 1)
        self.every_seconds: float | None = (
            None if every_seconds is None else number("every_seconds", every_seconds, 0.0)
        )
        self.best_only: bool = flag("best_only", best_only)
        if self.best_only and every_seconds is not None:
            raise OptionError("Checkpoint: best_only=True saves after epochs that improve, so leave every_seconds away")
        self.keep_last: int = whole("keep_last", keep_last, 1)
        self.resume: bool = flag("resume", resume)
        self.background: bool = flag("background", background)
        self._checkpoints: Checkpoints | None = None
        # The number of the epoch of a data loader; when the last checkpoint was saved, and whether within an epoch.
        self._loader_epoch: int | None = None
        self._saved_at, self._is_within = 0.0, False

    @property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints in the directory, to list and to load."""
        from wyrm.io.training import Checkpoints

        if self._checkpoints is None:
            self._checkpoints = Checkpoints(self.directory, self.keep_last, higher_is_better=self.higher_is_better)
        return self._checkpoints

    def restore(self, run: Run) -> None:
        """With `resume`, load the latest checkpoint and its history."""
        if not self.resume:
            return
        from wyrm.io.training import step_of

        # The first of several processes wrote: it knows the last checkpoint before the others see the file.
        engine = run.program._engine
        latest = self.checkpoints.latest() if engine.processes[0] == 0 else None
        step = int(engine.agreed(-1 if latest is None else step_of(latest)))
        if step < 0:
            return
        path = self.checkpoints.path(step)
        saved = self.checkpoints.state(path)
        if not {"history", "program"} <= saved.keys():
            raise CheckpointError(f"{os.fspath(path)!r} was not saved by wy.train.Checkpoint, so it has no history")
        # Before the parameters change.
        checked_counts(saved["program"])
        state = self.checkpoints.load(path, self._named_parameters(run), run.optimizer)
        run.program.load_state_dict(state["program"])
        run.program._engine.position.load(state.get("position"))
        run.restored = state.get("callbacks", {})
        if _counts_epochs(run.data) and "loader" in state:
            run.data.epoch = state["loader"]
        run.history.update(state["history"])

    def on_start(self, run: Run) -> None:
        """Raise `OptionError` for a training within whose epochs nothing can be saved."""
        super().on_start(run)
        if self.every_seconds is not None and run.threads > 1:
            raise OptionError(
                f"Checkpoint(every_seconds={self.every_seconds:g}) with threads={run.threads}: an epoch goes on where "
                f"it was only in one thread; leave every_seconds away to save after epochs"
            )
        self._saved_at = time.perf_counter()

    def on_epoch_start(self, run: Run) -> None:
        """Note the epoch of a data loader, which counts on when it is iterated."""
        self._loader_epoch = run.data.epoch if _counts_epochs(run.data) else None

    def on_steps(self, run: Run) -> None:
        """Save a checkpoint if enough seconds have passed; raise the error of one that could not be written."""
        self._raise_error_of(self.checkpoints.check)
        done = run.program._engine.position.done.rows
        # The end of an epoch has a checkpoint of its own, and training does not wait for the last one.
        if self._is_late(run, waits=False) and done != run.rows:
            self._save(run, {"position": run.program._engine.position.state()}, self._loader_epoch, None)
            self._is_within = True

    def on_epoch_complete(self, run: Run, values: Mapping[str, float]) -> None:
        """Save a checkpoint if one is due."""
        self._raise_error_of(self.checkpoints.check)
        improved = self.improved(values)
        due = run.epoch % self.every == 0 or run.epoch == run.epochs or run.stopping or self._is_late(run)
        if improved if self.best_only else due:
            self._save(run, {}, run.data.epoch if _counts_epochs(run.data) else None, self.value(values))

    def on_end(self, run: Run) -> None:
        """Wait for the checkpoint that is being written; raise its error."""
        self._raise_error_of(self.checkpoints.wait)

    def _is_late(self, run: Run, *, waits: bool = True) -> bool:
        """Whether `every_seconds` have passed since the last checkpoint, on the first process.

        Unless the training `waits` for it, the last one has been written too.
        """
        if self.every_seconds is None:
            return False
        late = time.perf_counter() - self._saved_at >= self.every_seconds
        return bool(run.program._engine.agreed(late and (waits or not self.checkpoints.is_writing)))

    def _save(self, run: Run, state: dict[str, Any], loader_epoch: int | None, score: float | None) -> None:
        self._raise_error_of(self.checkpoints.wait)
        program = run.program.state_dict()
        state |= {"epoch": run.epoch, "program": program, "history": dict(run.history)}
        state["callbacks"] = states_of(run.callbacks)
        if loader_epoch is not None:
            state["loader"] = loader_epoch
        self._is_within = False
        run.program._engine.gather()
        if run.program._engine.processes[0] == 0:
            self.checkpoints.save(
                program["steps"], self._named_parameters(run), run.optimizer, state, score, wait=not self.background
            )  # fmt: skip
        self._saved_at = time.perf_counter()

    def _raise_error_of(self, ask: Callable[[], None]) -> None:
        """Raise what `ask` raises of the checkpoint that was written last, unless training says it better."""
        try:
            ask()
        except NotFinite:
            # Within an epoch the engine says where a loss became infinite, and the parameters before are restored.
            if not self._is_within:
                raise

    def _named_parameters(self, run: Run) -> Any:
        return self.parameters if self.parameters is not None else named(run.program.trained)


def _counts_epochs(data: object) -> bool:
    """Whether the data is a loader that counts its epochs, not a table with a column "epoch"."""
    return is_batches(data) and hasattr(data, "epoch")


def named(leaves: Sequence[BaseNode]) -> dict[str, BaseNode]:
    """Return parameters and buffers by position and name, such as "0.weight".

    >>> list(named((wy.Parameter(1.0, name="slope"), wy.Parameter(1.0))))
    ['0.slope', '1.parameter']
    """
    return {f"{position}.{label(leaf)}": leaf for position, leaf in enumerate(leaves)}
