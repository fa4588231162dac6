"""Epochs whose batches differ in size: other lengths along an open axis, and a smaller last batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm import engines
from wyrm.errors import IndexOutOfRange, ShapeError

engines.register("written", "tests.engines.written:WrittenEngine")

ENGINES = ("native", "jax", "written")


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    if request.param == "jax":
        pytest.importorskip("jax")
    return str(request.param)


def _texts(sizes: list[tuple[int, int]], seed: int = 0) -> list[Any]:
    draw = np.random.default_rng(seed)
    return [draw.standard_normal(size).astype(np.float32) for size in sizes]


def _regression() -> tuple[Any, Any, Any]:
    x = wy.Input(dims=(Batch(), Time()), name="x")
    slope = wy.Parameter(0.5, name="slope")
    return x, slope, (slope * x - 1.0).square().mean()


@pytest.mark.parametrize(
    "sizes", [[(2, 3), (2, 4)], [(2, 3), (2, 3), (2, 4), (1, 4), (2, 3)], [(3, 2), (2, 5), (2, 2)]]
)
def test_batches_of_several_lengths_train_as_one_call_each(engine: str, sizes: list[tuple[int, int]]) -> None:
    batches = _texts(sizes)
    x, slope, loss = _regression()
    program: Any = wy.compile(loss, wy.optim.SGD([slope], learning_rate=0.1), engine=engine)
    for _ in range(2):
        mean = program.epoch([{x: each} for each in batches])
    trained = float(slope)
    x, slope, loss = _regression()
    program = wy.compile(loss, wy.optim.SGD([slope], learning_rate=0.1), engine=engine)
    for _ in range(2):
        losses = [float(program({x: each})) for each in batches]
    assert trained == pytest.approx(float(slope), rel=1e-5)
    rows = [len(each) for each in batches]
    assert mean == pytest.approx(np.average(losses, weights=rows), rel=1e-5)


def test_fit_takes_batches_of_several_lengths(engine: str) -> None:
    x, slope, loss = _regression()
    program: Any = wy.compile(loss, wy.optim.SGD([slope], learning_rate=0.1), engine=engine)
    batches: Any = [{x: each} for each in _texts([(2, 3), (2, 4), (1, 4)])]
    history = wy.train.fit(program, batches, epochs=3)
    assert history["loss"][-1] < history["loss"][0]


def test_a_batch_of_another_length_begins_a_new_step_of_accumulated_batches(engine: str) -> None:
    x, slope, loss = _regression()
    optimizer = wy.optim.SGD([slope], learning_rate=0.1)
    program: Any = wy.compile(loss, optimizer, engine=engine)
    program.epoch([{x: each} for each in _texts([(2, 3), (2, 4), (2, 4), (1, 4)])], accumulate=2)
    assert optimizer.steps == 3


def _columns(x: Any, data: Any) -> Any:
    return {x: data}


def _loader(x: Any, data: Any) -> Any:
    return wy.data.DataLoader(wy.data.Dataset({x.name: data}), batch_size=8, shuffle=False)


MODELS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "batch norm": (lambda h: wy.nn.BatchNorm(4)(h), ShapeError, "need two values or more"),
    "slice": (lambda h: h[:3], ShapeError, "needs 3 elements"),
    "index": (lambda h: h[-2], IndexOutOfRange, "index -2 is out of range"),
    "neighbors": (lambda h: h[2:] - h[:-2], ShapeError, "needs 2 elements"),
    "deviation": (lambda h: wy.std(h, axis=0, ddof=1), ShapeError, "divides by n - ddof"),
    "pooling": (lambda h: wy.nn.MaxPool1d(3)(h.T[None]), ShapeError, "a window of 3 elements"),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("data", [_columns, _loader])
def test_what_a_short_last_batch_raises_is_raised_before_the_first_step(
    engine: str, data: Callable[[Any, Any], Any], model: Any
) -> None:
    of_rows, error, text = model
    x, weight = wy.Input(dims=(Batch(), 4), name="x"), wy.Parameter(np.eye(4, dtype=np.float32), name="weight")
    loss = of_rows(x @ weight).square().mean()
    optimizer = wy.optim.SGD([weight], learning_rate=0.1)
    program: Any = wy.compile(loss, optimizer, engine=engine)
    rows = np.random.default_rng(0).standard_normal((25, 4)).astype(np.float32)
    options: Any = {"batch_size": 8} if data is _columns else {}
    for train in (program.epoch, lambda each, **options: wy.train.fit(program, each, epochs=2, **options)):
        with pytest.raises(error, match=rf"{text}(.|\n)*in the last batch, of 1 row"):
            train(data(x, rows), **options)
        assert optimizer.steps == 0
        np.testing.assert_array_equal(weight.value, np.eye(4))
    program.epoch(data(x, rows[:24]), **options)
    assert optimizer.steps == 3


def test_the_last_batch_of_a_loader_that_drops_it_is_not_checked(engine: str) -> None:
    x, weight = wy.Input(dims=(Batch(), 4), name="x"), wy.Parameter(np.eye(4, dtype=np.float32))
    program: Any = wy.compile(
        (x @ weight)[:3].square().mean(), wy.optim.SGD([weight], learning_rate=0.1), engine=engine
    )
    data = wy.data.Dataset(x=np.ones((25, 4), np.float32))
    program.epoch(wy.data.DataLoader(data, batch_size=8, drop_last=True))
    assert program.optimizer.steps == 3


def test_a_validation_whose_last_batch_does_not_fit_is_refused_before_the_first_epoch(engine: str) -> None:
    x, weight = wy.Input(dims=(Batch(), 4), name="x"), wy.Parameter(np.eye(4, dtype=np.float32))
    program: Any = wy.compile(
        (x @ weight)[:3].square().mean(), wy.optim.SGD([weight], learning_rate=0.1), engine=engine
    )
    rows = np.ones((24, 4), np.float32)
    with pytest.raises(ShapeError, match=r"in the last batch, of 2 rows"):
        wy.train.fit(program, {x: rows}, epochs=2, batch_size=8, validation={x: rows[:18]}, validation_batch_size=8)
    assert program.optimizer.steps == 0


def test_a_generator_of_batches_raises_for_a_short_one_once_it_is_there(engine: str) -> None:
    """Nobody knows how many rows come: the steps before it have moved the parameters."""

    def batches() -> Iterator[dict[Any, Any]]:
        for rows in (4, 4, 1):
            yield {x: np.ones((rows, 4), np.float32)}

    x, weight = wy.Input(dims=(Batch(), 4), name="x"), wy.Parameter(np.eye(4, dtype=np.float32))
    program: Any = wy.compile(
        (x @ weight)[:3].square().mean(), wy.optim.SGD([weight], learning_rate=0.1), engine=engine
    )
    with pytest.raises(ShapeError, match="needs 3 elements"):
        program.epoch(batches())
    assert program.optimizer.steps == 2


@pytest.mark.parametrize("batch_size", [6, 8])
def test_threads_do_not_divide_batches_whose_rows_come_in_groups(batch_size: int) -> None:
    """Parts of three rows would not be a multiple of 2; the last batch of 22 has six."""
    x, weight = wy.Input(dims=(Batch() * 2, 4), name="x"), wy.Parameter(np.eye(4, dtype=np.float32))
    rows = np.random.default_rng(0).standard_normal((22, 4)).astype(np.float32)
    losses = []
    for threads in (1, 2):
        weight.set(np.eye(4))
        program: Any = wy.compile((x @ weight).square().mean(), wy.optim.SGD([weight], learning_rate=0.1))
        losses.append(program.epoch({x: rows}, batch_size=batch_size, threads=threads, mode="synchronized"))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
