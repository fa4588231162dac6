"""Linear regression, one sample per step: the overhead of a step that computes next to nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import wyrm as wy
from bench.harness import Case, Measurement, timed

SAMPLES, EAGER_SAMPLES, RATE = 100_000, 1_000, 0.1


def _samples(count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    random = np.random.default_rng(0)
    x = random.uniform(-1.0, 1.0, count)
    y = 3.0 * x + 5.0 + random.normal(0.0, 0.1, count)
    return x.astype(np.float32), y.astype(np.float32)


def _wyrm() -> Callable[[], Measurement]:
    slope, intercept = wy.Parameter(1.0, name="slope"), wy.Parameter(0.0, name="intercept")
    x, y = wy.Input(name="x"), wy.Input(name="y")
    loss = (y - (slope * x + intercept)).square()
    program = wy.compile(loss, wy.optim.SGD(loss.parameters(), RATE))
    xs, ys = _samples(SAMPLES)
    return timed(lambda: program.epoch({x: xs, y: ys}, batch_size=1, shuffle=False), SAMPLES)


def _torch() -> Callable[[], Measurement]:
    import torch

    torch.set_num_threads(1)
    slope, intercept = parameters = [torch.tensor(start, requires_grad=True) for start in (1.0, 0.0)]
    values = [parameter.detach() for parameter in parameters]
    samples = list(zip(*(torch.from_numpy(column).unbind() for column in _samples(EAGER_SAMPLES)), strict=True))

    def epoch() -> float:
        total = torch.zeros(())
        for x, y in samples:
            loss = (y - (slope * x + intercept)).square()
            # Equivalent to a fused optimizer, without its bookkeeping.
            torch._foreach_add_(values, torch.autograd.grad(loss, parameters), alpha=-RATE)
            total += loss.detach()
        return float(total) / len(samples)

    return timed(epoch, EAGER_SAMPLES)


def _numba() -> Callable[[], Measurement]:
    import numba

    def by_hand(state: NDArray[np.float32], xs: NDArray[np.float32], ys: NDArray[np.float32], rate: Any) -> float:
        slope, intercept = state
        total = 0.0
        for x, y in zip(xs, ys):  # noqa: B905  # numba does not support `strict`
            error = slope * x + intercept - y
            change = 2.0 * rate * error
            slope -= change * x
            intercept -= change
            total += error * error
        state[0], state[1] = slope, intercept
        return total / len(xs)

    compiled: Any = numba.njit(by_hand)
    state, rate, (xs, ys) = np.array([1.0, 0.0], np.float32), np.float32(RATE), _samples(SAMPLES)
    return timed(lambda: compiled(state, xs, ys, rate), SAMPLES)


def cases() -> list[Case]:
    """One case: forward, backward and a step of gradient descent."""
    contenders = {"wyrm": _wyrm, "numba, by hand": _numba, "torch eager": _torch}
    return [Case("regression", "per sample", contenders, floors={"numba, by hand": 0.8}, most=0.2e-6)]
