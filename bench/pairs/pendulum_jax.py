"""Torques that swing a pendulum up, by the gradient through its motion."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def train(steps: int = 100) -> float:
    def move(state: jax.Array, torque: jax.Array) -> tuple[jax.Array, jax.Array]:
        angle, speed = state[0], state[1]
        speed = speed + 0.05 * (-9.81 * jnp.sin(angle) + jnp.tanh(torque) * 8.0)
        state = jnp.stack([angle + 0.05 * speed, speed])
        return state, (state[0] - jnp.pi) ** 2 + 0.1 * speed**2

    def loss(torques: jax.Array) -> jax.Array:
        _, costs = jax.lax.scan(move, jnp.zeros(2), torques)
        return costs.mean()

    step = jax.jit(jax.value_and_grad(loss))
    torques = jnp.zeros(100)
    for _ in range(steps):
        value, gradient = step(torques)
        torques = torques - 0.2 * gradient
    return float(value)
