"""Atomic writing of checkpoints, with `CheckpointError` for failures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wyrm.errors import CheckpointError
from wyrm.support import files as _files
from wyrm.support.files import FilePath, path_of

__all__ = ["FilePath", "path_of", "replacing"]


@contextmanager
def replacing(path: FilePath) -> Iterator[Path]:
    """Call `wyrm.support.files.replacing`, and raise `CheckpointError` with the file's name if it cannot be written."""
    path_of("file", path)
    try:
        with _files.replacing(path) as temporary:
            yield temporary
    except OSError as error:
        raise CheckpointError(
            f"cannot write {os.fspath(path)!r}: {error.strerror or error}; an existing file is unchanged"
        ) from error
