"""Atomic writing of files: a file is complete or absent."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wyrm.errors import DTypeError

FilePath = str | os.PathLike[str]
# By machine, because others that share a folder number their processes as this one does.
_TEMPORARY = re.compile(r"\.wyrm-([0-9a-f]{8})-([0-9]+)-[0-9a-f]{8}\.tmp")
_being_written: set[Path] = set()  # by this process


def path_of(name: str, path: object) -> Path:
    """Return an option as a path; raise `DTypeError` unless it is text or an `os.PathLike`.

    >>> path_of("directory", "runs").name
    'runs'
    """
    if not isinstance(path, str | os.PathLike):
        raise DTypeError(f"{name} must be a path, such as 'runs/first', not {path!r}")
    return Path(path)


@contextmanager
def replacing(path: FilePath) -> Iterator[Path]:
    """Yield the path of an empty file; when the block ends, that file replaces `path` in a single step.

    If anything fails, an existing file stays as it was and the new one is removed. Raise `OSError` if the file cannot
    be written. A symbolic link stays a link, and its target is replaced. The new file keeps the permissions of the one
    that it replaces.
    """
    target = Path(os.path.realpath(path))
    # A directory, because the writer may put its own temporary files beside the file. Its name cannot be guessed and
    # only this user may enter it, so no link planted by another user is followed.
    directory = target.with_name(f".wyrm-{machine()}-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    temporary = directory / "contents"
    _being_written.add(directory)
    try:
        # Created first, to fail before any work if the parent directory is missing or read-only.
        directory.mkdir(mode=0o700)
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
            yield temporary
            flush(temporary)
            temporary.chmod(mode)  # the writer may have recreated the file
            temporary.replace(target)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        _flush_directory(target.parent)
    finally:
        _being_written.discard(directory)


def remove_leftovers(directory: Path) -> None:
    """Remove the temporary files in `directory` of processes of this machine that ended while writing."""
    for place in directory.iterdir():
        found = _TEMPORARY.fullmatch(place.name)
        if found is None or found[1] != machine() or Path(os.path.realpath(place)) in _being_written:
            continue
        if not _runs_elsewhere(int(found[2])):
            shutil.rmtree(place, ignore_errors=True)  # those of another user stay, which only takes space


def machine() -> str:
    """Return eight digits that stand for this machine, from its name in the network."""
    name = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    return f"{zlib.crc32(name.encode()):08x}"


def _runs_elsewhere(process: int) -> bool:
    """Return whether another process of this number may be running; an unknown file of this process is a leftover."""
    if process == os.getpid():
        return False
    if os.name != "posix":  # `os.kill` would end the process there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def flush(path: Path) -> None:
    """Wait until the file is on disk; without its contents, a renamed file would replace a good one."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _flush_directory(path: Path) -> None:
    """Wait until the new name is on disk, where the system supports that."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # Windows cannot open directories, and needs no such call
        return
    try:
        os.fsync(descriptor)
    except OSError:  # some network file systems cannot; the file itself is safe by now
        pass
    finally:
        os.close(descriptor)
