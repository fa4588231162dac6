"""Fixtures that every test may ask for, and how tests compile programs."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from tests.browser import browser, open_page
from tests.once import shared_folder
from wyrm.engines.native.llvm import cache

__all__ = ["browser", "open_page"]

# The tests keep millions of objects, which the collector would visit again and again.
gc.set_threshold(50_000, 20, 50)
# The optimization level of programs in most tests, 0 to 3.
LEVEL = int(os.environ.get("WYRM_TEST_LEVEL", "0"))


@pytest.fixture(autouse=True, scope="session")
def _cache_of_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep compiled programs in a folder of this run of the tests, which its workers share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WYRM_CACHE_DIR", str(shared_folder(tmp_path_factory) / "programs"))
        yield


@pytest.fixture(scope="module")
def without_optimizations() -> Iterator[None]:
    """Compile programs without optimizations, in a twentieth of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "LEVEL", LEVEL)
        yield


@pytest.fixture(autouse=True, scope="module")
def level_of_programs(without_optimizations: None) -> None:
    """Compile without optimizations; `tests/train` and `tests/kernels`, which test each op, replace this fixture."""
