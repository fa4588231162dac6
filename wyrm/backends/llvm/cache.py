"""Compiled programs: one module for each source, found by its content, and kept on disk by `store`."""

from __future__ import annotations

import linecache
import marshal
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType

from wyrm.backends.llvm.store import Store
from wyrm.ops.scratch import DEBUG

# A line on stderr says so where compiling takes longer than this many seconds.
SPEAK_AFTER = 1.0


def store() -> Store:
    """Where compiled programs are kept: in `WYRM_CACHE_DIR`, else the user's cache directory."""
    wanted = os.environ.get("WYRM_CACHE_DIR")
    if not wanted:
        import platformdirs

        wanted = platformdirs.user_cache_dir("wyrm", appauthor=False)
    return _store_in(wanted)


@cache
def _store_in(folder: str) -> Store:
    try:
        return Store(Path(folder).expanduser().absolute())
    except RuntimeError:  # no home folder is known; the store says so where it is used
        return Store(Path(folder))


@cache
def _versions() -> bytes:
    """What compiled code depends on beside its source: LLVM, the processor, and the compiler."""
    import llvmlite
    import llvmlite.binding

    package = Path(__file__).parents[2]
    rooms = [package / "ir", package / "compiler", package / "backends" / "llvm"]
    files = [*(file for room in rooms for file in sorted(room.glob("*.py")))]
    files += [Path(__file__).with_name(f"{name}.py") for name in ("compilers", "library", "products", "runtime")]
    host = llvmlite.binding.get_host_cpu_name(), sys.version, llvmlite.__version__, DEBUG
    return repr(host).encode() + b"".join(file.read_bytes() for file in files)


def key(text: str) -> str:
    """The name of a text by its content, and that of everything else that its compiled form depends on."""
    from hashlib import sha256

    return sha256(text.encode() + _versions()).hexdigest()[:32]


_loaded: dict[str, ModuleType] = {}
_lock = threading.RLock()  # a module may need another one


def module(text: str) -> ModuleType:
    """The module of a source. What Python makes of it is kept, and so is the machine code of its functions.

    Several processes may do so at once: what an entry of the store has is what its name says, whoever wrote it.
    """
    with _lock:
        name = f"wyrm_{key(text)}"
        if name not in _loaded:
            made = sys.modules[name] = ModuleType(name)
            try:
                exec(_code(name, text), made.__dict__)
            except BaseException:
                del sys.modules[name]
                raise
            _loaded[name] = made
        return _loaded[name]


def _code(name: str, text: str) -> CodeType:
    """A source for Python to run, from the store or put there."""
    file = f"<{name}>"
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file  # for tracebacks
    kept = store().read(f"{name}.program")
    if kept is not None:
        code: CodeType = marshal.loads(kept)
        return code
    code = compile(text, file, "exec", dont_inherit=True, optimize=0)
    store().write(f"{name}.program", marshal.dumps(code))
    return code


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Within it, a line on stderr appears where compiling takes over a second, and one more when it is done."""
    from wyrm.backends.llvm.library import Counted

    before = Counted.compiled

    def speak() -> None:
        if Counted.compiled > before:
            print(f"wyrm: compiling {what} ...", file=sys.stderr, flush=True)  # noqa: T201  # for the user

    timer = threading.Timer(SPEAK_AFTER, speak)
    timer.daemon = True
    start = time.perf_counter()
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        took = time.perf_counter() - start
        if took > SPEAK_AFTER and Counted.compiled > before:
            print(f"wyrm: compiled {what} in {took:.1f} s", file=sys.stderr, flush=True)  # noqa: T201  # as above
