"""A model as a wheel: it predicts and trains on with NumPy alone, and says where it cannot be loaded."""

from __future__ import annotations

import ast
import importlib.util
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.exporting.models import Batch, classifier
from wyrm.errors import OptionError
from wyrm.exporting import wheel

HAS_ZIG = importlib.util.find_spec("ziglang") is not None
needs_linker = pytest.mark.skipif(not (HAS_ZIG or shutil.which("cc")), reason="needs ziglang or a C compiler")
BEGINNING = """
import json, sys, threading
import numpy as np
data = dict(np.load("data.npz"))
import flowers
"""


@pytest.fixture
def cc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Link with the C compiler of this machine if it has one: ziglang first compiles parts of a C library."""
    if shutil.which("cc"):
        monkeypatch.setattr(wheel, "find_spec", lambda name: None)


def installed(folder: Path, file: Path) -> Path:
    """Install a wheel beside NumPy in a folder for packages, by pip."""
    place = folder / "packages"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target"]
    done = subprocess.run([*pip, str(place), str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    own = Path(np.__file__).parents[1]
    for each in own.glob("numpy*"):
        (place / each.name).symlink_to(each)
    return place


def alone(text: str, folder: Path) -> Any:
    """Run a program without the packages of this process."""
    command = [sys.executable, "-I", "-S", "-c", text]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def run(folder: Path, program: str, data: dict[str, Any]) -> Any:
    """Run a program in a process that has the installed package and NumPy alone; return what it prints as JSON."""
    np.savez(folder / "data.npz", **data)
    text = f"import sys; sys.path.append({str(folder / 'packages')!r})\n" + BEGINNING + program
    done = alone(text, folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


PREDICTS = """
model = flowers.Model()
scores, answer = model.scores(x=data["x"]), model.answer(x=data["x"])
assert scores.dtype == np.float32 and scores.shape == (37, 4) and answer.dtype == np.int64
many = model.scores(x=np.tile(data["x"], (10, 1)))  # more rows than a batch
assert (many.reshape(10, 37, 4) == scores).all()
assert (model.scores(x=data["x"].astype(np.float64)) == scores).all()
wrong = []
def worker(number):
    for count in range(60):
        first = (number + count) % 30
        if (model.scores(x=data["x"][first : first + 7]) != scores[first : first + 7]).any():
            wrong.append(number)
threads = [threading.Thread(target=worker, args=(number,)) for number in range(8)]
for each in threads: each.start()
for each in threads: each.join()
heavy = [each for each in ("wyrm", "llvmlite", "scipy", "torch", "jax") if each in sys.modules]
print(json.dumps([scores.tolist(), answer.tolist(), wrong, heavy]))
"""

TRAINS = """
model = flowers.Model()
losses = [model.epoch(x=data["x"], y=data["y"], batch=8, shuffle=True, seed=3) for _ in range(3)]
losses.append(model.step(x=data["x"][:5], y=data["y"][:5]))
model.save("trained.safetensors")
np.savez("state.npz", **model.state_dict())
again = flowers.Model("trained.safetensors")
assert (again.scores(x=data["x"]) == model.scores(x=data["x"])).all()
other = flowers.Model()
assert (other.scores(x=data["x"]) != model.scores(x=data["x"])).any()
other.load_state_dict(model.state_dict())
assert (other.scores(x=data["x"]) == model.scores(x=data["x"])).all()
print(json.dumps(losses))
"""

REFUSES = """
model = flowers.Model()
x, y = data["x"], data["y"]
before = model.scores(x=x).tobytes(), {name: array.tobytes() for name, array in model.state_dict().items()}
bad = [
    lambda: model.scores(x=x[:, :5]), lambda: model.scores(x=x[0]), lambda: model.scores(x=x.astype(str)),
    lambda: model.scores(x=x.astype(complex)), lambda: model.scores(z=x), lambda: model.scores(),
    lambda: model.scores(x=np.where(x > 1, np.nan, x)), lambda: model.step(x=x, y=y.astype(float)),
    lambda: model.step(x=x[:5], y=y[:4]), lambda: model.step(x=x[:5], y=y[:5] + 9),
    lambda: model.epoch(x=x, y=y, batch=33), lambda: model.epoch(x=x, y=y, batch=2.5),
    lambda: model.epoch(x=x, y=y, seed=-1), lambda: model.epoch(x=x, y=y, seed=2**70),
    lambda: model.load_state_dict({}), lambda: model.load_state_dict(model.state_dict() | {"other": x}),
    lambda: model.load_state_dict({name: array[:1] for name, array in model.state_dict().items()}),
    lambda: model.load_state_dict({name: array * np.nan for name, array in model.state_dict().items()}),
    lambda: model.load("data.npz"), lambda: model.scores(x=np.ma.masked_array(x, x > 1)),
]
found = []
for each in bad:
    try:
        each()
    except flowers.ModelError as error:
        found.append([error.key, str(error)])
    else:
        found.append(None)
    assert before == (model.scores(x=x).tobytes(), {n: a.tobytes() for n, a in model.state_dict().items()})
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any, Any]]:
    """Yield a folder with the wheel of a classifier and its package, the classifier and its export."""
    folder, model = tmp_path_factory.mktemp("wheel"), classifier()
    with pytest.MonkeyPatch.context() as patch:
        if shutil.which("cc"):
            patch.setattr(wheel, "find_spec", lambda name: None)
        files = wy.export(folder, train=model.train, predict=model.predict, target="python", name="flowers")
    installed(folder, files.files[0])
    yield folder, model, files


