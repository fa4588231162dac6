"""The code cache: its location, its keys, and the message that is shown during long compilations."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from wyrm.engines.native.llvm.store import CodeStore
from wyrm.ops.kernels.scratch import DEBUG

# Compilations that take longer than this many seconds print a line to stderr.
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
    """Return what compiled code depends on besides its source: the processor, LLVM, Python, and this compiler."""
    import llvmlite
    import llvmlite.binding

    package = Path(__file__).parents[2]
    rooms = [package / "ir", package / "kernels", package / "backends" / "llvm"]
    files = [file for room in rooms for file in sorted(room.glob("*.py"))]
    host = llvmlite.binding.get_host_cpu_name(), sys.version, llvmlite.__version__, DEBUG
    return repr(host).encode() + b"".join(file.read_bytes() for file in files)


def key(text: str) -> str:
    """Return the cache key of a text: a hash of it and of everything else that the compiled code depends on."""
    from hashlib import sha256

    return sha256(text.encode() + _versions() + bytes([LEVEL])).hexdigest()[:32]


class CompilationCount:
    """The number of modules compiled, not loaded from the cache, in this process."""

    compiled = 0


@contextmanager
def message_if_slow(what: str) -> Iterator[None]:
    """Print a line to stderr if compiling inside the `with` block takes over a second."""
    before = CompilationCount.compiled

    def speak() -> None:
        if CompilationCount.compiled > before:
            print(f"wyrm: compiling {what} ...", file=sys.stderr, flush=True)  # noqa: T201  # progress for the user

    timer = threading.Timer(SPEAK_AFTER, speak)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
