"""`History`, which `fit` returns, `Run`, a training in progress, and callbacks, which act between epochs."""

from __future__ import annotations

import csv
import math
import os
import re
import warnings
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from wyrm.engines.progress import Bar, LossBar, shown_bar
from wyrm.errors import DataError, DTypeError, OptionError, Unavailable
from wyrm.graph.source_location import user_level
from wyrm.support.files import path_of
from wyrm.support.foreign_names import ForeignName, explains_keywords
from wyrm.support.imports import Late
from wyrm.support.texts import encodable, nearest
from wyrm.train.events_file import EventsFile, needs, tag_of
from wyrm.train.program import Program

Stopped = Literal["completed", "early", "interrupted"]


class EpochRecord(NamedTuple):
    """The number of an epoch, from 1, and its values by name."""

    epoch: int
    values: dict[str, float]


class History(dict[str, list[float]]):
    """The values of a training by name, each a list with a number for each epoch.

    Names are "loss" and the program's metrics, with validation "validation_loss" and so on, "learning_rate" at the
    start of the epoch (a warm-up starts at 0), the "seconds" of its training, and what callbacks add. `stopped` is
    "completed" after all epochs, "early" if a callback stopped the training, and "interrupted" after Ctrl-C.

    >>> history = History()
    >>> history.append({"loss": 2.0, "accuracy": 0.5})
    >>> history.append({"loss": 1.0, "accuracy": 0.75})
    >>> history["loss"], history.epochs
    ([2.0, 1.0], 2)
    >>> history.best
    EpochRecord(epoch=2, values={'loss': 1.0, 'accuracy': 0.75})
    """

    stopped: Stopped = "completed"
    if not TYPE_CHECKING:
        history = ForeignName("history", "the history is the dict itself, as in history['loss']")

    @property
    def epochs(self) -> int:
        """The number of epochs."""
        return len(next(iter(self.values()), []))

    @property
    def best(self) -> EpochRecord:
        """The epoch of the lowest validation loss, or without validation of the lowest loss; the earliest of equals."""
        return self.best_by("validation_loss" if "validation_loss" in self else "loss")

    def best_by(self, name: str, *, higher_is_better: bool | None = None) -> EpochRecord:
        """Return the epoch of the lowest value of a name, or the highest; the earliest of equals, and NaN last.

        Without `higher_is_better` the name decides: the highest accuracy, recall and the like, and else the lowest.

        Raise `OptionError` for an unknown name, and without epochs.

        >>> history = History({"loss": [2.0, 1.0], "accuracy": [0.75, 0.5]})
        >>> history.best_by("accuracy").epoch, history.best_by("loss").epoch
        (1, 2)
        """
        if not self.epochs:
            raise Unavailable("there is no best epoch, because no epoch has ended")
        values = self[known(name, self)]
        sign = -1.0 if (is_score(name) if higher_is_better is None else higher_is_better) else 1.0
        return self.record(min(range(len(values)), key=lambda i: (math.isnan(values[i]), sign * values[i])))

    def record(self, position: int) -> EpochRecord:
        """Return the values of an epoch; position 0 is epoch 1, and -1 the last."""
        number = position + 1 if position >= 0 else self.epochs + position + 1
        return EpochRecord(number, {name: values[position] for name, values in self.items()})

    def append(self, values: Mapping[str, float]) -> None:
        """Add the values of an epoch; raise `OptionError` unless the names are those of the epochs before."""
        if self.epochs and set(values) != set(self):
            raise OptionError(f"an epoch has the values {', '.join(values)}, the epochs before {', '.join(self)}")
        for name, value in values.items():
            self.setdefault(name, []).append(float(value))

    def begin_epoch(self, values: Mapping[str, float]) -> None:
        """Add an epoch before its callbacks act; `end_epoch` adds what they have set.

        Raise `OptionError` for a name that the epochs before do not have.
        """
        self.append(dict.fromkeys(self, math.nan) | dict(values))

    def end_epoch(self, values: Mapping[str, float]) -> None:
        """Set the values of the last epoch; raise `OptionError` unless the names are those of the epochs before."""
        before = set(self) if self.epochs > 1 else set(values)
        if before != set(values):
            raise OptionError(
                f"an epoch has the values {', '.join(values)}, the epochs before {', '.join(self)}; a callback that "
                f"sets a value sets it in every epoch"
            )
        for name, value in values.items():
            held = self.get(name, [])
            if len(held) < self.epochs or held[-1] != value:
                self[name] = [*held[: self.epochs - 1], float(value)]

    # What notebooks display.
    _repr_mimebundle_ = Late("wyrm.view.notebook", "of_history")

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={values[-1]:.6g}" for name, values in self.items() if values)
        return f"<History of {self.epochs} epochs, {self.stopped}{f'; the last: {values}' if values else ''}>"


