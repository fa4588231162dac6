"""Standard problems: values, gradients and Hessian-vector products equal those of JAX and autograd."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy
from tests.problems import dynamics, loops, networks, statistics
from tests.problems.problem import Problem

PROBLEMS = {problem.name: problem for room in (statistics, dynamics, networks, loops) for problem in room.PROBLEMS}
assert len(PROBLEMS) >= 40
# Operations of JAX.
LONG = 2000


def _all(problem: Problem) -> tuple[int, ...]:
    return tuple(range(len(problem.arrays)))


def _close(found: Any, expected: Any) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        scale = max(1.0, float(np.abs(np.asarray(other)).max()))
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9 * scale)


@pytest.mark.parametrize("name", PROBLEMS)
def test_to_second_order(name: str) -> None:
    problem = PROBLEMS[name]
    random = np.random.default_rng(3)
    along = tuple(random.standard_normal(np.shape(array)) for array in problem.arrays)
    mine = wy.function(partial(problem.function, np))
    with jax.enable_x64(True):
        theirs = partial(problem.function, jnp)
        arrays = tuple(map(jnp.asarray, problem.arrays))
        directions = tuple(map(jnp.asarray, along))

        def derivatives(arrays: Any, directions: Any) -> Any:
            return jax.jvp(jax.value_and_grad(theirs, _all(problem)), arrays, directions)

        # One function compiles in less time than each operation of it, but for long loops that are unrolled.
        short = len(jax.make_jaxpr(derivatives)(arrays, directions).eqns) < LONG
        computed = (jax.jit(derivatives) if short else derivatives)(arrays, directions)
        (value, gradient), (_, pushed) = jax.tree.map(np.asarray, computed)
    _close(mine.value_and_grad(_all(problem))(*problem.arrays), (value, gradient))
    _close(wy.hvp(mine, problem.arrays, along), pushed)
    _close(wy.jvp(mine, problem.arrays, along)[1], sum((g * t).sum() for g, t in zip(gradient, along, strict=True)))


@pytest.mark.parametrize("name", PROBLEMS)
def test_autograd_agrees(name: str) -> None:
    autograd = pytest.importorskip("autograd")
    import autograd.numpy as anp

    problem = PROBLEMS[name]
    expected = autograd.grad(partial(problem.function, anp), _all(problem))(*problem.arrays)
    _close(wy.function(partial(problem.function, np)).grad(_all(problem))(*problem.arrays), expected)
