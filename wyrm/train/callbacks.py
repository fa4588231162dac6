"""Callbacks of `fit`: they act between epochs, where parameters and optimizer are consistent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wyrm._interrupts import deferred
from wyrm.errors import OptionError
from wyrm.foreign_names import answering
from wyrm.node.buffer import Buffer
from wyrm.node.leaves import Parameter
from wyrm.train.history import History, known
from wyrm.train.program import Program
from wyrm.train.progress import Bar, LossBar, shown_bar
from wyrm.types.options import number, whole


@dataclass
class Run:
    """A training in progress, as callbacks see it: the program, the data, the history so far, and the total epochs."""

    program: Program[Any, Any]
    data: Any
    epochs: int
    # The rows of the data, None if unknown; those of a step; and the data by input, None for batches.
    rows: int | None = None
    batch_size: int = 1
    columns: Mapping[Any, np.ndarray] | None = None
    history: History = field(default_factory=History)
    # Whether a callback has asked to stop, and whether the last epoch has ended without an interrupt or an error.
    stopping: bool = False
    finished: bool = False
    # The progress bar of epochs.
    bar: bool | Bar | LossBar = False

    @property
    def epoch(self) -> int:
        """The number of epochs that have ended."""
        return self.history.epochs

    @property
    def optimizer(self) -> Any:
        """The program's optimizer."""
        return self.program.optimizer

    def stop(self) -> None:
        """End the training after this epoch."""
        self.stopping = True


class Callback:
    """The base class of callbacks; a subclass defines the methods that it needs.

    `values` are those of the epoch that ended, as `History` names them. An exception in a callback ends the training;
    parameters and optimizer are then as after the last epoch.

    >>> class Printer(wy.train.Callback):
    ...     def on_epoch_end(self, run, values):
    ...         print(run.epoch, round(values["loss"], 3))
    >>> slope = wy.Parameter(0.0)
    >>> x = wy.Input(name="x")
    >>> program = wy.compile((slope * x - 1.0).square(), wy.optim.SGD([slope], 0.1))
    >>> history = wy.train.fit(program, {"x": np.ones(10)}, epochs=2, callbacks=[Printer()])
    1 0.275
    2 0.003
    """

    def restore(self, run: Run) -> None:
        """Continue an earlier training; called before `on_start` of any callback."""

    def on_start(self, run: Run) -> None:
        """Act before the first epoch; after a restore, `run.history` holds the earlier epochs."""

    def on_epoch_start(self, run: Run) -> None:
        """Act before each epoch."""

    def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
        """Act after each epoch and its validation."""

    def on_end(self, run: Run) -> None:
        """Act after the last epoch, after an interrupt and after an error."""


class LambdaCallback(Callback):
    """A callback of functions.

    >>> callback = LambdaCallback(on_epoch_end=lambda run, values: print(values["loss"]))
    >>> callback.on_epoch_end(None, {"loss": 0.5})
    0.5
    """

    def __init__(
        self,
        *,
        on_start: Callable[[Run], object] | None = None,
        on_epoch_start: Callable[[Run], object] | None = None,
        on_epoch_end: Callable[[Run, Mapping[str, float]], object] | None = None,
        on_end: Callable[[Run], object] | None = None,
    ) -> None:
        self._on_start, self._on_epoch_start = on_start, on_epoch_start
        self._on_epoch_end, self._on_end = on_epoch_end, on_end

    def on_start(self, run: Run) -> None:
        """Call the function given for it."""
        if self._on_start is not None:
            self._on_start(run)

    def on_epoch_start(self, run: Run) -> None:
        """Call the function given for it."""
        if self._on_epoch_start is not None:
            self._on_epoch_start(run)

    def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
        """Call the function given for it."""
        if self._on_epoch_end is not None:
            self._on_epoch_end(run, values)

    def on_end(self, run: Run) -> None:
        """Call the function given for it."""
        if self._on_end is not None:
            self._on_end(run)


