"""Loops and branches: a Gaussian process by a scan of 60 points vs JAX and PyTorch; compiling gradients of `switch`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.first_step import empty_cache
from bench.harness import Case, Contender, Measurement, timed

POINTS = 60
_random = np.random.default_rng(0)
_X = np.sort(_random.uniform(-3.0, 3.0, POINTS))
_Y = np.sin(_X) + 0.1 * _random.normal(size=POINTS)
_HYPERPARAMETERS = np.array([0.1, 0.3, -2.0])


def kernel(xp: Any, logarithms: Any, x: Any) -> Any:
    """Return the covariance of the points; the logarithms are those of variance, inverse square length, and noise."""
    distances = x[:, None] - x[None, :]
    smooth = xp.exp(-0.5 * distances * distances * xp.exp(logarithms[1]))
    return xp.exp(logarithms[0]) * smooth + xp.exp(logarithms[2]) * xp.eye(POINTS)


def by_products(xp: Any, scan: Callable[..., Any], logarithms: Any, x: Any, y: Any) -> Any:
    """Return the negative logarithm of the likelihood, but for its constant; a step subtracts an outer product."""

    def step(state: Any, i: Any) -> tuple[Any, None]:
        rest, residual, total = state
        column = rest[i]
        pivot, z = column[i], residual[i]
        rest = rest - column[:, None] * column[None, :] / pivot
        return (rest, residual - column * (z / pivot), total + 0.5 * (xp.log(pivot) + z * z / pivot)), None

    (_, _, total), _ = scan(step, (kernel(xp, logarithms, x), y, 0.0 * logarithms[0]), np.arange(POINTS))
    return total


def by_columns(xp: Any, scan: Callable[..., Any], logarithms: Any, x: Any, y: Any) -> Any:
    """Return the same as `by_products`; a step sets a column of Cholesky's factor."""
    covariance = kernel(xp, logarithms, x)

    def step(state: Any, i: Any) -> tuple[Any, Any]:
        factor, white = state
        row = factor[i]
        column = (covariance[i] - factor @ row) / xp.sqrt(covariance[i][i] - (row * row).sum())
        column = xp.where(np.arange(POINTS) >= i, column, 0.0)
        z = (y[i] - (row * white).sum()) / column[i]
        return (factor.at[:, i].set(column), white.at[i].set(z)), 0.5 * z * z + xp.log(column[i])

    start = np.zeros((POINTS, POINTS)) + 0.0 * logarithms[0], np.zeros(POINTS) + 0.0 * logarithms[0]
    _, terms = scan(step, start, np.arange(POINTS))
    return terms.sum()


def _wyrm(likelihood: Callable[..., Any]) -> Callable[[], Measurement]:
    import wyrm as wy

    call = wy.function(lambda *given: likelihood(np, wy.scan, *given), engine="native").value_and_grad()
    return timed(lambda: call(_HYPERPARAMETERS, _X, _Y))


def _jax(likelihood: Callable[..., Any]) -> Callable[[], Measurement]:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    call = jax.jit(jax.value_and_grad(lambda *given: likelihood(jnp, jax.lax.scan, *given)))
    x, y = jnp.asarray(_X), jnp.asarray(_Y)

    def work() -> None:
        value, gradient = call(_HYPERPARAMETERS, x, y)
        float(value), np.asarray(gradient)

    return timed(work)


def _torch() -> Callable[[], Measurement]:
    """The same steps in Python's loop."""
    import torch

    torch.set_num_threads(1)
    x, y = torch.from_numpy(_X), torch.from_numpy(_Y)

    def unrolled(step: Callable[..., Any], state: Any, steps: Any) -> tuple[Any, None]:
        for i in steps.tolist():
            state, _ = step(state, i)
        return state, None

    class Torch:
        exp, log = torch.exp, torch.log

        @staticmethod
        def eye(size: int) -> Any:
            return torch.eye(size, dtype=torch.float64)

    def work() -> None:
        logarithms = torch.from_numpy(_HYPERPARAMETERS).clone().requires_grad_()
        by_products(Torch, unrolled, logarithms, x, y).backward()

    return timed(work)


_SWITCH = """
import json, os, sys, time
os.environ["WYRM_CACHE_DIR"] = sys.argv[1]
import numpy as np, wyrm as wy
x, y = np.random.default_rng(0).normal(size=(2, 5))
branches = [
    lambda x, y: (wy.sin(x), x * y),
    lambda x, y: (x * x * y, y),
    lambda x, y: (wy.exp(x) - y, x * 2.0),
    lambda x, y: (y, y),
]

def mixed(x, y):
    a, b = wy.switch(wy.IndexConstant(1), branches, x, y)
    return (a * a * b).sum()

gradient = wy.function(mixed, engine="native").grad(wrt=(0, 1))
gradient(x, y)

def second(x, y):
    of_x, of_y = gradient(x, y)
    return (of_x * of_x).sum() + (of_y * of_x).sum()

call = wy.function(second, engine="native").grad(wrt=(0, 1))
start = time.perf_counter()
call(x, y)
print(json.dumps({"seconds": time.perf_counter() - start}))
"""


def cases() -> list[Case]:
    """The likelihood with its gradient, and the first call of a gradient of a gradient."""
    found = []
    for likelihood, name in ((by_products, "subtracted products"), (by_columns, "columns that are set")):
        contenders: dict[str, Contender] = {"wyrm": partial(_wyrm, likelihood), "jax": partial(_jax, likelihood)}
        if likelihood is by_products:
            contenders["torch eager"] = _torch
        found.append(
            Case(
                "loops", f"Gaussian process by a scan of {POINTS} points, {name}", contenders,
                floors={peer: 1.0 for peer in contenders if peer != "wyrm"},
            )
        )  # fmt: skip
    second: dict[str, Contender] = {"wyrm": partial(empty_cache, _SWITCH)}
    return [*found, Case("loops", "second-order switch of vectors of five, first call", second, rounds=3, most=0.5)]
