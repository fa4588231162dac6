"""Full disks and killed processes: earlier checkpoints survive, and no temporary file is left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import safetensors.numpy
from safetensors import SafetensorError

from tests.io.training_programs import check_filled, filled
from tests.io.training_samples import ROOT, check_filled_step, names, run, save, steps
from wyrm.errors import CheckpointError
from wyrm.io import Checkpoints


def test_a_full_disk_leaves_the_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1, keep_last=1)

    def save_file(arrays: Any, filename: Any, metadata: Any) -> NoReturn:
        Path(filename).write_bytes(b"half of it")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.numpy, "save_file", save_file)
    for step in (1, 2):
        with pytest.raises(CheckpointError, match=r"step-0000000\d.*No space left.*unchanged; the disk is full"):
            save(tmp_path, step, keep_last=1)
        assert steps(tmp_path) == [1] and check_filled_step(tmp_path) == 1


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("name", ["fsync", "replace", "write_text"])
def test_wherever_it_fails_a_whole_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, step: int
) -> None:
    save(tmp_path, 1, keep_last=1)
    place: Any = os if name == "fsync" else Path
    original: Callable[..., Any] = getattr(place, name)
    for failing in range(1, 20):
        calls = 0

        def fails(*arguments: Any, failing: int = failing, **keywords: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == failing:
                raise OSError(28, "No space left on device")
            return original(*arguments, **keywords)

        monkeypatch.setattr(place, name, fails)
        failed = False
        try:
            save(tmp_path, step, keep_last=1)
        except CheckpointError as error:
            failed = True
            assert "No space left on device" in str(error) and "the disk is full" in str(error)
        monkeypatch.setattr(place, name, original)
        assert not [file for file in names(tmp_path) if file.endswith(".tmp")]
        assert check_filled_step(tmp_path) in (1, step)
        if calls < failing:
            assert not failed and steps(tmp_path) == [step]
            break
    else:
        pytest.fail("it never ended")


def test_a_limit_on_the_size_of_files_leaves_the_earlier_ones(tmp_path: Path) -> None:
    save_small = Checkpoints(tmp_path).save(1, *filled(1, 5), {"step": 1})
    program = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); "
        "from tests.io.training_programs import *; Checkpoints(sys.argv[1]).save(2, *filled(2), {'step': 2})"
    )
    result = subprocess.run(
        [sys.executable, "-B", "-c", program, str(tmp_path)], capture_output=True, text=True, cwd=ROOT
    )
    assert "CheckpointError: no checkpoint of step 2 was written" in result.stderr and "too large" in result.stderr
    assert steps(tmp_path) == [1] and Checkpoints(tmp_path).latest() == save_small


def test_a_disk_that_fills_up_leaves_the_earlier_ones() -> None:
    script = 'set -e; folder=$(mktemp -d); mount -t tmpfs -o size=4m tmpfs "$folder"; exec "$@" full "$folder"'
    private = ("unshare", "-rm", "sh", "-c")
    if (
        shutil.which("unshare") is None
        or subprocess.run([*private, "mount -t tmpfs tmpfs /mnt"], capture_output=True).returncode
    ):
        pytest.skip("a small file system cannot be mounted here")
    result = run(before=(*private, script, "sh"))
    assert result.returncode == 0, result.stderr
    message, number = result.stdout.splitlines()
    assert "No space left on device" in message and "the disk is full: free space" in message
    assert 1 <= int(number) < 10


@pytest.mark.parametrize("moment", range(1, 5))
def test_between_any_two_changes_of_names_a_whole_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """Check what another process would find if this one were killed: replacing a step removes, then renames."""
    save(tmp_path, 1, keep_last=1)
    changes, kept = 0, tmp_path.with_name(f"{tmp_path.name}-kept")
    replace, unlink = Path.replace, Path.unlink

    def noted(change: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal changes
        changes += 1
        if changes == moment:
            shutil.copytree(tmp_path, kept)
        return change(*arguments)

    monkeypatch.setattr(Path, "replace", lambda *arguments: noted(replace, *arguments))
    monkeypatch.setattr(Path, "unlink", lambda path, missing_ok=False: noted(unlink, path, missing_ok))
    Checkpoints(tmp_path, keep_last=1).save(1, *filled(1, 5), {"step": 2})
    if changes < moment:
        assert moment == 4
        return
    path = Checkpoints(kept).latest()
    assert path is not None
    state = Checkpoints(kept).load(path, *filled(0, 5))
    assert state == {"step": 1 if moment < 3 else 2}
    if path.with_suffix(".json").exists():
        assert json.loads(path.with_suffix(".json").read_text())["state"] == state
    else:
        assert moment > 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="has no fork here")
def test_a_process_that_is_killed_at_any_moment_leaves_a_whole_one(tmp_path: Path) -> None:
    result = run("kill", tmp_path, "40")
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) == check_filled(tmp_path) > 10
    step = check_filled(tmp_path) + 1
    Checkpoints(tmp_path, keep_last=2).save(step, *filled(step), {"step": step}, -step)
    # A killed process may leave a checkpoint without its description, but no description alone.
    found = {file.stem for file in tmp_path.glob("step-*.safetensors")}
    described = {file.stem for file in tmp_path.glob("step-*.json")}
    assert f"step-{step:08d}" in described <= found and len(found) <= 3
    assert len(names(tmp_path)) == len(found) + len(described)
