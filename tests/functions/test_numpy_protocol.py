"""Code written for NumPy builds graphs unchanged, and computes the same as NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import wyrm as wy
from wyrm.functions.numpy_protocol import UFUNCS

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.uniform(0.2, 1.5, (3, 4)), RANDOM.uniform(0.2, 1.5, (3, 4))

FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda x, y: np.where(x > y, x, 2.0),
    "where mask": lambda x, y: np.where(X > 0.5, x, y),
    "concatenate": lambda x, y: np.concatenate([x, Y, y], axis=1),
    "stack": lambda x, y: np.stack([x, y], axis=-1),
    "einsum": lambda x, y: np.einsum("ij,kj->ik", x, y),
    "dot": lambda x, y: np.dot(x, y.T) + np.dot(2.0, x)[:, :3],
    "outer": lambda x, y: np.outer(x, y),
    "sum": lambda x, y: np.sum(x, axis=0, keepdims=True) * np.sum(y),
    "mean": lambda x, y: np.mean(x, axis=(0, 1)) + np.mean(y, 1),
    "var": lambda x, y: np.var(x, axis=0, ddof=1) + np.std(y, axis=0),
    "max": lambda x, y: np.max(x, axis=1) + np.amin(y, axis=1),
    "norm": lambda x, y: np.linalg.norm(x) + np.linalg.norm(y, axis=0),
    "clip": lambda x, y: np.clip(x, 0.5, 1.0) + np.maximum(y, 0.7),
    "shapes": lambda x, y: np.transpose(np.reshape(x, (2, 6)))[:4, :] + np.ravel(y)[:2],
    "more shapes": lambda x, y: np.squeeze(np.expand_dims(x, 0)) + np.swapaxes(np.broadcast_to(y.T, (4, 3)), 0, 1),
    "take": lambda x, y: np.take(x, np.array([2, 0]), axis=0) * np.shape(y)[0] * np.ndim(y) * np.size(y),
    "likes": lambda x, y: np.zeros_like(x) + np.ones_like(y) * y,
    "scipy": lambda x, y: special.erf(x) + special.expit(y),
    "operators": lambda x, y: X + x - Y * y / X + np.float64(2.0) * x - np.ones(4) ** y,
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_give_what_numpy_gives(name: str) -> None:
    function = FUNCTIONS[name]
    np.testing.assert_allclose(wy.function(function)(X, Y), function(X, Y), rtol=1e-12)


MASKS = {"bitwise_and", "bitwise_or", "bitwise_xor"}


@pytest.mark.parametrize("name", [name for name in UFUNCS if name not in ("erf", "expit", "matmul")])
def test_ufuncs_and_their_gradients(name: str) -> None:
    ufunc = getattr(np, name)
    if name in MASKS:
        found = wy.function(lambda x, y: np.where(ufunc(x > 0.5, y > 0.5), x, y))(X, Y)
        np.testing.assert_array_equal(found, np.where(ufunc(X > 0.5, Y > 0.5), X, Y))
        return
    if name == "invert":
        assert (wy.function(lambda x: np.where(ufunc(x > 0.5), 1.0, x))(X) == np.where(X > 0.5, X, 1.0)).all()
        return
    operands = (X, Y)[: ufunc.nin]
    expected = ufunc(*operands)
    np.testing.assert_allclose(wy.function(ufunc)(*operands), expected, rtol=1e-12)
    if expected.dtype.kind == "f":
        gradients = wy.function(lambda *x: ufunc(*x).sum()).grad(range(ufunc.nin))(*operands)
        with jax.enable_x64(True):
            wanted = jax.grad(lambda *x: getattr(jnp, name)(*x).sum(), tuple(range(ufunc.nin)))(*operands)
        for one, other in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: np.linalg.tensorinv(x), r"numpy\.linalg\.tensorinv takes no nodes"),
        (lambda x: np.modf(x), r"numpy\.modf takes no nodes: compose it of operators"),
        (lambda x: np.add.reduce(x), r"numpy\.add\.reduce takes arrays, not nodes"),
        (lambda x: np.add(x, 1.0, out=X), r"numpy\.add with out takes arrays"),
        (lambda x: np.asarray(x), r"is not an array: compute it"),
    ],
)
def test_what_there_is_not_is_told(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        wy.function(call)(X)
