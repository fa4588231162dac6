"""Append-only files of records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wyrm.errors import DataError
from wyrm.watch.records import LONGEST_LINE, Record, decoded, encoded


class Lines:
    """An append-only file of records that this process writes.

    A torn last line, which a killed process or a full disk leaves, is removed. Another process cannot write the file
    meanwhile; the lock ends with the process. Raise `DataError` if the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as error:
            raise DataError(f"cannot write {os.fspath(path)!r}: {error.strerror or error}") from error
        try:
            self._lock()
            self._remove_torn_line()
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows has no such locks
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DataError(
                f"another training writes {os.fspath(self.path)!r}: give each training a folder of its own"
            ) from None
        except OSError:  # some network file systems have no locks
            pass

    def _remove_torn_line(self) -> None:
        end = os.fstat(self._descriptor).st_size
        with open(self._descriptor, "rb", closefd=False) as file:
            kept = end
            while kept:
                start = max(0, kept - (1 << 16))
                file.seek(start)
                newline = file.read(kept - start).rfind(b"\n")
                if newline >= 0:
                    kept = start + newline + 1
                    break
                kept = start
        if kept < end:
            os.ftruncate(self._descriptor, kept)

    def write(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Append records, all or none; raise `OSError` if that fails, as when the disk is full."""
        data = b"".join(map(encoded, records))
        size = os.fstat(self._descriptor).st_size
        try:
            written = 0
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError:
            os.ftruncate(self._descriptor, size)
            raise

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read(path: Path) -> Iterator[Record]:
    """Yield the records of a file of this process's user, without damaged lines."""
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE):
            record = decoded(line) if line.endswith(b"\n") else None
            if record is not None:
                yield record
