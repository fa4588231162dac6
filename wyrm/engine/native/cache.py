"""Compiled programs on disk: one folder, one module for each source, found by its content."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType

from wyrm.ops.scratch import DEBUG

# A line on stderr says so where compiling takes longer than this many seconds.
SPEAK_AFTER = 1.0


def folder() -> Path:
    """Where compiled programs are kept: `WYRM_CACHE_DIR`, else the user's cache directory; made where it is missing."""
    wanted = os.environ.get("WYRM_CACHE_DIR")
    if not wanted:
        import platformdirs
    path = Path(wanted) if wanted else Path(platformdirs.user_cache_dir("wyrm", appauthor=False))
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError:
        return Path(_temporary())


@cache
def _temporary() -> str:
    """A folder of this process alone, for where the cache cannot be written."""
    return tempfile.mkdtemp(prefix="wyrm-")


def files() -> list[Path]:
    """Every file of the cache."""
    return sorted(path for path in folder().rglob("*") if path.is_file() and "wyrm_" in path.name)


def clear() -> int:
    """Delete every file of the cache; how many there were. A program that is running keeps what it has loaded."""
    found = files()
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


@cache
def _versions() -> bytes:
    """What compiled code depends on beside its source: numba, the processor, and the functions that it calls."""
    import llvmlite.binding
    import numba

    here = Path(__file__)
    runtime = b"".join(here.with_name(f"{name}.py").read_bytes() for name in ("compilers", "products", "runtime"))
    host = f"{llvmlite.binding.get_host_cpu_name()} {sys.version} {numba.__version__} {DEBUG}"
    return host.encode() + runtime


def key(text: str) -> str:
    """The name of a source by its content, and that of everything else that its compiled form depends on."""
    return hashlib.sha256(text.encode() + _versions()).hexdigest()[:32]


_loaded: dict[str, ModuleType] = {}
_lock = threading.RLock()  # a module may need another one


def module(text: str) -> ModuleType:
    """The module of a source, from the cache or written there.

    Several processes may do so at once: a file appears whole under its name, and its content is what the name says.
    """
    with _lock:
        name = f"wyrm_{key(text)}"
        if name not in _loaded:
            path = folder() / f"{name}.py"
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                with tempfile.NamedTemporaryFile(
                    "w", dir=path.parent, suffix=".tmp", prefix="wyrm_", delete=False, encoding="utf-8"
                ) as file:
                    file.write(text)
                Path(file.name).replace(path)
            specification = importlib.util.spec_from_file_location(name, path)
            assert specification is not None and specification.loader is not None
            made = importlib.util.module_from_spec(specification)
            sys.modules[name] = made
            specification.loader.exec_module(made)
            _loaded[name] = made
        return _loaded[name]


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Within it, a line on stderr appears where compiling takes over a second, and one more when it is done."""
    from wyrm.engine.native.compilers import watch_compiling

    with watch_compiling() as compiling:

        def speak() -> None:
            if compiling.seen:
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
            if took > SPEAK_AFTER and compiling.seen:
                print(f"wyrm: compiled {what} in {took:.1f} s", file=sys.stderr, flush=True)  # noqa: T201  # as above
