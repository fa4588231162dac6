"""The readers on small files written here: results and error messages."""

from __future__ import annotations

import gzip
import math
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_numpy

from wyrm.data import load_text_dataset, read_idx, read_movielens, read_text
from wyrm.errors import DataError

HEADER = "user_id,item_id,rating,timestamp\n"


def write(folder: Path, content: str | bytes) -> Path:
    path = folder / "file"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def idx_bytes(array: np.ndarray[Any, Any]) -> bytes:
    code = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}[array.dtype.str[1:]]
    sizes = b"".join(size.to_bytes(4, "big") for size in array.shape)
    return bytes([0, 0, code, array.ndim]) + sizes + array.astype(array.dtype.newbyteorder(">")).tobytes()


@pytest.mark.parametrize(
    "content",
    [
        "30\t7\t3\t100\n10\t5\t4.5\t200\n30\t5\t1\t300\n",
        "30\t7\t3\t100\r\n10\t5\t4.5\t200\r\n\r\n30\t5\t1\t300",
        HEADER + "30,7,3,100\n10,5,4.5,200\n30,5,1,300\n",
        "\ufeff" + HEADER.replace("\n", "\r\n") + "30,7,3,100\n10,5,4.5,200\n30,5,1,300\n\n",
        "userId,movieId,rating,timestamp\n30,7,3,100\n10,5,4.5,200\n30,5,1,300\n",
    ],
)
def test_movielens_in_either_form(tmp_path: Path, content: str) -> None:
    ratings = read_movielens(write(tmp_path, content))
    assert ratings.users.tolist() == [1, 0, 1]
    assert ratings.items.tolist() == [1, 0, 0]
    assert ratings.user_ids.tolist() == [10, 30] and ratings.item_ids.tolist() == [5, 7]
    assert ratings.ratings.tolist() == [3.0, 4.5, 1.0]
    assert ratings.timestamps.tolist() == [100, 200, 300]
    assert (ratings.users.dtype, ratings.items.dtype, ratings.timestamps.dtype) == (np.dtype(np.int64),) * 3
    assert ratings.ratings.dtype == np.float32


@pytest.mark.parametrize(
    ("content", "line", "shown"),
    [
        ("1\t2\t3\t4\n1\t2\t3\n", 2, "'1\\t2\\t3'"),
        ("1\t2\t3\t4\t5\n", 1, "'1\\t2\\t3\\t4\\t5'"),
        ("1\t2\t3\t4\n\t\t\t\n", 2, "'\\t\\t\\t'"),
        ("1\t2\tx\t4\n", 1, "'1\\t2\\tx\\t4'"),
        ("1.5\t2\t3\t4\n", 1, "'1.5\\t2\\t3\\t4'"),
        ("1\t2\tnan\t4\n", 1, "'1\\t2\\tnan\\t4'"),
        ("1\t2\t1e300\t4\n", 1, "'1\\t2\\t1e300\\t4'"),
        ("99999999999999999999\t2\t3\t4\n", 1, "'99999999999999999999\\t2\\t3\\t4'"),
        (HEADER + "1,2,3,4\n1,2,inf,4\n", 3, "'1,2,inf,4'"),
        (HEADER + "1,2,3,4\n\n1;2;3;4\n", 4, "'1;2;3;4'"),
        ("1,2,3,4\n", 1, "'1,2,3,4'"),
        ("user,item,rating\n", 1, "'user,item,rating'"),
        ("x" * 200 + "\n", 1, "'" + "x" * 80 + "...'"),
        (b"\xff\xfe\x00\n", 1, ""),
        ("1_0\t2\t3\t4\n", 1, "'1_0\\t2\\t3\\t4'"),
        ("1\t2_0\t3\t4\n", 1, "'1\\t2_0\\t3\\t4'"),
        ("1\t2\t3_0.5\t4\n", 1, "'1\\t2\\t3_0.5\\t4'"),
        ("1\t2\t3\t4_0\n", 1, "'1\\t2\\t3\\t4_0'"),
        (HEADER + "1, 2,3,4\n", 2, "'1, 2,3,4'"),
        ("1\t2\t\x0b3\t4\n", 1, "'1\\t2\\t\\x0b3\\t4'"),
        ("1\t\u0662\t3\t4\n", 1, "'1\\t\u0662\\t3\\t4'"),
        ("1\t2\tinfinity\t4\n", 1, "'1\\t2\\tinfinity\\t4'"),
        ("1\t2\t0x3\t4\n", 1, "'1\\t2\\t0x3\\t4'"),
        ("1\t2\t.\t4\n", 1, "'1\\t2\\t.\\t4'"),
        ("9" * 5000 + "\t2\t3\t4\n", 1, "'999"),
    ],
)
def test_a_broken_line_is_named_with_its_number(tmp_path: Path, content: str | bytes, line: int, shown: str) -> None:
    with pytest.raises(DataError) as caught:
        read_movielens(write(tmp_path, content))
    message = str(caught.value)
    assert f"{tmp_path / 'file'}, line {line}: got {shown}" in message
    assert "expected user_id" in message


