"""Counts of compiled functions: another size, constant, learning rate or name compiles nothing, but for narrow rows."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.engines.native.kernels.functions import kernel_of
from wyrm.engines.native.llvm import cache, library
from wyrm.engines.native.llvm.cache import CompilationCount
from wyrm.engines.native.llvm.library import Listing
from wyrm.graph.typing import FloatArray
from wyrm.ops.kernels.sums import compiled_once

pytestmark = pytest.mark.optimized


class Batch(wy.Dim): ...


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WYRM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(library, "_functions", {})  # as in a process that has loaded nothing
    yield


def compiled_by(
    hidden: int = 8, decay: float = 0.03, rate: float = 0.1, name: str = "x", activation: str = "tanh", layers: int = 1
) -> int:
    """Return the number of functions compiled to train a small network."""
    wy.nn.seed(0)
    x, y = wy.Input(dims=(Batch(), 5), name=name), wy.Input(dims=(Batch(),), name="y")
    inner: Any = x
    for layer in range(layers):
        inner = getattr(wy.nn.Linear(hidden if layer else 5, hidden)(inner), activation)()
    scale = wy.Parameter(np.ones(3, np.float32), name="scale")
    loss = (wy.nn.Linear(hidden, 3)(inner).sum(axis=-1) - y).square().mean() + decay * scale.square().sum()
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), rate))
    before = CompilationCount.compiled
    program.epoch({x: np.ones((12, 5)), y: np.ones(12)}, batch_size=4)
    return CompilationCount.compiled - before


def test_only_what_differs_is_compiled() -> None:
    assert compiled_by() > 0
    assert compiled_by() == 0
    assert compiled_by(hidden=16) == 0
    assert compiled_by(decay=0.7) == 0
    assert compiled_by(rate=0.5) == 0
    assert compiled_by(name="renamed") == 0
    assert compiled_by(activation="relu") == 1


class Hidden(wy.Dim): ...


def test_programs_of_equal_structure_share_a_loaded_function(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, load = [0], library._load

    def counted(*arguments: Any) -> Any:
        loaded[0] += 1
        return load(*arguments)

    def run_of(hidden: int, rate: float, name: str) -> set[int]:
        x, batch = wy.Input(dims=(Batch(), 5), name=name), np.ones((12, 5))
        first, second = wy.nn.Linear(5, Hidden(hidden)), wy.nn.Linear(Hidden(hidden), 3)
        loss = second(wy.nn.Dropout(0.1)(first(x).tanh())).square().mean()
        program = wy.compile(loss, wy.optim.Adam(loss.parameters(), rate))
        program.epoch({x: batch}, batch_size=4)
        run: Any = program._engine
        return {id(machine) for _, machine in run.runner.load()._machines.values()}

    first = run_of(8, 0.1, "x")
    monkeypatch.setattr(library, "_load", counted)
    assert run_of(16, 0.1, "x") == run_of(8, 0.3, "x") == first
    assert loaded == [0]
    assert run_of(8, 0.1, "features") != first  # names are in the code that is shown


class Recommender:
    """A small model of a catalogue, and its columns; each kind of loss is a method."""

    def __init__(self, users: int, items: int, width: int) -> None:
        batch = Batch()
        self.user, self.item = (wy.IndexInput(dims=(batch,), name=name) for name in ("user", "item"))
        generator = np.random.default_rng(0)
        self.columns: dict[Any, Any] = {
            self.user: generator.integers(0, users, 40),
            self.item: generator.integers(0, items, 40),
        }
        self.items, self.width = items, width
        self.user_vectors = wy.Parameter(np.ones((users, width), np.float32), name="user_vectors")
        self.item_vectors = wy.Parameter(np.ones((items, width), np.float32), name="item_vectors")

    def bpr(self) -> Any:
        """Draw items that the user does not know, and rows that are computed."""
        known = [[item] for item in range(self.user_vectors.dims[0])]
        drawn = wy.random.index(self.items, self.user.dims, exclude=known, rows=self.user)
        computed = (wy.random.randint(self.user.dims, 0, self.items) + self.item) // 2
        difference = self.item_vectors.index(self.item) - self.item_vectors.index(drawn)
        loss = -(self.user_vectors.index(self.user) * difference).sum(-1).log_sigmoid()
        return (loss + self.item_vectors.index(computed).square().mean(-1)).mean()

    def warp(self) -> wy.Node:
        user, drawn = self.user_vectors.index(self.user), wy.random.index(self.items, (*self.user.dims, 4))
        scores = user.vector_dot(self.item_vectors.index(self.item))
        others = (user.expand_dims(1) * self.item_vectors.index(drawn)).sum(-1)
        return wy.losses.warp(scores, others, num_items=self.items)

    def classifier(self) -> Any:
        return wy.nn.Linear(self.width, self.items)(self.user_vectors.index(self.user)).cross_entropy(self.item)


def compiled_for(kind: str, *sizes: int) -> int:
    """Return the number of functions compiled to train a model of so many users, items and features."""
    model = Recommender(*sizes)
    loss: wy.Node = getattr(model, kind)()
    program = wy.compile(loss, wy.optim.Adagrad(loss.parameters(), 0.1))
    before = CompilationCount.compiled
    program.epoch({leaf: model.columns[leaf] for leaf in program.inputs}, batch_size=8)
    return CompilationCount.compiled - before


@pytest.mark.parametrize("kind", ["bpr", "warp", "classifier"])
def test_another_catalogue_compiles_nothing(kind: str) -> None:
    assert compiled_for(kind, 40, 150, 16) > 0
    assert compiled_for(kind, 57, 171, 16) == 0
    assert compiled_for(kind, 300, 500, 16) == 0
    assert compiled_for(kind, 40, 150, 130) > 0  # rows of up to 128 numbers have code of their own
    assert compiled_for(kind, 57, 171, 150) == 0
    assert compiled_for(kind, 300, 500, 200) == 0


def test_another_rate_of_dropout_compiles_nothing() -> None:
    def compiled(rate: float) -> int:
        x, weight = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0, name="weight")
        loss = wy.nn.Dropout(rate)(weight * x).sum()
        before = CompilationCount.compiled
        wy.compile(loss, wy.optim.SGD([weight], 0.1)).epoch({x: np.ones(20)}, batch_size=4)
        return CompilationCount.compiled - before

    assert compiled(0.5) > 0
    assert compiled(0.2) == 0


def compiled_of(function: Any) -> int:
    """Return the number of functions compiled to train by a loss of numbers."""
    x, weight = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(1.0, name="weight")
    program = wy.compile(function(weight * x).sum(), wy.optim.SGD([weight], 1e-3))
    before = CompilationCount.compiled
    program.epoch({x: np.ones(8)}, batch_size=4)
    return CompilationCount.compiled - before


def test_constants_that_are_part_of_the_code() -> None:
    """As the page of native training says."""
    assert compiled_of(lambda x: 0.3 * x) > 0
    assert compiled_of(lambda x: 0.7 * x) == 0
    assert compiled_of(lambda x: 1.0 * x) == 1
    assert compiled_of(lambda x: x.clip(0.1, 2.0)) == 1
    assert compiled_of(lambda x: x.clip(0.2, 3.0)) == 0
    assert compiled_of(lambda x: x.clip(0.0, 3.0)) == 1
    assert compiled_of(lambda x: x**2.5) == 1
    assert compiled_of(lambda x: x**2.7) == 1


def test_another_constant_gives_other_numbers() -> None:
    x = wy.Input(dims=(3,), name="x")
    values = np.array([1.0, 2.0, 3.0])
    for factor in (0.3, 0.7, 2.5):
        np.testing.assert_allclose(wy.compile(x * factor + factor)({x: values}), values * factor + factor, rtol=1e-6)


def test_layers_that_repeat_are_compiled_once() -> None:
    """For a program so large that its functions are compiled separately."""
    few = compiled_by(layers=8)
    assert few > 1
    assert compiled_by(layers=12) == 1  # the caller


def test_a_second_program_shares_kernels() -> None:
    """Train, then predict: the matrix product is already compiled."""
    wy.nn.seed(0)
    x = wy.Input(dims=(Batch(), 5), name="x")
    scores = wy.nn.Linear(5, 3)(x)
    loss = scores.square().mean()
    train = wy.compile(loss, wy.optim.SGD(loss.parameters(), 0.1))
    train({x: np.ones((4, 5))})
    before = CompilationCount.compiled
    wy.compile(scores)({x: np.ones((4, 5))})
    assert CompilationCount.compiled - before == 1


def test_compiling_that_takes_long_is_announced_in_one_line(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(cache, "SPEAK_AFTER", 0.01)
    with cache.message_if_slow("the training of mine.py:3"):
        monkeypatch.setattr(CompilationCount, "compiled", CompilationCount.compiled + 1)
        time.sleep(0.2)
    assert capsys.readouterr().err.endswith("wyrm: compiling the training of mine.py:3 ...\n")
    with cache.message_if_slow("what is loaded"):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_what_is_compiled_is_told_by_the_line_that_made_it(monkeypatch: Any) -> None:
    told: list[str] = []

    @contextmanager
    def message_if_slow(what: str) -> Iterator[None]:
        told.append(what)
        yield

    monkeypatch.setattr(cache, "message_if_slow", message_if_slow)
    weight = wy.Parameter([1.0, 2.0], name="weight")
    loss = weight.square().sum()
    line = line_of("loss = weight.square().sum()")
    wy.compile(loss, wy.optim.SGD([weight], 0.1))()
    wy.compile(loss)()
    file = Path(__file__).name
    assert told == [f"the training of {file}:{line}", f"a program of {file}:{line}"]


def test_the_gradients_of_synchronized_training_are_announced_as_training(monkeypatch: Any) -> None:
    announced: list[str] = []

    @contextmanager
    def announce(what: str) -> Iterator[None]:
        announced.append(what)
        yield

    monkeypatch.setattr(cache, "message_if_slow", announce)
    x, weight = wy.Input(dims=(Batch(),), name="x"), wy.Parameter(0.0, name="weight")
    loss = (weight * x).mean()
    line = line_of("loss = (weight * x).mean()")
    program = wy.compile(loss, wy.optim.SGD([weight], 0.1))
    program.epoch({x: np.ones(4)}, batch_size=2, threads=2, mode="synchronized")
    program.backward({x: np.ones(4)}, threads=2)
    assert set(announced) == {f"the training of {Path(__file__).name}:{line}"}


def line_of(text: str) -> int:
    """Return the first line of this file that consists of `text`."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return 1 + next(i for i, each in enumerate(lines) if each.strip() == text)


