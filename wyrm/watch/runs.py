"""Reading the folders of runs for the server: only files in these folders, and only complete lines."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wyrm.errors import DataError
from wyrm.watch.records import EVENTS, FORMAT, HISTOGRAMS, LONGEST_LINE, Record, decoded

# Bytes of a file that one answer covers.
_PART = LONGEST_LINE
_MOST_RUNS = 1000
# The most folders that are looked into for runs, and how deep.
_MOST_FOLDERS, _DEEPEST = 20_000, 8
# Bytes of histograms that are read for one answer; a training writes a hundredth of them.
_MOST_BYTES = 1 << 29
# Parameters whose histograms are kept between two answers.
_MOST_KEPT = 64


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run: its identity and name on the page, its path, and the time of the last record.

    `size` is that of its file of records, in bytes.
    """

    identity: str
    name: str
    path: Path
    modified: float
    size: int = 0


class FileRecords(NamedTuple):
    """Records of a file from a position on, and their lines; the position after them, and the number of damaged lines.

    `version` identifies the file: a file with another version was replaced, and is read from its start. `more` says
    whether records follow. `format` is the number of a newer format that cannot be read here, else None.
    """

    records: list[Record]
    lines: list[bytes]
    position: int
    damaged: int
    version: str
    more: bool
    format: int | None = None


class Runs:
    """The runs that a server shows: each path is the folder of a run, or one that holds such folders at any depth.

    Raise `DataError` for a path that is no folder.
    """

    def __init__(self, paths: Sequence[str | os.PathLike[str]]) -> None:
        self._roots: list[Path] = []
        for path in paths:
            root = Path(path).resolve()
            if not root.is_dir():
                raise DataError(
                    f"{os.fspath(path)!r} is no folder: give the folder of a run, or one that holds runs, such as "
                    f"'runs', which wy.train.fit(..., watch=True) creates"
                )
            self._roots.append(root)

        # By folder: what identifies the contents of its file of records, and the time of the first record.
        self._begun: dict[str, tuple[tuple[int, int, int], float]] = {}

    def __call__(self) -> dict[str, RunFolder]:
        """Return the runs that exist now by identity, the oldest first."""
        found: dict[str, RunFolder] = {}
        begun = {}
        for root in self._roots:
            status = _status(root)
            statuses = {os.fspath(root): status} if status is not None else _folders_in(root)
            for path, status in statuses.items():
                begun[path] = self._beginning(path, status)
            for path in sorted(statuses, key=lambda path: (begun[path][1], path)):
                identity = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
                folder, status = Path(path), statuses[path]
                # The name of a run in a subfolder begins with the subfolder's.
                name = folder.relative_to(root).as_posix() if folder != root else folder.name
                found.setdefault(identity, RunFolder(identity, name, folder, status.st_mtime, status.st_size))
        self._begun = begun
        return dict(list(found.items())[-_MOST_RUNS:])

    def _beginning(self, path: str, status: os.stat_result) -> tuple[tuple[int, int, int], float]:
        """Return what identifies the contents of a run's file, and the time of its first record; 0 if it is damaged."""
        contents = status.st_ino, status.st_size, status.st_mtime_ns
        known = self._begun.get(path)
        if known is not None and known[0] == contents:
            return known
        try:
            with _opened(Path(path), EVENTS) as file:
                record = decoded(file.readline(LONGEST_LINE))
        except OSError:
            record = None
        return contents, 0.0 if record is None else record["time"]


