"""The folder of compiled code: nothing is run from it that is damaged or that another user may have written."""

from __future__ import annotations

import inspect
import os
import resource
import stat
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import NoReturn

import pytest

from wyrm.engines.native.kernels.functions import KernelFunction
from wyrm.engines.native.llvm import cache, library
from wyrm.engines.native.llvm.cache import CodeStore, CompilationCount
from wyrm.engines.native.llvm.library import CompiledFunction

NAME, OTHER = f"wyrm_{'0' * 31}a.machine", f"wyrm_{'0' * 31}b.link"
CONTENT = bytes(range(50))

posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")


@pytest.fixture
def store(tmp_path: Path) -> CodeStore:
    """Return a store with one entry."""
    made = CodeStore(tmp_path / "cache")
    made.write(NAME, CONTENT)
    return made


def test_an_entry_comes_back_in_a_later_process(store: CodeStore) -> None:
    assert CodeStore(store.folder).read(NAME) == CONTENT
    assert store.read(OTHER) is None
    store.write(NAME, b"")
    assert store.read(NAME) == b""


def test_a_flipped_bit_or_a_missing_end_is_noticed_and_mended(store: CodeStore) -> None:
    path = store.folder / NAME
    whole = path.read_bytes()
    flipped = [bytes([*whole[:i], whole[i] ^ 1 << i % 8, *whole[i + 1 :]]) for i in range(len(whole))]
    for damaged in [*flipped, *(whole[:length] for length in range(len(whole))), whole + b"\0"]:
        path.write_bytes(damaged)
        assert store.read(NAME) is None
    store.write(NAME, CONTENT)
    assert store.read(NAME) == CONTENT


def test_an_entry_counts_under_its_own_name_alone(store: CodeStore) -> None:
    (store.folder / NAME).rename(store.folder / OTHER)
    assert store.read(OTHER) is None


@posix
def test_folder_and_files_are_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = CodeStore(tmp_path / "some" / "cache")
        store.write(NAME, CONTENT)
    finally:
        os.umask(before)
    assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((store.folder / NAME).stat().st_mode) == 0o600


def refused(store: CodeStore, reason: str) -> None:
    """Check that nothing is read or written, with a single warning."""
    before = {path.name: path.read_bytes() for path in store.folder.iterdir()}
    fresh = CodeStore(store.folder)
    with pytest.warns(RuntimeWarning, match=reason) as said:
        assert fresh.read(NAME) is None
        fresh.write(NAME, b"new")
        fresh.write(OTHER, b"new")
        assert fresh.read(NAME) is None
    assert len(said) == 1 and repr(str(store.folder)) in str(said[0].message)
    assert {path.name: path.read_bytes() for path in store.folder.iterdir()} == before


@posix
@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_that_others_may_write_to_is_refused(store: CodeStore, mode: int) -> None:
    store.folder.chmod(mode)
    refused(store, rf"users other than its owner can write to it \(mode {mode:04o}\)")


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it belong to another user than this process's."""
    if os.geteuid() == 0:
        os.chown(path, 12345, -1, follow_symlinks=False)
    else:
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)


