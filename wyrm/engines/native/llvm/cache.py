"""The cache of compiled code on disk: its folder, its keys, and the checks that code passes before it may run.

An entry is a file: the SHA-256 digest of its name and content, then the content. It is used only if the digest matches
and no user other than this one and the administrator could have written it. A key covers this engine's own source, so
entries of another version are never read.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from pathlib import Path

from wyrm.ops.kernels.native import DEBUG
from wyrm.support.notices import say

# Compilations that take longer than this many seconds are announced.
SPEAK_AFTER = 1.0
# The optimization level of programs, 0 to 3; most tests lower it, because compilation takes most of their time.
LEVEL = 3


def store() -> CodeStore:
    """Return the cache of compiled programs, in `WYRM_CACHE_DIR` or the user's cache directory."""
    folder = os.environ.get("WYRM_CACHE_DIR")
    if not folder:
        import platformdirs

        folder = platformdirs.user_cache_dir("wyrm", appauthor=False)
    return _store_in(folder)


@cache
def _store_in(folder: str) -> CodeStore:
    try:
        return CodeStore(Path(folder).expanduser().absolute())
    except RuntimeError:  # the home folder is unknown; the store warns when it is used
        return CodeStore(Path(folder))


@cache
def _versions() -> bytes:
    """Return a hash of what code depends on besides its source: the processor, LLVM, Python, and this compiler."""
    from hashlib import sha256

    import llvmlite
    import llvmlite.binding

    native = Path(__file__).parents[1]
    files = [file for room in ("ir", "kernels", "llvm", "products") for file in sorted((native / room).glob("*.py"))]
    host = llvmlite.binding.get_host_cpu_name(), sys.version, llvmlite.__version__, DEBUG
    return sha256(repr(host).encode() + b"".join(file.read_bytes() for file in files)).digest()


def key(text: str) -> str:
    """Return the cache key of a text: a hash of it and of everything else that the compiled code depends on."""
    from hashlib import sha256

    return sha256(text.encode() + _versions() + bytes([LEVEL])).hexdigest()[:32]


class CompilationCount:
    """The number of modules compiled, not loaded from the cache, in this process."""

    compiled = 0


@contextmanager
def message_if_slow(what: str) -> Iterator[None]:
    """Say so if compiling inside the `with` block takes over a second."""
    before = CompilationCount.compiled

    def speak() -> None:
        if CompilationCount.compiled > before:
            say(f"compiling {what} ...")

    timer = threading.Timer(SPEAK_AFTER, speak)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


_NAME = re.compile(r"wyrm_[0-9a-f]{32}\.(machine|link)")
_TEMPORARY = re.compile(rf"{_NAME.pattern}\.\w+\.tmp")
# Seconds after which a temporary file is considered abandoned by a killed process; writing one takes far less.
_ABANDONED_AFTER = 3600.0
# A kernel alone has two entries, its code and the link to it; a program that trains a model has ten.
_FEW = 6
_DIGEST = 32  # bytes of a SHA-256 digest
# Do not follow symbolic links, and do not block on named pipes. Not every system has these flags.
_READ = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


