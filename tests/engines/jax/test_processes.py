"""Programs on several processes of this machine: equal numbers, the loss of a process, checkpoints, and errors."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.engines.jax.processes import Finished, Server
from wyrm.engines.jax.processes import Part, computing, fingerprint
from wyrm.errors import CheckpointError, OptionError, ProcessLost

pytest.importorskip("jax")
pytest.importorskip("orbax.checkpoint")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as server:
        yield server


# A training that loses a process in its second epoch.
LONG: dict[str, Any] = {"rows": 140, "epochs": 3}


@pytest.fixture(scope="module")
def alone(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process finds."""
    return server.found(tmp_path_factory.mktemp("alone"), 1, **LONG)


@pytest.fixture(scope="module")
def both(server: Server, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What two processes find, of which none is lost."""
    return server.found(tmp_path_factory.mktemp("both"), 2, **LONG, sharding="fsdp")


@pytest.fixture(scope="module")
def killed(server: Server, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Finished], Path]:
    """How two processes end of which one is killed, and the checkpoints that they leave."""
    folder = tmp_path_factory.mktemp("killed")
    checkpoints = folder / "checkpoints"
    options: dict[str, Any] = {"folder": str(checkpoints), "failure": "kill", "fail_after": 25}
    return server.run(folder, 2, **LONG, sharding="fsdp", **options), checkpoints


def assert_near(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found["means"] == pytest.approx(expected["means"], rel=1e-5)
    for a, b in zip(expected["values"], found["values"], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


def test_two_processes_compute_what_one_does(alone: dict[str, Any], both: dict[str, Any]) -> None:
    assert_near(both, alone)


def test_two_processes_with_their_own_rows_compute_what_one_does(server: Server, tmp_path: Path) -> None:
    one = server.found(tmp_path, 1, own_rows=True)
    assert_near(server.found(tmp_path, 2, own_rows=True, sharding="fsdp"), one)


def test_a_killed_process_ends_the_other_and_a_restart_goes_on_exactly(
    server: Server, both: dict[str, Any], killed: tuple[list[Finished], Path], tmp_path: Path
) -> None:
    (first, last), checkpoints = killed
    assert last.code == -9 and first.code == 1
    assert "ProcessLost" in first.text and "start all of them again from the last checkpoint" in first.text
    shutil.copytree(checkpoints, tmp_path / "checkpoints")
    resumed = server.found(tmp_path, 2, **LONG, sharding="fsdp", folder=str(tmp_path / "checkpoints"))
    assert resumed["means"] == both["means"][1:]
    assert resumed["values"] == both["values"]


def test_another_number_of_processes_goes_on_with_a_checkpoint(
    server: Server, alone: dict[str, Any], killed: tuple[list[Finished], Path], tmp_path: Path
) -> None:
    shutil.copytree(killed[1], tmp_path / "checkpoints")
    resumed = server.found(tmp_path, 1, **LONG, folder=str(tmp_path / "checkpoints"))
    assert resumed["means"] == pytest.approx(alone["means"][1:], rel=1e-5)


def test_a_process_that_fails_ends_the_other(server: Server, tmp_path: Path) -> None:
    raised = server.run(tmp_path, 2, failure="raise", epochs=500)
    assert [each.code for each in raised] == [1, 1]
    assert "ProcessLost" in raised[0].text and "ValueError: this process fails" in raised[1].text


def test_a_first_process_that_fails_ends_the_other_without_an_abort(server: Server, tmp_path: Path) -> None:
    first, other = server.run(tmp_path, 2, failure="first", epochs=500)
    assert [first.code, other.code] == [1, 1]
    assert "ValueError: this process fails" in first.text and "ProcessLost" in other.text


def test_a_process_that_exits_ends_the_other(server: Server, tmp_path: Path) -> None:
    exited = server.run(tmp_path, 2, failure="exit", epochs=500)
    assert exited[0].code == 1 and exited[1].code != 0
    assert "process 1 (after an error) left" in exited[0].text and "this process ends" in exited[1].text


@pytest.mark.parametrize(("failure", "what"), [("values", "the value of first"), ("data", "the data of x")])
def test_what_differs_between_processes_is_named(server: Server, tmp_path: Path, failure: str, what: str) -> None:
    for each in server.run(tmp_path, 2, failure=failure):
        assert each.code == 1
        assert f"OptionError: {what}" in each.text and "of process 1 differs from that of process 0" in each.text


def test_a_process_does_not_train_alone(server: Server, tmp_path: Path) -> None:
    for process, each in enumerate(server.run(tmp_path, 2, sharding="none")):
        assert each.code == 1 and f"OptionError: this is process {process} of 2: give mesh" in each.text


def test_a_process_that_is_killed_while_the_other_saves(server: Server, tmp_path: Path) -> None:
    options: dict[str, Any] = {"failure": "save", "folder": str(tmp_path / "checkpoints"), "every": 10_000}
    assert "ProcessLost" in server.run(tmp_path, 2, sharding="fsdp", **options)[0].text


def test_an_index_out_of_range_on_one_process_is_the_same_error_on_all(server: Server, tmp_path: Path) -> None:
    found = server.found(tmp_path, 2, model="an index")
    loader, columns = found["errors"]
    assert "on process 1: column items holds 99 in row 1, but index of table" in loader
    assert "on process 1: column items holds 99 in row 3, but index of table" in columns
    assert all(text.endswith("no parameter has moved") for text in (loader, columns)) and not found["moved"]


def test_an_index_out_of_range_in_a_loop_is_the_same_error_on_all(server: Server, tmp_path: Path) -> None:
    call, epoch = server.found(tmp_path, 2, model="an index in a loop")["errors"]
    for text in (call, epoch):
        assert text.startswith("IndexOutOfRange: ") and "holds 9 in a loop, but index of table" in text


def test_calls_and_evaluations_compare_what_processes_give(server: Server, tmp_path: Path) -> None:
    errors = server.found(tmp_path, 2, model="other data")["errors"]
    for text in errors[:4]:
        assert text.startswith("OptionError: the data of wanted") and "of process 1 differs from that of pro" in text
    # An index out of range is found in the columns of a data set; in a batch, the comparison comes first.
    for text in errors[4:6]:
        assert text.startswith("OptionError: the data of items")
    for text in errors[6:]:
        assert text.startswith("IndexOutOfRange: column items holds 8 in row 3, but index of table")


def test_loaders_of_processes_whose_devices_alternate(server: Server, tmp_path: Path) -> None:
    found = server.found(tmp_path, 2, model="loaders", devices=2, folder=str(tmp_path))
    assert [(tmp_path / f"rows-{process}.txt").read_text() for process in range(2)] == ["[0, 2]", "[1, 3]"]
    assert found["of a loader"] == pytest.approx(found["of columns"], rel=1e-6)
    assert "the number of batches, of process 1 differs from that of process 0" in found["other lengths"]
    assert "the options of the epoch or the number of rows of process 1 differs" in found["other numbers of rows"]
    text = found["rows that devices do not divide"]
    assert text.startswith("ShapeError: a batch of loaders has 1 rows of items (Batch(),) int64")
    assert "in each of 2 parts, 2 in all, which 4 devices do not divide: give batches whose parts are" in text


def test_all_processes_decide_the_same_in_fit_and_one_writes(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    both = server.found(tmp_path, 2, model="fit", folder=str(folder))["trainings"]
    written = [int((folder / f"written-{process}.txt").read_text()) for process in range(2)]
    assert written[0] >= 12 and written[1] == 0
    assert both[0][0] == "completed" and len(both[1][1]["loss"]) > 3 and both[1][1]["loss"][:3] == both[0][1]["loss"]
    alone = server.found(tmp_path, 1, model="fit", folder=str(tmp_path / "alone"))["trainings"]
    for (stopped, history, table), (expected_stopped, expected, values) in zip(both, alone, strict=True):
        assert stopped == expected_stopped
        np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-4)
        np.testing.assert_allclose(table, values, rtol=1e-4, atol=1e-5)


def test_one_process_shows_bars_and_records_a_run(server: Server, tmp_path: Path) -> None:
    first, other = server.run(tmp_path, 2, model="watched fit", folder=str(tmp_path))
    assert [first.code, other.code] == [0, 0], first.text + other.text
    assert first.found == other.found and first.found["stopped"] == "completed"
    assert "epoch 3/3" in first.text and first.text.count("100%") >= 3
    assert "row/s" not in other.text and "%" not in other.text
    assert (tmp_path / "run-0").is_dir() and not (tmp_path / "run-1").exists()
    alone = server.found(tmp_path, 1, model="watched fit", folder=str(tmp_path / "alone"))
    assert first.found["means"] == pytest.approx(alone["means"], rel=1e-4)
    assert first.found["history"]["loss"] == pytest.approx(alone["history"]["loss"], rel=1e-4)


def test_a_process_goes_on_alone_after_the_others_have_ended(server: Server, tmp_path: Path) -> None:
    assert server.found(tmp_path, 2, model="one left") == {"sum": 6.0, "jax": 3.0}


@pytest.mark.parametrize("raised", [ValueError, "JaxRuntimeError"])
def test_errors_of_collectives_name_the_loss(raised: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    monkeypatch.setattr(jax, "process_count", lambda: 2)
    kind = getattr(jax.errors, raised) if isinstance(raised, str) else raised
    with pytest.raises(ProcessLost, match="This is process 0 of 2"), computing():
        raise kind("UNKNOWN: Gloo AllGather failed: Connection reset by peer")
    with pytest.raises(ValueError, match="no connection"), computing():
        raise ValueError("no connection to the figures of this callback")


# --- one process ------------------------------------------------------------------------------------------------------


class Interrupting:
    """A bar that saves a checkpoint once so many rows are done."""

    def __init__(self, program: wy.Program[Any, Any], folder: Path, rows: int) -> None:
        self.program, self.folder, self.left = program, folder, rows

    def update(self, rows: int) -> None:
        """Count rows."""
        before, self.left = self.left, self.left - rows
        if self.left <= 0 < before:
            wy.jax.save(self.program, self.folder)


def regression(optimizer: Any = wy.optim.Adam, size: int = 3) -> tuple[wy.Parameter[Any], wy.Program[Any, Any]]:
    class Batch(wy.Dim): ...

    batch = Batch()
    weight = wy.Parameter(np.zeros(size, np.float32), name="weight")
    x, y = wy.Input(dims=(batch, size), name="x"), wy.Input(dims=(batch,), name="y")
    loss = (x @ weight - y).square().mean()
    return weight, wy.compile(loss, optimizer([weight], 0.1), engine="jax")


def data(rows: int = 4000) -> dict[str, Any]:
    inputs = np.random.default_rng(0).normal(size=(rows, 3)).astype(np.float32)
    return {"x": inputs, "y": inputs.sum(axis=1)}


@pytest.mark.parametrize("accumulate", [1, 3])
def test_an_epoch_goes_on_inside(tmp_path: Path, accumulate: int) -> None:
    weight, program = regression()
    options: dict[str, Any] = {"batch_size": 7, "shuffle": True, "seed": 5, "accumulate": accumulate}
    program.epoch(data(), **options)
    mean = program.epoch(data(), progress=Interrupting(program, tmp_path, 1500), **options)
    value, state = weight.value.copy(), program.state_dict()
    again, other = regression()
    wy.jax.restore(other, tmp_path)
    with pytest.raises(OptionError, match=r"epoch with seed=5, not 6: go on with the options"):
        other.epoch(data(), **{**options, "seed": 6})
    assert other.epoch(data(), **options) == mean
    np.testing.assert_array_equal(again.value, value)
    assert other.state_dict() == state


def test_batches_go_on_inside(tmp_path: Path) -> None:
    weight, program = regression()
    batches = [{name: column[i : i + 8] for name, column in data().items()} for i in range(0, 4000, 8)]
    mean = program.epoch(iter(batches), progress=Interrupting(program, tmp_path, 1500))
    again, other = regression()
    wy.jax.restore(other, tmp_path)
    assert other.epoch(iter(batches)) == pytest.approx(mean, rel=1e-12)
    np.testing.assert_array_equal(again.value, weight.value)


def test_another_program_reads_the_parameters_on_the_devices() -> None:
    first, second = wy.Parameter(np.ones((2, 3)), name="first"), wy.Parameter(np.ones(3), name="second")
    total = first.square().sum() + second.square().sum()
    train = wy.compile(total, wy.optim.SGD([first, second], 0.25), engine="jax")
    forward = wy.compile(first.sum(axis=0) + second, engine="jax")
    train()
    assert forward().tolist() == [1.5, 1.5, 1.5]
    assert first.value.tolist() == [[0.5] * 3] * 2


def test_checkpoints_of_a_folder(tmp_path: Path) -> None:
    assert wy.jax.latest_step(tmp_path / "none") is None
    weight, program = regression()
    for step in range(5):
        program({name: column[:8] for name, column in data().items()})
        wy.jax.save(program, tmp_path, keep=2, state={"step": step})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["4", "5"]
    value = weight.value.copy()
    other, fresh = regression()
    assert wy.jax.restore(fresh, tmp_path, step=4) == {"step": 3}
    assert fresh.optimizer is not None and fresh.optimizer.steps == 4
    assert wy.jax.restore(fresh, tmp_path) == {"step": 4}
    np.testing.assert_array_equal(other.value, value)
    with pytest.raises(CheckpointError, match="has one of step 5, which would stay the latest"):
        wy.jax.save(fresh, tmp_path)


def test_errors_of_checkpoints_change_nothing(tmp_path: Path) -> None:
    weight, program = regression()
    program({name: column[:8] for name, column in data().items()})
    with pytest.raises(CheckpointError, match="state must have JSON values"):
        wy.jax.save(program, tmp_path, state={"array": np.zeros(2)})
    with pytest.raises(CheckpointError, match="there is no checkpoint in"):
        wy.jax.restore(program, tmp_path)
    wy.jax.save(program, tmp_path)
    with pytest.raises(CheckpointError, match="no checkpoint of step 7"):
        wy.jax.restore(program, tmp_path, step=7)
    with pytest.raises(CheckpointError, match="is a checkpoint of Adam, not of SGD"):
        wy.jax.restore(regression(wy.optim.SGD)[1], tmp_path)
    with pytest.raises(CheckpointError, match=r"0\.weight has shape \(3,\) and dtype float32 in it, \(2,\)"):
        wy.jax.restore(regression(size=2)[1], tmp_path)
    native = wy.compile(weight.sum(), wy.optim.SGD([weight], 0.1))
    with pytest.raises(OptionError, match="does not train with JAX"):
        wy.jax.save(native, tmp_path)
    value = weight.value.copy()
    for file in tmp_path.glob("1/arrays/**/d/*"):
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    with pytest.raises(CheckpointError, match="cannot be used"):
        wy.jax.restore(program, tmp_path)
    np.testing.assert_array_equal(weight.value, value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("localhost", 2, 0), "coordinator must be 'HOST:PORT'"),
        (("localhost:1", 2, 2), "process must be below 2"),
        (("localhost:1", 0, 0), "processes must be"),
    ],
)
def test_options_of_initialize(arguments: tuple[str, int, int], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        wy.jax.initialize(*arguments)


def test_one_process_needs_no_connection() -> None:
    wy.jax.initialize(processes=1)
    assert Part().rows(5) == slice(0, 5) and Part(1, 2).rows(8) == slice(4, 8)
    large = np.arange(1000.0)
    assert fingerprint(large) == fingerprint(large.copy()) != fingerprint(large + 1.0)
