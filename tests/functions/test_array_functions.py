"""NumPy's functions of arrays on nodes: values against NumPy, gradients to second order against JAX, vmap, dtypes."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.functions.array_cases import CASES

X = np.random.default_rng(3).permutation((np.arange(60) - 29.75) * 0.07).reshape(3, 4, 5)
# Compiling takes most of the time, so several share a program.
GROUPS = [list(CASES)[start : start + 10] for start in range(0, len(CASES), 10)]


def graphs(name: str) -> list[Any]:
    """Return the value of a case, and the gradients of first and second order of a function of it."""
    x = wy.Parameter(X)
    value = CASES[name](np, x)
    assert isinstance(value, wy.Node)
    (first,) = wy.grad((value**3).sum(), [x])
    (second,) = wy.grad((first * first).sum(), [x])
    return [value, first, second]


def wanted(name: str) -> list[Any]:
    def loss(x: Any) -> Any:
        return (CASES[name](jax.numpy, x) ** 3).sum()

    def derivatives(x: Any) -> Any:
        first = jax.grad(loss)(x)
        # The gradient of the sum of squares of `first`, forwards: JAX traces and compiles that in less time.
        return first, jax.jvp(jax.grad(loss), (x,), (2.0 * first,))[1]

    with jax.enable_x64(True):
        gradients = jax.jit(derivatives)(X)
    return [CASES[name](np, X), *gradients]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0])
def test_values_and_gradients(group: list[str]) -> None:
    nodes = [node for name in group for node in graphs(name)]
    expected = [value for name in group for value in wanted(name)]
    for engine in (wy.run, lambda outputs: wy.compile(outputs)()):
        for i, (have, want) in enumerate(zip(engine(nodes), expected, strict=True)):
            name = f"{group[i // 3]}, order {i % 3}"
            assert have.shape == want.shape, name
            np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("name", CASES)
def test_float32(name: str) -> None:
    value = CASES[name](np, wy.Parameter(X.astype(np.float32)))
    assert value.dtype == value.forward().dtype == np.float32
    np.testing.assert_allclose(value.value, CASES[name](np, X), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name", CASES)
def test_vmap(name: str) -> None:
    rows = np.stack([X, X[::-1] * 1.5, -X])
    found: Any = wy.vmap(lambda x: CASES[name](np, x))(rows)
    np.testing.assert_allclose(found, np.stack([CASES[name](np, row) for row in rows]), rtol=1e-9, atol=1e-12)
