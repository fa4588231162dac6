"""User-defined derivatives."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import NotDifferentiable, ShapeError
from wyrm.testing import check_grads

X = np.random.default_rng(0).standard_normal((2, 3))


@pytest.mark.parametrize("engine", ["reference", "native"])
def test_custom_vjp_is_used_by_every_engine_and_order(engine: Any) -> None:
    @wy.custom_vjp
    def log1pexp(x: Any) -> Any:
        return (1.0 + x.exp()).log()

    def forward(x: Any) -> Any:
        power = x.exp()
        return (1.0 + power).log(), power

    log1pexp.define(forward, lambda power, gradient: (gradient * power / (1.0 + power),))
    energy = wy.function(lambda x: (log1pexp(x) ** 2.0).sum(), engine=engine)
    with jax.enable_x64(True):
        theirs = jax.grad(lambda x: (jnp.log1p(jnp.exp(x)) ** 2).sum())
        second = jax.grad(lambda x: (theirs(x) ** 2).sum())
        np.testing.assert_allclose(energy.grad()(X), theirs(X), rtol=1e-12)
        squared = wy.function(lambda x: (energy.grad()(x) ** 2.0).sum(), engine=engine)
        np.testing.assert_allclose(squared.grad()(X), second(X), rtol=1e-12)
    np.testing.assert_allclose(log1pexp(X), np.log1p(np.exp(X)), rtol=1e-12)
    check_grads(log1pexp(wy.Parameter(X)).sum())


def test_arguments_and_results_may_be_containers() -> None:
    @wy.custom_vjp
    def both(pair: Any, scale: Any) -> Any:
        raise AssertionError("forward stands for it")

    def forward(pair: Any, scale: Any) -> Any:
        return {"sum": pair[0] + pair[1], "product": pair[0] * scale}, (pair, scale)

    def backward(kept: Any, cotangent: Any) -> Any:
        pair, scale = kept
        first = cotangent["sum"] + cotangent["product"] * scale
        return (first, cotangent["sum"]), (cotangent["product"] * pair[0]).sum()

    both.define(forward, backward)

    def total(pair: Any, scale: Any) -> Any:
        found = both(pair, scale)
        return (found["sum"] * found["sum"]).sum() + (found["product"] * 3.0).sum()

    (first, second), by_scale = wy.function(total).grad((0, 1))((X, 2.0 * X), 0.5)
    np.testing.assert_allclose(first, 6.0 * X + 1.5)
    np.testing.assert_allclose(second, 6.0 * X)
    np.testing.assert_allclose(by_scale, 3.0 * X.sum())


def test_custom_jvp_is_transposed() -> None:
    @wy.custom_jvp
    def cube(x: Any) -> Any:
        return x * x * x

    cube.define(lambda args, tangents: (cube(*args), 30.0 * args[0] * args[0] * tangents[0]))
    np.testing.assert_allclose(wy.function(lambda x: cube(x).sum()).grad()(X), 30.0 * X * X)
    np.testing.assert_allclose(wy.jvp(cube.function, (X,), (X,))[1], 3.0 * X**3)
    np.testing.assert_allclose(wy.jvp(lambda x: cube(x), (X,), (X,))[1], 30.0 * X**3)
    second = wy.function(lambda x: wy.function(lambda x: cube(x).sum()).grad()(x).sum()).grad()
    np.testing.assert_allclose(second(X), 60.0 * X)


def test_mistakes_are_told() -> None:
    @wy.custom_vjp
    def same(x: Any) -> Any:
        return x

    loss = wy.function(lambda x: same(x).sum())
    with pytest.raises(NotDifferentiable, match=r"has no derivative yet: call .*define\(forward, backward\)"):
        loss(X)
    same.define(lambda x: (x, None), lambda kept, gradient: (gradient, gradient))
    with pytest.raises(NotDifferentiable, match="one gradient for each of its 1 arguments"):
        loss.grad()(X)
    same.define(lambda x: (x, None), lambda kept, gradient: (gradient.sum(),))
    with pytest.raises(ShapeError, match="returned a gradient of axes"):
        wy.function(lambda x: same(x).sum()).grad()(X)
    same.define(lambda x: (x, None), lambda kept, gradient: ([gradient],))
    with pytest.raises(ShapeError, match="whose structure differs"):
        wy.function(lambda x: same(x).sum()).grad()(X)