def columns(model: Any) -> dict[str, Any]:
    return {leaf.name: array for leaf, array in model.data.items()}


@needs_linker
def test_it_predicts_with_numpy_alone(exported: tuple[Path, Any, Any]) -> None:
    folder, model, files = exported
    scores, answer, wrong, heavy = run(folder, PREDICTS, columns(model))
    (x,) = model.predict["scores"].inputs
    np.testing.assert_allclose(scores, model.predict["scores"]({x: model.data[x]}), rtol=1e-5, atol=1e-6)
    assert answer == model.predict["answer"]({x: model.data[x]}).tolist()
    assert wrong == heavy == []
    with zipfile.ZipFile(files.files[0]) as file:
        sizes = {each.filename: each.file_size for each in file.infolist()}
    assert sum(size for name, size in sizes.items() if not name.endswith(".safetensors")) < 2**20


@needs_linker
def test_it_trains_on_and_its_state_comes_home(exported: tuple[Path, Any, Any]) -> None:
    folder, model, files = exported
    losses = run(folder, TRAINS, columns(model))
    own = classifier()
    for each in losses[:3]:
        found = own.train.epoch(columns(own), batch_size=8, shuffle=True, seed=3)
        assert each == pytest.approx(found, rel=1e-4)
    own.train({leaf: array[:5] for leaf, array in own.data.items()})
    (x,) = own.predict["scores"].inputs
    expected = own.predict["scores"]({x: own.data[x]})
    files.load(folder / "trained.safetensors")
    (x,) = model.predict["scores"].inputs
    np.testing.assert_allclose(model.predict["scores"]({x: model.data[x]}), expected, rtol=1e-3, atol=1e-5)
    assert model.train.state_dict() == own.train.state_dict()


@needs_linker
def test_errors_have_names_and_change_nothing(exported: tuple[Path, Any, Any]) -> None:
    folder, model, _ = exported
    found = run(folder, REFUSES, columns(model))
    assert None not in found
    messages = [message for _, message in found]
    assert messages[0] == "scores: x has the shape (37, 5), and takes (rows, 6)"
    assert messages[3] == "scores: x is complex64, and takes float32" or "complex" in messages[3]
    assert messages[4] == "scores has no z; it takes x" and messages[5] == "scores needs x; it takes x"
    assert found[6][0] == "NOT_FINITE" and found[9][0] == "INDEX" and found[10][0] == "BATCH"
    assert messages[8] == "step: x has 5 rows, and other inputs 4"
    assert "weight is missing" in messages[14] and "other is not of this model" in messages[15]
    assert messages[19] == "scores: x is masked: fill in its values, as in x.filled(0)"


class Net(wy.nn.Module):
    """A module whose names the wheel has."""

    def __init__(self) -> None:
        self.first, self.last = wy.nn.Linear(6, 5), wy.nn.Linear(5, 4)

    def __call__(self, x: Any) -> Any:
        return self.last(self.first(x).tanh())


