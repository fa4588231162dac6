"""A Gaussian process whose hyperparameters maximize the likelihood of a curve."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from bench.pairs.data import curve


def train(steps: int = 100) -> float:
    x, y = curve()
    distances = (x[:, None] - x[None, :]) ** 2

    def loss(parameters: dict[str, jax.Array]) -> jax.Array:
        scale, length, noise = parameters["scale"], parameters["length"], parameters["noise"]
        kernel = jnp.exp(2.0 * scale) * jnp.exp(-0.5 * distances * jnp.exp(-2.0 * length))
        factor = jnp.linalg.cholesky(kernel + jnp.exp(2.0 * noise) * jnp.eye(len(x)))
        white = solve_triangular(factor, y, lower=True)
        return 0.5 * jnp.sum(white**2) + jnp.sum(jnp.log(jnp.diagonal(factor)))

    step = jax.jit(jax.value_and_grad(loss))
    parameters = {name: jnp.zeros(()) for name in ("scale", "length", "noise")}
    for _ in range(steps):
        value, gradients = step(parameters)
        parameters = jax.tree.map(lambda p, g: p - 0.002 * g, parameters, gradients)
    return float(value)
