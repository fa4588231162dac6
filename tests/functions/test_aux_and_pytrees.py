"""`has_aux` in all transforms, and Jacobians and Hessians of nested containers, against JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy
from tests.functions.test_control import same
from wyrm.errors import NotDifferentiable, ShapeError

RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(2, 3))
ENGINES = pytest.mark.parametrize("engine", ["reference", "native"])


def _with_aux(xp: Any) -> Any:
    def function(x: Any, y: Any) -> Any:
        hidden = xp.sin(x) * y
        return xp.sum(hidden * x), {"hidden": hidden, "more": [x + y]}

    return function


def _arrays_with_aux(xp: Any) -> Any:
    return lambda x, y: ({"product": xp.sin(x) * y}, (x + y,))


@ENGINES
def test_has_aux(engine: Any) -> None:
    mine, theirs = wy.function(_with_aux(wy), engine=engine), _with_aux(jnp)
    with jax.enable_x64(True):
        same(mine.grad((0, 1), has_aux=True)(X, Y), jax.grad(theirs, (0, 1), has_aux=True)(X, Y))
        same(mine.value_and_grad(has_aux=True)(X, Y), jax.value_and_grad(theirs, has_aux=True)(X, Y))
        same(wy.hessian(mine, has_aux=True)(X, Y), jax.jit(jax.hessian(theirs, has_aux=True))(X, Y))
        several, others = wy.function(_arrays_with_aux(wy), engine=engine), _arrays_with_aux(jnp)
        same(wy.jacobian(several, 1, has_aux=True)(X, Y), jax.jit(jax.jacrev(others, 1, has_aux=True))(X, Y))
        value, pullback, aux = wy.vjp(several, X, Y, has_aux=True)
        expected, pull, other = jax.vjp(others, X, Y, has_aux=True)
        same((value, pullback({"product": Y}), aux), (expected, pull({"product": Y}), other))
        same(
            wy.jvp(several, (X, Y), (Y, X), has_aux=True),
            (*jax.jvp(lambda *args: others(*args)[0], (X, Y), (Y, X)), others(X, Y)[1]),
        )


def test_aux_may_hold_integers_and_nothing() -> None:
    gradient, aux = wy.function(lambda x: ((x * x).sum(), (x.argmax(axis=0), None))).grad(has_aux=True)(X)
    np.testing.assert_allclose(gradient, 2 * X)
    assert aux[0] == X.argmax()
    assert aux[1] is None


def test_without_a_pair_has_aux_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"with has_aux=True .* must return a pair \(value, aux\), not"):
        wy.function(lambda x: x.sum()).grad(has_aux=True)(X)
    with pytest.raises(ShapeError, match="must return a pair"):
        wy.vjp(lambda x: x, X, has_aux=True)


class Pair(NamedTuple):
    first: Any
    second: Any


@jax.tree_util.register_dataclass
@dataclass
class Model:
    weight: Any
    layers: Any


def _of_containers(xp: Any) -> Any:
    def function(model: Any, inputs: Any) -> Any:
        hidden = xp.tanh(model.weight @ inputs["x"])
        return Pair({"outer": hidden * model.layers[0], "sum": xp.sum(hidden)}, [model.layers[1] * hidden])

    return function


MODEL = Model(RANDOM.normal(size=(2, 3)), [RANDOM.normal(size=2), np.array(0.7)])
INPUTS = {"x": X}


def _alike(found: Any, expected: Any) -> None:
    """Check that containers and arrays are the same."""
    if isinstance(expected, Model):
        found, expected = vars(found), vars(expected)
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = [found[key] for key in expected], list(expected.values())
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert type(one) is type(other) or not isinstance(other, list | tuple | dict | Model)
            _alike(one, other)
    else:
        assert np.shape(found) == np.shape(expected)
        same(found, expected)


@ENGINES
@pytest.mark.parametrize("wrt", [0, 1, (0, 1)])
def test_jacobians_and_hessians_of_containers(engine: Any, wrt: Any) -> None:
    mine, theirs = wy.function(_of_containers(wy), engine=engine), _of_containers(jnp)
    with jax.enable_x64(True):
        _alike(wy.jacobian(mine, wrt)(MODEL, INPUTS), jax.jit(jax.jacrev(theirs, wrt))(MODEL, INPUTS))

        def scalar(function: Any, xp: Any) -> Any:
            return lambda model, inputs: xp.sum(function(model, inputs).first["outer"] ** 2.0)

        found = wy.hessian(wy.function(scalar(_of_containers(wy), wy), engine=engine), wrt)(MODEL, INPUTS)
        _alike(found, jax.jit(jax.hessian(scalar(theirs, jnp), wrt))(MODEL, INPUTS))


def test_a_jacobian_of_integers_names_them() -> None:
    with pytest.raises(NotDifferentiable, match=r"an argument of .*int64"):
        wy.jacobian(lambda x: x["w"])({"w": X, "i": np.array([1, 2])})
    with pytest.raises(ShapeError, match=r"grad of .* needs a scalar result, not .*\(3,\).*wy\.vjp or wy\.jacobian"):
        wy.function(lambda x: x * 2.0).grad()(X)
