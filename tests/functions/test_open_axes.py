"""Loops, branches and `vmap` over axes whose sizes come from the data of each run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import ShapeError
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


RANDOM = np.random.default_rng(0)
W = wy.Parameter(RANDOM.normal(size=(3, 3)) * 0.5, name="w")


def recurrence(x: Any) -> Any:
    """A recurrence over the second axis of `x`, in both directions."""
    steps = x.transpose(1, 0, 2)
    start = x[:, 0] * W[0]

    def step(h: Any, row: Any) -> Any:
        h = (h @ W + row).tanh()
        return h, h.sin()

    last, made = wy.scan(step, start, steps)
    back, _ = wy.scan(lambda h, row: (h * row, None), last, steps, reverse=True)
    return back.sum() + (made * steps).sum()


def counted(x: Any) -> Any:
    """A loop that carries a counter and a row for each row of data, and closes over `x`."""

    def step(carry: Any, _: None) -> Any:
        count, h = carry
        return (count + 1, h * W[0] + x[:, 0]), h.sum(axis=1) * count.astype(np.float64)

    (_, last), made = wy.scan(step, (wy.IndexConstant(0), x[:, 1]), length=4)
    return last.square().sum() + made.sum()


def nested(x: Any) -> Any:
    def outer(h: Any, _: None) -> Any:
        inner, _ = wy.scan(lambda d, _: ((d @ W).tanh(), None), h, length=2)
        return inner, h.sum(axis=0)

    last, made = wy.scan(outer, x[:, 0], length=3)
    return last.square().sum() + made.sum()


def random_steps(x: Any) -> Any:
    with_noise, _ = wy.scan(lambda h, _: (h + wy.random.normal_like(h, stream=7) * W[0], None), x[:, 0], length=3)
    return with_noise.square().sum()


CASES: dict[str, Callable[[Any], Any]] = {
    "scan": recurrence,
    "counter": counted,
    "nested": nested,
    "random": random_steps,
    "while_loop": lambda x: wy.while_loop(
        lambda h: (h * h).sum() < 1e4, lambda h: h @ W + 1.5 * h, x[:, 0], max_steps=9
    ).sum(),
    "cond": lambda x: wy.cond(x.sum() > 0.0, lambda a: (a @ W).tanh(), lambda a: a * W[0], x[:, 0]).square().sum(),
    "switch": lambda x: (
        wy.switch(wy.IndexConstant(1), [lambda a: a @ W, lambda a: (a * W[0]).sin()], x[:, 0]).square().sum()
    ),
    "vmap": lambda x: wy.vmap(lambda row: (row @ W).tanh())(x).square().sum(),
    "vmap of scan": lambda x: (
        wy.vmap(lambda row: wy.scan(lambda c, v: (c * W[0] + v.sin(), c), W[1], row)[0])(x).square().sum()
    ),
    "checkpoint": lambda x: (
        wy.checkpoint(lambda a: wy.scan(lambda h, _: ((h @ W).tanh(), None), a[:, 0], length=2)[0], x).square().sum()
    ),
}


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with jax.enable_x64(True), wy.random.at_step(5):
        yield


def derivatives(loss: Any) -> list[Any]:
    (first,) = wy.grad(loss, [W])
    (second,) = wy.grad((first * first).sum(), [W])
    return [loss, first, second]


def data(rows: int, steps: int) -> np.ndarray:
    return np.random.default_rng(rows).normal(size=(rows, steps, 3))


@pytest.mark.parametrize("engine", ["numpy", "native", "jax"])
@pytest.mark.parametrize("case", CASES)
def test_one_graph_takes_any_sizes(case: str, engine: str) -> None:
    x = wy.Input(dims=(Batch(), Time(), 3), dtype=np.float64)
    opened = derivatives(CASES[case](x))
    program = None if engine == "numpy" else wy.compile(opened, engine=engine)
    for rows, steps in [(2, 3), (5, 4), (1, 2)]:
        values = data(rows, steps)
        x.set(values)
        found = wy.run(opened) if program is None else program()
        for value, node in zip(found, derivatives(CASES[case](wy.Constant(values))), strict=True):
            np.testing.assert_allclose(value, node.forward(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_gradients(case: str) -> None:
    x = wy.Input(data(2, 3), dims=(Batch(), Time(), 3), dtype=np.float64)
    check_grads(CASES[case](x), [W, x], engines=())


def test_a_loop_over_no_rows_and_no_steps() -> None:
    x = wy.Input(data(0, 2), dims=(Batch(), Time(), 3), dtype=np.float64)
    last, made = wy.scan(lambda h, row: (h + row, h), x[:, 0], x.transpose(1, 0, 2))
    assert [value.shape for value in wy.compile([last, made])()] == [(0, 3), (2, 0, 3)]
    start = wy.Constant(np.ones(3))
    last, made = wy.scan(lambda h, row: (h + row.sum(axis=0), h), start, x.transpose(1, 0, 2))
    x.set(np.zeros((2, 0, 3)))
    for values in (wy.run([last, made]), wy.compile([last, made])()):
        assert values[0].tolist() == [1.0, 1.0, 1.0]
        assert values[1].shape == (0, 3)


def after_all_steps(w: Any, x: Any) -> Any:
    return wy.scan(lambda h, row: ((h @ w + row).tanh(), None), x[:, 0] * 0.0, x.transpose(1, 0, 2))[0]


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_training_and_evaluation_in_batches_of_other_sizes(engine: str) -> None:
    trained: list[np.ndarray] = []
    for name in (engine, None):
        w = wy.Parameter(np.eye(3) * 0.5)
        x, y = wy.Input(dims=(Batch(), 6, 3), dtype=np.float64), wy.Input(dims=(Batch(), 3), dtype=np.float64)
        last = after_all_steps(w, x)
        loss = (last - y).square().mean()
        optimizer = wy.optim.Adam([w], 0.05)
        columns = {x: data(12, 6), y: data(12, 1)[:, 0]}
        if name is None:
            for start in range(0, 12, 4):
                x.set(columns[x][start : start + 4])
                y.set(columns[y][start : start + 4])
                loss.zero_gradient()
                loss.backward()
                optimizer.step()
        else:
            program = wy.compile(loss, optimizer, engine=name)
            program.epoch(columns, batch_size=4, shuffle=False)
            found = program.evaluate(columns, batch_size=5)
            x.set(columns[x])
            y.set(columns[y])
            np.testing.assert_allclose(found, loss.forward(), rtol=1e-10)
        trained.append(w.value.copy())
    np.testing.assert_allclose(trained[0], trained[1], rtol=1e-10)


def test_a_carry_keeps_its_axes() -> None:
    x = wy.Input(dims=(Batch(), 3), name="x", dtype=np.float64)
    with pytest.raises(ShapeError, match=r"carry has the axes \(3,\) but becomes .*\(Batch\(\), 3\).*keeps its axes"):
        wy.scan(lambda h, _: (h + x, None), wy.Constant(np.zeros(3)), length=2)
    with pytest.raises(ShapeError, match=r"carry has the axes \(Batch\(\), 3\) but becomes .*\(3,\)"):
        # The mistake that mypy finds.
        wy.while_loop(lambda h: h.sum() < 1.0, lambda h: h.sum(axis=0), x)  # type: ignore[arg-type, return-value]
    with pytest.raises(ShapeError, match=r"\(Batch\(\), 3\) but becomes"):
        wy.cond(x.sum() > 0.0, lambda a: a, lambda a: a[0], x)


def test_axes_of_other_names_differ() -> None:
    x = wy.Input(dims=(Batch(), 3), name="x")
    y = wy.Input(dims=(Time(), 3), name="y")
    with pytest.raises(ShapeError, match=r"sequence lengths differ: Batch\(\), Time\(\)"):
        wy.scan(lambda h, rows: (h + rows[0] + rows[1], None), wy.Constant(np.zeros(3, np.float32)), (x, y))
    with pytest.raises(ShapeError, match=r"batch sizes differ: Batch\(\) and Time\(\)"):
        wy.vmap(lambda a, b: a + b)(x, y)
