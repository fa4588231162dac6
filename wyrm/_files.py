"""Writing a file so that it is there whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FilePath = str | os.PathLike[str]
_TEMPORARY = re.compile(r"\.wyrm-([0-9]+)-[0-9a-f]{8}\.tmp")
_being_written: set[Path] = set()  # by this process


@contextmanager
def replacing(path: FilePath) -> Iterator[Path]:
    """Give the path of an empty file beside `path`; what is written to it takes the place of `path` in a single step.

    Whatever goes wrong, a file that was there stays as it was and the new one is removed. `OSError` for a file that
    cannot be written. A symbolic link stays one, and the file that it leads to is replaced; the new file has the
    permissions of the one it replaces.
    """
    target = Path(os.path.realpath(path))
    # A directory, for whoever writes the file may put temporary ones of its own beside it. Its name is not known before
    # and nobody else may enter it, so that no link that another user has put there is written through.
    directory = target.with_name(f".wyrm-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    temporary = directory / "contents"
    _being_written.add(directory)
    try:
        # Made here, to fail before any work where the directory is missing or locked.
        directory.mkdir(mode=0o700)
        try:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
            yield temporary
            flush(temporary)
            temporary.chmod(mode)  # whoever wrote it may have made it anew
            temporary.replace(target)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        _flush_directory(target.parent)
    finally:
        _being_written.discard(directory)


def remove_leftovers(directory: Path) -> None:
    """Remove what processes have left that were ended while they wrote in the directory."""
    for place in directory.iterdir():
        found = _TEMPORARY.fullmatch(place.name)
        if found and Path(os.path.realpath(place)) not in _being_written and not _runs_elsewhere(int(found[1])):
            shutil.rmtree(place, ignore_errors=True)  # what is of another user takes room, and does no other harm


def _runs_elsewhere(process: int) -> bool:
    """Whether another process of this number may be running; one of this number that is not known here is gone."""
    if process == os.getpid():
        return False
    if os.name != "posix":  # the question below would end the process there
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def flush(path: Path) -> None:
    """Wait until the file is on the disk, for a renamed file without its contents would replace a good one."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _flush_directory(path: Path) -> None:
    """Wait until the new name is on the disk, where the system can do that."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # Windows opens no directories, and needs no such call
        return
    try:
        os.fsync(descriptor)
    except OSError:  # nor do some network file systems; the file itself is safe by now
        pass
    finally:
        os.close(descriptor)
