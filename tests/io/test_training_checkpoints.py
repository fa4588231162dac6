"""Checkpoints of a training: whole or not there, the last and the best kept, and training goes on bit for bit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import safetensors.numpy
from safetensors import SafetensorError

import wyrm as wy
from tests.io.training_programs import check_filled, filled
from wyrm import io
from wyrm.errors import CheckpointError, DTypeError, NotFinite
from wyrm.io import Checkpoints

ROOT = Path(__file__).resolve().parents[2]
STATE: dict[str, Any] = {
    "epoch": 3,
    "random_step": 2**70,
    "config": {"rate": 0.1, "names": ["a", "ü\n"], "tied": True, "none": None},
    "small": 5e-324,
}


class Hidden(wy.Dim): ...


class Model(wy.nn.Module):
    def __init__(self, hidden: int = 4, seed: int = 1) -> None:
        self.layers = [wy.nn.Linear(3, Hidden(hidden), seed=seed), wy.nn.Linear(Hidden(hidden), 2, seed=seed + 1)]
        self.scale = wy.Parameter(np.array([-0.0, 5e-324, 1.0 / 3.0]), name="scale")


def stepped(model: wy.nn.Module, steps: int = 3, seed: int = 0, **options: Any) -> wy.optim.Adam:
    """An optimizer of the model after some steps."""
    random, optimizer = np.random.default_rng(seed), wy.optim.Adam(model.parameters(), **options)
    for _ in range(steps):
        optimizer.zero_gradient()
        for parameter in model.parameters():
            (parameter * random.normal(size=parameter.shape)).sum().backward()
        optimizer.step()
    return optimizer


def bits(model: wy.nn.Module, optimizer: wy.optim.Optimizer) -> dict[str, bytes]:
    arrays = {name: parameter.value for name, parameter in model.named_parameters().items()}
    return {name: array.tobytes() for name, array in (arrays | optimizer.state_dict()).items()}


def names(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.iterdir())


def steps(directory: Path) -> list[int]:
    """The steps that stand, each with its description; and nothing else."""
    found = sorted(int(file.stem.removeprefix("step-")) for file in directory.glob("step-*.safetensors"))
    assert names(directory) == [f"step-{step:08d}.{end}" for step in found for end in ("json", "safetensors")]
    return found


def save(directory: Path, step: int, score: float | None = None, **options: Any) -> Path:
    return Checkpoints(directory, **options).save(step, *filled(step, 5), {"step": step}, score)


def run(*arguments: str | Path, before: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*before, sys.executable, "-m", "tests.io.training_programs", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)


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


def test_training_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    """In the engine of `forward()`, where the step of random nodes belongs to the process."""

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
    state = {"random_step": int(wy.random.STEP.value) + 1}
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
    assert first.metadata == second.metadata  # the counts, and a digest of all


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
    assert description["optimizer"] == "Adam" and description["parameters"] == list(model.named_parameters())


def test_without_its_description_a_checkpoint_is_whole(tmp_path: Path) -> None:
    path = save(tmp_path, 5)
    path.with_suffix(".json").unlink()
    assert Checkpoints(tmp_path).latest() == path
    path.with_suffix(".json").write_text("{")
    assert check_filled_step(tmp_path) == 5


def check_filled_step(directory: Path) -> int:
    path = Checkpoints(directory).latest()
    assert path is not None
    step: int = Checkpoints(directory).load(path, *filled(0, 5))["step"]
    return step


def test_a_step_may_be_saved_again(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep_last=1)
    checkpoints.save(5, *filled(5, 5), {"step": 5}, 1.0)
    path = checkpoints.save(5, *filled(6, 5), {"step": 6}, 2.0)
    assert steps(tmp_path) == [5]
    parameters, optimizer = filled(0, 5)
    assert checkpoints.load(path, parameters, optimizer) == {"step": 6}
    assert (parameters["first"].value == 6).all()


# --- which are kept ---------------------------------------------------------------------------------------------------


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
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 8 .*00000009.* is of a later step"):
        save(tmp_path, 8)
    assert steps(tmp_path) == [9]
    (tmp_path / "step-00000009.safetensors").write_bytes(b"damaged")
    save(tmp_path, 8)
    with pytest.warns(RuntimeWarning, match="00000009"):
        assert check_filled_step(tmp_path) == 8


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    left = [f".wyrm-{number}-0123abcd.tmp" for number in (int(gone.stdout), os.getpid(), 10**30)]
    others = [f".wyrm-{os.getppid()}-0123abcd.tmp", ".wyrm-x-0123abcd.tmp", "notes.tmp"]
    for name in left + others:
        (tmp_path / name).mkdir()
        (tmp_path / name / "contents").write_bytes(b"half of it")
    save(tmp_path, 1)
    # The number that no process can have is left alone: whether it runs cannot be asked.
    assert set(left) & set(names(tmp_path)) == {left[2]} and set(others) < set(names(tmp_path))


# --- damaged files, and files of another origin -----------------------------------------------------------------------


def refused(directory: Path, path: Path, reason: str, warns: bool = True) -> None:
    """The file is skipped with a warning, and loading it changes nothing."""
    model = Model(seed=5)
    optimizer = stepped(model)
    before = bits(model, optimizer)
    with pytest.raises(CheckpointError, match=reason) as error:
        Checkpoints(directory).load(path, model, optimizer)
    assert path.name in str(error.value)
    assert bits(model, optimizer) == before
    if warns:
        for find in (Checkpoints.latest, Checkpoints.best):
            with pytest.warns(RuntimeWarning, match=rf"a damaged checkpoint is skipped: .*{path.name}"):
                assert find(Checkpoints(directory)) == directory / "step-00000001.safetensors"


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """The later one of two checkpoints, to be damaged."""
    model = Model()
    optimizer = stepped(model)
    checkpoints = Checkpoints(tmp_path)
    for step in (1, 2):
        path = checkpoints.save(step, model, optimizer, STATE, score=1.0 / step)
    return path


def test_a_truncated_file_is_skipped(two: Path) -> None:
    whole = two.read_bytes()
    for length in [0, 1, 8, 100, len(whole) // 2, len(whole) - 1]:
        two.write_bytes(whole[:length])
        refused(two.parent, two, "truncated or corrupt")


def test_a_flipped_bit_anywhere_is_found(two: Path) -> None:
    whole = two.read_bytes()
    random = np.random.default_rng(0)
    places = [*random.integers(0, len(whole), 60), len(whole) - 1, whole.index(b"epoch"), whole.index(b"score") + 11]
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << int(random.integers(8))
        two.write_bytes(changed)
        with pytest.raises(CheckpointError, match=two.name):
            Checkpoints(two.parent).load(two, Model(), stepped(Model()))
    refused(two.parent, two, two.name)


def test_a_file_of_zeros_is_skipped(two: Path) -> None:
    two.write_bytes(bytes(two.stat().st_size))
    refused(two.parent, two, "truncated or corrupt")


def test_weights_without_a_record_are_refused(two: Path) -> None:
    wy.io.save(Model(), two)
    refused(two.parent, two, "is no training checkpoint, which Checkpoints.save writes")


@pytest.mark.parametrize("record", ["", "{", "[]", "3", "{}", '{"version": 1}', "[" * 10**5])
def test_a_record_that_cannot_be_read_is_refused(two: Path, record: str) -> None:
    io.save_arrays(two, io.load_arrays(two).arrays, {"wyrm_training": record})
    refused(two.parent, two, "is corrupt: its record cannot be read")


def test_another_version_is_refused(two: Path) -> None:
    arrays, metadata = io.load_arrays(two)
    io.save_arrays(two, arrays, {"wyrm_training": metadata["wyrm_training"].replace('"version": 1', '"version": 2')})
    refused(two.parent, two, "has version 2 of the format; this library reads 1")


def test_contents_of_two_files_are_refused(two: Path) -> None:
    arrays, metadata = io.load_arrays(two)
    for changed in (
        arrays | {"weights/scale": arrays["weights/scale"] + 1.0},
        arrays | {"weights/more": np.zeros(2)},
        {name: array for name, array in arrays.items() if name != "weights/scale"},
    ):
        io.save_arrays(two, changed, metadata)
        refused(two.parent, two, "is corrupt: its contents have changed since it was written")


def test_a_renamed_file_is_skipped_but_can_be_loaded(two: Path) -> None:
    later = two.with_name("step-00000007.safetensors")
    shutil.copy(two, later)
    with pytest.warns(RuntimeWarning, match=r"step-00000007\.safetensors' was renamed: it is of step 2"):
        assert Checkpoints(two.parent).latest() == two
    model = Model(seed=5)
    assert Checkpoints(two.parent).load(later, model, stepped(model)) == STATE


def test_a_directory_in_the_place_of_a_file_is_skipped(two: Path) -> None:
    two.unlink()
    two.mkdir()
    refused(two.parent, two, "cannot read")


def test_where_all_are_damaged_there_is_none(tmp_path: Path) -> None:
    save(tmp_path, 1).write_bytes(b"")
    with pytest.warns(RuntimeWarning, match="step-00000001"):
        assert Checkpoints(tmp_path).latest() is None


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    refused(tmp_path, tmp_path / "step-00000009.safetensors", "no such file", warns=False)


# --- made for something else ------------------------------------------------------------------------------------------


def made_for_another(path: Path, model: wy.nn.Module, optimizer: wy.optim.Optimizer, reason: str) -> None:
    before = bits(model, optimizer)
    with pytest.raises(CheckpointError, match=reason) as error:
        Checkpoints(path.parent).load(path, model, optimizer)
    assert repr(str(path)) in str(error.value)
    assert bits(model, optimizer) == before


class Wider(Model):
    def __init__(self) -> None:
        super().__init__()
        self.more = wy.Parameter([1.0], name="more")


class Without(Model):
    def __init__(self) -> None:
        super().__init__()
        del self.scale


def test_another_model_is_refused(two: Path) -> None:
    for model, reason in [
        (Wider(), "made for other parameters than those of Wider:\n  missing in the file: more"),
        (Without(), "made for other parameters than those of Without:\n  extra in the file: scale"),
        (Model(hidden=5), r"layers\.0\.weight: \(3, 4\) float32 in the file, \(3, 5\) float32 here"),
    ]:
        made_for_another(two, model, stepped(model), reason)
    model = Model()
    model.scale = wy.Parameter(np.zeros(3, np.float32), name="scale")
    made_for_another(two, model, stepped(model), r"scale: \(3,\) float64 in the file, \(3,\) float32 here")


def test_another_optimizer_is_refused(two: Path) -> None:
    model = Model()
    parameters = model.parameters()
    for optimizer, reason in [
        (wy.optim.SGD(parameters, 0.1), "was made for Adam, not for SGD"),
        (wy.optim.Adam(parameters[:-1]), r"optimizer of other parameters, or in another order: .*scale in the file, "),
        (wy.optim.Adam(parameters[::-1]), "optimizer of other parameters, or in another order: .* in the file, scale"),
    ]:
        made_for_another(two, model, optimizer, reason)


def test_another_kind_of_the_same_optimizer_is_refused(tmp_path: Path) -> None:
    x = wy.Parameter([1.0, 2.0])
    path = Checkpoints(tmp_path).save(1, {"x": x}, wy.optim.SGD([x], 0.1, momentum=0.9), {})
    with pytest.raises(CheckpointError, match=r"was made for another optimizer: the state is not that of this SGD"):
        Checkpoints(tmp_path).load(path, {"x": x}, wy.optim.SGD([x], 0.1))


# --- what cannot be saved ---------------------------------------------------------------------------------------------


def test_an_optimizer_of_other_parameters_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"Adam moves .*, which is not among the parameters of the checkpoint"):
        Checkpoints(tmp_path).save(1, Model(), stepped(Model()), {})
    assert names(tmp_path) == []


def test_what_is_not_finite_is_an_error(tmp_path: Path) -> None:
    model = Model()
    optimizer = stepped(model)
    for score in (np.nan, np.inf):
        with pytest.raises(NotFinite, match=r"score is (nan|inf)"):
            Checkpoints(tmp_path).save(1, model, optimizer, {}, score)
    optimizer.state_of(model.scale)["mean"][0] = np.nan
    with pytest.raises(NotFinite, match=r"saving step 1: optimizer/4\.mean holds a NaN or an infinity"):
        Checkpoints(tmp_path).save(1, model, optimizer, {})
    with pytest.raises(NotFinite, match=r"state\['a'\]\[1\] is inf; JSON has finite numbers only"):
        Checkpoints(tmp_path).save(1, model, optimizer, {"a": [1.0, float("inf")]})
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ({"a": (1, 2)}, r"state\['a'\] is \(1, 2\), a tuple; JSON has"),
        ({"a": {"b": [0, np.int64(3)]}}, r"state\['a'\]\['b'\]\[1\] is .*int64.*Convert it"),
        ({"a": np.zeros(2)}, r"state\['a'\] is .*a ndarray"),
        ({"a": {3: 4}}, r"state\['a'\] has the key 3; keys of JSON are text"),
        ([1], "the state of a checkpoint is a dict"),
    ],
)
def test_a_state_that_is_no_json_is_an_error(tmp_path: Path, state: Any, reason: str) -> None:
    with pytest.raises(DTypeError, match=reason):
        Checkpoints(tmp_path).save(1, *filled(1, 5), state)
    assert names(tmp_path) == []


def test_a_state_that_holds_itself_is_an_error(tmp_path: Path) -> None:
    state: dict[str, Any] = {}
    state["again"] = [state]
    with pytest.raises(DTypeError, match="nested more than 100 deep, or holds itself"):
        Checkpoints(tmp_path).save(1, *filled(1, 5), state)


def test_options_out_of_range(tmp_path: Path) -> None:
    wrong: Any
    for wrong in (0, -1):
        with pytest.raises(ValueError, match=f"keep_last is at least 1, not {wrong}"):
            Checkpoints(tmp_path, keep_last=wrong)
    for wrong in (1.0, True, "3"):
        with pytest.raises(DTypeError, match="keep_last is a whole number"):
            Checkpoints(tmp_path, keep_last=wrong)
        with pytest.raises(DTypeError, match="step is a whole number"):
            Checkpoints(tmp_path).save(wrong, *filled(1, 5), {})
    with pytest.raises(ValueError, match="step is at least 0, not -1"):
        save(tmp_path, -1)
    with pytest.raises(DTypeError, match="score is a number or None, not 'low'"):
        Checkpoints(tmp_path).save(1, *filled(1, 5), {}, "low")  # type: ignore[arg-type]  # the mistake that mypy finds


def test_a_directory_that_is_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 1 was written: cannot write '.*file/step"):
        save(tmp_path / "file", 1)
    with pytest.raises(CheckpointError, match=r"cannot read '.*file'"):
        Checkpoints(tmp_path / "file").latest()


# --- full disks and killed processes ----------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_earlier_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(tmp_path, 1, keep_last=1)

    def save_file(arrays: Any, filename: Any, metadata: Any) -> NoReturn:
        Path(filename).write_bytes(b"half of it")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.numpy, "save_file", save_file)
    for step in (1, 2):
        with pytest.raises(CheckpointError, match=r"step-0000000\d.*No space left.*as they were; the disk is full"):
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
        pytest.fail("it never came to an end")


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
    assert "No space left on device" in message and "the disk is full, so make room" in message
    assert 1 <= int(number) < 10


@pytest.mark.parametrize("moment", range(1, 5))
def test_between_any_two_changes_of_names_a_whole_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """What another process would find there, were this one killed: replacing a step removes and renames in turn."""
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
    # A process that is killed may leave a checkpoint without its description, never a description alone.
    found = {file.stem for file in tmp_path.glob("step-*.safetensors")}
    described = {file.stem for file in tmp_path.glob("step-*.json")}
    assert f"step-{step:08d}" in described <= found and len(found) <= 3
    assert len(names(tmp_path)) == len(found) + len(described)
