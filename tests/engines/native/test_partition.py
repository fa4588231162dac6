"""Gradients by threads that share a batch equal the batch's gradients, for any loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy

RANDOM = np.random.default_rng(0)
X, LABELS = RANDOM.standard_normal((7, 3)), np.array([0, 1, 2, 1, 0, 2, 1])


class Batch(wy.Dim): ...


LOSSES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "sum": lambda x, labels, w: (x @ w).tanh().sum(),
    "sum and penalty": lambda x, labels, w: (x @ w).tanh().sum() + w.square().sum(),
    "ignored labels": lambda x, labels, w: wy.linear_cross_entropy(x, w, labels, ignore_index=1),
    "in-batch negatives": lambda x, labels, w: ((x @ w) @ x.T).log_softmax().mean(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_two_threads_add_the_gradients_of_the_batch(name: str) -> None:
    x: Any = wy.Input(dims=(Batch(), 3), name="x", dtype=np.float64)
    labels: Any = wy.IndexInput(dims=(Batch(),), name="labels")
    w: Any = wy.Parameter(RANDOM.standard_normal((3, 3)), name="w")
    loss = LOSSES[name](x, labels, w)
    program = wy.compile(loss, wy.optim.SGD([w], 0.1))
    columns = {x: X, labels: LABELS} if name == "ignored labels" else {x: X}
    value = program.backward(columns, threads=2)
    gradient = w.gradient
    w.clear_gradient()
    x.set(X)
    labels.set(LABELS)
    loss.forward()
    loss.backward()
    np.testing.assert_allclose(value, loss.value, rtol=1e-12)
    np.testing.assert_allclose(gradient, w.gradient, rtol=1e-12)


def test_a_batch_of_fixed_size_is_not_divided() -> None:
    x: Any = wy.Input(dims=(4, 3), name="x")
    w: Any = wy.Parameter([1.0, 2.0, 3.0], name="w")
    loss = (x @ w).tanh().mean()
    program = wy.compile(loss, wy.optim.SGD([w], 0.1))
    rows = X[:4].astype(np.float32)
    x.set(rows)
    expected = float(loss.forward())
    assert np.isclose(program.backward({x: rows}, threads=2), expected, rtol=1e-6)
    assert np.isclose(program.epoch({x: rows}, batch_size=4, threads=2, mode="synchronized"), expected, rtol=1e-6)
