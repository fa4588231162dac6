"""GPT-2 with dropout: the reference, native code and JAX train to the same losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import wyrm as wy

STEPS, BATCH, TIME, VOCABULARY = 4, 6, 40, 31


class Batch(wy.Dim): ...


class Training:
    """A model, its optimizer, and the data of each step."""

    def __init__(self, dtype: str, layers: int) -> None:
        wy.nn.seed(0)
        config = wy.nn.GPT2Config(
            vocab_size=VOCABULARY, n_positions=TIME, n_embd=8, n_layer=layers, n_head=2, resid_pdrop=0.2,
            embd_pdrop=0.2, attn_pdrop=0.2,
        )  # fmt: skip
        model = wy.nn.GPT2(config, dtype=dtype)
        self.inputs = [wy.IndexInput(dims=(Batch(), TIME), name=name) for name in ("tokens", "targets")]
        self.loss = model.loss(*self.inputs)
        self.optimizer = wy.optim.AdamW(self.loss.parameters(), 1e-2)
        random = np.random.default_rng(0)
        self.data: NDArray[np.int64] = random.integers(0, VOCABULARY, (STEPS, 2, BATCH, TIME))
        self.start = [parameter.value.copy() for parameter in self.loss.parameters()]

    def restart(self) -> None:
        """Put the parameters and the optimizer back to the start."""
        for parameter, value in zip(self.loss.parameters(), self.start, strict=True):
            parameter.set(value)
        self.optimizer = wy.optim.AdamW(self.loss.parameters(), 1e-2)

    def reference(self) -> list[float]:
        """Return the losses of the reference engine."""
        losses = []
        for step, batch in enumerate(self.data):
            for leaf, array in zip(self.inputs, batch, strict=True):
                leaf.set(array)
            wy.random.set_step(step)
            losses.append(float(self.loss.forward()))
            self.optimizer.zero_gradient()
            self.loss.backward()
            self.optimizer.step()
        return losses

    def compiled(self, **options: Any) -> list[float]:
        """Return the losses of a program."""
        program: Any = wy.compile(self.loss, self.optimizer, **options)
        return [float(program(dict(zip(self.inputs, batch, strict=True)))) for batch in self.data]


# Native code of two layers is unrolled and that of five has loops; JAX has loops from two layers on (`test_repeats`).
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 2e-5)])
@pytest.mark.parametrize("layers", [2, 5], ids=["unrolled", "in a loop"])
def test_losses_of_native_code(dtype: str, tolerance: float, layers: int) -> None:
    training = Training(dtype, layers)
    expected = training.reference()
    training.restart()
    np.testing.assert_allclose(training.compiled(engine="native"), expected, rtol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance", "layers"), [("float64", 1e-10, 5), ("float32", 2e-5, 2)])
def test_losses(dtype: str, tolerance: float, layers: int) -> None:
    training = Training(dtype, layers)
    expected = training.reference()
    training.restart()
    np.testing.assert_allclose(training.compiled(engine="jax"), expected, rtol=tolerance)


def test_losses_in_bfloat16() -> None:
    training = Training("float32", 5)
    expected = training.reference()
    training.restart()
    losses = training.compiled(engine="jax", compute_dtype="bfloat16")
    np.testing.assert_allclose(losses, expected, rtol=1e-2)
