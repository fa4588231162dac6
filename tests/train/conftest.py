"""These tests keep compiled programs in a folder of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WYRM_CACHE_DIR", str(tmp_path_factory.mktemp("programs")))
        yield
