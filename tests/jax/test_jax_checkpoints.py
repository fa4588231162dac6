"""Damaged checkpoints of programs that train with JAX."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError

pytest.importorskip("orbax.checkpoint")

DAMAGES: tuple[Callable[[Path], object], ...] = (Path.unlink, lambda file: file.write_bytes(b"null"))


# Orbax leaves tasks behind that were cancelled, and whose loop is closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_damaged_checkpoint_is_told_or_does_not_matter(tmp_path: Path) -> None:
    """Orbax repeats some of what it writes, so that some files are not read."""
    x = wy.Parameter(np.ones(3), name="x")
    program: Any = wy.compile(x.square().sum(), wy.optim.SGD([x], 0.1), engine="jax")
    program()
    saved, whole, damaged = x.value, tmp_path / "whole", tmp_path / "damaged"
    path = wy.jax.save(program, whole)
    files = [file for file in (whole / path.name).rglob("*") if file.is_file()]
    assert len(files) > 8
    refused = 0
    for file in files:
        for damage in DAMAGES:
            shutil.rmtree(damaged, ignore_errors=True)
            shutil.copytree(whole, damaged)
            damage(damaged / file.relative_to(whole))
            x.set(np.zeros(3))
            try:
                wy.jax.restore(program, damaged)
            except CheckpointError:
                refused += 1
                np.testing.assert_array_equal(x.value, 0.0)
            else:
                np.testing.assert_array_equal(x.value, saved)
    assert refused > len(files) // 2
