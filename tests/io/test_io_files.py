"""A file is written completely or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import safetensors.numpy
from safetensors import SafetensorError
from safetensors.numpy import save_file

from wyrm import io
from wyrm.errors import CheckpointError
from wyrm.support.files import replacing

OLD, NEW = {"x": np.zeros(3)}, {"x": np.ones(3)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of an existing file, alone in its directory."""
    io.save_arrays(tmp_path / "state.safetensors", OLD)
    return tmp_path / "state.safetensors"


def is_untouched(path: Path) -> bool:
    alone = [file.name for file in path.parent.iterdir()] == [path.name]
    return alone and not io.load_arrays(path).arrays["x"].any()


def test_a_file_is_replaced_and_nothing_is_left_beside_it(path: Path) -> None:
    io.save_arrays(path, NEW)
    assert io.load_arrays(path).arrays["x"].all()
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_full_disk_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save_file(arrays: Any, filename: Any, metadata: Any) -> NoReturn:
        Path(filename).write_bytes(b"half of it")
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.numpy, "save_file", save_file)
    with pytest.raises(CheckpointError, match=r"cannot write '.*state\.safetensors': I/O error: No space left"):
        io.save_arrays(path, NEW)
    assert is_untouched(path)


def test_a_failure_to_reach_the_disk_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(descriptor: int) -> NoReturn:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(CheckpointError, match=r"Input/output error; an existing file is unchanged"):
        io.save_arrays(path, NEW)
    assert is_untouched(path)


def test_a_failure_to_rename_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(source: Path, target: Path) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(CheckpointError, match="Permission denied"):
        io.save_arrays(path, NEW)
    assert is_untouched(path)


def test_an_interrupt_leaves_the_file_as_it_was(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save_file(arrays: Any, filename: Any, metadata: Any) -> NoReturn:
        Path(filename).write_bytes(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors.numpy, "save_file", save_file)
    with pytest.raises(KeyboardInterrupt):
        io.save_arrays(path, NEW)
    assert is_untouched(path)


def test_the_contents_are_on_the_disk_before_the_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def noted_fsync(descriptor: int) -> None:
        happened.append("fsync")
        fsync(descriptor)

    def noted_replace(source: Path, target: Path) -> Path:
        happened.append("replace")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    io.save_arrays(path, NEW)
    assert happened[:2] == ["fsync", "replace"]


def test_a_directory_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        CheckpointError, match=r"cannot write '.*missing/state\.safetensors': No such file or directory"
    ):
        io.save_arrays(tmp_path / "missing" / "state.safetensors", NEW)
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_the_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    with pytest.raises(CheckpointError, match=r"cannot write '.*state'"):
        io.save_arrays(tmp_path / "state", NEW)
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


def test_a_link_stays_a_link(path: Path) -> None:
    link = path.with_name("latest")
    link.symlink_to(path.name)
    io.save_arrays(link, NEW)
    assert link.is_symlink()
    assert io.load_arrays(path).arrays["x"].all()


def test_permissions_are_kept(path: Path) -> None:
    path.chmod(0o640)
    io.save_arrays(path, NEW)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_usual_permissions(path: Path) -> None:
    plain, new = path.with_name("plain"), path.with_name("new")
    plain.touch()
    io.save_arrays(new, NEW)
    assert new.stat().st_mode == plain.stat().st_mode


def test_nobody_else_enters_where_a_file_is_being_written(path: Path) -> None:
    before = os.umask(0)
    try:
        with replacing(path) as temporary:
            assert temporary.parent.stat().st_mode & 0o777 == 0o700
            assert temporary.parent.name != path.name
            save_file(NEW, temporary)
    finally:
        os.umask(before)
    assert io.load_arrays(path).arrays["x"].all()


def test_a_reader_meets_only_whole_files_while_several_write(path: Path) -> None:
    arrays = [{"x": np.full(1000, float(i))} for i in range(4)]

    def write(mine: dict[str, Any]) -> None:
        for _ in range(5):
            io.save_arrays(path, mine)

    writers = [threading.Thread(target=write, args=(mine,)) for mine in arrays]
    io.save_arrays(path, arrays[0])
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert len(set(io.load_arrays(path).arrays["x"].tolist())) == 1
    for writer in writers:
        writer.join()
    assert [file.name for file in path.parent.iterdir()] == [path.name]
