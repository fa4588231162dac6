"""A file that was damaged after it was saved is refused, or holds what was saved; the digest does not hide anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import wyrm as wy
from wyrm.errors import CheckpointError


class Model(wy.nn.Module):
    """A layer, and a number that shapes do not protect."""

    def __init__(self, fill: float) -> None:
        self.layer = wy.nn.Linear(3, 4)
        self.norm = wy.nn.BatchNorm(4)
        for parameter in self.parameters():
            parameter.set(np.full(parameter.shape, fill, np.float32))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a model that was saved."""
    Model(0.5).save(tmp_path / "model.safetensors", {"note": "of a test", "epoch": "3"})
    return tmp_path / "model.safetensors"


def damaged(whole: bytes, random: np.random.Generator) -> bytes:
    """Return a file with a few bits, bytes, or a part of it changed, or two parts exchanged."""
    changed = bytearray(whole)
    kind, place = random.integers(5), int(random.integers(len(whole)))
    if kind == 0:
        changed[place] ^= 1 << int(random.integers(8))
    elif kind == 1:
        for at in random.integers(0, len(whole), 3):
            changed[at] = int(random.integers(256))
    elif kind == 2:
        changed[place : place + 16] = bytes(len(changed[place : place + 16]))
    elif kind == 3:
        other, size = int(random.integers(len(whole))), 4
        changed[place : place + size], changed[other : other + size] = (
            whole[other : other + size], whole[place : place + size],
        )  # fmt: skip
    else:
        del changed[place:]
    return bytes(changed)


def test_a_damaged_model_is_refused_or_loads_what_was_saved(path: Path) -> None:
    whole, random = path.read_bytes(), np.random.default_rng(0)
    saved = Model(0.5)
    saved.load(path)
    refused = 0
    for _ in range(1500):
        path.write_bytes(damaged(whole, random))
        model = Model(0.25)
        expected: Any = saved
        try:
            model.load(path)
        except CheckpointError as error:
            assert "model.safetensors" in str(error)
            expected, refused = Model(0.25), refused + 1
        for name, array in expected.state_dict().items():
            np.testing.assert_array_equal(model.state_dict()[name], array)
    assert 1300 < refused < 1500


def test_a_changed_number_is_refused_by_everything_that_reads(path: Path, tmp_path: Path) -> None:
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    for read in (Model(0.0).load, wy.io.load_arrays):
        with pytest.raises(CheckpointError, match=r"model\.safetensors' is corrupt: its contents have changed since"):
            read(path)
    gpt2 = wy.nn.GPT2(wy.nn.GPT2Config(vocab_size=5, n_positions=4, n_embd=4, n_layer=1, n_head=1))
    gpt2.save_pretrained(tmp_path / "gpt2")
    weights = tmp_path / "gpt2" / "model.safetensors"
    whole = bytearray(weights.read_bytes())
    whole[-1] ^= 1
    weights.write_bytes(whole)
    with pytest.raises(CheckpointError, match="its contents have changed since it was written"):
        wy.nn.GPT2.from_pretrained(tmp_path / "gpt2")


def test_changed_metadata_is_refused(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"of a test", b"of a rest"))
    with pytest.raises(CheckpointError, match="its contents have changed"):
        wy.io.load_arrays(path)


def test_other_libraries_read_a_file_and_theirs_is_read(path: Path) -> None:
    arrays, metadata = wy.io.load_arrays(path)
    assert metadata == {"epoch": "3", "note": "of a test"}
    theirs = safetensors.numpy.load_file(path)
    assert theirs.keys() == arrays.keys()
    for name, array in theirs.items():
        np.testing.assert_array_equal(array, arrays[name])
    safetensors.numpy.save_file(theirs, path, {"note": "without a digest"})
    Model(0.0).load(path)
    assert wy.io.load_arrays(path).metadata == {"note": "without a digest"}


@pytest.mark.parametrize("dtype", [">f4", "<f4", "float16", "int8", "bool", ">i8"])
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_arrays_of_any_layout_match_their_digest(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.asfortranarray(np.ones(shape, dtype))
    wy.io.save_arrays(tmp_path / "a", {"é": array, "b": array[..., :1] if shape else array}, {"ü": "\x00ß"})
    found, metadata = wy.io.load_arrays(tmp_path / "a")
    np.testing.assert_array_equal(found["é"], array)
    assert metadata == {"ü": "\x00ß"}


def test_arrays_saved_with_metadata_that_was_loaded_have_a_digest_of_their_own(path: Path) -> None:
    arrays, metadata = wy.io.load_arrays(path)
    digest = {"wyrm_digest": "of other arrays"}
    wy.io.save_arrays(path, {name: array + 1 for name, array in arrays.items()}, metadata | digest)
    assert wy.io.load_arrays(path).metadata == metadata