@pytest.mark.parametrize(
    ("sizes", "vectors"), [((5,), False), ((2, 4), False), ((64,), True), ((8, 8), True), ((None,), True)]
)
def test_loops_of_a_few_elements_do_not_use_vectors(sizes: tuple[int | None, ...], vectors: bool) -> None:
    x: Any = wy.Input(dims=tuple(Batch() if size is None else size for size in sizes), name="x")
    program = wy.compile([x.exp() * x, (x + 1.0).tanh()])
    shape = tuple(size or 3 for size in sizes)
    values = np.linspace(-1.0, 1.0, math.prod(shape)).astype(np.float32).reshape(shape)
    first, second = program({x: values})
    np.testing.assert_allclose(first, np.exp(values) * values, rtol=1e-6)
    np.testing.assert_allclose(second, np.tanh(values + 1.0), rtol=1e-6)
    assert ("disable_nonforced" not in program.llvm) == vectors
    if platform.machine() in ("x86_64", "AMD64"):
        assert ("mulps" in program.assembly) == vectors


def over_kernels(size: int) -> Any:
    return wy.Input(dims=(size,), name="x").cumsum(axis=0)


def over_matrices(size: int) -> Any:
    return wy.linalg.inv(wy.Input(dims=(size, size), name="x"))


def over_a_carry(size: int) -> Any:
    rows = wy.Constant(np.ones(3, np.float32))
    return wy.scan(lambda carry, row: (carry, row * 2.0), wy.Input(dims=(size,), name="x"), rows)[1]


@pytest.mark.parametrize("build", [over_kernels, over_matrices, over_a_carry])
def test_kernels_of_many_elements_use_vectors(build: Any) -> None:
    """Their loops are not among those of the program."""
    for size, few in ((2, True), (64, False)):
        program = wy.compile(build(size))
        (x,) = program.inputs
        program({x: np.eye(size, dtype=np.float32) if x.ndim == 2 else np.ones(size, np.float32)})
        assert ("disable_nonforced" in program.llvm) == few, size


@compiled_once
def _double(x: FloatArray) -> None:
    for i in range(x.size):
        x[i] *= 2


def _doubled(x: FloatArray) -> None:
    _double(x)


def _doubled_twice(x: FloatArray) -> None:
    _double(x)
    _double(x)


def test_kernels_share_a_function_that_is_compiled_once() -> None:
    listing = Listing()
    for kernel in (_doubled, _doubled_twice):
        listing.add(kernel_of(kernel), [np.zeros(3, np.float32)])
    modules = listing.llvm.split("; module ")[1:]
    assert len(modules) == 3
    assert [text.count("fmul") for text in modules].count(0) == 2
