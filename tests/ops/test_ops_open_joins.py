"""Joins and paddings of axes that get their sizes from the data of each run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.runs import runner
from wyrm.graph.quotients import scaled


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


T = Time()


def _before(array: Any, width: int) -> Any:
    return np.pad(array, ((0, 0), (width, 0), (0, 0)))


# What joins make of x, with the axes (batch, time, 2), the same by NumPy, and the axis in place of the time.
JOINS: list[tuple[Callable[[Any], Any], Callable[[Any], Any], Any]] = [
    (lambda x: wy.pad(x, ((0, 0), (1, 0), (0, 0))), lambda x: _before(x, 1), T + 1),
    (lambda x: wy.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1] + x, lambda x: _before(x, 1)[:, :-1] + x, T),
    (lambda x: wy.pad(x, ((0, 0), (0, 2), (0, 0)))[:, 2:], lambda x: np.pad(x[:, 2:], ((0, 0), (0, 2), (0, 0))), T),
    (
        lambda x: wy.pad(wy.pad(x, ((0, 0), (1, 0), (0, 0))), ((0, 0), (1, 0), (0, 0)))[:, :-2] * x,
        lambda x: _before(x, 2)[:, :-2] * x,
        T,
    ),
    (lambda x: wy.concatenate([x, x[:, :0]], axis=1), lambda x: x, T),
    (lambda x: wy.concatenate([x[:, :0], x, x[:, 2:2]], axis=1) * x, lambda x: x * x, T),
    (lambda x: wy.concatenate([x[:, :0], x, x[:, :2]], axis=1), lambda x: np.concatenate([x, x[:, :2]], 1), T + 2),
    (
        lambda x: wy.cumulative_sum(x, axis=1, include_initial=True)[:, :-1] + x,
        lambda x: _before(np.cumsum(x, 1), 1)[:, :-1] + x,
        T,
    ),
    (lambda x: wy.concatenate([x[:, 1:], x[:, :1]], axis=1) + x, lambda x: np.roll(x, -1, 1) + x, T),
    (
        lambda x: wy.pad(x, ((0, 0), (1, 0), (0, 0))) * wy.pad(x, ((0, 0), (0, 1), (0, 0))),
        lambda x: _before(x, 1) * np.pad(x, ((0, 0), (0, 1), (0, 0))),
        T + 1,
    ),
]


def _with_gradients(x: Any) -> list[Any]:
    """Return the joins of x, then their gradients of first and second order."""
    nodes = [join(x) for join, _, _ in JOINS]
    first = [wy.grad((node.square() * node).sum(), x) for node in nodes]
    return [*nodes, *first, *[wy.grad((each * x.sin()).sum(), x) for each in first]]


@pytest.mark.parametrize("engine", ["numpy", "native", "jax"])
def test_joins_along_an_axis_without_a_size(engine: str) -> None:
    """They have NumPy's elements, axes that follow from the time, and the gradients of axes whose size is known."""
    if engine == "jax":
        pytest.importorskip("jax")
    x = wy.Input(dims=(Batch(), T, 2), name="x")
    outputs = _with_gradients(x)
    for node, (_, _, axis) in zip(outputs, JOINS, strict=False):
        assert node.dims == (Batch(), axis, 2)
    run = runner(outputs, x, engine)
    for size in (5, 2, 7):
        data = np.random.default_rng(size).standard_normal((3, size, 2)).astype(np.float32)
        found = run(data)
        for i, (_, by_numpy, _) in enumerate(JOINS):
            np.testing.assert_allclose(found[i], by_numpy(data), rtol=1e-5, atol=1e-6)
        known = wy.run(_with_gradients(wy.Parameter(data, name="x")))
        for each, expected in zip(found[len(JOINS) :], known[len(JOINS) :], strict=True):
            np.testing.assert_allclose(each, expected, rtol=1e-4, atol=1e-4)


def test_equal_sizes_are_equal_axes_in_whatever_order_they_are_added() -> None:
    assert 1 + T == T + 1 == scaled(T, 1, 1) == scaled(T + 0, 1, 1) != T + 2
    assert hash(1 + T) == hash(T + 1)
    assert scaled(1 + T, 1, -1) == scaled(wy.Plus((1, T, 0)), 1, -1) == T
    x = wy.Input(dims=(1 + T,), name="x")
    assert (wy.pad(wy.Input(dims=(T,)), (1, 0)) + x).dims == (T + 1,)


def test_a_causal_convolution_trains_on_sequences_of_several_lengths(tmp_path: Path) -> None:
    """Each position sees itself and the two before; the axis of the time stays, and exports know its size."""
    wy.nn.seed(0)
    x = wy.Input(dims=(Batch(), T, 1), name="x")
    y = wy.Input(dims=(Batch(), T, 1), name="y")
    layer = wy.nn.Linear(3, 1)
    past = wy.pad(x, ((0, 0), (2, 0), (0, 0)))
    predicted = layer(wy.concatenate([past[:, :-2], past[:, 1:-1], x], axis=-1))
    assert predicted.dims[:2] == x.dims[:2]
    loss = wy.losses.mse(predicted, y)
    program = wy.compile(loss, wy.optim.Adam(loss.parameters(), learning_rate=0.05))
    for epoch in range(120):
        data = np.random.default_rng(epoch).standard_normal((16, 5 + epoch % 3, 1)).astype(np.float32)
        before = np.pad(data, ((0, 0), (2, 0), (0, 0)))
        target = 0.5 * before[:, :-2] - data
        mean = program.epoch({x: data, y: target}, batch_size=8)
    assert mean < 1e-3
    wy.compile(predicted).export(tmp_path / "model", target="c", sizes={Time: 6})
