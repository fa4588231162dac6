"""The records of a run in a file of TensorBoard: scalars, histograms and text."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wyrm.support.texts import encodable
from wyrm.train.loggers import tag_of
from wyrm.watch.measures import TENSORBOARD, Pace
from wyrm.watch.records import Record, number


class TensorBoard:
    """Writes records to a file of TensorBoard.

    A value takes 50 microseconds or more, so scalars within two seconds of one with the same tag are left out, but not
    the last. Raise `ImportError` if the package tensorboard is not installed.
    """

    def __init__(self, folder: Path, modules: Sequence[str]) -> None:
        self._modules = modules
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2
            from tensorboard.plugins.histogram import metadata as histogram
            from tensorboard.plugins.scalar import metadata as scalar
            from tensorboard.plugins.text import metadata as text
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
            from tensorboard.util.tensor_util import make_tensor_proto
        except ImportError as error:
            raise ImportError(
                "RunWriter needs the package tensorboard: pip install 'wyrm-autodiff[tensorboard]'"
            ) from error
        # Type checkers do not see the classes in these modules, which are made at run time.
        events: Any = event_pb2
        summaries: Any = summary_pb2
        self._event, self._summary, self._tensor = events.Event, summaries.Summary, make_tensor_proto
        # The metadata by kind of value, which says which of TensorBoard's plugins shows it.
        self._metadata: dict[str, Any] = {
            kind: plugin.create_summary_metadata(None, None)
            for kind, plugin in (("scalar", scalar), ("histogram", histogram), ("text", text))
        }
        self._file: Any = EventFileWriter(os.fspath(folder))
        self._paces: dict[str, Pace] = {}
        self._left_out: dict[str, tuple[float, int]] = {}

    def write(self, record: Record) -> None:
        """Write the scalars of a record that are due, its histograms and its text."""
        for tag, value in self._scalars(record):
            pace = self._paces.setdefault(tag, Pace(*TENSORBOARD))
            if pace.due(record["elapsed"]):
                pace.take(record["elapsed"])
                self._left_out.pop(tag, None)
                self._write("scalar", tag, np.float32(number(value)), record["step"])
            else:
                self._left_out[tag] = value, record["step"]
        if record["kind"] == "histograms":
            # The tags differ from those of norms, which a parameter without a module has too.
            for quantity, tag in (("weights", "weight_values"), ("gradients", "gradient_values")):
                for name, bins in record[quantity].items():
                    self._write("histogram", f"{tag}/{name}", _edges_and_counts(*bins[:3]), record["step"])
        elif record["kind"] in ("text", "note"):
            parts = [record.get("prompt"), record["text"]]
            # TensorBoard shows text as Markdown, in which indented lines keep their breaks.
            text = "\n\n".join(textwrap.indent(part, "    ", lambda line: True) for part in parts if part)
            self._write("text", record["kind"], np.array([encodable(text).encode()], dtype=object), record["step"])

    def _write(self, kind: str, tag: str, value: np.ndarray | np.generic, step: int) -> None:
        tagged = self._summary.Value(tag=encodable(tag), metadata=self._metadata[kind], tensor=self._tensor(value))
        self._file.add_event(self._event(wall_time=time.time(), step=step, summary=self._summary(value=[tagged])))

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
            self._write("scalar", tag, np.float32(number(value)), step)
        self._left_out.clear()
        self._file.close()


def _edges_and_counts(low: float, high: float, counts: Sequence[int]) -> np.ndarray:
    """Return the left edge, the right edge and the count of each bin.

    >>> _edges_and_counts(0.0, 1.0, [3, 1])
    array([[0. , 0.5, 3. ],
           [0.5, 1. , 1. ]])
    """
    edges = np.linspace(low, high, len(counts) + 1)
    return np.stack([edges[:-1], edges[1:], np.asarray(counts, np.float64)], axis=1)
