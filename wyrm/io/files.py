"""Writing a checkpoint so that it is there whole or not at all, with the errors of this room."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wyrm import _files
from wyrm._files import FilePath
from wyrm.errors import CheckpointError

__all__ = ["FilePath", "replacing"]


@contextmanager
def replacing(path: FilePath) -> Iterator[Path]:
    """What `wyrm._files.replacing` does; a file that cannot be written is a `CheckpointError` that names it."""
    try:
        with _files.replacing(path) as temporary:
            yield temporary
    except OSError as error:
        raise CheckpointError(
            f"cannot write {os.fspath(path)!r}: {error.strerror or error}; a file that was there is unchanged"
        ) from error