class ProgressBar(Callback):
    """Shows the epoch, its rows, their rate per second, their mean loss, and the values of the epoch before.

    `fit(progress=True)` adds it.
    """

    def __init__(self) -> None:
        self._bar: Any = None

    def on_start(self, run: Run) -> None:
        """Show the bar."""
        total = None if run.rows is None else run.rows * run.epochs
        initial = (run.rows or 0) * run.epoch
        self._bar = run.bar = shown_bar()(total=total, initial=initial, unit="row", unit_scale=True, miniters=1)

    def on_epoch_start(self, run: Run) -> None:
        """Show the number of the epoch."""
        self._bar.begin(f"epoch {run.epoch + 1}/{run.epochs}")

    def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
        """Show the values of the epoch."""
        hidden = ("learning_rate", "seconds")
        self._bar.values = {name: f"{value:.4g}" for name, value in values.items() if name not in hidden}
        self._bar.set_postfix(self._bar.values)

    def on_end(self, run: Run) -> None:
        """End the line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
            run.bar = False


class Monitor(Callback):
    """The base class of callbacks that follow one value: whether it improves, and for how long it has not.

    `monitor` is the value's name, by default "validation_loss", or without validation "loss". A value improves on the
    best so far if it is lower, or with `higher_is_better` higher, by more than `minimum_change`.
    """

    @answering
    def __init__(
        self, monitor: str | None = None, *, higher_is_better: bool = False, minimum_change: float = 0.0
    ) -> None:
        self.monitor = monitor
        self.higher_is_better = higher_is_better
        self.minimum_change = number("minimum_change", minimum_change, 0.0)
        self.reset()

    def reset(self) -> None:
        """Forget all epochs."""
        self.best, self.epochs_without_improvement = -math.inf if self.higher_is_better else math.inf, 0

    def on_start(self, run: Run) -> None:
        """Forget an earlier training, and take the epochs of `run.history` into account."""
        self.reset()
        for position in range(run.epoch):
            self.improved(run.history.record(position).values)

    def value(self, values: Mapping[str, float]) -> float:
        """Return the monitored value of an epoch; raise `OptionError` if there is none of its name."""
        name = self.monitor or ("validation_loss" if "validation_loss" in values else "loss")
        return values[known(name, values)]

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
    that of the last epoch. Options are those of `Monitor`.

    Raise `OptionError` for a patience below 1.

    >>> slope = wy.Parameter(0.0)
    >>> x = wy.Input(name="x")
    >>> program = wy.compile((slope * x - 1.0).square(), wy.optim.SGD([slope], 0.9))
    >>> stopping = EarlyStopping(patience=2)
    >>> history = wy.train.fit(program, {"x": [1.0]}, epochs=100, callbacks=[stopping])
    >>> history.stopped, history.epochs < 100
    ('early', True)
    """

    @answering
    def __init__(
        self,
        patience: int = 5,
        monitor: str | None = None,
        *,
        higher_is_better: bool = False,
        minimum_change: float = 0.0,
        restore_best: bool = True,
    ) -> None:
        super().__init__(monitor, higher_is_better=higher_is_better, minimum_change=minimum_change)
        self.patience = whole("patience", patience, 1)
        self.restore_best = restore_best
        self._best_values: list[tuple[Parameter | Buffer, np.ndarray]] = []

    def on_start(self, run: Run) -> None:
        """Forget an earlier training; after a restore, only epochs from here on can be restored as the best."""
        super().on_start(run)
        self._best_values = []
        if self.epochs_without_improvement >= self.patience:
            run.stop()

    def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
        """Keep the parameters of the best epoch, or stop."""
        if self.improved(values):
            if self.restore_best:
                self._best_values = [(leaf, np.array(leaf.value)) for leaf in run.program.trained]
        elif self.epochs_without_improvement >= self.patience:
            run.stop()

    def on_end(self, run: Run) -> None:
        """Restore the parameters and buffers of the best epoch."""
        if run.finished and self.epochs_without_improvement:
            with deferred:
                for leaf, array in self._best_values:
                    leaf.set(array)


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

    @answering
    def __init__(
        self,
        factor: float = 0.1,
        patience: int = 5,
        monitor: str | None = None,
        *,
        minimum: float = 0.0,
        higher_is_better: bool = False,
        minimum_change: float = 0.0,
    ) -> None:
        super().__init__(monitor, higher_is_better=higher_is_better, minimum_change=minimum_change)
        self.factor = number("factor", factor, 0.0, 1.0)
        if not self.factor:
            raise OptionError("factor must be above 0, because a learning rate of 0 ends all learning")
        self.patience = whole("patience", patience, 1)
        self.minimum = number("minimum", minimum, 0.0)

    def on_start(self, run: Run) -> None:
        """Start at the optimizer's rates, or after a restore with the reductions of the epochs before."""
        if any(callable(group.options()["learning_rate"]) for group in run.optimizer.groups):
            raise OptionError(
                f"ReduceOnPlateau changes a learning rate that is a number; {run.optimizer!r} has a schedule: use "
                f"one of the two"
            )
        self.reset()
        if run.epoch and (rate := run.optimizer.learning_rate):
            # Back to the first epoch's rates, if this optimizer has reduced them already.
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