@needs_linker
def test_a_state_of_the_wheel_is_one_of_the_module(tmp_path: Path, cc: None) -> None:
    net = Net()
    x, y = wy.Input(dims=(Batch(), 6), name="x"), wy.IndexInput(dims=(Batch(),), name="y")
    train = wy.compile(wy.losses.cross_entropy(net(x), y), wy.optim.Adam(net.parameters(), 0.1))
    data = {"x": np.random.default_rng(0).normal(size=(20, 6)).astype(np.float32), "y": np.arange(20) % 4}
    files = wy.export(tmp_path, train=train, predict=wy.compile(net(x)), target="python", name="flowers")
    installed(tmp_path, files.files[0])
    program = 'm = flowers.Model()\nloss = m.epoch(**data, batch=5)\nnp.savez("s.npz", **m.state_dict())\n'
    expected = run(tmp_path, program + "print(json.dumps(m.predict(x=data['x']).tolist()))", data)
    net.load_state_dict(dict(np.load(tmp_path / "s.npz")))
    np.testing.assert_allclose(wy.compile(net(x))({x: data["x"]}), expected, rtol=1e-5, atol=1e-6)


RAGGED = """
model = flowers.Model()
ids, offsets = data["ids"], data["offsets"]
scores = model.predict(ids=ids, words_offsets=offsets)
found = []
for bad in (offsets[:-1] * 0 + 9, offsets[:0], offsets[::-1], offsets + 1, offsets.reshape(-1, 1)):
    try:
        model.predict(ids=ids, words_offsets=bad)
    except flowers.ModelError as error:
        found.append(error.key)
assert (model.predict(ids=ids, words_offsets=offsets) == scores).all()
print(json.dumps([scores.tolist(), found]))
"""


class Words(wy.Ragged): ...


@needs_linker
def test_rows_of_any_length(tmp_path: Path, cc: None) -> None:
    ids = wy.IndexInput(dims=(Batch(), Words()), name="ids")
    program = wy.compile(wy.nn.Linear(8, 2)(wy.nn.EmbeddingBag(30, 8)(ids)))
    files = wy.export(tmp_path, predict=program, sizes={Words: 64}, target="python", name="flowers")
    installed(tmp_path, files.files[0])
    rows = wy.RaggedArray.of_rows([np.array([3, 1]), np.array([], np.int64), np.array([4])])
    scores, found = run(tmp_path, RAGGED, {"ids": rows.values, "offsets": rows.offsets})
    np.testing.assert_allclose(scores, program({ids: rows}), rtol=1e-5, atol=1e-6)
    assert found == ["OFFSETS", "ARGUMENT", "OFFSETS", "OFFSETS", "ARGUMENT"]


@needs_linker
@pytest.mark.skipif(not wheel.platform_named("python").endswith("x86_64"), reason="x86-64 alone has such features")
def test_another_processor_is_an_error_before_the_code_runs(tmp_path: Path, cc: None) -> None:
    x = wy.Input(dims=(3,), name="x")
    program = wy.compile(x.tanh())
    if " fma4 " in Path("/proc/cpuinfo").read_text(encoding="ascii"):
        pytest.skip("this processor has all features")
    files = wy.export(tmp_path, predict=program, target="python", cpu="x86-64-v2", features="+fma4", name="flowers")
    installed(tmp_path, files.files[0])
    text = f"import sys; sys.path.append({str(tmp_path / 'packages')!r})\nimport flowers"
    done = alone(text, tmp_path)
    assert done.returncode == 1
    assert "ImportError: flowers has machine code that needs fma4, which this processor or its" in done.stderr


@needs_linker
def test_code_uses_only_what_is_checked(tmp_path: Path, cc: None) -> None:
    x = wy.Input(dims=(Batch(), 40), name="x")
    program = wy.compile((x @ wy.Parameter(np.ones((40, 40), np.float32))).exp())
    for cpu, wide in (("x86-64", False), ("x86-64-v3", True)):
        files = wy.export(tmp_path / cpu, predict=program, target="python-linux-x86_64", cpu=cpu)
        library = zipfile.ZipFile(files.files[0]).extract("model/model.so", tmp_path / cpu)
        if shutil.which("objdump"):
            listing = subprocess.run(["objdump", "-d", library], capture_output=True, text=True, check=True).stdout
            assert ("%ymm" in listing) == wide and "%zmm" not in listing and ("vfmadd" in listing) == wide


