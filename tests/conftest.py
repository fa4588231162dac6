"""Fixtures that every test may ask for, and how tests compile programs."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import quick
from tests.browser import browser, open_page
from tests.once import shared_folder
from wyrm.engines.native.llvm import cache

__all__ = ["browser", "open_page"]

# The tests keep millions of objects, which the collector would visit again and again.
gc.set_threshold(50_000, 20, 50)
# The optimization level of programs, 0 to 3, in tests that are not marked `optimized`.
LEVEL = int(os.environ.get("WYRM_TEST_LEVEL", "0"))


@pytest.fixture(autouse=True, scope="session")
def _cache_of_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep compiled programs in a folder of this run of the tests, which its workers share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WYRM_CACHE_DIR", str(shared_folder(tmp_path_factory) / "programs"))
        yield


@pytest.fixture(autouse=True, scope="module")
def _level_of_programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compile without optimizations, in a twentieth of the time, in modules that are not marked `optimized`."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("optimized") is None:
            patch.setattr(cache, "LEVEL", LEVEL)
        yield


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only files with quick tests, where these alone are asked for."""
    if config.getoption("markexpr") != "quick" or not collection_path.match("test_*.py"):
        return None
    return True if not quick.entries_of(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the quick tests."""
    for item in items:
        if quick.is_quick(item.path, getattr(item, "originalname", item.name)):
            item.add_marker(pytest.mark.quick)
