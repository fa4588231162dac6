"""The reference engine on 1,000 nodes of 16 float32 elements, beside PyTorch's eager autograd and HIPS autograd."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import wyrm as wy
from bench.harness import Case, Measurement, timed

NODES = 1000
_random = np.random.default_rng(0)
_X = _random.standard_normal(16).astype(np.float32)
_WEIGHTS = [_random.standard_normal(16).astype(np.float32) for _ in range(10)]


def network(x: Any, weights: list[Any], tanh: Callable[[Any], Any]) -> Any:
    """A chain of 1,000 operations, a quarter each of products, sums, tanh and differences, with shared weights."""
    h = x
    for i in range(NODES // 4):
        h = h * weights[i % 10]
        h = h + weights[(i + 1) % 10]
        h = tanh(h)
        h = h - x
    return h


def _wyrm(backward: bool) -> Callable[[], Measurement]:
    x = wy.Input(_X)
    loss = network(x, [wy.Parameter(w) for w in _WEIGHTS], lambda h: h.tanh()).sum()

    def work() -> None:
        x.set(_X)  # makes every node stale
        loss.forward()
        if backward:
            loss.backward()
            loss.zero_gradient()

    return timed(work, NODES)


def _torch(backward: bool) -> Callable[[], Measurement]:
    import torch

    torch.set_num_threads(1)  # arrays this small gain nothing from more
    x = torch.from_numpy(_X)
    weights = [torch.from_numpy(w.copy()).requires_grad_(backward) for w in _WEIGHTS]

    def work() -> None:
        loss = network(x, weights, torch.tanh).sum()
        if backward:
            loss.backward()
            for weight in weights:
                weight.grad = None

    return timed(work, NODES)


def _autograd() -> Callable[[], Measurement]:
    import autograd
    import autograd.numpy as anp

    gradient = autograd.grad(lambda weights: anp.sum(network(_X, weights, anp.tanh)))
    return timed(lambda: gradient(_WEIGHTS), NODES)


def _numpy() -> Callable[[], Measurement]:
    return timed(lambda: network(_X, _WEIGHTS, np.tanh).sum(), NODES)


def cases() -> list[Case]:
    """Forward alone, and forward with backward, a node."""
    return [
        Case(
            "engine", "forward, a node",
            {"wyrm": partial(_wyrm, False), "numpy, by hand": _numpy, "torch eager": partial(_torch, False)},
            goal="at most 2.5 us",
        ),
        Case(
            "engine", "forward + backward, a node",
            {"wyrm": partial(_wyrm, True), "torch eager": partial(_torch, True), "autograd": _autograd},
            goal="torch at least 3x",
        ),
    ]  # fmt: skip