@needs_linker
def test_types_have_the_axes(exported: tuple[Path, Any, Any]) -> None:
    folder, _, _ = exported
    text = (folder / "packages" / "flowers" / "__init__.pyi").read_text(encoding="utf-8")
    methods = {each.name for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef)}
    assert {"epoch", "step", "scores", "answer", "load", "save", "state_dict"} <= methods
    assert "np.ndarray[tuple[Annotated[int, 'rows'], Annotated[int, '6']], np.dtype[np.float32]]" in text


def test_what_no_wheel_can_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = wy.Input(dims=(3,), name="x")
    program = wy.compile(x.tanh())
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"target": "python-linux-vax"}, "wheels are written for 'python-linux-x86_64'"),
        ({"target": "python3"}, "wheels are written for"),
        ({"target": "python", "blas": "cblas"}, "a wheel has no blas"),
        ({"target": "python-linux-x86_64", "cpu": "znver9"}, "cpu of a wheel must be one of x86-64, x86-64-v2"),
        ({"target": "python-linux-x86_64", "features": "+amx-int8"}, r"not \+amx-int8"),
        ({"target": "python-macos-arm64", "cpu": "x86-64"}, "for x86-64"),
    ]
    for options, message in wrong:
        with pytest.raises(OptionError, match=message):
            wy.export(tmp_path / "none", predict=program, **options)
    keyword = wy.compile(wy.Input(dims=(3,), name="lambda").tanh())
    names: list[tuple[dict[str, Any], str]] = [
        ({"predict": program, "name": "numpy"}, "name must not be 'numpy', which means something else in Python"),
        ({"predict": program, "name": "json"}, "name must not be 'json'"),
        ({"predict": {"state_dict": program}}, "has the name 'state_dict', which Python does not allow"),
        ({"predict": keyword}, "has the name 'lambda', which Python does not allow"),
    ]
    for options, message in names:
        with pytest.raises(OptionError, match=message):
            wy.export(tmp_path / "none", target="python", **options)
    monkeypatch.setattr(wheel, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"a linker for windows-x86_64: pip install \"wyrm-autodiff\[wasm\]\""):
        wy.export(tmp_path / "none", predict=program, target="python-windows-x86_64")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(OptionError, match="a C compiler: pip install"):
        wy.export(tmp_path / "none", predict=program, target="python")
    assert not (tmp_path / "none").exists()


# How a shared object of each system begins, and the tag of its wheel.
SYSTEMS = {
    "linux-x86_64": (b"\x7fELF", "manylinux_2_17_x86_64.manylinux2014_x86_64"),
    "linux-aarch64": (b"\x7fELF", "manylinux_2_17_aarch64.manylinux2014_aarch64"),
    "macos-x86_64": (b"\xcf\xfa\xed\xfe", "macosx_11_0_x86_64"),
    "macos-arm64": (b"\xcf\xfa\xed\xfe", "macosx_11_0_arm64"),
    "windows-x86_64": (b"MZ", "win_amd64"),
}


@pytest.mark.skipif(not HAS_ZIG, reason="needs ziglang")
@pytest.mark.parametrize("name", list(wheel.PLATFORMS))
def test_wheels_of_other_systems(tmp_path: Path, name: str) -> None:
    magic, tag = SYSTEMS[name]
    x = wy.Input(dims=(Batch(), 3), name="x")
    program = wy.compile((x @ wy.Parameter(np.ones((3, 3), np.float32))).tanh())
    (file,) = wy.export(tmp_path, predict=program, target=f"python-{name}", name="flowers").files
    assert file.name == f"flowers-1.0-py3-none-{tag}.whl"
    with zipfile.ZipFile(file) as contents:
        contents.extractall(tmp_path / "packages")
    package = tmp_path / "packages" / "flowers"
    (library,) = (each for each in package.iterdir() if each.suffix in (".so", ".dll", ".dylib"))
    assert library.read_bytes().startswith(magic)
    if name != wheel.platform_named("python"):
        for each in Path(np.__file__).parents[1].glob("numpy*"):
            (tmp_path / "packages" / each.name).symlink_to(each)
        text = f"import sys; sys.path.append({str(tmp_path / 'packages')!r})\nimport flowers"
        done = alone(text, tmp_path)
        assert f"ImportError: flowers has machine code for {name}, which cannot be loaded here" in done.stderr