@posix
def test_a_folder_of_another_user_is_refused(store: CodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    give_away(store.folder, monkeypatch)
    refused(
        store, r"it belongs to user \d+, who could have put any code there. Every process compiles its programs again"
    )


@posix
def test_a_folder_behind_a_link_is_used_but_not_behind_one_of_another_user(
    store: CodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = store.folder.with_name("link")
    link.symlink_to(store.folder)
    assert CodeStore(link).read(NAME) == CONTENT
    give_away(link, monkeypatch)
    refused(CodeStore(link), "it belongs to user")


AS_ANOTHER_USER = """
import hashlib, os, runpy, sys, tempfile, warnings  # the first and tempfile for the store, while they can be read
from pathlib import Path
CodeStore = runpy.run_path(sys.argv[1])["CodeStore"]
os.setuid(12345)
store = CodeStore(Path(sys.argv[2]))
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    print(store.read(sys.argv[3]), store.entries(), store.read(sys.argv[3]))
    store.write(sys.argv[3], b"new")
    print(len(said), said and said[0].message)
"""


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only the administrator can become another user")
def test_a_folder_of_the_administrator_is_used_where_it_can_be_read() -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)  # pytest's folders are not
        folder = Path(directory) / "cache"
        CodeStore(folder).write(NAME, CONTENT)

        def seen() -> str:
            arguments = [sys.executable, "-c", AS_ANOTHER_USER, inspect.getfile(CodeStore), str(folder), NAME]
            return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout

        answer = seen()
        assert answer.startswith("None {} None\n1 the cache folder ")
        assert "this user cannot read it" in answer
        folder.chmod(0o755)
        assert f"{NAME}' is ignored: Permission denied. The code is compiled again" in seen()
        (folder / NAME).chmod(0o644)
        answer = seen()
        assert answer.startswith(f"{CONTENT!r} ") and "\n1 compiled code is no longer cached in" in answer
        assert CodeStore(folder).read(NAME) == CONTENT


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("kept")
    for folder, reason in [(file, "it is not a folder"), (file / "cache", "Not a directory")]:
        with pytest.warns(RuntimeWarning, match=reason):
            CodeStore(folder).write(NAME, CONTENT)
    assert file.read_text() == "kept"


def not_used(store: CodeStore, reason: str) -> None:
    """Check that the file is not read, with a warning, and that a new one replaces it."""
    fresh = CodeStore(store.folder)
    with pytest.warns(RuntimeWarning, match=rf"{NAME}' is ignored: {reason}.* The code is compiled again"):
        assert fresh.read(NAME) is None
    fresh.write(NAME, CONTENT)
    assert fresh.read(NAME) == CONTENT and not (store.folder / NAME).is_symlink()


@posix
def test_a_file_that_another_user_may_have_written_is_not_read(
    store: CodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    (store.folder / NAME).chmod(0o662)
    not_used(store, "users other than its owner can write to it")
    if os.geteuid() == 0:
        give_away(store.folder / NAME, monkeypatch)
        not_used(store, "it belongs to user 12345")


@posix
def test_a_link_or_a_pipe_in_the_place_of_a_file_is_not_read(store: CodeStore, tmp_path: Path) -> None:
    path, elsewhere = store.folder / NAME, tmp_path / "elsewhere"
    path.rename(elsewhere)
    before = elsewhere.read_bytes()
    path.symlink_to(elsewhere)
    not_used(store, "it is a symbolic link")
    assert elsewhere.read_bytes() == before
    path.unlink()
    os.mkfifo(path, 0o600)
    not_used(store, "it is not a regular file")


@posix
def test_code_that_another_user_may_have_planted_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYRM_CACHE_DIR", str(tmp_path))
    tmp_path.chmod(0o700)
    function = KernelFunction(_tripled)
    assert CompiledFunction(function)(14.0) == 42.0
    for path in tmp_path.iterdir():
        path.chmod(0o666)
    before = CompilationCount.compiled
    monkeypatch.setattr(library, "_functions", {})  # as in a process that has not loaded it
    with pytest.warns(RuntimeWarning, match="is ignored: users other than its owner"):
        assert CompiledFunction(function)(14.0) == 42.0
    assert CompilationCount.compiled == before + 1


def _tripled(x: float) -> float:
    return x * 3.0


def unwritten(folder: Path, reason: str) -> None:
    """Check that nothing is stored, with a single warning, and that existing files are still read."""
    store = CodeStore(folder)
    with pytest.warns(RuntimeWarning, match=rf"no longer cached in '.*': {reason}\. .* Set WYRM_CACHE_DIR") as said:
        store.write(OTHER, CONTENT)
        store.write(OTHER, CONTENT)
    assert len(said) == 1
    assert store.read(NAME) == CONTENT and store.read(OTHER) is None
    assert [path.name for path in folder.iterdir()] == [NAME]


@posix
def test_a_full_disk_stops_nothing(store: CodeStore) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
    try:
        unwritten(store.folder, "File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_folder_that_cannot_be_written_is_used(store: CodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def mkstemp(**options: object) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert CodeStore(store.folder).read(NAME) == CONTENT
    unwritten(store.folder, "Permission denied")


def test_an_interrupt_leaves_no_file_behind(store: CodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(source: Path, target: Path) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        store.write(OTHER, CONTENT)
    assert [path.name for path in store.folder.iterdir()] == [NAME]


def test_what_killed_processes_have_left_is_removed_later(store: CodeStore) -> None:
    old, new = (store.folder / f"{NAME}.{name}.tmp" for name in ("killed", "running"))
    mine = store.folder / "notes.tmp"
    for path in (old, new, mine):
        path.write_bytes(b"half of it")
    for path in (old, mine):
        os.utime(path, (0, 0))
    fresh = CodeStore(store.folder)
    assert fresh.read(NAME) == CONTENT and old.exists()
    fresh.write(OTHER, CONTENT)
    assert sorted(path.name for path in store.folder.iterdir()) == sorted([NAME, OTHER, new.name, mine.name])


def test_clearing_deletes_what_is_certainly_ours(store: CodeStore, tmp_path: Path) -> None:
    folder = store.folder
    (folder / f"{NAME}.killed.tmp").write_bytes(b"")
    inside = folder / "inside"
    inside.mkdir()
    others = [
        folder / "wyrm_notes.txt", folder / "thesis_wyrm_final.py", folder / f"{NAME}.txt", folder / f"my_{NAME}",
        folder / "wyrm_0.machine", inside / NAME,
    ]  # fmt: skip
    for path in others:
        path.write_text("mine")
    target = tmp_path / OTHER
    target.write_text("mine")
    (folder / OTHER).symlink_to(target)
    assert {path.name for path in store.entries()} == {NAME, f"{NAME}.killed.tmp"}
    assert store.clear() == {} == store.entries()
    assert all(path.read_text() == "mine" for path in [*others, target, folder / OTHER])
    assert CodeStore(tmp_path / "missing").clear() == {}


@posix
def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WYRM_CACHE_DIR", f"~/{tmp_path.name}")
    assert cache.store().folder == tmp_path / tmp_path.name
    monkeypatch.setenv("WYRM_CACHE_DIR", "~nobody-has-this-name/cache")
    assert cache.store().refusal() == "the home folder for ~ is unknown"


def test_a_relative_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WYRM_CACHE_DIR", tmp_path.name)
    monkeypatch.chdir(tmp_path.parent)
    assert cache.store().folder == tmp_path
    monkeypatch.chdir(tmp_path)
    assert cache.store().folder == tmp_path
