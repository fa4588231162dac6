"""A Gaussian process: its marginal likelihood, trained natively, beside the same program in JAX and NumPy."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy

jnp = jax.numpy
RANDOM = np.random.default_rng(0)
POINTS = RANDOM.uniform(-3.0, 3.0, (23, 2))
VALUES = np.sin(POINTS[:, 0]) + 0.3 * POINTS[:, 1] + 0.1 * RANDOM.standard_normal(23)
START = (0.2, -0.1, -1.0)  # the logarithms of the length, the scale and the noise
STEPS, RATE = 25, 0.02


class Sample(wy.Dim): ...


def _kernel(xp: Any, squares: Any, length: Any, scale: Any) -> Any:
    return xp.exp(2.0 * scale - 0.5 * squares * xp.exp(-2.0 * length))


def _squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    differences: np.ndarray = ((x[:, None] - y[None]) ** 2).sum(-1)
    return differences


def _jax_loss(parameters: Any) -> Any:
    length, scale, noise = parameters
    covariance = _kernel(jnp, _squares(POINTS, POINTS), length, scale) + jnp.exp(2.0 * noise) * jnp.eye(len(POINTS))
    factor = jnp.linalg.cholesky(covariance)
    whitened = jax.scipy.linalg.solve_triangular(factor, VALUES, lower=True)
    return 0.5 * jnp.sum(whitened**2) + jnp.sum(jnp.log(jnp.diag(factor))) + 0.5 * len(POINTS) * np.log(2.0 * np.pi)


def _trained_in_jax() -> tuple[list[float], np.ndarray]:
    with jax.enable_x64(True):
        parameters = jnp.array(START)
        value_and_grad = jax.jit(jax.value_and_grad(_jax_loss))
        losses = []
        for _ in range(STEPS):
            loss, gradient = value_and_grad(parameters)
            losses.append(float(loss))
            parameters = parameters - RATE * gradient
        return losses, np.asarray(parameters)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_training_is_that_of_jax(dtype: Any) -> None:
    sample = Sample(len(POINTS))
    squares = wy.Constant(_squares(POINTS, POINTS), (sample, sample), dtype=dtype)
    values = wy.Constant(VALUES, (sample,), dtype=dtype)
    names = ("length", "scale", "noise")
    parameters = [wy.Parameter(x, name=name, dtype=dtype) for x, name in zip(START, names, strict=True)]
    length, scale, noise = parameters
    identity = np.eye(len(POINTS))
    covariance: wy.Tensor[Sample, Sample] = (squares * (length * -2.0).exp() * -0.5 + scale * 2.0).exp() + identity * (
        noise * 2.0
    ).exp()
    factor = wy.linalg.cholesky(covariance)
    whitened = wy.linalg.solve_triangular(factor, values, lower=True)
    loss = (
        whitened.square().sum() * 0.5
        + (factor * identity).sum(axis=-1).log().sum()
        + 0.5 * len(POINTS) * np.log(2.0 * np.pi)
    )
    train = wy.compile(loss, wy.optim.SGD(parameters, learning_rate=RATE))
    losses = [float(train({})) for _ in range(STEPS)]
    expected_losses, expected = _trained_in_jax()
    tolerance = 1e-9 if dtype is np.float64 else 2e-3
    np.testing.assert_allclose(losses, expected_losses, rtol=tolerance)
    np.testing.assert_allclose([p.value for p in parameters], expected, rtol=tolerance, atol=tolerance)
    assert losses[-1] < losses[0] - 1.0

    # The posterior at new points, against NumPy.
    new = RANDOM.uniform(-3.0, 3.0, (5, 2))
    across = _kernel(np, _squares(new, POINTS), *(float(p.value) for p in parameters[:2]))
    posterior = wy.Constant(across, dtype=dtype) @ wy.linalg.cho_solve((factor, True), values)
    inside = _kernel(np, _squares(POINTS, POINTS), *(float(p.value) for p in parameters[:2]))
    inside += np.exp(2.0 * float(noise.value)) * identity
    np.testing.assert_allclose(posterior.forward(), across @ np.linalg.solve(inside, VALUES), rtol=50 * tolerance)


def test_a_covariance_that_is_not_positive_definite_stops_training() -> None:
    """No parameter moves in the step that fails, and the message names the operation and its line."""
    shift = wy.Parameter(0.2, name="shift", dtype=np.float64)
    covariance = wy.Constant(np.array([[1.0, 0.9], [0.9, 1.0]])) + np.eye(2) * shift
    loss = wy.linalg.slogdet(wy.linalg.cholesky(covariance)).logabsdet
    train = wy.compile(loss, wy.optim.SGD([shift], learning_rate=0.05))
    with pytest.raises(wy.errors.LinAlgError, match="cholesky: the matrix is not positive definite") as error:
        for _ in range(100):
            before = shift.value
            train({})
    assert "no parameter has moved" in str(error.value)
    assert "wy.linalg.cholesky(covariance)" in str(error.value)
    assert before == shift.value
