"""Damaged, foreign and mismatched files are skipped with a warning, or refused before anything changes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.io.training_samples import STATE, Model, bits, save, stepped
from wyrm import io
from wyrm.errors import CheckpointError
from wyrm.io import Checkpoints
from wyrm.io.files import digest_of
from wyrm.io.training import parsed

# --- damaged files, and files of another origin -----------------------------------------------------------------------


def refused(directory: Path, path: Path, reason: str, warns: bool = True) -> None:
    """Check that the file is skipped with a warning, and that loading it changes nothing."""
    model = Model(seed=5)
    optimizer = stepped(model)
    before = bits(model, optimizer)
    with pytest.raises(CheckpointError, match=reason) as error:
        Checkpoints(directory).load(path, model, optimizer)
    assert path.name in str(error.value)
    assert bits(model, optimizer) == before
    if warns:
        for find in (Checkpoints.latest, Checkpoints.best):
            with pytest.warns(RuntimeWarning, match=rf"skipping a damaged checkpoint: .*{path.name}"):
                assert find(Checkpoints(directory)) == directory / "step-00000001.safetensors"


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Return the later of two checkpoints, to be damaged."""
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
    refused(two.parent, two, "is not a training checkpoint written by Checkpoints.save")


@pytest.mark.parametrize("record", ["", "{", "[]", "3", "{}", '{"version": 1}', "[" * 10**5])
def test_a_record_that_cannot_be_read_is_refused(two: Path, record: str) -> None:
    io.save_arrays(two, io.load_arrays(two).arrays, {"wyrm_training": record})
    refused(two.parent, two, "is corrupt: its record cannot be read")


def test_another_version_is_refused(two: Path) -> None:
    arrays, metadata = io.load_arrays(two)
    io.save_arrays(two, arrays, {"wyrm_training": metadata["wyrm_training"].replace('"version": 1', '"version": 2')})
    refused(two.parent, two, "has format version 2; this library reads version 1")


def rewritten(path: Path, arrays: dict[str, Any], **fields: Any) -> None:
    """Rewrite the file with other arrays and another record, and a matching digest."""
    found = io.load_arrays(path)
    record = parsed(path, found.metadata, sorted(found.arrays.items()))._replace(**fields)
    arrays = found.arrays | arrays
    io.save_arrays(path, arrays, {"wyrm_training": record.text(arrays)})


@pytest.mark.parametrize(
    ("name", "number", "reason"),
    [
        ("0.mean", np.nan, r"0\.mean holds a NaN or an infinity"),
        ("0.mean", -np.inf, r"0\.mean holds a NaN or an infinity"),
        ("0.square", np.nan, r"0\.square holds a NaN or an infinity"),
        ("0.square", -1e-3, r"0\.square holds a negative number"),
        ("counts", -1, "counts holds a negative number"),
        ("steps", -1, "steps holds a negative number"),
    ],
)
def test_a_state_that_no_step_can_go_on_from_is_refused(two: Path, name: str, number: float, reason: str) -> None:
    array = io.load_arrays(two).arrays[f"optimizer/{name}"].copy()
    array[(0,) * array.ndim] = number
    rewritten(two, {f"optimizer/{name}": array})
    refused(two.parent, two, rf"into this optimizer: Adam cannot continue from this state: {reason}", False)


@pytest.mark.parametrize("name", ["steps", "counts"])
def test_counts_that_are_no_whole_numbers_are_refused(two: Path, name: str) -> None:
    array = io.load_arrays(two).arrays[f"optimizer/{name}"] + 0.5
    rewritten(two, {f"optimizer/{name}": array})
    refused(two.parent, two, rf"mismatched: {name} \(has .* int64, given .* float64\)", False)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"step": 1.5}, r"step must be an integer of at least 0, not 1\.5"),
        ({"step": -2}, "step must be an integer of at least 0, not -2"),
        ({"step": 2**62}, r"step must be below 2\*\*62, not 4611686018427387904"),
        ({"step": True}, "not True"),
        ({"step": "2"}, "not '2'"),
        ({"score": float("nan")}, "it holds NaN, which is not a JSON number"),
        ({"score": "low"}, "score must be a number or null, not 'low'"),
        ({"optimizer": 3}, "optimizer and parameters must be names"),
        ({"parameters": "scale"}, "optimizer and parameters must be names"),
        ({"parameters": [3]}, "optimizer and parameters must be names"),
        ({"state": [1]}, "the state of a checkpoint must be a dict"),
        ({"state": {"rate": float("inf")}}, "it holds Infinity, which is not a JSON number"),
    ],
)
def test_a_record_of_impossible_contents_is_refused(two: Path, fields: dict[str, Any], reason: str) -> None:
    rewritten(two, {}, **fields)
    refused(two.parent, two, reason)


def test_a_record_of_other_fields_is_refused(two: Path) -> None:
    arrays, metadata = io.load_arrays(two)
    content = json.loads(metadata["wyrm_training"])
    del content["digest"]
    for changed in (content | {"more": 1}, {name: value for name, value in content.items() if name != "score"}):
        digest = digest_of(changed, sorted(arrays.items()))
        io.save_arrays(two, arrays, {"wyrm_training": json.dumps(changed | {"digest": digest})})
        refused(two.parent, two, "is corrupt: its record cannot be used")


def test_files_that_only_look_like_checkpoints_are_left_alone(two: Path) -> None:
    for name in ("step-\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668.safetensors", "step-000000009.safetensors"):
        shutil.copy(two, two.with_name(name))
    assert Checkpoints(two.parent).latest() == two


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
    with pytest.warns(RuntimeWarning, match=r"step-00000007\.safetensors' was renamed: it is a checkpoint of step 2"):
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
        (Wider(), "does not match the parameters of Wider:\n  missing in the file: more"),
        (Without(), "does not match the parameters of Without:\n  extra in the file: scale"),
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
        (wy.optim.SGD(parameters, 0.1), "is a checkpoint of Adam, not of SGD"),
        (
            wy.optim.Adam(parameters[:-1]),
            r"optimizer with other parameters, or another order of them: .*scale in the file, ",
        ),
        (
            wy.optim.Adam(parameters[::-1]),
            "optimizer with other parameters, or another order of them: .* in the file, scale",
        ),
    ]:
        made_for_another(two, model, optimizer, reason)


def test_another_kind_of_the_same_optimizer_is_refused(tmp_path: Path) -> None:
    x = wy.Parameter([1.0, 2.0])
    path = Checkpoints(tmp_path).save(1, {"x": x}, wy.optim.SGD([x], 0.1, momentum=0.9), {})
    with pytest.raises(CheckpointError, match=r"into this optimizer: the state does not match this SGD"):
        Checkpoints(tmp_path).load(path, {"x": x}, wy.optim.SGD([x], 0.1))
