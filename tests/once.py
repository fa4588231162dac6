"""Results that several tests share: one of pytest's workers computes them for all."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from filelock import FileLock

T = TypeVar("T")


def shared_folder(folders: pytest.TempPathFactory) -> Path:
    """Return the temporary folder of this run of the tests, which pytest's workers share."""
    folder = folders.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


def computed_once(folders: pytest.TempPathFactory, name: str, compute: Callable[[], T]) -> T:
    """Return the result of `compute()`, which can be pickled; `name` is the result's own in this run of the tests."""
    folder = shared_folder(folders)
    path = folder / f"{name}.pickle"
    with FileLock(folder / f"{name}.lock"):
        if not path.exists():
            path.write_bytes(pickle.dumps(compute()))
    result: T = pickle.loads(path.read_bytes())
    return result
