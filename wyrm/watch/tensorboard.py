"""The records of a run as scalars of TensorBoard."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from wyrm.train.loggers import tag_of, writer_class
from wyrm.watch.pace import TENSORBOARD, Pace
from wyrm.watch.records import Record, number


class TensorBoard:
    """Writes records as scalars with TensorBoard's own writer, which takes 50 microseconds or more for each.

    Hence it leaves out scalars that come within two seconds after one of their tag, but never the last. Raise
    `ImportError` if neither tensorboard nor tensorboardX is installed.
    """

    def __init__(self, folder: Path, modules: Sequence[str]) -> None:
        self._modules = modules
        self._writer: Any = writer_class()(os.fspath(folder))
        self._paces: dict[str, Pace] = {}
        self._left_out: dict[str, tuple[float, int]] = {}

    def write(self, record: Record) -> None:
        """Write the scalars of a record that are due."""
        for tag, value in self._scalars(record):
            pace = self._paces.setdefault(tag, Pace(*TENSORBOARD))
            if pace.due(record["elapsed"]):
                pace.take(record["elapsed"])
                self._left_out.pop(tag, None)
                self._writer.add_scalar(tag, number(value), record["step"])
            else:
                self._left_out[tag] = value, record["step"]

    def _scalars(self, record: Record) -> Iterator[tuple[str, Any]]:
        if record["kind"] == "values":
            yield from ((tag_of(name, record["values"]), value) for name, value in record["values"].items())
        elif record["kind"] == "modules":
            for quantity in ("weights", "gradients", "updates"):
                for module, value in zip(self._modules, record[quantity] or (), strict=False):
                    yield f"{quantity}/{module}", value
            yield from ((f"dead/{name}", dead / max(units, 1)) for name, (dead, units) in record["dead"].items())

    def close(self) -> None:
        """Write the last scalars, and close the file."""
        for tag, (value, step) in self._left_out.items():
            self._writer.add_scalar(tag, number(value), step)
        self._writer.close()
