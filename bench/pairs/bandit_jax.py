"""A policy that learns the best arm of a bandit (REINFORCE)."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from bench.pairs.data import REWARDS


def train(steps: int = 300) -> float:
    def loss(logits: jax.Array, key: jax.Array) -> jax.Array:
        first, second = jax.random.split(key)
        arms = jax.random.categorical(first, logits, shape=(32,))
        won = jax.random.bernoulli(second, jnp.asarray(REWARDS)[arms]).astype(jnp.float32)
        advantage = jax.lax.stop_gradient(won - won.mean())
        return -(advantage * jax.nn.log_softmax(logits)[arms]).mean()

    step = jax.jit(jax.grad(loss))
    logits, mean, square = jnp.zeros(4), jnp.zeros(4), jnp.zeros(4)
    for i, key in enumerate(jax.random.split(jax.random.key(0), steps), 1):
        gradient = step(logits, key)
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        logits -= 0.05 * (mean / (1 - 0.9**i)) / (jnp.sqrt(square / (1 - 0.999**i)) + 1e-8)
    return float((jax.nn.softmax(logits) * REWARDS).sum())