def known(name: str, values: Mapping[str, object], advice: Callable[[str], str] = lambda name: "") -> str:
    """Return `name`; raise `OptionError`, which ends with `advice(name)`, if there is no such value."""
    if name not in values:
        raise OptionError(
            f"there is no value {name!r} to monitor; the values of an epoch are: {', '.join(values)}"
            f"{nearest(name, values)}{advice(name)}"
        )
    return name


# A value is better if it is higher where its name has one of these words and none of `_ERRORS`.
_SCORES = frozenset(
    [
        "accuracy",
        "acc",
        "auc",
        "auroc",
        "precision",
        "recall",
        "specificity",
        "sensitivity",
        "f1",
        "hit",
        "hits",
        "ndcg",
        "mrr",
        "map",
        "r2",
        "score",
        "kappa",
        "dice",
        "iou",
        "bleu",
        "rouge",
        "top1",
        "top5",
    ]
)
_ERRORS = frozenset(["loss", "error", "errors", "miss"])


def is_score(name: str | None) -> bool:
    """Return whether a higher value of this name is better, as a word of it tells."""
    words = set(re.split(r"[^a-z0-9]+", (name or "").lower()))
    return not words.isdisjoint(_SCORES) and words.isdisjoint(_ERRORS)


@dataclass
class Run:
    """A training in progress, as callbacks see it: the program, the data, the history so far, and the total epochs."""

    program: Program[Any, Any]
    data: Any
    epochs: int
    # The number of rows, None if unknown; the rows of a step; the threads; the data by input, None if it comes in
    # batches.
    rows: int | None = None
    batch_size: int = 1
    threads: int = 1
    columns: Mapping[Any, np.ndarray] | None = None
    history: History = field(default_factory=History)
    # Whether a callback has asked to stop, and whether training ended without an interrupt or an error.
    stopping: bool = False
    finished: bool = False
    # The progress bar of epochs.
    bar: bool | Bar | LossBar = False
    # All callbacks, in order; the states that a restored checkpoint holds for them.
    callbacks: Sequence[Callback] = ()
    restored: Mapping[str, Mapping[str, Any]] | None = None

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

    `values` are those of the epoch that ended, as `History` names them. A callback may add values, as in
    `values["recall"] = ...`, in every epoch: later callbacks see them, and the history has them. An exception in a
    callback ends the training; parameters and optimizer are then as after the last epoch.

    A callback that remembers more than `run.history` tells returns it from `state_dict`, for `Checkpoint` to save, and
    takes it back in `load_state_dict`. A resumed training then ends like one without a break. Checkpoints hold states
    under the names of classes; callbacks of one class take theirs in order.

    >>> class Printer(wy.train.Callback):
    ...     def on_epoch_end(self, run, values):
    ...         print(run.epoch, round(values["loss"], 3))
    >>> slope = wy.Parameter(0.0)
    >>> x = wy.Input(name="x")
    >>> program = wy.compile((slope * x - 1.0).square(), wy.optim.SGD([slope], 0.1))
    >>> history = wy.train.fit(program, {"x": np.ones(10)}, epochs=2, callbacks=[Printer()])
    1 0.275
    2 0.003
    >>> class Slowest(wy.train.Callback):
    ...     def on_start(self, run):
    ...         self.seconds = 0.0
    ...     def on_epoch_end(self, run, values):
    ...         self.seconds = max(self.seconds, values["seconds"])
    ...     def state_dict(self):
    ...         return {"seconds": self.seconds}
    ...     def load_state_dict(self, state):
    ...         self.seconds = state["seconds"]
    """

    def restore(self, run: Run) -> None:
        """Continue an earlier training; called before `on_start` of any callback."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed training needs: finite numbers, other JSON values, and arrays; by default {}.

        Called after `on_epoch_end` of all callbacks, whenever a checkpoint is saved.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a result of `state_dict`; called after `on_start` of all callbacks, if there is one."""

    def epochs_ahead(self, run: Run) -> int:
        """Return how many epochs may follow one another before this callback has to act, by default 1.

        `fit` may then do these as one, which is faster where they are short, and call the methods for each of them in
        order after the last one. A callback that only reads values, or acts in no epoch before that, returns more.
        """
        return 1

    def on_start(self, run: Run) -> None:
        """Act before the first epoch; after a restore, `run.history` holds the earlier epochs."""

    def on_epoch_start(self, run: Run) -> None:
        """Act before each epoch."""

    def on_steps(self, run: Run) -> None:
        """Act between the steps of an epoch, some ten times a second and after its last one.

        Parameters and optimizer are as after the last step; threads that share them go on. `run.program` can evaluate
        and be copied here, and other programs can be used; it cannot train, because it is within an epoch.
        """

    def on_epoch_end(self, run: Run, values: MutableMapping[str, float]) -> None:
        """Act after each epoch and its validation; `values` takes new ones."""

    def on_epoch_complete(self, run: Run, values: Mapping[str, float]) -> None:
        """Act after `on_epoch_end` of all callbacks; checkpoints are saved here."""

    def on_end(self, run: Run) -> None:
        """Act after the last epoch, after an interrupt and after an error."""


class LambdaCallback(Callback):
    """A callback of functions.

    >>> callback = LambdaCallback(on_epoch_end=lambda run, values: print(values["loss"]))
    >>> callback.on_epoch_end(None, {"loss": 0.5})
    0.5
    """

    @explains_keywords
    def __init__(
        self,
        *,
        on_start: Callable[[Run], object] | None = None,
        on_epoch_start: Callable[[Run], object] | None = None,
        on_epoch_end: Callable[[Run, MutableMapping[str, float]], object] | None = None,
        on_end: Callable[[Run], object] | None = None,
    ) -> None:
        given = {"on_start": on_start, "on_epoch_start": on_epoch_start, "on_epoch_end": on_epoch_end, "on_end": on_end}
        for name, function in given.items():
            if function is not None and not callable(function):
                raise DTypeError(f"LambdaCallback: {name} must be a function, not {function!r}")
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

    def on_epoch_end(self, run: Run, values: MutableMapping[str, float]) -> None:
        """Call the function given for it."""
        if self._on_epoch_end is not None:
            self._on_epoch_end(run, values)

    def on_end(self, run: Run) -> None:
        """Call the function given for it."""
        if self._on_end is not None:
            self._on_end(run)


class ProgressBar(Callback):
    """Shows the epoch, its rows, their rate per second, their mean loss, and the values of the epoch before.

    The mean is that of a row, also of a loss that is a sum over rows. `fit(progress=True)` adds it.
    """

    def __init__(self) -> None:
        self._bar: Any = None

    def on_start(self, run: Run) -> None:
        """Show the bar: of several processes that train together, the first one does."""
        if run.program._engine.processes[0] > 0:
            return
        total = None if run.rows is None else run.rows * run.epochs
        initial = (run.rows or 0) * run.epoch
        self._bar = run.bar = shown_bar()(total=total, initial=initial, unit_scale=True)

    def on_epoch_start(self, run: Run) -> None:
        """Show the number of the epoch."""
        if self._bar is not None:
            self._bar.begin(f"epoch {run.epoch + 1}/{run.epochs}")

    def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
        """Show the values of the epoch."""
        if self._bar is None:
            return
        shown = {**values, "loss": values.get("mean_loss", values["loss"])}
        hidden = ("learning_rate", "seconds", "mean_loss")
        self._bar.values = {name: f"{value:.4g}" for name, value in shown.items() if name not in hidden}
        self._bar.set_postfix(self._bar.values)

    def on_end(self, run: Run) -> None:
        """End the line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
            run.bar = False


