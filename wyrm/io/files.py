"""Writing a file so that it is there whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wyrm.errors import CheckpointError

FilePath = str | os.PathLike[str]
_TEMPORARY = re.compile(r"\.wyrm-(\d+)-[0-9a-f]{8}\.tmp")
_being_written: set[Path] = set()  # by this process


@contextmanager
def replacing(path: FilePath) -> Iterator[Path]:
    """Give the path of an empty file beside `path`; what is written to it takes the place of `path` in a single step.

    Whatever goes wrong, a file that was there stays as it was and the new one is removed. A file that cannot be written
    is a `CheckpointError` that names it. A symbolic link stays one, and the file that it leads to is replaced; the new
    file has the permissions of the one it replaces.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".wyrm-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    _being_written.add(temporary)
    try:
        try:
            # Made here, to fail before any work where the directory is missing or locked.
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            mode = stat.S_IMODE((target if target.exists() else temporary).stat().st_mode)
            yield temporary
            flush(temporary)
            temporary.chmod(mode)  # whoever wrote it may have made it anew
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _flush_directory(target.parent)
    except OSError as error:
        raise CheckpointError(
            f"cannot write {os.fspath(path)!r}: {error.strerror or error}; a file that was there is unchanged"
        ) from error
    finally:
        _being_written.discard(temporary)


def remove_leftovers(directory: Path) -> None:
    """Remove the temporary files of processes that were ended while they wrote in the directory."""
    for file in directory.iterdir():
        found = _TEMPORARY.fullmatch(file.name)
        if found and Path(os.path.realpath(file)) not in _being_written and not _runs_elsewhere(int(found[1])):
            with suppress(OSError):  # of another user, say: it takes room, and does no other harm
                file.unlink()


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
