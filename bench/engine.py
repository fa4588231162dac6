"""The reference engine on 1,000 nodes of 16 float32 elements, vs PyTorch's eager autograd and HIPS autograd.

Also the overhead of calls that compute next to nothing.
"""

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
    """Return a chain of 1,000 operations: equally many products, sums, tanh and differences, with shared weights."""
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
        x.set(_X)  # invalidates every node
        loss.forward()
        if backward:
            loss.backward()
            loss.zero_gradient()

    return timed(work, NODES)


def _torch(backward: bool) -> Callable[[], Measurement]:
    import torch

    torch.set_num_threads(1)  # arrays this small do not profit from more
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


def _small(changing: bool) -> Callable[[], Measurement]:
    x, slope, intercept = wy.Input(1.0), wy.Parameter(2.0), wy.Parameter(0.5)
    loss = (slope * x + intercept).tanh().square().sum()
    loss.forward()

    def work() -> None:
        if changing:
            x.set(1.5)
        loss.forward()

    return timed(work)


def _program(number: bool) -> Callable[[], Measurement]:
    x, slope, intercept = wy.Input(name="x"), wy.Parameter(2.0), wy.Parameter(0.5)
    program = wy.compile((slope * x + intercept).tanh().square())
    value: Any = 1.0 if number else np.array(1.0, np.float32)
    return timed(lambda: program({x: value}))


def _build() -> Callable[[], Measurement]:
    weight = wy.Parameter(_X)

    def work() -> None:
        h: Any = weight
        for i in range(NODES):
            h = h * 0.999 if i % 2 else h + weight

    return timed(work, NODES)


def cases() -> list[Case]:
    """Forward, and forward with backward, per node; the overhead of small calls; building, per node."""
    return [
        Case("engine", "forward of 5 nodes, nothing changed", {"wyrm": partial(_small, False)}, most=0.5e-6),
        Case("engine", "set an input and forward of 5 nodes", {"wyrm": partial(_small, True)}, most=8e-6),
        Case("engine", "a program of 4 nodes, given a number", {"wyrm": partial(_program, True)}, most=1.2e-6),
        Case("engine", "a program of 4 nodes, given an array", {"wyrm": partial(_program, False)}, most=1.2e-6),
        Case("engine", "build, per node", {"wyrm": _build}, most=3e-6),
        Case(
            "engine", "forward, per node",
            {"wyrm": partial(_wyrm, False), "numpy, by hand": _numpy, "torch eager": partial(_torch, False)},
            most=2.5e-6, other_work=("numpy, by hand",),
        ),
        Case(
            "engine", "forward + backward, per node",
            {"wyrm": partial(_wyrm, True), "torch eager": partial(_torch, True), "autograd": _autograd},
            floors={"torch eager": 3.0},
        ),
    ]  # fmt: skip
