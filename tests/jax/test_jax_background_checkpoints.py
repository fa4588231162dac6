"""`wy.jax.save(wait=False)`: what is written is the state at the call, whole after a kill, and errors are raised."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.jax import saving_worker
from wyrm.errors import CheckpointError, DTypeError

pytest.importorskip("orbax.checkpoint")


def worker(folder: Path, what: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.jax.saving_worker", str(folder), what]
    return subprocess.run(command, capture_output=True, text=True)


def weights_after_restoring(folder: Path) -> tuple[set[float], int, dict[str, Any]]:
    """Return the distinct weights of the latest checkpoint, the optimizer's steps and the state."""
    program = saving_worker.program()
    state = wy.jax.restore(program, folder)
    return set(np.unique(program.trained[0].value).tolist()), program.optimizer.steps, state


def test_steps_that_follow_do_not_change_what_is_written(tmp_path: Path) -> None:
    program = saving_worker.program()
    for number in range(1, 4):
        saving_worker.step(program)
        path = wy.jax.save(program, tmp_path, keep=2, state={"number": number}, wait=False)
        assert path == tmp_path / str(number)
    for _ in range(2):
        saving_worker.step(program)
    assert wy.jax.latest_step(tmp_path) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3"]
    assert weights_after_restoring(tmp_path) == ({3.0}, 3, {"number": 3})


def test_a_later_checkpoint_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    program = saving_worker.program()
    saving_worker.step(program)
    wy.jax.save(program, tmp_path, wait=False)
    with pytest.raises(CheckpointError, match="has one of step 1"):
        wy.jax.save(program, tmp_path, wait=False)
    with pytest.raises(DTypeError, match="wait must be True or False"):
        wy.jax.save(program, tmp_path, wait=0)  # type: ignore[arg-type]  # the mistake
    wy.jax.wait()
    assert wy.jax.latest_step(tmp_path) == 1


def test_the_end_of_the_program_waits_for_the_checkpoint(tmp_path: Path) -> None:
    done = worker(tmp_path, "ends")
    assert done.returncode == 0 and done.stderr == ""
    assert weights_after_restoring(tmp_path)[:2] == ({2.0}, 2)


def test_an_error_of_writing_is_raised_and_earlier_checkpoints_stay(tmp_path: Path) -> None:
    done = worker(tmp_path, "fails")
    assert done.returncode == 0, done.stderr
    assert "no checkpoint of step 2 was written" in done.stdout and "earlier ones stay" in done.stdout
    assert weights_after_restoring(tmp_path)[:2] == ({3.0}, 3)  # the next one is written
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "3"]


def test_an_error_that_nobody_asks_for_is_a_warning_at_the_end(tmp_path: Path) -> None:
    done = worker(tmp_path, "forgets")
    assert "RuntimeWarning: no checkpoint of step 2 was written" in done.stderr and "wy.jax.wait()" in done.stderr
    assert weights_after_restoring(tmp_path)[:2] == ({1.0}, 1)


@pytest.fixture(scope="module")
def server() -> Iterator[subprocess.Popen[str]]:
    """A process that forks those which train."""
    command = [sys.executable, "-m", "tests.jax.saving_worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.mark.parametrize("seed", range(3))
def test_a_kill_leaves_a_whole_checkpoint(server: subprocess.Popen[str], tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    assert server.stdin is not None and server.stdout is not None
    for _ in range(2):
        server.stdin.write(f"{tmp_path}\n")
        server.stdin.flush()
        process = int(server.stdout.readline())
        for _ in range(draw.randint(2, 5)):
            began = int(server.stdout.readline())
        time.sleep(draw.uniform(0.0, 0.03))
        os.kill(process, signal.SIGKILL)
        while server.stdout.readline().strip():
            pass
        weights, steps, state = weights_after_restoring(tmp_path)
        # The step before the one that was being written is complete.
        assert steps >= began - 1 and weights == {float(steps)} and state == {"steps": steps}
