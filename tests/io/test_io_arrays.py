from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import wyrm as wy
from wyrm import io
from wyrm.errors import CheckpointError, DTypeError

RANDOM = np.random.default_rng(0)


def written(path: Path, dtype: str, shape: list[int], size: int, contents: bytes = b"") -> Path:
    """Write a file with one array by hand, zeros without `contents`."""
    header = json.dumps({"x": {"dtype": dtype, "shape": shape, "data_offsets": [0, size]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + (contents or bytes(size)))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.safetensors"


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_arrays_come_back_as_they_were(path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = (RANDOM.normal(size=shape) * 10).astype(dtype)
    io.save_arrays(path, {"x": array})
    (again,) = io.load_arrays(path).arrays.values()
    assert again.dtype == array.dtype and again.shape == array.shape
    np.testing.assert_array_equal(again, array)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12.0)[::-2],
        np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
        np.broadcast_to(np.float32(3.0), (2, 3)),
        np.arange(3, dtype=">i4"),
        np.array([np.nan, np.inf, -0.0]),
    ],
)
def test_the_layout_of_an_array_does_not_matter(path: Path, array: Any) -> None:
    io.save_arrays(path, {"x": array})
    again = io.load_arrays(path).arrays["x"]
    np.testing.assert_array_equal(again, array)
    assert again.dtype == array.dtype.newbyteorder("=")


def test_names_and_metadata_come_back(path: Path) -> None:
    arrays = {"a.b.0": np.zeros(2), "": np.ones(3), "größe/1": np.zeros((1, 1))}
    io.save_arrays(path, arrays, {"epoch": "3", "notes": "größer\n"})
    loaded = io.load_arrays(path)
    assert set(loaded.arrays) == set(arrays)
    assert loaded.metadata == {"epoch": "3", "notes": "größer\n"}


def test_nothing_is_a_file_too(path: Path) -> None:
    io.save_arrays(path, {})
    assert io.load_arrays(path) == ({}, {})


def test_loaded_arrays_may_be_changed_and_outlive_the_file(path: Path) -> None:
    io.save_arrays(path, {"x": np.arange(4.0)})
    array = io.load_arrays(path).arrays["x"]
    path.write_bytes(b"")
    array += 1.0
    assert array.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_the_file_is_one_that_others_read(path: Path) -> None:
    io.save_arrays(path, {"x": np.arange(4.0)}, {"by": "us"})
    assert safetensors.numpy.load_file(path)["x"].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_file_that_others_wrote_is_read(path: Path) -> None:
    safetensors.numpy.save_file({"x": np.arange(4.0)}, path)
    assert io.load_arrays(path).arrays["x"].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_the_path_may_be_text(path: Path) -> None:
    io.save_arrays(str(path), {"x": np.zeros(1)})
    assert list(io.load_arrays(str(path)).arrays) == ["x"]


def test_a_missing_file_is_an_error(path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no such file: .*state\.safetensors") as error:
        io.load_arrays(path)
    assert isinstance(error.value.__cause__, FileNotFoundError)


def test_a_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"cannot read .*: Is a directory"):
        io.load_arrays(tmp_path)


def test_an_empty_file_is_an_error(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(
        CheckpointError, match=r"state\.safetensors' is not a safetensors file, or is truncated or corrupt"
    ):
        io.load_arrays(path)


def test_text_is_an_error(path: Path) -> None:
    path.write_text("this is no checkpoint\n" * 20)
    with pytest.raises(CheckpointError, match=r"state\.safetensors' is not a safetensors file"):
        io.load_arrays(path)


def test_a_pickle_is_an_error(path: Path) -> None:
    np.save(path.with_suffix(".npy"), np.zeros(100))
    with pytest.raises(CheckpointError, match=r"state\.npy' is not a safetensors file"):
        io.load_arrays(path.with_suffix(".npy"))


def test_a_file_that_is_cut_anywhere_is_an_error(path: Path) -> None:
    io.save_arrays(path, {"x": np.arange(10.0), "y": np.arange(3)}, {"epoch": "1"})
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match="truncated or corrupt"):
            io.load_arrays(path)


