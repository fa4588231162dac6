"""In a program that computes in bfloat16, losses and sums keep the digits of float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy


class Batch(wy.Dim): ...


@pytest.mark.parametrize(
    "change", [lambda loss: loss, lambda loss: loss * 1.0 + 3.0, lambda loss: loss.reshape(1).sum()]
)
def test_arithmetic_on_losses_is_that_of_float32(change: Callable[[Any], Any]) -> None:
    random = np.random.default_rng(0)
    x = wy.Input(dims=(Batch(), 64), name="x")
    weight = wy.Parameter(random.standard_normal((64, 8)).astype(np.float32))
    loss = (x @ weight).square().mean()
    data = {x: random.standard_normal((16, 64)).astype(np.float32)}
    own = wy.compile(loss, engine="jax", compute_dtype="bfloat16")(data)
    changed = wy.compile(change(loss), engine="jax", compute_dtype="bfloat16")(data)
    np.testing.assert_allclose(changed, change(wy.Constant(own)).forward(), rtol=1e-6)


def test_the_loss_of_a_language_model_in_training_is_that_of_float32() -> None:
    random = np.random.default_rng(0)
    x, labels = wy.Input(dims=(Batch(), 16), name="x"), wy.IndexInput(dims=(Batch(),), name="labels")
    weight = wy.Parameter(random.standard_normal((32, 16)).astype(np.float32), name="weight")
    loss = wy.linear_cross_entropy(x, weight, labels)
    data = {x: random.standard_normal((8, 16)).astype(np.float32), labels: random.integers(0, 32, 8)}
    expected = wy.compile(loss)(data)
    found = wy.compile(loss, wy.optim.SGD([weight], 0.1), engine="jax", compute_dtype="bfloat16")(data)
    assert found == pytest.approx(float(expected), rel=1e-2)
    # A float32 that bfloat16 holds too has no digits after its first 16 bits.
    assert np.float32(found).view(np.uint32) % 2**16
