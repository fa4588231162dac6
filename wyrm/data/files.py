"""Opening data files, with uniform errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import TypeAlias

from wyrm.errors import DataError

FilePath: TypeAlias = str | os.PathLike[str]


@contextmanager
def open_data_file(path: FilePath) -> Iterator[BufferedReader]:
    """Open a file for reading bytes; errors while opening and reading become `DataError`."""
    try:
        with Path(path).open("rb") as file:
            yield file
    except FileNotFoundError as error:
        raise DataError(
            f"no such file: {os.fspath(path)!r}. Pass the path of an existing data file (examples take it as --data)."
        ) from error
    except OSError as error:
        raise DataError(
            f"cannot read {os.fspath(path)!r}: {error.strerror}. "
            f"Pass the path of a readable data file (examples take it as --data)."
        ) from error