def test_plain_numbers_of_every_form_are_read(tmp_path: Path) -> None:
    ratings = read_movielens(write(tmp_path, "-1\t+2\t3.\t-4\n01\t2\t.5e1\t4\n1\t2\t-1.25E-2\t4\n"))
    assert ratings.user_ids.tolist() == [-1, 1] and ratings.item_ids.tolist() == [2]
    np.testing.assert_array_equal(ratings.ratings, np.array([3.0, 5.0, -0.0125], np.float32))


@pytest.mark.parametrize("content", ["", "\n\n", HEADER])
def test_a_file_without_ratings_is_refused(tmp_path: Path, content: str) -> None:
    with pytest.raises(DataError, match=r"file holds no ratings.*--data"):
        read_movielens(write(tmp_path, content))


@pytest.mark.parametrize("read", [read_movielens, read_idx, read_text])
def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    with pytest.raises(DataError, match=r"no such file: '.*missing'.*--data") as caught:
        read(tmp_path / "missing")
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    with pytest.raises(DataError, match=r"cannot read '.*--data"):
        read(tmp_path)


@settings(deadline=None)
@given(
    array=hypothesis_numpy.arrays(
        dtype=st.sampled_from([np.uint8, np.int8, np.int16, np.int32, np.float32, np.float64]),
        shape=hypothesis_numpy.array_shapes(max_dims=4, max_side=4),
    ),
    compressed=st.booleans(),
)
def test_idx_gives_back_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, array: np.ndarray[Any, Any], compressed: bool
) -> None:
    content = idx_bytes(array)
    path = write(tmp_path_factory.getbasetemp(), gzip.compress(content) if compressed else content)
    read = read_idx(path)
    assert read.dtype == array.dtype and read.shape == array.shape
    assert read.tobytes() == array.tobytes()
    assert read.dtype.isnative and read.flags.writeable


def compressed(content: bytes) -> bytes:
    """Gzip with a fixed time stamp, so that the names of the tests are stable."""
    return gzip.compress(content, mtime=0)


IMAGES = idx_bytes(np.arange(12, dtype=np.int16).reshape(2, 3, 2))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (compressed(b""), "is empty"),
        (b"\x89PNG\r\n", "starts with the bytes 89 50 4e 47; expected the magic number"),
        (b"\0\0", "starts with the bytes 00 00; expected"),
        (b"\0\0\x0a\x01\0\0\0\x01a", "starts with the bytes 00 00 0a 01"),
        (b"\0\0\x08\0a", "starts with the bytes 00 00 08 00"),
        (IMAGES[:9], "is truncated: 9 bytes; its header of 3 dimensions needs 16"),
        (IMAGES[:-1], r"is truncated: 39 bytes; its header says shape \(2, 3, 2\) and dtype int16, which need 40"),
        (IMAGES + b"x", "has bytes after its data: 41 bytes"),
        (compressed(IMAGES)[:-9], "truncated or corrupt gzip file"),
        (compressed(IMAGES)[:12] + b"\xff" * 8, "truncated or corrupt gzip file"),
        (idx_bytes(np.zeros((0, 3), dtype=np.uint8)), r"an empty array of shape \(0, 3\)"),
        (b"\0\0\x0e\x03" + b"\xff" * 12 + b"x", "is truncated"),
        (compressed(IMAGES[:-1]), r"is truncated: 39 bytes; its header says shape \(2, 3, 2\)"),
        (compressed(IMAGES + b"x"), "has bytes after its data: .*, but there are more"),
        (compressed(b"\0\0\x0e\x03" + b"\xff" * 12 + b"x"), "is damaged or a decompression bomb: .* 256 times"),
        (b"\0\0\x08\x41" + b"\0\0\0\1" * 65 + b"x", "has 65 dimensions; a NumPy array has at most 64"),
        (b"\0\0\x08\xff", "has 255 dimensions"),
    ],
)
def test_a_broken_idx_file_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_idx(write(tmp_path, content))
    assert str(tmp_path / "file") in str(caught.value)


