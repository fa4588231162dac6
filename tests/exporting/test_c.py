"""The files for C: they compile as C99 without a warning, the example runs, and damaged files are refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.exporting.models import Batch, classifier
from wyrm.errors import CheckpointError, DTypeError, OptionError, ShapeError
from wyrm.exporting.errors import FILE_ERRORS


class Time(wy.Dim): ...


COMPILER = shutil.which("cc") or shutil.which("gcc")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic"]


def run(folder: Path, *command: str) -> str:
    found = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert found.returncode == 0, f"{command}: {found.returncode}\n{found.stdout}{found.stderr}"
    return found.stdout


@needs_compiler
def test_the_example_runs(tmp_path: Path) -> None:
    model = classifier()
    wy.export(tmp_path, train=model.train, predict=model.predict, batch_sizes=8)
    assert COMPILER is not None
    run(tmp_path, COMPILER, "-std=c99", *STRICT[1:], "-o", "example", "example.c", "model.o", "-lm")
    assert "model_epoch: loss" in run(tmp_path, "./example")


def test_files_of_other_models_are_refused_in_python(tmp_path: Path) -> None:
    x = wy.Input(dims=(3,), name="x")
    weight = wy.Parameter(np.ones(3, np.float32), name="weight")
    exported = wy.compile(x * weight).export(tmp_path)
    wy.io.save_arrays(tmp_path / "wide.safetensors", {"weight": np.ones(4, np.float32)})
    with pytest.raises(CheckpointError, match=r"weight: \(4,\) float32 in the file, \(3,\) float32 here"):
        exported.load(tmp_path / "wide.safetensors")
    wy.io.save_arrays(tmp_path / "other.safetensors", {"bias": np.ones(3, np.float32)})
    with pytest.raises(CheckpointError, match="missing in the file: weight"):
        exported.load(tmp_path / "other.safetensors")
    wy.io.save_arrays(tmp_path / "nan.safetensors", {"weight": np.full(3, np.nan, np.float32)})
    with pytest.raises(CheckpointError, match="NaN"):
        exported.load(tmp_path / "nan.safetensors")
    assert weight.value.tolist() == [1.0, 1.0, 1.0]
    wy.io.save_arrays(tmp_path / "good.safetensors", {"weight": np.zeros(3, np.float32)})
    exported.load(tmp_path / "good.safetensors")
    assert weight.value.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("target", "magic"),
    [
        ("aarch64-linux-gnu", b"\x7fELF"), ("cortex-m4", b"\x7fELF"),
        ("x86_64-pc-windows-msvc", b"\x64\x86"), ("arm64-apple-macosx11.0.0", b"\xcf\xfa\xed\xfe"),
    ],
)  # fmt: skip
def test_other_targets(tmp_path: Path, target: str, magic: bytes) -> None:
    x = wy.Input(dims=(3,), name="x")
    exported = wy.compile(x.tanh()).export(tmp_path, target=target)
    assert (tmp_path / "model.o").read_bytes()[: len(magic)] == magic
    assert exported.interface.tensors == []


def test_what_cannot_leave_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    folder, x = tmp_path / "folder", wy.Input(dims=(3, 3), name="x", dtype=np.float64)
    with pytest.raises(OptionError, match=r"bessel_j .*has no native form.*wy.special.jv"):
        wy.compile(wy.special.jv(0.5, x)).export(folder)
    with pytest.raises(OptionError, match="target must be 'c'"):
        wy.compile(x + x).export(folder, target="arm")
    with pytest.raises(OptionError, match="LLVM does not know the target"):
        wy.compile(x + x).export(folder, target="vax-dec-ultrix")
    with pytest.raises(OptionError, match=r"pentium9.*not a recognized processor"):
        wy.compile(x + x).export(folder, cpu="pentium9")
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match=r"folder must be a folder, and .* is a file"):
        wy.compile(x + x).export(tmp_path / "file")
    with pytest.raises(OptionError, match="name must be a name of C and JavaScript, such as 'my_model'"):
        wy.compile(x + x).export(folder, name="my model")
    with pytest.raises(OptionError, match="batch_sizes must be an integer of at least 1"):
        wy.compile(x + x).export(folder, batch_sizes=0)
    with pytest.raises(OptionError, match=r"model needs \d+,\d+ bytes of flash, and there are 100"):
        wy.compile(x + x).export(folder, target="cortex-m4", ram=2**20, flash=100)
    with pytest.raises(OptionError, match=r"model needs [\d,]+ bytes of RAM, and there are 64"):
        wy.compile(x + x).export(folder, target="cortex-m4", ram=64)
    with pytest.raises(DTypeError, match=r"takes programs, as wy\.compile returns them, not Tanh"):
        wy.export(folder, predict=x.tanh())  # type: ignore[arg-type]  # on purpose
    rounded = wy.compile(wy.Input(np.ones((2, 3))) @ wy.Parameter(np.ones((3, 2))), compute_dtype="bfloat16")
    with pytest.raises(OptionError, match="this program rounds their operands: compile it again without compute_dtype"):
        wy.export(tmp_path / "none", predict=rounded)
    with pytest.raises(OptionError, match="train= takes a program with an optimizer"):
        wy.export(folder, train=wy.compile(x + x))
    batch = Batch()
    rows, columns = wy.Input(dims=(batch, 3), name="rows"), wy.Input(dims=(3, batch), name="columns")
    with pytest.raises(ShapeError, match="an axis that depends on the batch, besides a first one of its rows"):
        wy.compile(rows @ rows.T).export(folder)
    with pytest.raises(ShapeError, match="the batch in another axis than its first one; transpose it"):
        wy.compile(rows + columns.T).export(folder)
    with pytest.raises(ShapeError, match=r"the axis Time without a size.*sizes={Time: 16}"):
        wy.compile(wy.Input(dims=(batch, Time()), name="x").sum(axis=-1)).export(folder)
    fixed = [wy.Input(dims=(Time(4),), name=name) for name in "ab"]
    slope = wy.Parameter(1.0, name="slope")
    with pytest.raises(
        ShapeError, match=r"declare it without a size, as in Time\(\), and give that as batch_sizes=\[4\]"
    ):
        wy.compile((slope * fixed[0] - fixed[1]).square().mean(), wy.optim.SGD([slope], 0.1)).export(folder)
    with pytest.raises(OptionError, match="takes a program that trains"):
        wy.export(folder)
    parameter, column = wy.Parameter(1.0), wy.Input(name="column")
    rate = wy.optim.SGD([parameter], lambda step: 0.5 if step < 3 else 0.1)
    with pytest.raises(OptionError, match=r"the learning rate .* cannot leave Python"):
        wy.compile((parameter * column).square(), rate).export(folder)
    assert not folder.exists()


def product(names: tuple[str, str]) -> Any:
    one, other = (wy.Input(dims=(Batch(), 3), name=name) for name in names)
    return wy.compile(one - other * wy.Parameter(np.ones(3, np.float32), name="weight"))


@needs_compiler
def test_a_header_of_another_export_is_not_linked(tmp_path: Path) -> None:
    assert COMPILER is not None
    product(("x", "y")).export(tmp_path / "one")
    command = [COMPILER, "-std=c99", *STRICT[1:], "-I", "../one", "-o", "example", "../one/example.c"]
    product(("y", "x")).export(tmp_path / "swapped")
    product(("x", "y")).export(tmp_path / "larger", batch_sizes=33)
    for name in ("swapped", "larger"):
        done = subprocess.run(
            [*command, "model.o", "-lm"], cwd=tmp_path / name, capture_output=True, text=True, check=False
        )
        assert done.returncode != 0 and "model_init_" in done.stderr
        (tmp_path / name / "model_file.h").write_bytes((tmp_path / "one" / "model_file.h").read_bytes())
        mixed = [COMPILER, "-I.", "-o", "example", "example.c", "model.o", "-lm"]
        done = subprocess.run(mixed, cwd=tmp_path / name, capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "model.h is of another export than this file" in done.stderr
    product(("x", "y")).export(tmp_path / "again")
    run(tmp_path / "again", *command, "model.o", "-lm")


SAVES = """
#include <stdlib.h>
#include "model_file.h"
int main(int count, char **paths) {
    void *memory = aligned_alloc(MODEL_ALIGNMENT, MODEL_MEMORY_BYTES);
    static char longer[2 * FILENAME_MAX];
    memset(longer, 'x', sizeof longer - 1);
    if (count < 3 || model_init(memory, MODEL_MEMORY_BYTES) || model_load(memory, paths[1])) return 1;
    printf("%d %d %d", model_save(memory, paths[2]), model_save(memory, "no/folder"), model_save(memory, longer));
    free(memory);
    return 0;
}
"""


@needs_compiler
def test_a_file_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    assert COMPILER is not None
    train = classifier().train
    train.export(tmp_path, batch_sizes=4)
    (tmp_path / "saves.c").write_text(SAVES)
    run(tmp_path, COMPILER, *STRICT, "-o", "saves", "saves.c", "model.o", "-lm")
    before = (tmp_path / "model.safetensors").read_bytes()
    assert len(before) > 1024
    limited = "trap '' XFSZ; ulimit -f 1; ./saves model.safetensors model.safetensors"
    assert run(tmp_path, "sh", "-c", limited) == "14 10 10"
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert run(tmp_path, "./saves", "model.safetensors", "model.safetensors") == "0 10 10"
    assert not list(tmp_path.glob("*.tmp"))
    assert len((tmp_path / "model.safetensors").read_bytes()) > 1024


@needs_compiler
def test_codes_of_errors_are_constants_of_c(tmp_path: Path) -> None:
    assert COMPILER is not None
    exported = product(("x", "y")).export(tmp_path)
    codes = exported.interface.errors | FILE_ERRORS
    lines = "\n".join(f"int own_{key}[MODEL_{key} == {code} ? 1 : -1];" for key, (code, _) in codes.items())
    (tmp_path / "codes.c").write_text(f'#include "model_file.h"\n{lines}\n')
    run(tmp_path, COMPILER, "-c", "codes.c")


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = product(("x", "y"))
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "taken" / "model.safetensors").mkdir(parents=True)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    for name, reason in {
        "file": "is a file", "file/below": "is a file", "dangling": "a link to nothing", "loop": "a link to nothing",
        "taken": "no folder of the name of a file", "a" * 300: "folder cannot be", "a\0b": "folder cannot be",
    }.items():  # fmt: skip
        with pytest.raises(OptionError, match=reason):
            program.export(tmp_path / name)
    program.export(tmp_path / "link")
    assert (tmp_path / "real" / "model.h").exists()
    asked = list[object]()
    monkeypatch.setattr("os.access", lambda place, mode: asked.append(place))
    with pytest.raises(OptionError, match=r"one that this user may write to, and .*real' is not"):
        program.export(tmp_path / "real" / "new")
    assert asked == [tmp_path / "real"]
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["model.safetensors"]


def test_an_export_that_cannot_be_completed_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    product(("x", "y")).export(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("wyrm.exporting.exported.write_arrays", full)
    with pytest.raises(CheckpointError, match="No space left on device"):
        product(("z", "y")).export(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
