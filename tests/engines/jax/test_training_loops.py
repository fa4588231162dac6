"""Training of programs with loops, branches and random nodes: engine jax beside the native one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import wyrm as wy


def recurrent(x: Any) -> Any:
    """Return the last states of a recurrent layer with dropout in each step."""
    first, second = wy.nn.Linear(4, 6), wy.nn.Linear(6, 6)

    def step(h: Any, row: Any) -> Any:
        h = (first(row) + second(h)).tanh().dropout(0.2, seed=3, stream=4)
        return h, None

    return wy.scan(step, wy.Constant(np.zeros((8, 6), np.float32)), x.transpose(1, 0, 2))[0]


class Model:
    """A program that trains a recurrent model."""

    def __init__(self, engine: Any, kind: str, **options: Any) -> None:
        wy.nn.seed(0)
        wy.random.set_step(0)
        self.x, self.y = wy.Input(dims=(8, 5, 4), name="x"), wy.Input(dims=(8, 2), name="y")
        if kind == "scan":
            states = recurrent(self.x)
        elif kind == "layers":
            states = wy.nn.GRU(4, 6)(wy.nn.LSTM(4, 4)(self.x).sequence.dropout(0.3, stream=8)).sequence[:, -1]
        else:
            inner = wy.nn.Linear(20, 6)
            flat = self.x.reshape((8, 20))
            noisy = wy.vmap(lambda row: row + wy.random.normal((20,), stream=9) * 0.1)(flat)
            noisy = noisy[wy.random.index(8, (8,), weights=np.arange(8.0), stream=7)]
            states = wy.cond(self.y.sum() > 0.0, lambda: inner(noisy).tanh(), lambda: inner(flat).sigmoid())
            states = wy.checkpoint(lambda states: (states * states).dropout(0.1, stream=3), states)
        error = wy.nn.Linear(6, 2)(states) - self.y
        loss = (error * error).mean()
        self.parameters = loss.parameters()
        self.program: Any = wy.compile(loss, wy.optim.Adam(self.parameters, 1e-2), engine=engine, **options)

    def train(self) -> list[float]:
        random = np.random.default_rng(0)
        losses = []
        for _ in range(6):
            data = {self.x: random.normal(size=(8, 5, 4)), self.y: random.normal(size=(8, 2))}
            losses.append(float(self.program({leaf: array.astype(np.float32) for leaf, array in data.items()})))
        return losses


@cache
def trained(engine: Any, kind: str, **options: Any) -> tuple[list[float], list[Any]]:
    """Return the losses of a model, and its parameters after them."""
    model = Model(engine, kind, **options)
    return model.train(), [parameter.value for parameter in model.parameters]


@pytest.mark.parametrize("kind", ["scan", "layers", "branches"])
def test_losses_and_parameters(kind: str) -> None:
    (native, expected), (jax, found) = (trained(engine, kind) for engine in ("native", "jax"))
    assert jax == pytest.approx(native, rel=1e-5)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["scan", "layers", "branches"])
def test_bfloat16_drops_the_same_elements(kind: str) -> None:
    wide, narrow = trained("jax", kind)[0], trained("jax", kind, compute_dtype="bfloat16")[0]
    assert narrow == pytest.approx(wide, rel=0.03)
