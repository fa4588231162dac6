"""Sampling: Hamiltonian Monte Carlo on a logistic regression, its loop compiled by numba, beside the loop in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wyrm as wy
from bench.harness import Case, Measurement, timed

ROWS, SLOPES, SAMPLES, STEPS, SIZE = 200, 5, 100, 10, 0.1


def hamiltonian(energy: Any, start: Any, steps: int, size: float, samples: int) -> Any:
    """Return samples from `exp(-energy)`; `energy` returns a value and a gradient."""
    q, found = start.copy(), np.empty((samples, len(start)))
    value, gradient = energy(q)
    for row in range(samples):
        momentum = np.random.normal(0.0, 1.0, len(q))  # noqa: NPY002  # what numba compiles
        before, new, slope = value + 0.5 * (momentum**2).sum(), q.copy(), gradient
        proposed = value
        for _ in range(steps):
            momentum -= 0.5 * size * slope
            new += size * momentum
            proposed, slope = energy(new)
            momentum -= 0.5 * size * slope
        chance = np.random.random()  # noqa: NPY002  # as above
        if np.log(chance) < before - proposed - 0.5 * (momentum**2).sum():
            q, value, gradient = new, proposed, slope
        found[row] = q
    return found


def _energy() -> Any:
    random, slopes = np.random.default_rng(0), np.array([2.0, -1.0, 0.0, 1.0, 0.5])
    points = random.normal(size=(ROWS, SLOPES))
    labels = (points @ slopes + random.logistic(size=ROWS) > 0).astype(np.float64)

    def energy(q: Any) -> Any:
        scores = points @ q
        return (scores.softplus() - labels * scores).sum() + 0.5 * (q * q).sum()

    return wy.function(energy, engine="native").value_and_grad()


def _by_numba() -> Callable[[], Measurement]:
    import numba

    loop, energy = numba.njit(hamiltonian), wy.numba.callable(_energy(), np.zeros(SLOPES))
    return timed(lambda: loop(energy, np.zeros(SLOPES), STEPS, SIZE, SAMPLES), SAMPLES)


def _by_python() -> Callable[[], Measurement]:
    energy = _energy()
    return timed(lambda: hamiltonian(energy, np.zeros(SLOPES), STEPS, SIZE, SAMPLES), SAMPLES)


def cases() -> list[Case]:
    """One sample, by the loop that numba compiles and by the loop in Python."""
    contenders = {"wyrm": _by_numba, "wyrm, loop in Python": _by_python}
    return [Case("sampling", "a sample of 10 steps", contenders, floors={"wyrm, loop in Python": 3})]