def _status(folder: str | os.PathLike[str]) -> os.stat_result | None:
    """Return the status of a run's file of records; None if the folder has no such file."""
    try:
        status = os.lstat(f"{os.fspath(folder)}/{EVENTS}")
    except (OSError, ValueError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _folders_in(root: Path) -> dict[str, os.stat_result]:
    """Return the folders of runs below a folder, without links, which may lead elsewhere, and without hidden folders.

    A run holds no other runs.
    """
    found: dict[str, os.stat_result] = {}
    waiting, seen = [(os.fspath(root), 0)], 0
    while waiting and seen < _MOST_FOLDERS:
        path, depth = waiting.pop()
        seen += 1
        if depth and (status := _status(path)) is not None:
            found[path] = status
        elif depth < _DEEPEST:
            waiting.extend((inside, depth + 1) for inside in _folders_inside(path))
    return found


def _folders_inside(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [each.path for each in entries if each.name[0] != "." and each.is_dir(follow_symlinks=False)]
    except OSError:
        return []


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file of a run; raise `OSError` for a link, a pipe or a device in its place."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    path = folder / name
    if path.is_symlink() or folder.is_symlink():
        raise OSError(f"{os.fspath(path)!r} is a link")
    descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    # `fdopen` refuses folders, and leaves them open.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{os.fspath(path)!r} is no file")
    with os.fdopen(descriptor, "rb") as file:
        yield file


def _head(file: BinaryIO) -> tuple[bytes, str]:
    """Return the first line of a file, and its hash: the identity and time in it differ in a new file."""
    line = file.readline(LONGEST_LINE)
    return line, hashlib.sha256(line).hexdigest()[:16] if line.endswith(b"\n") else ""


def records_after(run: RunFolder, position: int, version: str) -> FileRecords:
    """Return the records of a run after a position, at most four megabytes, without an incomplete last line.

    If the position is beyond the file, or the version differs, the file was replaced: it is read from its start.
    """
    with _opened(run.path, EVENTS) as file:
        head, current = _head(file)
        size = os.fstat(file.fileno()).st_size
        if current != version or not 0 <= position <= size:
            position = 0
        first = decoded(head)
        if first is not None and first["kind"] == "start" and first["format"] > FORMAT:
            return FileRecords([], [], size, 0, current, False, first["format"])
        file.seek(position)
        data = file.read(_PART)
    end = data.rfind(b"\n") + 1
    if not end and len(data) == _PART:  # a line too long to be one
        end = len(data)
    found = [line for line in data[:end].split(b"\n") if line.strip()]
    pairs = [(record, line) for line in found if (record := decoded(line)) is not None]
    records, lines = [record for record, _ in pairs], [line for _, line in pairs]
    damaged = len(found) - len(lines)
    return FileRecords(records, lines, position + end, damaged, current, position + len(data) < size)


@dataclass
class _Kept:
    """The histograms of one parameter up to a position of a version of their file."""

    version: str
    position: int = 0
    records: list[Record] = field(default_factory=list)

    def add(self, record: Record, name: str) -> None:
        if record["kind"] == "start":
            # A continued training repeats later steps.
            while self.records and self.records[-1]["step"] > record["step"]:
                self.records.pop()
        elif record["kind"] == "histograms":
            place = {key: record[key] for key in ("epoch", "step", "elapsed")}
            self.records.append(place | {key: record[key].get(name) for key in ("weights", "gradients")})


class Histograms:
    """Reads the histograms of runs, and caches the last requested ones, so that it reads only what is new."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Path, str], _Kept] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, run: RunFolder, name: str) -> list[Record]:
        """Return the histograms of a parameter: records with `weights` and `gradients`, which may be None."""
        with self._lock:
            try:
                with _opened(run.path, HISTOGRAMS) as file:
                    return list(self._read(file, (run.path, name)).records)
            except FileNotFoundError:
                return []

    def _read(self, file: BinaryIO, key: tuple[Path, str]) -> _Kept:
        _, version = _head(file)
        kept = self._kept.pop(key, None)
        if kept is None or kept.version != version or kept.position > os.fstat(file.fileno()).st_size:
            kept = _Kept(version)
        file.seek(kept.position)
        last = kept.position + _MOST_BYTES
        while kept.position < last and (line := file.readline(LONGEST_LINE)):
            if not line.endswith(b"\n") and len(line) < LONGEST_LINE:  # a line that is being written
                break
            kept.position += len(line)
            record = decoded(line) if line.endswith(b"\n") else None
            if record is not None:
                kept.add(record, key[1])
        self._kept[key] = kept
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)
        return kept
