"""Training checkpoints: resuming bit for bit, keeping the last and the best, and what cannot be saved."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.io.training_programs import filled
from tests.io.training_samples import STATE, Model, bits, check_filled_step, names, run, save, stepped, steps
from wyrm import io
from wyrm.errors import CheckpointError, DTypeError, NotFinite
from wyrm.io import Checkpoints
from wyrm.support.files import machine

# --- back and forth ---------------------------------------------------------------------------------------------------


def test_everything_comes_back_to_the_bit(tmp_path: Path) -> None:
    model, other = Model(), Model(seed=5)
    optimizer = stepped(model, 3)
    other_optimizer = stepped(other, 7, seed=9)
    checkpoints = Checkpoints(tmp_path / "made" / "here")
    path = checkpoints.save(41, model, optimizer, STATE, score=0.25)
    assert path == tmp_path / "made" / "here" / "step-00000041.safetensors"
    again = checkpoints.load(str(path), other, other_optimizer)
    assert again == STATE and list(again) == list(STATE)
    assert bits(other, other_optimizer) == bits(model, optimizer)
    assert other_optimizer.steps == optimizer.steps == 3


def test_arrays_of_the_state_come_back_to_the_bit(tmp_path: Path) -> None:
    arrays = [
        np.array(np.inf),
        np.arange(6, dtype=np.uint8).reshape(2, 3).T,
        np.zeros((0, 2), np.float16),
        np.array(True),
    ]
    state: dict[str, Any] = {'a/"b"': {"list": arrays}, "none": None, "0": [[1], arrays[0]]}
    path = Checkpoints(tmp_path).save(1, *filled(1, 5), state)
    again = Checkpoints(tmp_path).load(path, *filled(2, 5))
    for found, array in zip([*again['a/"b"']["list"], again["0"][1]], [*arrays, arrays[0]], strict=True):
        np.testing.assert_array_equal(found, array, strict=True)
    assert again["none"] is None and again["0"][0] == [1] and list(again) == list(state)
    assert state['a/"b"']["list"] is arrays


def test_resumed_training_equals_uninterrupted_training(tmp_path: Path) -> None:
    """Use the reference engine, whose random step is global to the process."""

    def go_on(model: Model, optimizer: wy.optim.Adam, count: int) -> None:
        hidden: Any = model.layers[0](wy.Constant(np.ones((5, 3), np.float32))).dropout(0.4, seed=1, stream=3)
        loss = model.layers[1](hidden).square().mean()
        for _ in range(count):
            optimizer.zero_gradient()
            loss.backward()
            optimizer.step()

    model, other = Model(), Model(seed=5)
    optimizer, other_optimizer = stepped(model), stepped(other, 1)
    wy.random.set_step(100)
    go_on(model, optimizer, 3)
    state = {"random_step": wy.random.next_step()}
    path = Checkpoints(tmp_path).save(3, model, optimizer, state)
    go_on(model, optimizer, 4)
    assert Checkpoints(tmp_path).load(path, other, other_optimizer) == state
    wy.random.set_step(state["random_step"])
    go_on(other, other_optimizer, 4)
    assert bits(other, other_optimizer) == bits(model, optimizer)


@pytest.mark.parametrize(("how", "stops"), [("epochs", [2, 3, 5]), ("steps", [3, 17, 40])])
def test_a_resumed_training_equals_one_that_was_not_stopped(tmp_path: Path, how: str, stops: list[int]) -> None:
    for stop in stops:
        result = run("train", tmp_path / "stopped", how, str(stop))
        assert result.returncode == 0, result.stderr
    result = run("train", tmp_path / "whole", how, str(stops[-1]))
    assert result.returncode == 0, result.stderr
    stopped, whole = (Checkpoints(tmp_path / name).latest() for name in ("stopped", "whole"))
    assert stopped is not None and whole is not None and stopped.name == whole.name
    first, second = io.load_arrays(stopped), io.load_arrays(whole)
    assert {name: array.tobytes() for name, array in first.arrays.items()} == {
        name: array.tobytes() for name, array in second.arrays.items()
    }
    assert first.metadata == second.metadata  # which holds the counts and a digest of everything


def test_a_mapping_of_parameters_is_saved_too(tmp_path: Path) -> None:
    path = save(tmp_path, 6)
    parameters, optimizer = filled(0, 5)
    assert Checkpoints(tmp_path).load(path, parameters, optimizer) == {"step": 6}
    assert all((parameter.value == 6).all() for parameter in parameters.values())


def test_the_description_beside_says_what_the_file_says(tmp_path: Path) -> None:
    model = Model()
    path = Checkpoints(tmp_path).save(5, model, stepped(model), STATE, score=np.float64(0.5))
    description = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert description == json.loads(io.load_arrays(path).metadata["wyrm_training"])
    assert description["state"] == STATE and description["score"] == 0.5 and description["step"] == 5
    assert description["optimizer"] == "Adam" and description["parameters"] == list(dict(model.named_parameters()))


def test_without_its_description_a_checkpoint_is_whole(tmp_path: Path) -> None:
    path = save(tmp_path, 5)
    path.with_suffix(".json").unlink()
    assert Checkpoints(tmp_path).latest() == path
    path.with_suffix(".json").write_text("{")
    assert check_filled_step(tmp_path) == 5


def test_a_step_may_be_saved_again(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=1)
    checkpoints.save(5, *filled(5, 5), {"step": 5}, 1.0)
    path = checkpoints.save(5, *filled(6, 5), {"step": 6}, 2.0)
    assert steps(tmp_path) == [5]
    parameters, optimizer = filled(0, 5)
    assert checkpoints.load(path, parameters, optimizer) == {"step": 6}
    assert (parameters["first"].value == 6).all()


# --- rotation ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("anew", [True, False])
@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"keep_last": 1}, [3, 7]),
        ({"keep_last": 2}, [3, 6, 7]),
        ({"keep_last": 9}, [1, 2, 3, 4, 5, 6, 7]),
        ({"keep_last": 2, "keep_best": False}, [6, 7]),
        ({"keep_last": 2, "higher_is_better": True}, [2, 6, 7]),
    ],
)
def test_the_last_and_the_best_are_kept(tmp_path: Path, options: Any, kept: list[int], anew: bool) -> None:
    checkpoints = Checkpoints(tmp_path, **options)
    for step, score in enumerate([0.5, 0.9, 0.1, None, 0.4, 0.1, 0.3], start=1):
        if anew:  # as after a restart
            checkpoints = Checkpoints(tmp_path, **options)
        checkpoints.save(step, *filled(step, 5), {"step": step}, score)
    assert steps(tmp_path) == kept
    assert checkpoints.latest() == tmp_path / "step-00000007.safetensors"
    best = checkpoints.best()
    assert best is not None
    if options.get("keep_best", True):
        assert best.name == f"step-{2 if 'higher_is_better' in options else 3:08d}.safetensors"


def test_without_scores_none_is_the_best(tmp_path: Path) -> None:
    save(tmp_path, 1)
    assert Checkpoints(tmp_path).best() is None
    empty = Checkpoints(tmp_path / "missing")
    assert empty.latest() is None and empty.best() is None
    assert names(tmp_path) == ["step-00000001.json", "step-00000001.safetensors"]


def test_old_ones_are_removed_after_the_new_one_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1, keep_last=1)
    removed, unlink = list[str](), Path.unlink

    def noted(path: Path, missing_ok: bool = False) -> None:
        if path.exists():
            assert check_filled_step(tmp_path) == 2
            removed.append(path.name)
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", noted)
    save(tmp_path, 2, keep_last=1)
    assert removed == ["step-00000001.json", "step-00000001.safetensors"]


def test_one_that_cannot_be_removed_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1, keep_last=1)
    unlink = Path.unlink

    def refused(path: Path, missing_ok: bool = False) -> None:
        if "00000001" in path.name:
            raise PermissionError(13, "Permission denied")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.warns(RuntimeWarning, match=r"cannot remove the old checkpoint '.*00000001.*': Permission denied"):
        save(tmp_path, 2, keep_last=1)
    assert check_filled_step(tmp_path) == 2


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    wy.io.save(Model(), tmp_path / "model.safetensors")
    wy.io.save(Model(), tmp_path / "step-00000000.safetensors")
    (tmp_path / "notes.json").write_text("{}")
    before = set(names(tmp_path))
    for step in range(1, 5):
        save(tmp_path, step, keep_last=1)
    assert before < set(names(tmp_path)) and len(names(tmp_path)) == len(before) + 2


def test_a_later_step_is_not_left_to_be_the_latest(tmp_path: Path) -> None:
    save(tmp_path, 9)
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 8 .*00000009.* has a later step"):
        save(tmp_path, 8)
    assert steps(tmp_path) == [9]
    (tmp_path / "step-00000009.safetensors").write_bytes(b"damaged")
    save(tmp_path, 8)
    with pytest.warns(RuntimeWarning, match="00000009"):
        assert check_filled_step(tmp_path) == 8


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    here, there = machine(), f"{int(machine(), 16) ^ 1:08x}"
    left = [f".wyrm-{here}-{number}-0123abcd.tmp" for number in (int(gone.stdout), os.getpid(), 10**30)]
    # A process that runs, one of another machine that shares the folder, whose number is free here, and no temporaries.
    others = [f".wyrm-{here}-{os.getppid()}-0123abcd.tmp", f".wyrm-{there}-{int(gone.stdout)}-0123abcd.tmp"]
    others += [f".wyrm-{here}-x-0123abcd.tmp", "notes.tmp"]
    for name in left + others:
        (tmp_path / name).mkdir()
        (tmp_path / name / "contents").write_bytes(b"half of it")
    save(tmp_path, 1)
    # A pid beyond the range of pids is left alone, since it cannot be tested whether it runs.
    assert set(left) & set(names(tmp_path)) == {left[2]} and set(others) < set(names(tmp_path))


# --- what cannot be saved ---------------------------------------------------------------------------------------------


def test_an_optimizer_of_other_parameters_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"Adam has .*, which is not among the parameters of the checkpoint"):
        Checkpoints(tmp_path).save(1, Model(), stepped(Model()), {})
    assert names(tmp_path) == []


def test_what_is_not_finite_is_an_error(tmp_path: Path) -> None:
    model = Model()
    optimizer = stepped(model)
    for score in (np.nan, np.inf):
        with pytest.raises(NotFinite, match=r"score must be finite, not (nan|inf)"):
            Checkpoints(tmp_path).save(1, model, optimizer, {}, score)
    optimizer.state_of(model.scale)["mean"][0] = np.nan
    with pytest.raises(NotFinite, match=r"saving step 1: optimizer/4\.mean holds a NaN or an infinity"):
        Checkpoints(tmp_path).save(1, model, optimizer, {})
    with pytest.raises(NotFinite, match=r"state\['a'\]\[1\] is inf; JSON supports finite numbers only"):
        Checkpoints(tmp_path).save(1, model, optimizer, {"a": [1.0, float("inf")]})
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"a": (1, 2)}, r"state\['a'\] is \(1, 2\), a tuple; JSON supports"),
        ({"a": {"b": [0, np.int64(3)]}}, r"state\['a'\]\['b'\]\[1\] is .*int64.*Convert it"),
        ({"a": np.array(["b"])}, r"state\['a'\] is an array of <U1; a file stores floats, integers and booleans"),
        ({"a": {3: 4}}, r"state\['a'\] has the key 3; JSON keys are strings"),
        ([1], "the state of a checkpoint must be a dict"),
    ],
)
def test_a_state_that_is_no_json_is_an_error(tmp_path: Path, state: Any, reason: str) -> None:
    with pytest.raises(DTypeError, match=reason):
        Checkpoints(tmp_path).save(1, *filled(1, 5), state)
    assert names(tmp_path) == []


def test_a_state_that_holds_itself_is_an_error(tmp_path: Path) -> None:
    state: dict[str, Any] = {}
    state["again"] = [state]
    with pytest.raises(DTypeError, match="nested more than 100 deep, or contains itself"):
        Checkpoints(tmp_path).save(1, *filled(1, 5), state)


def test_options_out_of_range(tmp_path: Path) -> None:
    wrong: Any
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=f"keep_last must be an integer of at least 1, not {wrong}"):
            Checkpoints(tmp_path, keep_last=wrong)
    for wrong in (1.0, True, "3"):
        with pytest.raises(DTypeError, match="keep_last must be an integer of at least 1"):
            Checkpoints(tmp_path, keep_last=wrong)
        with pytest.raises(DTypeError, match="step must be an integer of at least 0"):
            Checkpoints(tmp_path).save(wrong, *filled(1, 5), {})
    with pytest.raises(ValueError, match="step must be an integer of at least 0, not -1"):
        Checkpoints(tmp_path).save(-1, *filled(1, 5), {})
    with pytest.raises(DTypeError, match="score must be a number or None, not 'low'"):
        Checkpoints(tmp_path).save(1, *filled(1, 5), {}, "low")  # type: ignore[arg-type]  # the mistake that mypy finds


def test_a_directory_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 1 was written: cannot write '.*file/step"):
        save(tmp_path / "file", 1)
    with pytest.raises(CheckpointError, match=r"cannot read '.*file'"):
        Checkpoints(tmp_path / "file").latest()