class CodeStore:
    """A folder of entries; the name of an entry is `wyrm_`, 32 hexadecimal digits, and `.machine` or `.link`.

    Writing the first entry creates the folder with access for this user only. Cache problems never raise: a missing,
    damaged or untrusted entry counts as absent, and an entry that cannot be written is dropped. The first time that the
    folder or a file is refused, or cannot be written, a `RuntimeWarning` says why.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writes = True
        self._said: set[str] = set()
        self._swept = False

    def refusal(self) -> str | None:
        """Return why the folder must not be used; None if it is safe or does not exist yet."""
        if self.folder.parts[:1] and self.folder.parts[0].startswith("~"):
            return "the home folder for ~ is unknown"
        try:
            itself, found = self.folder.lstat(), self.folder.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return error.strerror or str(error)
        if not stat.S_ISDIR(found.st_mode):
            return "it is not a folder"
        reason = _owner_refused(itself) or _owner_refused(found) or _mode_refused(found)
        if reason is None and not os.access(self.folder, os.R_OK | os.X_OK):
            reason = "this user cannot read it"
        return reason

    def read(self, name: str) -> bytes | None:
        """Return the content of an entry; None if it is missing, damaged or untrusted."""
        if not self._usable():
            return None
        path, written = self.folder / name, b""
        try:
            with os.fdopen(os.open(path, _READ), "rb") as file:
                found = os.fstat(file.fileno())
                reason = _owner_refused(found) or _mode_refused(found)
                if reason is None and not stat.S_ISREG(found.st_mode):
                    reason = "it is not a regular file"
                if reason is None:
                    written = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            linked = error.errno == errno.ELOOP
            reason = "it is a symbolic link" if linked else error.strerror or str(error)
        if reason:
            self._say("file", f"{str(path)!r} is ignored: {reason}. The code is compiled again")
            return None
        content = written[_DIGEST:]
        return content if _digest(name, content) == written[:_DIGEST] else None

    def write(self, name: str, content: bytes) -> None:
        """Write or replace an entry atomically."""
        if not self._writes or not self._usable():
            return
        import tempfile

        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._sweep()
            # mkstemp creates a new file with an unpredictable name that only this user can access.
            descriptor, temporary = tempfile.mkstemp(dir=self.folder, prefix=f"{name}.", suffix=".tmp")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(_digest(name, content) + content)
                Path(temporary).replace(self.folder / name)
            except BaseException:
                with suppress(OSError):
                    Path(temporary).unlink()
                raise
        except OSError as error:
            self._writes = False
            self._say(
                "write",
                f"compiled code is no longer cached in {str(self.folder)!r}: {error.strerror or error}. "
                f"The next process compiles it again. Set WYRM_CACHE_DIR to a writable folder",
            )

    def is_nearly_empty(self) -> bool:
        """Return whether the folder does not exist, or has fewer entries than a program that trains a model."""
        try:
            return sum(1 for _ in islice(self.folder.iterdir(), _FEW)) < _FEW
        except OSError:
            return True

    def entries(self) -> dict[Path, int]:
        """Return the files that this class wrote, temporary ones of killed processes included, with their sizes."""
        found = {}
        with suppress(OSError):
            for path in sorted(self.folder.iterdir()):
                if _NAME.fullmatch(path.name) or _TEMPORARY.fullmatch(path.name):
                    with suppress(FileNotFoundError):
                        status = path.lstat()
                        if stat.S_ISREG(status.st_mode):
                            found[path] = status.st_size
        return found

    def clear(self) -> dict[Path, str]:
        """Delete the entries; return those that cannot be deleted with the reasons. Loaded code is not affected."""
        left = {}
        for path in self.entries():
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                left[path] = error.strerror or str(error)
        return left

    def _usable(self) -> bool:
        reason = self.refusal()
        if reason is not None:
            self._say(
                "folder",
                f"the cache folder {str(self.folder)!r} is not used: {reason}. "
                f"Every process compiles its programs again. Set WYRM_CACHE_DIR to a folder that only you can write to",
            )
        return reason is None

    def _sweep(self) -> None:
        """Remove temporary files of processes that were killed while writing."""
        if self._swept:
            return
        self._swept = True
        for path in self.entries():
            if _TEMPORARY.fullmatch(path.name):
                with suppress(OSError):
                    if time.time() - path.lstat().st_mtime > _ABANDONED_AFTER:
                        path.unlink()

    def _say(self, topic: str, text: str) -> None:
        if topic not in self._said:
            self._said.add(topic)
            warnings.warn(text, RuntimeWarning, stacklevel=2)


def _digest(name: str, content: bytes) -> bytes:
    from hashlib import sha256

    digest = sha256(name.encode())
    digest.update(content)
    return digest.digest()


def _owner_refused(found: os.stat_result) -> str | None:
    if os.name == "posix" and found.st_uid not in (0, os.geteuid()):
        return f"it belongs to user {found.st_uid}, who could have put any code there"
    return None


def _mode_refused(found: os.stat_result) -> str | None:
    mode = stat.S_IMODE(found.st_mode)
    if os.name == "posix" and mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"users other than its owner can write to it (mode {mode:04o}) and could have put any code there"
    return None
