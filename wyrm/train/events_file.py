"""A file of TensorBoard's events: scalars, histograms and text."""

from __future__ import annotations

import importlib
import os
import socket
import textwrap
import time
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from wyrm.support.imports import missing_package
from wyrm.support.texts import encodable

# So that the files of one second differ.
_NUMBERS = count()


class EventsFile:
    """Writes values for TensorBoard to a new file of a folder, which is made.

    `user` is named by the `ImportError` that is raised if the package tensorboard is not installed.
    """

    def __init__(self, folder: Path, user: str) -> None:
        try:
            from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
            from tensorboard.plugins.histogram import metadata as histogram
            from tensorboard.plugins.scalar import metadata as scalar
            from tensorboard.plugins.text import metadata as text
            from tensorboard.summary.writer.record_writer import RecordWriter
            from tensorboard.util.tensor_util import make_tensor_proto
        except ImportError as error:
            raise missing_package(user, "the package tensorboard", "tensorboard", name=error.name) from error
        # Type checkers do not see the classes in these modules, which are made at run time.
        events: Any = event_pb2
        summaries: Any = summary_pb2
        tensors: Any = tensor_pb2
        shapes: Any = tensor_shape_pb2
        types: Any = types_pb2
        self._event, self._summary, self._tensor = events.Event, summaries.Summary, make_tensor_proto
        self._number = partial(tensors.TensorProto, dtype=types.DT_FLOAT, tensor_shape=shapes.TensorShapeProto())
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
        self.flush()

    def scalar(self, tag: str, value: float, step: int) -> None:
        """Write a number, in a sixth of the time of TensorBoard's general function."""
        self._write_tensor("scalar", tag, self._number(float_val=[np.float32(value)]), step)

    def histogram(self, tag: str, low: float, high: float, counts: Sequence[int], step: int) -> None:
        """Write the counts of equal bins from `low` to `high`."""
        self._write_tensor("histogram", tag, self._tensor(_edges_and_counts(low, high, counts)), step)

    def text(self, tag: str, text: str, step: int) -> None:
        """Write text with its lines as they are: TensorBoard shows Markdown, in which indented lines keep them."""
        indented = encodable(textwrap.indent(text, "    ", lambda line: True))
        self._write_tensor("text", tag, self._tensor(np.array([indented.encode()], dtype=object)), step)

    def flush(self) -> None:
        """Let TensorBoard see what is written."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write_tensor(self, kind: str, tag: str, tensor: Any, step: int) -> None:
        tagged = self._summary.Value(tag=encodable(tag), metadata=self._metadata[kind], tensor=tensor)
        self._add(wall_time=time.time(), step=step, summary=self._summary(value=[tagged]))

    def _add(self, **fields: Any) -> None:
        self._file.write(self._event(**fields).SerializeToString())


def needs(user: str) -> None:
    """Raise `MissingPackage`, which names the user, if the package tensorboard is not installed."""
    try:
        importlib.import_module("tensorboard.summary.writer.record_writer")
    except ImportError as error:
        raise missing_package(user, "the package tensorboard", "tensorboard", name=error.name) from error


def tag_of(name: str, values: Mapping[str, object]) -> str:
    """Return the name in TensorBoard, which shows tags with the same beginning together.

    >>> [tag_of(name, {"loss": 1.0, "validation_loss": 2.0}) for name in ("loss", "validation_loss", "seconds")]
    ['loss/training', 'loss/validation', 'seconds']
    """
    validated = name.removeprefix("validation_")
    if validated != name:
        return f"{validated}/validation"
    return f"{name}/training" if f"validation_{name}" in values else name


def _edges_and_counts(low: float, high: float, counts: Sequence[int]) -> np.ndarray:
    """Return the left edge, the right edge and the count of each bin.

    >>> _edges_and_counts(0.0, 1.0, [3, 1])
    array([[0. , 0.5, 3. ],
           [0.5, 1. , 1. ]])
    """
    edges = np.linspace(low, high, len(counts) + 1)
    return np.stack([edges[:-1], edges[1:], np.asarray(counts, np.float64)], axis=1)
