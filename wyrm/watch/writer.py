"""`RunWriter`, which makes and writes the folder of a run that `python -m wyrm watch` shows."""

from __future__ import annotations

import os
import re
import secrets
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from wyrm.errors import DataError, OptionError
from wyrm.graph.parameters import Parameter
from wyrm.graph.rows import RowSparse
from wyrm.graph.source_location import user_level
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import number
from wyrm.watch import records as checks
from wyrm.watch.config import checked_config
from wyrm.watch.measures import HISTOGRAMS_PACE, MODULES, VALUES, Budget, Pace, Parameters, Probed, current_gradients
from wyrm.watch.points import STEPS, Points
from wyrm.watch.records import EVENTS, FORMAT, HISTOGRAMS, Lines, Record, read
from wyrm.watch.tensorboard import TensorBoard

if TYPE_CHECKING:
    from wyrm.module import Module


def fresh_folder(name: str) -> Path:
    """Return the path of a folder in `runs` for a new run: the name, the date and the time."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"
    stem = f"{plain[:80]}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, count = Path("runs") / stem, 1
    while path.exists():
        count += 1
        path = Path("runs") / f"{stem}-{count}"
    return path


def prepare(folder: Path) -> None:
    """Create the folder of a run; raise `DataError` if that fails, or if it is the folder of several runs."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        inside = next(iter(sorted([*folder.glob(f"*/{EVENTS}"), *folder.glob(f"*/*/{EVENTS}")])), None)
    except (OSError, ValueError) as error:  # no path has a NUL
        reason = error.strerror if isinstance(error, OSError) else None
        raise DataError(f"cannot create the folder {os.fspath(folder)!r}: {reason or error}") from error
    if inside is not None:
        raise DataError(
            f"{os.fspath(folder)!r} holds runs, such as {inside.parent.relative_to(folder).as_posix()!r}: give the "
            f"path of a run's own folder, as in {os.fspath(folder / 'name')!r}"
        )


def earlier(folder: Path, step: int, epoch: float) -> tuple[float, str | None]:
    """Return the seconds of a run up to a step, and its identity; zero and None for a folder without a run."""
    elapsed, identity = 0.0, None
    if (folder / EVENTS).exists():
        try:
            for record in read(folder / EVENTS):
                if record["kind"] == "start":
                    if record["format"] > FORMAT:
                        raise OptionError(f"{os.fspath(folder)!r} was written by a newer version: give another folder")
                    identity = identity or record["id"]
                places = [(record["step"], record["epoch"], record["elapsed"])]
                if record["kind"] == "points":
                    places = list(zip(record["steps"], record["epochs"], record["seconds"], strict=True))
                if record["kind"] != "start":
                    before = (seconds for at, number, seconds in places if at <= step and number <= epoch + 1e-9)
                    elapsed = max(elapsed, max(before, default=0.0))
        except OSError as error:
            raise DataError(f"cannot read {os.fspath(folder)!r}: {error.strerror or error}") from error
    return elapsed, identity


FilePath = str | os.PathLike[str]
# Estimates of the time to measure parameters, used until it is known.
_SECONDS_BY_ELEMENT, _SECONDS_BY_PARAMETER = 1e-8, 1e-4
_LONGEST_TEXT = 20_000
# A record of fewer points tells little about the time of one.
_ENOUGH_POINTS = 100


class RunWriter:
    """Writes what a training does to the folder of a run, as lines of JSON that are appended to files.

    Use it for a loop of your own; `fit(watch=True)` has one. `folder` is created, by default `runs/NAME-DATE`. If it
    holds a run already, this one continues it from `step` and `epoch`, and later records are void. A folder that
    another process trains in, or that contains folders of runs, raises `DataError`. `parameters` is the model or a
    mapping from names; their norms are recorded by module. `epochs` and `steps` are the totals, if they are known.
    `config` has the options of the run by name, such as `{"learning_rate": 0.1}` or `vars(arguments)`: the page sorts
    and filters runs by them. Where TensorBoard is installed, the same data are written to `folder/tensorboard`, unless
    `tensorboard=False`.

    Measuring and writing take at most the share `budget` of the time: norms and histograms wait until they fit, and
    values of several steps are joined. Raise `DataError` if the folder cannot be written, and `DTypeError` or
    `OptionError` for an option that is none. A later failure, such as a full disk, ends the recording with one
    `RuntimeWarning`; the training goes on.

    >>> import tempfile
    >>> weight = wy.Parameter([3.0, 4.0])
    >>> optimizer = wy.optim.SGD([weight], learning_rate=0.1)
    >>> with tempfile.TemporaryDirectory() as folder, RunWriter(folder, {"weight": weight}, steps=2) as run:
    ...     for step in (1, 2):
    ...         loss = weight.square().sum()
    ...         run.values(step, {"loss": float(loss.forward())}, rows=1)
    ...         loss.backward()
    ...         with run.update():
    ...             optimizer.step()
    ...         optimizer.zero_gradient()
    """

    @explains_keywords
    def __init__(
        self,
        folder: FilePath | None = None,
        parameters: Module | Mapping[str, Parameter] | None = None,
        *,
        name: str | None = None,
        step: int = 0,
        epoch: float = 0.0,
        steps: int | None = None,
        epochs: int | None = None,
        rows: int | None = None,
        engine: str = "native",
        config: Mapping[str, object] | None = None,
        budget: float = 0.015,
        tensorboard: bool | None = None,
    ) -> None:
        path, name = checks.folder_or_none(folder), None if name is None else checks.text("name", name)
        totals = {
            key: None if total is None else checks.count(key, total)
            for key, total in (("epochs", epochs), ("steps", steps), ("rows", rows))
        }
        checks.text("engine", engine)
        options = checked_config(config)
        checks.check_tensorboard(tensorboard)
        self.step: int = checks.count("step", step)
        self.epoch: float = number("epoch", epoch, 0.0)
        self.parameters: Parameters = Parameters(checks.named_parameters("RunWriter", parameters))
        self.budget: Budget = Budget(number("budget", budget, 0.0, 1.0))
        self.folder: Path = fresh_folder(name or "run") if path is None else path
        self._failure: Exception | None = None
        self._warned = self._closed = False
        self._points = Points(self.budget.affords)
        self._rows = 0
        self._rows_since = time.perf_counter()
        self._values_pace, self._modules_pace = Pace(*VALUES), Pace(*MODULES)
        self._histograms_pace = Pace(*HISTOGRAMS_PACE)
        self._measure_seconds = (
            self.parameters.elements * _SECONDS_BY_ELEMENT + len(self.parameters.named) * _SECONDS_BY_PARAMETER
        )
        self._histogram_seconds = self._measure_seconds
        self._held_at, self._hold_seconds = self.step, 0.0
        prepare(self.folder)
        self._before, identity = earlier(self.folder, self.step, self.epoch)
        self._events = Lines(self.folder / EVENTS)
        self._histograms: Lines | None = None
        self._tensorboard: TensorBoard | None = None
        try:
            self._histograms = Lines(self.folder / HISTOGRAMS)
            start = {
                "format": FORMAT, "id": identity or secrets.token_hex(8), "name": name or self.folder.name,
                "engine": engine, **totals, "modules": self.parameters.modules, "sizes": self.parameters.sizes,
                "parameters": list(self.parameters.named), "config": options,
            }  # fmt: skip
            try:
                self._events.write([self._record("start", start)])
                self._histograms.write([self._record("start", start)])
            except OSError as error:
                raise DataError(f"cannot write to {os.fspath(self.folder)!r}: {error.strerror or error}") from error
            self._tensorboard = self._open_tensorboard(tensorboard)
        except BaseException:
            self._close_files()
            raise

    def _open_tensorboard(self, wanted: bool | None) -> TensorBoard | None:
        if wanted is False:
            return None
        try:
            return TensorBoard(self.folder / "tensorboard", self.parameters.modules)
        except ImportError:
            if wanted:
                raise
        except Exception as error:  # such as an old TensorBoard, which does not fit the other packages
            if wanted:
                raise DataError(f"cannot write for TensorBoard: {error}") from error
            self.note(f"TensorBoard gets no data: {type(error).__name__}: {error}")
        return None

    # --- what a loop calls --------------------------------------------------------------------------------------------

    def values(self, step: int, values: Mapping[str, float], *, epoch: float | None = None, rows: int = 0) -> None:
        """Record values by name, such as the loss, after a step on `rows` rows; the rate is computed from the rows.

        The first five hundred steps are points of their own. Then more and more steps make a point, as they do beyond
        the budget: it has their mean, and the lowest and the highest value. Points are written every fifth of a second,
        in a long training every two-thousandth of it. Raise `DTypeError` before anything is recorded if `step` and
        `rows` are no integers, `epoch` is no number, or the values are no numbers by name; `OptionError` for negative
        ones.
        """
        known, at = checks.numbers(values), None if epoch is None else number("epoch", epoch, 0.0)
        self.collect(checks.count("step", step), known, at, checks.count("rows", rows))
        self.warn_of_failure()

    def collect(
        self,
        step: int,
        values: Mapping[str, float],
        epoch: float | None = None,
        rows: int = 0,
        *,
        weight: float = 1.0,
        full: int = STEPS,
    ) -> None:
        """Record values as `values` does, without checks and a warning; the first `full` are points of their own."""
        self.step = step
        if epoch is not None:
            self.epoch = epoch
        self._rows += rows
        elapsed = self.elapsed
        self._points.add((step, self.epoch, elapsed), values, weight, full)
        if self._values_pace.due(elapsed):
            self.flush()

    @contextmanager
    def update(self) -> Iterator[None]:
        """Measure the step of the optimizer inside the `with` block, if one is due and affordable.

        It reads the gradients that the parameters hold before the step, and how far the step moves the parameters.
        """
        if not self.measures_now():
            yield
            return
        gradients = None
        with self._measuring():
            found = current_gradients(list(self.parameters.named.values()))
            gradients = self.parameters.gradients(found) if found else None
            self._write_histograms_if_due(found)
            self.hold()
        yield
        with self._measuring():
            self._write_modules(gradients, over=1)
        self.warn_of_failure()

    def text(self, text: str, *, prompt: str | None = None) -> None:
        """Record text that the model generated, at most its first 20,000 characters."""
        shown = None if prompt is None else checks.text("prompt", prompt)[:_LONGEST_TEXT]
        self._write("text", {"text": checks.text("text", text)[:_LONGEST_TEXT], "prompt": shown})

    def note(self, text: str) -> None:
        """Record a remark on the run, which the page shows."""
        self._write("note", {"text": checks.text("text", text)[:_LONGEST_TEXT]})

    def close(self, stopped: str = "completed") -> None:
        """Write what is left, and why the training ended; close the files. A second call does nothing."""
        checks.text("stopped", stopped)
        if self._closed:
            return
        self._closed = True
        if self._failure is None:
            self.flush()
            self._write("end", {"stopped": stopped})
        self._close_files()
        self.warn_of_failure()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(stopped_by(error))

    # --- what `RunLogger` uses too ------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """The seconds of training, without breaks."""
        return self._before + time.perf_counter() - self.budget.start

    def measures_now(self) -> bool:
        """Return whether a measurement of the modules is due, and the budget affords it."""
        return (
            self._failure is None
            and bool(self.parameters.named)
            and self._modules_pace.due(self.elapsed)
            and self.budget.affords(self._measure_seconds)
        )

    def hold(self) -> None:
        """Keep a copy of the parameters, so that the next record of modules has their change."""
        with self._measuring():
            start = time.perf_counter()
            self.parameters.hold()
            self._held_at, self._hold_seconds = self.step, time.perf_counter() - start

    @property
    def moved(self) -> bool:
        """Whether there are steps since `hold`, so that `modules` can record their change."""
        return self.parameters.holds and self.step > self._held_at

    def modules(self, probed: Probed | None = None) -> None:
        """Record the norms of the modules, their change since `hold`, and histograms if they are due."""
        if not self.parameters.named:
            return
        with self._measuring():
            found = {} if probed is None else probed.gradients
            gradients = None if probed is None else self.parameters.gradients(found)
            self._write_histograms_if_due(found)
            dead, rows = ({}, None) if probed is None else (probed.dead, probed.rows)
            self._write_modules(gradients, rows, dead, self.step - self._held_at if self.moved else None)

    def _write_modules(
        self,
        gradients: list[float] | None,
        rows: int | None = None,
        dead: Mapping[str, tuple[int, int]] = MappingProxyType({}),
        over: int | None = None,
    ) -> None:
        start = time.perf_counter()
        updates = None if over is None else self.parameters.updates()
        record = {
            "weights": self.parameters.weights(), "gradients": gradients, "updates": updates, "rows": rows,
            "over": over, "dead": dead,
        }  # fmt: skip
        self._write("modules", record)
        self._modules_pace.take(self.elapsed)
        self._measure_seconds = self._hold_seconds + time.perf_counter() - start

    @contextmanager
    def _measuring(self) -> Iterator[None]:
        """Return a context of measurements: their time counts for the budget, and an error only ends the recording."""
        try:
            with self.budget, np.errstate(all="ignore"):
                yield
        except Exception as error:
            self.fail(error)

    def _write_histograms_if_due(self, gradients: Mapping[Parameter, np.ndarray | RowSparse]) -> None:
        if not (self._histograms_pace.due(self.elapsed) and self.budget.affords(self._histogram_seconds)):
            return
        start = time.perf_counter()
        self._write("histograms", self.parameters.histograms(gradients))
        self._histograms_pace.take(self.elapsed)
        self._histogram_seconds = time.perf_counter() - start

    def restart_rate(self) -> None:
        """Count the rows of the next record from now on."""
        self._rows, self._rows_since = 0, time.perf_counter()

    def fail(self, error: Exception) -> None:
        """End the recording; a later `warn_of_failure`, between two steps, warns of it."""
        if self._failure is None:
            self._failure = error

    def warn_of_failure(self) -> None:
        """Warn once if the recording has failed."""
        if self._failure is not None and not self._warned:
            self._warned = True
            warnings.warn(
                f"the recording of this training in {os.fspath(self.folder)!r} ended, and the training goes on: "
                f"{self._failure}",
                RuntimeWarning,
                stacklevel=user_level(),
            )

    # --- files --------------------------------------------------------------------------------------------------------

    def _record(self, kind: str, fields: Mapping[str, Any]) -> Record:
        return {
            "kind": kind, "time": int(time.time()), "elapsed": self.elapsed, "epoch": self.epoch, "step": self.step,
            **fields,
        }  # fmt: skip

    def flush(self) -> None:
        """Write the points since the last record, and the rate."""
        now = time.perf_counter()
        if self._rows:
            rate = self._rows / max(now - self._rows_since, 1e-9)
            self._points.add((self.step, self.epoch, self.elapsed), {"rows_per_second": rate})
        self._rows, self._rows_since = 0, now
        for record in self._points.take():
            self._values_pace.take(self.elapsed)
            start, count = time.perf_counter(), len(record["steps"])
            self._write("points", record)
            if count >= _ENOUGH_POINTS:
                self._points.seconds = (time.perf_counter() - start) / count

    def _write(self, kind: str, fields: Mapping[str, Any]) -> None:
        if self._failure is not None:
            return
        with self.budget:
            record = self._record(kind, fields)
            try:
                file = self._histograms if kind == "histograms" else self._events
                if file is not None:
                    file.write([record])
                if self._tensorboard is not None:
                    self._tensorboard.write(record)
            except Exception as error:
                self.fail(error)

    def _close_files(self) -> None:
        for file in (self._events, self._histograms, self._tensorboard):
            if file is not None:
                file.close()


def stopped_by(error: BaseException | None) -> str:
    """Return why a training ended, for its last record.

    >>> stopped_by(None), stopped_by(KeyboardInterrupt()), stopped_by(ValueError("no"))
    ('completed', 'interrupted', 'ValueError: no')
    """
    if error is None:
        return "completed"
    return "interrupted" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"[:500]
