"""A training that is killed while it saves, again and again, ends with the bits of one without a break."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.io.training_samples import ROOT

POSIX = pytest.mark.skipif(os.name != "posix", reason="has no SIGKILL here")


def run(folder: Path, engine: str, kind: str, result: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.train.killed_training", str(folder), engine, kind, str(result)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)


def being_written(folder: Path) -> set[str]:
    return {path.name for path in folder.glob(".wyrm-*.tmp")}


def ended(process: subprocess.Popen[bytes], result: Path) -> Any:
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    return json.loads(result.read_text(encoding="utf-8"))


def killed_while_saving(process: subprocess.Popen[bytes], folder: Path, moments: random.Random) -> bool:
    """Kill a training at a random moment of one of its next saves; return whether it was killed before it ended."""
    known, wanted, seen = being_written(folder), moments.randint(1, 4), 0
    while process.poll() is None:
        new = being_written(folder) - known
        known |= new
        seen += len(new)
        if seen >= wanted:
            time.sleep(moments.uniform(0.0, 0.006))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return process.returncode == -signal.SIGKILL
        time.sleep(0.0005)
    return False


@POSIX
@pytest.mark.parametrize(
    ("engine", "kind", "kills"), [("native", "columns", 12), ("native", "loader", 8), ("jax", "columns", 3)]
)
def test_a_training_killed_during_saves_ends_like_one_without_a_break(
    tmp_path: Path, engine: str, kind: str, kills: int
) -> None:
    if engine == "jax":
        pytest.importorskip("jax")
    wanted = ended(run(tmp_path / "whole", engine, kind, tmp_path / "whole.json"), tmp_path / "whole.json")
    moments, killed, in_writing, folder, result = random.Random(7), 0, 0, tmp_path / "0", tmp_path / "0.json"
    # On a busy machine a kill comes late: more of them, until one leaves a file that is not complete.
    while killed < kills or (not in_writing and killed < 10 * kills):
        before = being_written(folder)
        process = run(folder, engine, kind, result)
        if killed_while_saving(process, folder, moments):
            killed += 1
            in_writing += bool(being_written(folder) - before)
            continue
        # The training has ended in spite of its kills: the next ones are of a new one.
        assert ended(process, result) == wanted
        folder, result = tmp_path / str(killed), tmp_path / f"{killed}.json"
    assert ended(run(folder, engine, kind, result), result) == wanted
    assert in_writing > 0, "at least one kill left a file that was not complete"
    assert not being_written(folder), "a later save removed the leftovers"
