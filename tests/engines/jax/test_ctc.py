"""Connectionist temporal classification lowered to JAX, where the samples do not go: no labels, no alignment."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.engines.jax.test_every_op import lowered
from wyrm.ops.ctc import CTC, CTCGradient

random = np.random.default_rng(0)


@pytest.mark.parametrize(("batch", "time", "classes", "most"), [(5, 7, 4, 3), (3, 1, 2, 2), (2, 4, 3, 0), (4, 0, 3, 2)])
def test_losses_and_gradients(batch: int, time: int, classes: int, most: int) -> None:
    log_probability = wy.Parameter(random.normal(size=(batch, time, classes)))
    labels = wy.IndexInput(random.integers(1, classes, (batch, most)))
    steps = wy.IndexInput(random.integers(0, time + 1, batch))
    lengths = wy.IndexInput(random.integers(0, most + 1, batch))
    outputs = [op(log_probability, labels, steps, lengths, 0) for op in (CTC, CTCGradient)]
    with jax.enable_x64(True):
        found = lowered(outputs)
    for value, expected in zip(found, wy.run(outputs), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-10, atol=1e-12)
