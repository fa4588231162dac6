"""Where compiled code is kept, by what it depends on; and what is said while compiling takes long."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from wyrm.backends.llvm.store import CodeStore
from wyrm.ops.scratch import DEBUG

# A line on stderr says so where compiling takes longer than this many seconds.
SPEAK_AFTER = 1.0


def store() -> CodeStore:
    """Where compiled programs are kept: in `WYRM_CACHE_DIR`, else the user's cache directory."""
    wanted = os.environ.get("WYRM_CACHE_DIR")
    if not wanted:
        import platformdirs

        wanted = platformdirs.user_cache_dir("wyrm", appauthor=False)
    return _store_in(wanted)


@cache
def _store_in(folder: str) -> CodeStore:
    try:
        return CodeStore(Path(folder).expanduser().absolute())
    except RuntimeError:  # no home folder is known; the store says so where it is used
        return CodeStore(Path(folder))


@cache
def _versions() -> bytes:
    """What compiled code depends on beside its source: LLVM, the processor, and the compiler."""
    import llvmlite
    import llvmlite.binding

    package = Path(__file__).parents[2]
    rooms = [package / "ir", package / "kernels", package / "backends" / "llvm"]
    files = [file for room in rooms for file in sorted(room.glob("*.py"))]
    host = llvmlite.binding.get_host_cpu_name(), sys.version, llvmlite.__version__, DEBUG
    return repr(host).encode() + b"".join(file.read_bytes() for file in files)


def key(text: str) -> str:
    """The name of a text by its content, and that of everything else that its compiled form depends on."""
    from hashlib import sha256

    return sha256(text.encode() + _versions()).hexdigest()[:32]


class Counted:
    """How many functions have been compiled in this process, and not only loaded."""

    compiled = 0


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Within it, a line on stderr appears where compiling takes over a second."""
    before = Counted.compiled

    def speak() -> None:
        if Counted.compiled > before:
            print(f"wyrm: compiling {what} ...", file=sys.stderr, flush=True)  # noqa: T201  # for the user

    timer = threading.Timer(SPEAK_AFTER, speak)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
