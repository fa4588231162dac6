"""These tests run programs as users do: with all optimizations."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def level_of_programs() -> None:
    """Leave the optimization level as it is."""