def _by_key(callbacks: Sequence[Callback]) -> dict[str, Callback]:
    """Return callbacks by the name of their class; a second one of a class has a number.

    >>> list(_by_key([Callback(), Callback()]))
    ['Callback', 'Callback 2']
    """
    found: dict[str, Callback] = {}
    counts: dict[str, int] = {}
    for callback in callbacks:
        name = type(callback).__qualname__
        counts[name] = counts.get(name, 0) + 1
        found[name if counts[name] == 1 else f"{name} {counts[name]}"] = callback
    return found


def states_of(callbacks: Sequence[Callback]) -> dict[str, dict[str, Any]]:
    """Return the states of the callbacks that have one."""
    states = {key: callback.state_dict() for key, callback in _by_key(callbacks).items()}
    return {key: state for key, state in states.items() if state}


def load_states(callbacks: Sequence[Callback], states: Mapping[str, Mapping[str, Any]]) -> None:
    """Give callbacks their states; warn of a state without a callback, and of a callback without its state."""
    known = _by_key(callbacks)
    for key in states.keys() - known.keys():
        warnings.warn(
            f"the checkpoint holds the state of a callback {key}, which this training does not have: it ends as it "
            f"would without a break only with the callbacks of the training that saved the checkpoint",
            RuntimeWarning,
            stacklevel=user_level(),
        )
    for key, callback in known.items():
        if key in states:
            callback.load_state_dict(states[key])
        elif callback.state_dict():
            warnings.warn(
                f"the checkpoint holds no state of {key}, which was not among the callbacks of the training that saved "
                f"it: of the epochs before, it knows what the history tells",
                RuntimeWarning,
                stacklevel=user_level(),
            )


