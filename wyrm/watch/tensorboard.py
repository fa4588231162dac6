"""The records of a run in a file of TensorBoard: scalars, histograms and text."""

from __future__ import annotations

import os
import socket
import textwrap
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from wyrm.support.texts import encodable
from wyrm.train.loggers import tag_of
from wyrm.watch.measures import TENSORBOARD, Pace
from wyrm.watch.records import Record, number

# So that the files of one second differ.
_NUMBERS = count()


class TensorBoard:
    """Writes records to a file of TensorBoard.

    A value takes 25 microseconds or more, so scalars within two seconds of one with the same tag are left out, but not
    the last. Raise `ImportError` if the package tensorboard is not installed.
    """

    def __init__(self, folder: Path, modules: Sequence[str]) -> None:
        self._modules = modules
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
            from tensorboard.plugins.histogram import metadata as histogram
            from tensorboard.plugins.scalar import metadata as scalar
            from tensorboard.plugins.text import metadata as text
            from tensorboard.summary.writer.record_writer import RecordWriter
            from tensorboard.util.tensor_util import make_tensor_proto
        except ImportError as error:
            raise ImportError(
                "RunWriter needs the package tensorboard: pip install 'wyrm-autodiff[tensorboard]'"
            ) from error
        # Type checkers do not see the classes in these modules, which are made at run time.
        events: Any = event_pb2
        summaries: Any = summary_pb2
        tensors: Any = tensor_pb2
        shapes: Any = tensor_shape_pb2
        types: Any = types_pb2
        self._event, self._summary, self._tensor = events.Event, summaries.Summary, make_tensor_proto
        self._scalar = partial(tensors.TensorProto, dtype=types.DT_FLOAT, tensor_shape=shapes.TensorShapeProto())
        # The metadata by kind of value, which says which of TensorBoard's plugins shows it.
        self._metadata: dict[str, Any] = {
            kind: plugin.create_summary_metadata(None, None)
            for kind, plugin in (("scalar", scalar), ("histogram", histogram), ("text", text))
        }
        folder.mkdir(parents=True, exist_ok=True)
        # TensorBoard's own writer of files has a thread, whose wake-ups take as long as all of the rest.
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_NUMBERS)}"
        self._file: Any = RecordWriter((folder / name).open("wb"))
        self._add(wall_time=time.time(), file_version="brain.Event:2")
        self._file.flush()
        self._paces: dict[str, Pace] = {}
        self._left_out: dict[str, tuple[float, int]] = {}

    def write(self, record: Record) -> None:
        """Write the scalars of a record that are due, its histograms and its text."""
        for tag, value in self._scalars(record):
            pace = self._paces.setdefault(tag, Pace(*TENSORBOARD))
            if pace.due(record["elapsed"]):
                pace.take(record["elapsed"])
                self._left_out.pop(tag, None)
                self._write("scalar", tag, self._of_number(value), record["step"])
            else:
                self._left_out[tag] = value, record["step"]
        if record["kind"] == "histograms":
            # The tags differ from those of norms, which a parameter without a module has too.
            for quantity, tag in (("weights", "weight_values"), ("gradients", "gradient_values")):
                for name, bins in record[quantity].items():
                    tensor = self._tensor(_edges_and_counts(*bins[:3]))
                    self._write("histogram", f"{tag}/{name}", tensor, record["step"])
        elif record["kind"] in ("text", "note"):
            parts = [record.get("prompt"), record["text"]]
            # TensorBoard shows text as Markdown, in which indented lines keep their breaks.
            text = "\n\n".join(textwrap.indent(part, "    ", lambda line: True) for part in parts if part)
            tensor = self._tensor(np.array([encodable(text).encode()], dtype=object))
            self._write("text", record["kind"], tensor, record["step"])
        self._file.flush()

    def _of_number(self, value: Any) -> Any:
        """Return a number as TensorBoard's tensor, in a sixth of the time of its general function."""
        return self._scalar(float_val=[np.float32(number(value))])

    def _write(self, kind: str, tag: str, tensor: Any, step: int) -> None:
        tagged = self._summary.Value(tag=encodable(tag), metadata=self._metadata[kind], tensor=tensor)
        self._add(wall_time=time.time(), step=step, summary=self._summary(value=[tagged]))

    def _add(self, **fields: Any) -> None:
        self._file.write(self._event(**fields).SerializeToString())

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
            self._write("scalar", tag, self._of_number(value), step)
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
