"""Reading the folders of runs, for the server: nothing outside them, and only complete lines."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wyrm.errors import DataError
from wyrm.watch.records import EVENTS, FORMAT, HISTOGRAMS, LONGEST_LINE, Record, decoded

# Bytes of a file that one answer covers.
_PART = LONGEST_LINE
_MOST_RUNS = 1000
# Bytes of histograms that are read for one answer; a training writes a hundredth of them.
_MOST_BYTES = 1 << 29


@dataclass(frozen=True)
class RunFolder:
    """The folder of a run: how the page refers to it, and what it shows as its name."""

    identity: str
    name: str
    path: Path

    @property
    def modified(self) -> float:
        """When the last record was written, in seconds since 1970; 0 if that is unknown."""
        try:
            return (self.path / EVENTS).lstat().st_mtime
        except OSError:
            return 0.0


class Part(NamedTuple):
    """Records of a file from a position on: as lines, the position after them, and how many lines are damaged.

    `version` identifies the file; another one means that it was replaced, and is read from its start. `format` is the
    number of a newer format that this version cannot read, else None.
    """

    lines: list[bytes]
    position: int
    damaged: int
    version: str
    more: bool
    format: int | None = None


class Runs:
    """The runs that a server shows: each path is the folder of a run, or a folder that holds such folders.

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

    def __call__(self) -> dict[str, RunFolder]:
        """Return the runs by identity, the oldest first; those that begin later appear by and by."""
        found: dict[str, RunFolder] = {}
        for root in self._roots:
            for path in [root] if _is_run(root) else _folders_in(root):
                identity = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
                found.setdefault(identity, RunFolder(identity, path.name, path))
        return dict(list(found.items())[-_MOST_RUNS:])


def _is_run(path: Path) -> bool:
    try:
        return stat.S_ISREG((path / EVENTS).lstat().st_mode)
    except (OSError, ValueError):
        return False


def _folders_in(root: Path) -> list[Path]:
    """Return the folders of runs in a folder, the oldest first; links may lead elsewhere, so they are left out."""
    try:
        with os.scandir(root) as entries:
            paths = [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted((path for path in paths if _is_run(path)), key=_age)


def _age(path: Path) -> tuple[float, str]:
    try:
        with _opened(path, EVENTS) as file:
            record = decoded(file.readline(LONGEST_LINE))
    except OSError:
        record = None
    return (0.0 if record is None else record["time"]), path.name


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[BinaryIO]:
    """Open a file of a run; raise `OSError` for a link, a pipe or a device in its place."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    path = folder / name
    if path.is_symlink() or folder.is_symlink():
        raise OSError(f"{os.fspath(path)!r} is a link")
    descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{os.fspath(path)!r} is no file")
        yield file


def part_of(run: RunFolder, position: int, version: str) -> Part:
    """Return the records of a run after a position, at most four megabytes; a last line without an end waits.

    A position beyond the file, or of another version of it, is that of a file that was replaced: it is read from its
    start.
    """
    with _opened(run.path, EVENTS) as file:
        head = file.readline(LONGEST_LINE)
        # A file that is written anew begins with another identity and time.
        current = hashlib.sha256(head).hexdigest()[:16] if head.endswith(b"\n") else ""
        size = os.fstat(file.fileno()).st_size
        if current != version or not 0 <= position <= size:
            position = 0
        first = decoded(head)
        if first is not None and first["kind"] == "start" and first["format"] > FORMAT:
            return Part([], size, 0, current, False, first["format"])
        file.seek(position)
        data = file.read(_PART)
    end = data.rfind(b"\n") + 1
    if not end and len(data) == _PART:  # a line too long to be one
        end = len(data)
    found = [line for line in data[:end].split(b"\n") if line.strip()]
    lines = [line for line in found if decoded(line) is not None]
    damaged = len(found) - len(lines)
    return Part(lines, position + end, damaged, current, position + len(data) < size)


def histograms_of(run: RunFolder, name: str) -> list[Record]:
    """Return the histograms of one parameter: records with `weights` and `gradients`, each None where it has none."""
    found: list[Record] = []
    try:
        with _opened(run.path, HISTOGRAMS) as file:
            while (line := file.readline(LONGEST_LINE)) and file.tell() < _MOST_BYTES:
                record = decoded(line) if line.endswith(b"\n") else None
                if record is None:
                    continue
                if record["kind"] == "start":
                    found = [earlier for earlier in found if earlier["step"] <= record["step"]]
                elif record["kind"] == "histograms":
                    place = {key: record[key] for key in ("epoch", "step", "elapsed")}
                    found.append(place | {key: record[key].get(name) for key in ("weights", "gradients")})
    except FileNotFoundError:
        pass
    return found
