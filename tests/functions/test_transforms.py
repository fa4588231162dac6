"""VJPs, JVPs, Jacobians and Hessians, against JAX."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import NotDifferentiable, ShapeError

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.standard_normal((2, 3)), RANDOM.standard_normal(3)
DX, DY = RANDOM.standard_normal((2, 3)), RANDOM.standard_normal(3)


def mine(x: Any, y: Any) -> Any:
    return {"a": (x * y).tanh(), "b": [x.sum(axis=1), (y * y).sum()]}


def theirs(x: Any, y: Any) -> Any:
    return {"a": jnp.tanh(x * y), "b": [x.sum(axis=1), (y * y).sum()]}


def same(found: Any, expected: Any) -> None:
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.fixture(params=["plain", "reference", "native"])
def made(request: pytest.FixtureRequest) -> Any:
    if request.param == "plain":
        return lambda function: function
    return wy.function(engine=request.param)


def test_vjp_pulls_back_and_jvp_pushes_forward(made: Any) -> None:
    cotangent = {"a": DX, "b": [Y[:2], 2.0]}
    with jax.enable_x64(True):
        value, pullback = wy.vjp(made(mine), X, Y)
        expected, pull = jax.vjp(theirs, X, Y)
        same(value, expected)
        same(pullback(cotangent), pull({"a": jnp.array(DX), "b": [jnp.array(Y[:2]), jnp.array(2.0)]}))
        same(wy.jvp(made(mine), (X, Y), (DX, DY)), jax.jvp(theirs, (X, Y), (DX, DY)))
        value, change = wy.linearize(made(mine), X, Y)
        same(value, expected)
        same(change(DX, DY), jax.linearize(theirs, X, Y)[1](DX, DY))


def test_jacobian_by_rows_and_by_columns(made: Any) -> None:
    wide = made(lambda x: (x * x).sum(axis=1))
    tall = made(lambda y: (y.reshape(3, 1) * y).sin())
    with jax.enable_x64(True):
        same(wy.jacobian(wide)(X), jax.jit(jax.jacobian(lambda x: (x * x).sum(axis=1)))(X))
        same(wy.jacobian(tall)(Y), jax.jit(jax.jacobian(lambda y: jnp.sin(y.reshape(3, 1) * y)))(Y))
        same(wy.jacobian(made(lambda x, y: x * y), 1)(X, Y), jax.jit(jax.jacobian(lambda x, y: x * y, 1))(X, Y))


def field(x: Any, y: Any, *, power: float = 1.0) -> Any:
    return {"a": x @ y * power, "b": (y**3.0).sum() * x[0]}


def energy_of_two(x: Any, y: Any, *, power: float = 1.0) -> Any:
    return ((x @ y) ** 3.0).sum() * power + (x * x).sum() * y[0]


def of_container(given: Any) -> Any:
    return given["x"] @ given["y"] * given["y"][:2]


def chosen(d: Any, made: Any, x: Any, y: Any) -> Any:
    """Jacobians and Hessians under the names that both libraries share."""
    return (
        d.jacobian(made(field), (1, 0))(x, y, power=2.0),
        d.hessian(made(energy_of_two), (0, 1))(x, y, power=2.0),
        d.jacobian(made(of_container))({"x": x, "y": y}),
    )


@functools.cache
def chosen_by_jax() -> Any:
    with jax.enable_x64(True):
        return jax.jit(lambda x, y: chosen(jax, lambda function: function, x, y))(X, Y)


def test_jacobians_and_hessians_by_several_arguments(made: Any) -> None:
    """With respect to containers, and with static arguments."""
    same(chosen(wy, made, X, Y), chosen_by_jax())


def test_jacobians_and_hessians_by_names() -> None:
    by_both, second, _ = chosen_by_jax()
    found = wy.jacobian(field, (-1, "x"))(X, Y, power=2.0)
    assert sorted(found) == ["a", "b"] and [part.shape for part in found["b"]] == [(3, 3), (3, 2, 3)]
    same(found, by_both)
    same(wy.jacobian(field, "y")(X, Y, power=2.0)["a"], by_both["a"][0])
    same(wy.hessian(energy_of_two, -1)(X, Y, power=2.0), second[1][1])
    same(wy.hessian(energy_of_two, ("y", "x"))(X, Y, power=2.0)[0][1], second[1][0])


def test_jacobians_without_elements() -> None:
    assert wy.jacobian(lambda x: x[:0] * 2.0)(Y).shape == (0, 3)
    assert wy.jacobian(lambda x: x.sum() * wy.Constant(np.ones(2)))(Y[:0]).shape == (2, 0)


def test_a_jacobian_draws_random_numbers_once() -> None:
    """All rows belong to one function."""
    found = wy.jacobian(lambda x: x.dropout(0.5).sum() * wy.Constant(np.ones(8)))(np.ones(8))
    assert set(found.ravel().tolist()) == {0.0, 2.0} and (found == found[0]).all()


def test_hessian_and_its_product(made: Any) -> None:
    def energy(x: Any, y: Any) -> Any:
        return ((x * y) ** 3.0).sum() + (x.exp() if isinstance(x, wy.Node) else jnp.exp(x)).sum() * y.sum()

    with jax.enable_x64(True):
        same(wy.hessian(made(energy))(X, Y), jax.jit(jax.hessian(energy))(X, Y))
        same(wy.hessian(made(energy), 1)(X, Y), jax.jit(jax.hessian(energy, 1))(X, Y))
        expected = jax.jit(lambda *x: jax.jvp(jax.grad(energy, (0, 1)), x, (DX, DY))[1])(X, Y)
        same(wy.hvp(made(energy), (X, Y), (DX, DY)), expected)


def test_transforms_nest() -> None:
    def cube(x: Any) -> Any:
        return x * x * x

    trace = wy.function(lambda x: wy.jacobian(cube)(x).sum())
    np.testing.assert_allclose(trace(Y), (3.0 * Y * Y).sum())
    np.testing.assert_allclose(trace.grad()(Y), 6.0 * Y)
    pushed = wy.function(lambda x: wy.jvp(cube, (x,), (x,))[1].sum())
    np.testing.assert_allclose(pushed.grad()(Y), 9.0 * Y * Y)
    pulled = wy.function(lambda x: wy.vjp(cube, x)[1](x)[0].sum())
    np.testing.assert_allclose(pulled.grad()(Y), 9.0 * Y * Y)


def test_forward_mode_takes_no_reverse_pass() -> None:
    changed = wy.function(lambda x, along: wy.jvp(lambda x: x.tanh().sin(), (x,), (along,))[1])
    names = [line.split("= ", 1)[1].split("(")[0].strip() for line in changed_graph(changed).splitlines()]
    assert names.count("tanh") == names.count("cos") == 1 and not {"sum", "sin"} & set(names), names
    assert "cotangent" not in changed_graph(changed)


def changed_graph(function: Any) -> str:
    function(Y, DY)
    graph: str = function.graph
    return graph


def test_a_transform_runs_the_function_once_for_each_kind_of_arguments() -> None:
    runs = []

    def counted(x: Any) -> Any:
        runs.append(1)
        return (x * x).sum()

    gradient = wy.function(counted).grad()
    for i in range(5):
        gradient(Y + i)
    assert len(runs) == 1


def test_mistakes_are_told() -> None:
    with pytest.raises(ShapeError, match="tangent does not have the structure"):
        wy.jvp(mine, (X, Y), (DX,))
    with pytest.raises(ShapeError, match="cotangent"):
        wy.vjp(lambda x: x * 2.0, X)[1](Y[:2])
    with pytest.raises(NotDifferentiable, match="int64"):
        wy.vjp(lambda x, i: x.take(i), X, np.array([0]))[1](X[:1])
    with pytest.raises(NotDifferentiable, match="int64"):
        wy.jacobian(lambda x, i: x.take(i), (0, 1))(X, np.array([0]))
    with pytest.raises(ValueError, match="has no argument 'z'; its arguments are x, y"):
        wy.jacobian(mine, "z")(X, Y)
    with pytest.raises(ValueError, match="called with 2 arguments, so wrt=-3 is out of range"):
        wy.hessian(mine, -3)(X, Y)
    with pytest.raises(TypeError, match="derivatives are of a function"):
        wy.vjp(3.0, X)  # type: ignore[call-overload]  # the mistake