def test_bytes_after_the_end_are_an_error(path: Path) -> None:
    io.save_arrays(path, {"x": np.arange(10.0)})
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(CheckpointError, match="truncated or corrupt"):
        io.load_arrays(path)


def test_a_corrupt_header_is_an_error(path: Path) -> None:
    io.save_arrays(path, {"x": np.arange(10.0)})
    whole = bytearray(path.read_bytes())
    whole[8:12] = b"\xff\x00]["
    path.write_bytes(whole)
    with pytest.raises(CheckpointError, match="truncated or corrupt"):
        io.load_arrays(path)


def test_a_shape_that_does_not_fit_the_data_is_an_error(path: Path) -> None:
    with pytest.raises(CheckpointError, match="truncated or corrupt"):
        io.load_arrays(written(path, "F32", [3], 8))


def test_a_dtype_of_the_format_that_is_none_is_an_error(path: Path) -> None:
    with pytest.raises(CheckpointError, match="truncated or corrupt"):
        io.load_arrays(written(path, "F31", [2], 8))


def test_a_dtype_that_numpy_has_not_is_an_error(path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"state\.safetensors' holds an array of a dtype that NumPy lacks"):
        io.load_arrays(written(path, "F8_E4M3", [2], 2))


def test_an_array_of_objects_is_an_error(path: Path) -> None:
    with pytest.raises(DTypeError, match="x has dtype object; a file stores floats, integers and booleans"):
        io.save_arrays(path, {"x": np.array([None, "a"])})
    assert not path.exists()


def test_an_array_of_text_is_an_error(path: Path) -> None:
    with pytest.raises(DTypeError, match="x has dtype <U1"):
        io.save_arrays(path, {"x": np.array(["a"])})


def test_a_float_that_the_format_has_not_is_an_error(path: Path) -> None:
    if np.dtype(np.longdouble) == np.float64:
        pytest.skip("np.longdouble is float64 here")
    with pytest.raises(CheckpointError, match="cannot write"):
        io.save_arrays(path, {"x": np.zeros(2, np.longdouble)})
    assert list(path.parent.iterdir()) == []


def test_a_name_that_is_no_text_is_an_error(path: Path) -> None:
    with pytest.raises(DTypeError, match="a name must be a string other than '__metadata__', not 3"):
        io.save_arrays(path, {3: np.zeros(1)})  # type: ignore[dict-item]  # the mistake that mypy finds


def test_the_name_that_the_format_keeps_is_an_error(path: Path) -> None:
    with pytest.raises(DTypeError, match="a name must be a string other than '__metadata__'"):
        io.save_arrays(path, {"__metadata__": np.zeros(1)})


def test_metadata_that_is_no_text_is_an_error(path: Path) -> None:
    with pytest.raises(DTypeError, match="metadata must map strings to strings, not 'epoch': 3"):
        io.save_arrays(path, {}, {"epoch": 3})  # type: ignore[dict-item]  # the mistake that mypy finds


def test_importing_the_room_does_not_import_the_format() -> None:
    program = "import sys, wyrm.io; print('safetensors' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_bfloat16_is_read_as_float32(path: Path) -> None:
    words = np.array([[0x3F80, 0xC000, 0x0001], [0x7F80, 0x7FC0, 0x4049]], np.uint16)
    written(path, "BF16", [2, 3], 12, words.tobytes())
    array = io.load_arrays(path).arrays["x"]
    assert array.dtype == np.float32 and array.shape == (2, 3)
    np.testing.assert_array_equal(array.view(np.uint32) >> 16, words)
    assert array[0].tolist() == [1.0, -2.0, 2.0**-133] and array[1, 2] == 3.140625 and np.isnan(array[1, 1])
    parameter = wy.Parameter(np.zeros((2, 3), np.float32))
    with pytest.raises(CheckpointError, match="a NaN or an infinity"):
        io.load({"x": parameter}, path)
    written(path, "BF16", [2, 3], 12, words[:1].repeat(2, 0).tobytes())
    io.load({"x": parameter}, path)
    assert parameter.value[1, 1] == -2.0