def test_an_idx_file_of_as_many_axes_as_numpy_has(tmp_path: Path) -> None:
    array = np.array(7, np.uint8).reshape((1,) * 64)
    assert read_idx(write(tmp_path, idx_bytes(array))).shape == array.shape


@pytest.mark.parametrize("sizes", [(3,), (2**29,)])
def test_a_small_file_that_decompresses_to_much_takes_little_memory(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    # A header that states too little, and one that covers all the zeros behind it.
    header = bytes([0, 0, 8, len(sizes)]) + b"".join(size.to_bytes(4, "big") for size in sizes)
    path = write(tmp_path, b"")
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header)
        for _ in range(64 if sizes == (3,) else 8):
            file.write(bytes(2**20))
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"there are more|decompression bomb"):
            read_idx(path)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_text_is_read_as_it_is(tmp_path: Path) -> None:
    assert read_text(write(tmp_path, "Ærøskøbing\r\n🐉\n")) == "Ærøskøbing\r\n🐉\n"
    assert read_text(write(tmp_path, "\ufeffstart")) == "start"
    assert read_text(str(write(tmp_path, "by a string"))) == "by a string"


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_an_empty_text_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match=r"file is empty; expected text.*--data"):
        read_text(write(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "offset"), [(b"abc\xff", 3), ("grün".encode("latin-1"), 2), ("\ufeffgrün".encode()[:-2], 5)]
)
def test_text_that_is_not_utf8_is_refused_at_its_offset(tmp_path: Path, content: bytes, offset: int) -> None:
    with pytest.raises(DataError, match=rf"file is not UTF-8 text: byte {offset} \(0x{content[offset]:02x}\)"):
        read_text(write(tmp_path, content))


class Table:
    """The parts of `datasets.Dataset` that are used."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns = columns
        self.column_names = list(columns)

    def __getitem__(self, name: str) -> list[Any]:
        return self.columns[name]


def offer(monkeypatch: pytest.MonkeyPatch, answer: Table | Exception) -> list[tuple[str, str]]:
    """Install a fake package `datasets` that returns the answer; return the list of its calls."""
    asked: list[tuple[str, str]] = []

    def load_dataset(name: str, *, split: str) -> Table:
        asked.append((name, split))
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    return asked


def test_the_hub_is_the_default_source(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = offer(monkeypatch, Table(text=["Once", "upon"], title=["a", "time"]))
    assert load_text_dataset("owner/stories", "train[:1%]") == "Once\nupon"
    assert load_text_dataset("owner/stories", column="title", separator=" ") == "a time"
    assert asked == [("owner/stories", "train[:1%]"), ("owner/stories", "train")]


def test_a_local_file_needs_neither_hub_nor_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert load_text_dataset("owner/stories", data=write(tmp_path, "local")) == "local"
    with pytest.raises(DataError, match="no such file"):
        load_text_dataset("owner/stories", data=tmp_path / "missing")


def test_a_missing_package_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match=r"needs the package 'datasets'.*pip install.*--data") as caught:
        load_text_dataset("owner/stories")
    assert isinstance(caught.value.__cause__, ImportError)


class HubError(Exception):
    """An error of an HTTP library, not derived from a builtin error."""


@pytest.mark.parametrize("error", [ConnectionError("no route"), HubError("timed out"), ValueError("Unknown split")])
def test_an_unreachable_hub_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    offer(monkeypatch, error)
    with pytest.raises(DataError) as caught:
        load_text_dataset("owner/stories", "validation")
    message = str(caught.value)
    assert f"cannot load 'owner/stories', split 'validation', from the hub ({type(error).__name__}: {error})" in message
    assert "--data" in message
    assert caught.value.__cause__ is error


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (Table(story=["x"]), r"no column 'text'; its columns are \['story'\]"),
        (Table(text=["x", None]), "column 'text' holds a NoneType in row 1"),
        (Table(text=[math.pi]), "column 'text' holds a float in row 0"),
        (Table(text=[]), "holds no text"),
        (Table(text=["", ""]), "holds no text"),
    ],
)
def test_a_hub_data_set_without_text_is_refused(monkeypatch: pytest.MonkeyPatch, table: Table, message: str) -> None:
    offer(monkeypatch, table)
    with pytest.raises(DataError, match=message):
        load_text_dataset("owner/stories")
