"""The records of a run as scalars of TensorBoard."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wyrm.train.loggers import tag_of, writer_class
from wyrm.watch.records import Record, number


class TensorBoard:
    """Writes records as scalars with TensorBoard's own writer.

    Raise `ImportError` if neither tensorboard nor tensorboardX is installed.
    """

    def __init__(self, folder: Path, modules: Sequence[str]) -> None:
        self._modules = modules
        self._writer: Any = writer_class()(os.fspath(folder))

    def write(self, records: Sequence[Record]) -> None:
        """Write the scalars of these records."""
        for record in records:
            scalars: dict[str, Any] = {}
            if record["kind"] == "values":
                scalars = {tag_of(name, record["values"]): value for name, value in record["values"].items()}
            elif record["kind"] == "modules":
                for quantity in ("weights", "gradients", "updates"):
                    for module, value in zip(self._modules, record[quantity] or (), strict=False):
                        scalars[f"{quantity}/{module}"] = value
                for name, (dead, units) in record["dead"].items():
                    scalars[f"dead/{name}"] = dead / max(units, 1)
            for tag, value in scalars.items():
                self._writer.add_scalar(tag, number(value), record["step"])

    def close(self) -> None:
        """Write what is left, and close the file."""
        self._writer.close()
