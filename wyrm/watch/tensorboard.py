"""The records of a run in a file of TensorBoard: scalars, histograms and text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from wyrm.train.events_file import EventsFile, tag_of
from wyrm.watch.measures import TENSORBOARD, Pace
from wyrm.watch.records import Record, number


class TensorBoard:
    """Writes records to a file of TensorBoard.

    A value takes 25 microseconds or more, so scalars within two seconds of one with the same tag are left out, but not
    the last. Raise `ImportError` if the package tensorboard is not installed.
    """

    def __init__(self, folder: Path, modules: Sequence[str]) -> None:
        self._modules = modules
        self._file = EventsFile(folder, "RunWriter")
        self._paces: dict[str, Pace] = {}
        self._left_out: dict[str, tuple[float, int]] = {}

    def write(self, record: Record) -> None:
        """Write the scalars of a record that are due, its histograms and its text."""
        step = record["step"]
        for tag, value in self._scalars(record):
            pace = self._paces.setdefault(tag, Pace(*TENSORBOARD))
            if pace.due(record["elapsed"]):
                pace.take(record["elapsed"])
                self._left_out.pop(tag, None)
                self._file.scalar(tag, number(value), step)
            else:
                self._left_out[tag] = value, step
        if record["kind"] == "histograms":
            # The tags differ from those of norms, which a parameter without a module has too.
            for quantity, tag in (("weights", "weight_values"), ("gradients", "gradient_values")):
                for name, (low, high, counts, *_) in record[quantity].items():
                    self._file.histogram(f"{tag}/{name}", low, high, counts, step)
        elif record["kind"] in ("text", "note"):
            parts = [record.get("prompt"), record["text"]]
            self._file.text(record["kind"], "\n\n".join(part for part in parts if part), step)
        self._file.flush()

    def _scalars(self, record: Record) -> Iterator[tuple[str, Any]]:
        if record["kind"] == "points":
            yield from ((tag_of(name, record["means"]), column[-1]) for name, column in record["means"].items())
        elif record["kind"] == "modules":
            for quantity in ("weights", "gradients", "updates"):
                for module, value in zip(self._modules, record[quantity] or (), strict=False):
                    yield f"{quantity}/{module}", value
            yield from ((f"dead/{name}", dead / max(units, 1)) for name, (dead, units) in record["dead"].items())

    def close(self) -> None:
        """Write the last scalars, and close the file."""
        for tag, (value, step) in self._left_out.items():
            self._file.scalar(tag, number(value), step)
        self._left_out.clear()
        self._file.close()