FilePath = str | os.PathLike[str]


class CSVLogger(Callback):
    """Writes a row for each epoch to a CSV file: the epoch, then the values under their names.

    Each row is on disk when the epoch's callbacks have run. An existing file is replaced; with `append`, or after a
    restore, rows are added to it. A restore first removes the rows of epochs that are trained again.

    Raise `DataError` for a file that cannot be written, or to append to one with other names.

    >>> import tempfile, pathlib
    >>> slope = wy.Parameter(0.0)
    >>> x = wy.Input(name="x")
    >>> program = wy.compile((slope * x - 1.0).square(), wy.optim.SGD([slope], 0.1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = pathlib.Path(folder) / "log.csv"
    ...     history = wy.train.fit(program, {"x": [1.0]}, epochs=2, callbacks=[CSVLogger(log)])
    ...     lines = log.read_text().splitlines()
    >>> lines[0], len(lines)
    ('epoch,loss,learning_rate,seconds', 3)
    """

    @explains_keywords
    def __init__(self, path: FilePath, *, append: bool = False) -> None:
        self.path: Path = path_of("file", path)
        self.append = append
        self._file: Any = None
        # The names in the first line, None before they are written.
        self._names: list[str] | None = None

    def on_start(self, run: Run) -> None:
        """Open the file, so that a path that cannot be written is known before the first epoch."""
        appends = self.append or run.epoch > 0
        try:
            if run.epoch:
                _remove_epochs_after(run.epoch, self.path)
            self._names = _first_line(self.path) if appends else None
            self._file = self.path.open("a" if appends else "w", newline="", encoding="utf-8")
        except OSError as error:
            raise DataError(f"cannot write {os.fspath(self.path)!r}: {error.strerror or error}") from error

    def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
        """Write the row of the epoch, and before the first one the names."""
        names, writer = ["epoch", *map(encodable, values)], csv.writer(self._file)
        if self._names is None:
            writer.writerow(names)
            self._names = names
        if self._names != names:
            raise DataError(
                f"{os.fspath(self.path)!r} has the columns {', '.join(self._names)}, not {', '.join(names)}"
            )
        writer.writerow([run.epoch, *values.values()])
        self._file.flush()

    def on_end(self, run: Run) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _first_line(path: Path) -> list[str] | None:
    if not path.exists():
        return None
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file), None)


def _remove_epochs_after(epoch: int, path: Path) -> None:
    """Remove the last rows of a file, those of epochs after `epoch`."""
    if not path.exists():
        return
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    count = len(rows)
    while count and rows[count - 1] and rows[count - 1][0].isdecimal() and int(rows[count - 1][0]) > epoch:
        count -= 1
    if count < len(rows):
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows[:count])


class TensorBoardLogger(Callback):
    """Writes the values of each epoch as scalars for TensorBoard.

    `directory` receives an events file for each training: start `tensorboard --logdir directory` to see them.
    "validation_loss" becomes "loss/validation" beside "loss/training", and so on for metrics.

    Raise `ImportError` if the package tensorboard is not installed.
    """

    @explains_keywords
    def __init__(self, directory: FilePath) -> None:
        self.directory: Path = path_of("directory", directory)
        needs("TensorBoardLogger")
        self._file: EventsFile | None = None

    def on_start(self, run: Run) -> None:
        """Create the events file."""
        self._file = EventsFile(self.directory, "TensorBoardLogger")

    def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
        """Write the values of the epoch."""
        assert self._file is not None
        for name, value in values.items():
            self._file.scalar(tag_of(name, values), value, run.epoch)
        self._file.flush()

    def on_end(self, run: Run) -> None:
        """Close the events file."""
        if self._file is not None:
            self._file.close()
            self._file = None
