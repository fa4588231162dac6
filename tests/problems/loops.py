"""Problems with loops inside the graph: the same function on three libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import wyrm as wy
from tests.problems.problem import Problem

_random = np.random.default_rng(4)


def _normal(*shape: int) -> Any:
    return _random.standard_normal(shape)


def _scan(xp: Any) -> Callable[..., Any]:
    """Return the `scan` of a library, or a Python loop if it has none."""
    if xp is np:
        return wy.scan
    return jax.lax.scan if xp is jnp else lambda step, carry, xs: _unrolled(xp, step, carry, xs)


def _unrolled(xp: Any, step: Callable[[Any, Any], Any], carry: Any, xs: Any) -> Any:
    made = []
    for x in xs:
        carry, y = step(carry, x)
        made.append(y)
    return carry, None if made[0] is None else xp.stack(made)


def newton_by_scan(xp: Any, a: Any) -> Any:
    """Cube roots by Newton's method."""

    def step(x: Any, _: Any) -> Any:
        x = x - (x * x * x - a) / (3.0 * x * x)
        return x, xp.sum(x)

    root, path = _scan(xp)(step, a / 2.0 + 0.5, np.zeros(8))
    return xp.sum(root) + 0.1 * xp.sum(path)


def runge_kutta_by_scan(xp: Any, damping: Any, start: Any) -> Any:
    """A driven oscillator, integrated by the fourth-order Runge-Kutta method: its energy over time."""

    def slope(state: Any, time: Any) -> Any:
        return xp.stack([state[1], xp.sin(2.0 * time) - state[0] - damping * state[1]])

    def step(state: Any, time: Any) -> Any:
        first = slope(state, time)
        second = slope(state + 0.05 * first, time + 0.05)
        third = slope(state + 0.05 * second, time + 0.05)
        fourth = slope(state + 0.1 * third, time + 0.1)
        return state + (first + 2.0 * second + 2.0 * third + fourth) / 60.0, xp.sum(state * state)

    last, energies = _scan(xp)(step, start, np.arange(12) * 0.1)
    return xp.sum(last) + xp.mean(energies)


def recurrent_by_scan(xp: Any, weights: Any, inward: Any, sequence: Any) -> Any:
    """A recurrent network that accumulates its inputs."""

    def step(state: Any, x: Any) -> Any:
        state = xp.tanh(state @ weights + x @ inward)
        return state, xp.sum(state * state)

    last, made = _scan(xp)(step, np.zeros(4), sequence)
    return xp.sum(last) + xp.sum(made)


def kalman_filter(xp: Any, noises: Any, observed: Any) -> Any:
    """The negative log-likelihood of a random walk observed with noise (Kalman, 1960)."""
    drift, spread = xp.exp(noises[0]), xp.exp(noises[1])

    def step(carry: Any, y: Any) -> Any:
        mean, variance = carry
        predicted = variance + drift
        whole = predicted + spread
        share, error = predicted / whole, y - mean
        return (mean + share * error, (1.0 - share) * predicted), 0.5 * (xp.log(whole) + error * error / whole)

    _, losses = _scan(xp)(step, (0.0 * noises[0], 1.0 + 0.0 * noises[0]), observed)
    return xp.sum(losses)


def hidden_markov(xp: Any, moves: Any, means: Any) -> Any:
    """The log-likelihood of a hidden Markov model with normal noise, by the forward algorithm."""
    rows = moves - xp.log(xp.sum(xp.exp(moves), axis=1, keepdims=True))

    def step(state: Any, y: Any) -> Any:
        joint = xp.expand_dims(state, 1) + rows
        state = xp.log(xp.sum(xp.exp(joint), axis=0)) - 0.5 * (y - means) ** 2.0
        return state, None

    last, _ = _scan(xp)(step, 0.0 * means, np.array([0.3, -0.2, 1.1, 0.9, -1.3]))
    return xp.log(xp.sum(xp.exp(last)))


PROBLEMS = [
    Problem(newton_by_scan, (np.array([0.5, 2.0, 7.0]),)),
    Problem(runge_kutta_by_scan, (np.array(0.3), np.array([1.0, 0.2]))),
    Problem(recurrent_by_scan, (0.5 * _normal(4, 4), _normal(3, 4), _normal(6, 3))),
    Problem(kalman_filter, (0.3 * _normal(2), _normal(7))),
    Problem(hidden_markov, (_normal(3, 3), _normal(3))),
]
