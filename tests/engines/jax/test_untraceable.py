"""Ops whose code JAX cannot trace: errors that name the op and what to register."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import RegistrationError, WyrmError
from wyrm.graph import REGISTRY


class _User(wy.Unary, abstract=True):
    __slots__ = ()

    def vjp(self, gradient: Any) -> tuple[Any, ...]:
        return (gradient,)


def op(name: str, evaluate: Any) -> Any:
    return type(name, (_User,), {"__slots__": (), "__module__": __name__, "evaluate": evaluate})


def converts(self: Any, xp: Any, x: Any, *, shape: Any) -> Any:
    return np.sort(np.asarray(x))


def writes(self: Any, xp: Any, x: Any, *, shape: Any) -> Any:
    x[0] = 1.0
    return x


def branches(self: Any, xp: Any, x: Any, *, shape: Any) -> Any:
    return x if x.sum() > 0.0 else -x


def selects(self: Any, xp: Any, x: Any, *, shape: Any) -> Any:
    return xp.sum(x[x > 0.0]) + x


def lacks(self: Any, xp: Any, x: Any, *, shape: Any) -> Any:
    return xp.no_such_function(x)


def refuses(self: Any, xp: Any, x: Any, *, shape: Any) -> Any:
    raise wy.errors.DTypeError("an error of its own")


@pytest.fixture(autouse=True)
def unchanged_registry() -> Any:
    before = dict(REGISTRY)
    yield
    REGISTRY.clear()
    REGISTRY.update(before)


@pytest.mark.parametrize("evaluate", [converts, writes, branches, selects, lacks])
def test_an_evaluate_that_needs_arrays(evaluate: Any) -> None:
    x = wy.Parameter(np.ones(3, np.float32), name="x")
    node = op("Untraceable", evaluate)(x)
    pattern = r"(?s)JAX cannot trace op Untraceable: its `evaluate`.*@wy\.JAX\.register\(Untraceable\)"
    with pytest.raises(RegistrationError, match=pattern):
        wy.compile(node, engine="jax")()
    function, parameters = wy.jax.lower(node)
    import jax

    with pytest.raises(RegistrationError, match=pattern):
        jax.jit(function)(parameters)
    with pytest.raises(RegistrationError, match=pattern):
        wy.compile(node.sum(), wy.optim.SGD([x], 0.1), engine="jax")()


def test_a_form_that_needs_arrays() -> None:
    cls = op("WithForm", converts)

    @wy.JAX.register(cls)
    class WithFormForm(wy.JaxForm):
        def lower(self, node: Any, operands: Any, shape: Any, lowering: Any) -> Any:
            return np.sort(np.asarray(operands[0]))

    with pytest.raises(RegistrationError, match="JAX cannot trace op WithForm: `lower` of WithFormForm needs arrays"):
        wy.compile(cls(wy.Parameter(np.ones(3, np.float32))), engine="jax")()
    assert WithFormForm.__name__ == "WithFormForm"


def test_errors_of_an_op_itself_are_its_own() -> None:
    node = op("Refusing", refuses)(wy.Parameter(np.ones(3, np.float32)))
    with pytest.raises(WyrmError, match="an error of its own"):
        wy.compile(node, engine="jax")()
