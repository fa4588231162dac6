"""Damaged checkpoints of programs that train with JAX."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError, OptionError

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


def test_a_folder_in_an_object_store_is_no_local_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    opened: list[str] = []

    class Manager:
        def __init__(self, folder: object, **options: object) -> None:
            opened.append(str(folder))
            raise ValueError("no bucket of this name")

    monkeypatch.setattr("orbax.checkpoint.CheckpointManager", Manager)
    monkeypatch.setattr("etils.epath.gpath.PosixGPath.is_dir", lambda self: True)
    x = wy.Parameter(np.ones(3), name="x")
    program: Any = wy.compile(x.square().sum(), wy.optim.SGD([x], 0.1), engine="jax")
    for use in (wy.jax.save, wy.jax.restore):
        with pytest.raises(CheckpointError, match="'gs://bucket/run' cannot be used: no bucket of this name"):
            use(program, "gs://bucket/run")
    assert opened == ["gs://bucket/run"] * 2 and not list(tmp_path.iterdir())
    with pytest.raises(OptionError, match=r"'ftp://host/run' is no address of a folder: those of object stores begin"):
        wy.jax.latest_step("ftp://host/run")


def test_a_missing_package_of_an_object_store_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: object) -> bool:
        raise ImportError("Please install gcsfs to access Google Storage")

    monkeypatch.setattr("etils.epath.gpath.PosixGPath.is_dir", missing)
    with pytest.raises(OptionError, match=r"checkpoints in 'gs://bucket/run': Please install gcsfs"):
        wy.jax.latest_step("gs://bucket/run")
