"""Checkpoints that a thread writes: the state at the call, errors where they are seen, and within an epoch."""

from __future__ import annotations

import gc
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import CheckpointError, Diverged, OptionError
from wyrm.io import Checkpoints
from wyrm.io import training as writing
from wyrm.support.background import Background
from wyrm.train import Callback, Checkpoint, Run, fit


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An event that writing waits for."""
    opened, original = threading.Event(), writing._write_files

    def waits(*arguments: Any) -> None:
        assert opened.wait(60)
        original(*arguments)

    monkeypatch.setattr(writing, "_write_files", waits)
    return opened


def quadratic() -> tuple[wy.Parameter, wy.optim.Optimizer, wy.Program[Any, Any]]:
    slope, x = wy.Parameter(np.zeros(4, np.float32), name="slope"), wy.Input(dims=(wy.Dim(), 4), name="x")
    optimizer = wy.optim.Adam([slope], 0.1)
    return slope, optimizer, wy.compile((slope * x - 1.0).square().mean(), optimizer)


def test_what_is_written_is_the_state_at_the_call(tmp_path: Path, gate: threading.Event) -> None:
    slope, optimizer, program = quadratic()
    checkpoints, rows = Checkpoints(tmp_path), np.ones((8, 4), np.float32)
    program.epoch({"x": rows})
    values, moments = slope.value.copy(), optimizer.state_dict()
    state: dict[str, Any] = {"losses": [1.0], "array": np.arange(3)}
    path = checkpoints.save(8, {"slope": slope}, optimizer, state, wait=False)
    assert checkpoints.is_writing and not path.exists()
    program.epoch({"x": rows})
    state["losses"].append(2.0)
    state["array"][:] = 0
    gate.set()
    other, twin, _ = quadratic()
    loaded = checkpoints.load(path, {"slope": other}, twin)
    assert loaded["losses"] == [1.0] and loaded["array"].tolist() == [0, 1, 2]
    assert other.value.tobytes() == values.tobytes() != slope.value.tobytes()
    assert {name: array.tobytes() for name, array in twin.state_dict().items()} == {
        name: array.tobytes() for name, array in moments.items()
    }


def test_all_that_reads_waits_for_the_write(tmp_path: Path, gate: threading.Event) -> None:
    slope, optimizer, _ = quadratic()
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"slope": slope}, optimizer, {}, 0.5, wait=False)
    threading.Timer(0.05, gate.set).start()
    latest = checkpoints.latest()
    assert latest is not None and latest == checkpoints.best() and not checkpoints.is_writing


def test_an_error_of_writing_is_raised_by_the_next_call_once(tmp_path: Path) -> None:
    slope, optimizer, _ = quadratic()
    (tmp_path / "file").write_text("not a folder")
    checkpoints = Checkpoints(tmp_path / "file" / "runs")
    checkpoints.save(1, {"slope": slope}, optimizer, {}, wait=False)
    with pytest.raises(CheckpointError, match="no checkpoint of step 1 was written"):
        checkpoints.wait()
    checkpoints.wait()
    checkpoints.check()


def test_an_error_that_nobody_asks_for_is_a_warning() -> None:
    work = Background("a test")
    work.start(lambda: 1 / 0)
    assert work._thread is not None
    work._thread.join()
    with pytest.warns(RuntimeWarning, match="nothing waited for it: division by zero"):
        del work
        gc.collect()


class Epochs(Callback):
    """Counts epochs, and makes a folder unusable after the first."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ended = folder, 0

    def on_epoch_end(self, run: Run, values: Mapping[str, float]) -> None:
        self.ended += 1
        if self.ended == 1:
            self.folder.write_text("in the way")


@pytest.mark.parametrize("epochs", [1, 5])
def test_a_training_raises_the_error_of_a_write_after_the_next_steps_or_at_its_end(tmp_path: Path, epochs: int) -> None:
    _, _, program = quadratic()
    counted = Epochs(tmp_path / "runs")
    with pytest.raises(CheckpointError, match="no checkpoint of step 8 was written"):
        fit(program, {"x": np.ones((8, 4))}, epochs=epochs, callbacks=[counted, Checkpoint(tmp_path / "runs")])
    assert counted.ended <= min(epochs, 2)


def test_a_training_that_diverges_within_an_epoch_says_so_and_keeps_its_checkpoints(tmp_path: Path) -> None:
    rows = np.ones((4000, 4), np.float32)
    rows[3000] = 3e38
    _, _, program = quadratic()
    saving = Checkpoint(tmp_path, every_seconds=0.0)
    with pytest.raises(Diverged, match="batch 3001"):
        fit(program, {"x": rows}, epochs=2, callbacks=[saving])
    latest = saving.checkpoints.latest()
    assert latest is not None and 0 < saving.checkpoints.state(latest)["position"]["batches"] <= 3000


def test_short_epochs_are_saved_by_seconds_too(tmp_path: Path) -> None:
    _, _, program = quadratic()
    saving = Checkpoint(tmp_path, every=1000, every_seconds=0.0, keep_last=9)
    fit(program, {"x": np.ones((1, 4))}, epochs=4, callbacks=[saving])
    assert [path.stem for path in sorted(tmp_path.glob("*.safetensors"))] == [f"step-{i:08d}" for i in (1, 2, 3, 4)]


def test_what_cannot_be_resumed_is_refused_before_the_first_step(tmp_path: Path) -> None:
    slope, _, program = quadratic()
    with pytest.raises(OptionError, match=r"every_seconds=5\) with threads=2: an epoch goes on where it was only in"):
        fit(program, {"x": np.ones((8, 4))}, epochs=1, threads=2, callbacks=[Checkpoint(tmp_path, every_seconds=5)])
    assert not slope.value.any()
    with pytest.raises(OptionError, match="best_only=True saves after epochs that improve"):
        Checkpoint(tmp_path, best_only=True, every_seconds=1.0)
    with pytest.raises(OptionError, match="every_seconds must be"):
        Checkpoint(tmp_path, every_seconds=-1.0)


def test_options_of_another_epoch_do_not_resume(tmp_path: Path) -> None:
    class Ends(Callback):
        def on_steps(self, run: Run) -> None:
            if run.program.state_dict()["steps"] > 1000:
                raise KeyboardInterrupt

    rows = {"x": np.ones((4000, 4), np.float32)}
    _, _, program = quadratic()
    history = fit(program, rows, epochs=1, callbacks=[Checkpoint(tmp_path, every_seconds=0.0), Ends()])
    assert history.stopped == "interrupted"
    _, _, program = quadratic()
    with pytest.raises(OptionError, match="of an epoch with batch_size=1, not 2"):
        fit(program, rows, epochs=1, batch_size=2, callbacks=[Checkpoint(tmp_path, resume=True)])
