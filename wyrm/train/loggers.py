"""Callbacks that write the values of each epoch to a CSV file, and for TensorBoard."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wyrm.errors import DataError
from wyrm.support.files import path_of
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.texts import encodable
from wyrm.train.callbacks import Callback, Run
from wyrm.train.events_file import EventsFile, needs, tag_of

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
