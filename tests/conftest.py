"""Fixtures that every test may ask for, and how tests compile programs."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tests import tiers
from tests.browser import browser, open_page
from tests.each import keywords_of
from tests.once import shared_folder
from wyrm.engines.native.llvm import cache, second_process
from wyrm.ops.kernels.native import Spoiling

__all__ = ["browser", "open_page"]

# The tests keep millions of objects, which the collector would visit again and again.
gc.set_threshold(50_000, 20, 50)
# The random generators of each module of tests, and their states once all modules are imported.
START: dict[ModuleType | None, list[tuple[np.random.Generator, Mapping[str, Any]]]] = {}
# The optimization level of programs, 0 to 3, in tests that are not marked `optimized`.
LEVEL = int(os.environ.get("WYRM_TEST_LEVEL", "0"))
# How many examples of a test Hypothesis draws where not all tests run: each run draws others.
FEW_EXAMPLES = 30


@pytest.fixture(autouse=True, scope="session")
def _cache_of_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep compiled programs in a folder of this run of the tests, which its workers share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WYRM_CACHE_DIR", str(shared_folder(tmp_path_factory) / "programs"))
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_compiler() -> Iterator[None]:
    """Compile in the process of the tests alone: a second one would take its time from the other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(second_process, "_has_a_core", lambda: False)
        yield


@pytest.fixture(autouse=True, scope="session")
def _one_thread_of_blas() -> Iterator[None]:
    """Let NumPy and SciPy compute in one thread: those of BLAS wait for each other where the tests take all cores.

    That takes milliseconds even for the smallest matrices. Threads of wyrm's own are as many as without.
    """
    import scipy.linalg  # noqa: F401  # loads a BLAS of its own

    with threadpool_limits(1, "blas"):
        yield


@pytest.fixture(autouse=True, scope="module")
def _level_of_programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compile without optimizations, in a twentieth of the time, in modules that are not marked `optimized`."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("optimized") is None:
            patch.setattr(cache, "LEVEL", LEVEL)
        yield


@pytest.fixture(autouse=True)
def _no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let notices go to stderr in each test: a library that another test imported may have configured `logging`."""
    monkeypatch.setattr(logging.root, "handlers", [])


@pytest.fixture(scope="module")
def _spoiled_memory() -> Iterator[None]:
    """Let programs fill memory with NaN before it is written, which shows what they read and never wrote."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Spoiling, "on", True)
        yield


@pytest.fixture(autouse=True, scope="module")
def _freed_memory_goes_back() -> Iterator[None]:
    """Give the system the memory that a module's tests have freed, of which the C library keeps what XLA compiles in.

    Otherwise a process of the whole suite has gigabytes that nothing uses.
    """
    yield
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # not every C library has it
        if trim is not None:
            trim(0)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Note the states of modules' generators; leave what stays out of collections of garbage: tests and modules."""
    for module in {getattr(item, "module", None) for item in session.items}:
        generators = [each for each in vars(module).values() if isinstance(each, np.random.Generator)] if module else []
        START[module] = [(each, each.bit_generator.state) for each in generators]
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start the generators of a module anew: a test has the same numbers whatever this process ran before it."""
    for generator, state in START.get(getattr(item, "module", None), ()):
        generator.bit_generator.state = state


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs all tests."""
    parser.addoption("--exhaustive", action="store_true", help="run all tests, also those that take long")


def pytest_configure(config: pytest.Config) -> None:
    """Run all tests of what is asked for by a path, `-k` or `-m`, else few examples of Hypothesis; heed interrupts."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts what runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    asked = config.args_source == pytest.Config.ArgsSource.ARGS or config.option.keyword or config.option.markexpr
    if asked:
        config.option.exhaustive = True
    if not config.option.exhaustive:
        hypothesis.settings.register_profile("few", max_examples=FEW_EXAMPLES)
        hypothesis.settings.load_profile("few")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only files with tests that are asked for: quick ones, or all that are not exhaustive."""
    if not collection_path.match("test_*.py"):
        return None
    if config.getoption("markexpr") == "quick":
        return True if not tiers.entries_of(collection_path, tuple(tiers.QUICK)) else None
    return True if not config.getoption("exhaustive") and tiers.is_whole(tiers.EXHAUSTIVE, collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark quick and exhaustive tests, leave these out unless asked for, and let `-k` find tests by their cases."""
    for item in items:
        item.extra_keyword_matches.update(keywords_of(item))
        name = getattr(item, "originalname", item.name)
        case = item.name.removeprefix(name)[1:-1]
        if tiers.is_in(tiers.QUICK, item.path, name, case):
            item.add_marker(pytest.mark.quick)
        if tiers.is_in(tiers.EXHAUSTIVE, item.path, name, case):
            item.add_marker(pytest.mark.exhaustive)
    left_out = [item for item in items if item.get_closest_marker("exhaustive") is not None]
    if left_out and not config.getoption("exhaustive"):
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.get_closest_marker("exhaustive") is None]
