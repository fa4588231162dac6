"""Gradients, second gradients, and products with Jacobians of whole functions, against JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wyrm as wy

_random = np.random.default_rng(11)
ROWS = np.array([2, 0, 2, 1])
LABELS = np.array([1, 0, 3])


def normal(*shape: int) -> Any:
    return _random.normal(size=shape)


@dataclass(frozen=True)
class Case:
    """A function written for both libraries, and its array arguments."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    operands: tuple[Any, ...]

    def __str__(self) -> str:
        return self.name


def our_attention(q: Any, k: Any, v: Any) -> Any:
    return ((q @ k.mT) / 2.0).softmax() @ v


def their_attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.softmax((q @ jnp.swapaxes(k, -1, -2)) / 2.0) @ v


def our_norm(x: Any, scale: Any, shift: Any) -> Any:
    return (x - x.mean(axis=-1, keepdims=True)) / (x.var(axis=-1, keepdims=True) + 1e-3).sqrt() * scale + shift


def their_norm(x: Any, scale: Any, shift: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-3) * scale + shift


def our_recurrence(x: Any, w: Any, u: Any) -> Any:
    h = x[0] * 0.0
    for row in x:
        h = (row @ w + h @ u).tanh()
    return h


def their_recurrence(x: Any, w: Any, u: Any) -> Any:
    h = x[0] * 0.0
    for row in x:
        h = jnp.tanh(row @ w + h @ u)
    return h


CASES = [
    Case(
        "polynomial",
        lambda x: x**3 - 2.0 * x * x + x / (1.0 + x * x),
        lambda x: x**3 - 2 * x * x + x / (1 + x * x),
        (normal(4),),
    ),
    Case(
        "layers",
        lambda x, w, v: (x @ w).tanh() @ v,
        lambda x, w, v: jnp.tanh(x @ w) @ v,
        (normal(3, 4), normal(4, 5), normal(5, 2)),
    ),
    Case("attention", our_attention, their_attention, (normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 3))),
    Case("norm", our_norm, their_norm, (normal(3, 4), normal(4), normal(4))),
    Case("recurrence", our_recurrence, their_recurrence, (normal(3, 4), normal(4, 4), normal(4, 4))),
    Case(
        "table",
        lambda t, w: (t.take(ROWS, axis=0) * w).sigmoid(),
        lambda t, w: jax.nn.sigmoid(t[ROWS] * w),
        (normal(3, 4), normal(4)),
    ),
    Case(
        "table-twice",
        lambda t: t.take(ROWS, axis=0) @ t.T + t.take(ROWS[::-1], axis=0).sum(),
        lambda t: t[ROWS] @ t.T + t[ROWS[::-1]].sum(),
        (normal(3, 4),),
    ),
    Case(
        "cross-entropy",
        lambda x, w: (x @ w).cross_entropy(LABELS),
        lambda x, w: -jnp.take_along_axis(jax.nn.log_softmax(x @ w), LABELS[:, None], 1).mean(),
        (normal(3, 2), normal(2, 4)),
    ),
    Case(
        "logsumexp",
        lambda x: x.logsumexp(axis=0) * x.log_softmax(axis=0).sum(axis=0),
        lambda x: jax.nn.logsumexp(x, 0) * jax.nn.log_softmax(x, 0).sum(0),
        (normal(3, 4),),
    ),
    Case(
        "broadcast",
        lambda x, y, z: x * y + z / (y.square() + 1.0),
        lambda x, y, z: x * y + z / (y**2 + 1),
        (normal(3, 1), normal(4), normal()),
    ),
    Case(
        "extremes",
        lambda x: (x.max(axis=1) * x.min(axis=0).sum()).exp(),
        lambda x: jnp.exp(x.max(1) * x.min(0).sum()),
        (normal(3, 4),),
    ),
    Case("powers", lambda x, y: x.exp() ** y + 2.0**y, lambda x, y: jnp.exp(x) ** y + 2.0**y, (normal(3), normal(3))),
    Case(
        "parts",
        lambda x: wy.concatenate([x[1:] * x[:-1], x[::2].sin()]).T.reshape(-1),
        lambda x: jnp.concatenate([x[1:] * x[:-1], jnp.sin(x[::2])]).T.reshape(-1),
        (normal(4, 3),),
    ),
    Case(
        "einsum",
        lambda x, y: wy.einsum("bij,bkj->ik", x.tanh(), y),
        lambda x, y: jnp.einsum("bij,bkj->ik", jnp.tanh(x), y),
        (normal(2, 3, 4), normal(2, 5, 4)),
    ),
    Case(
        "where",
        lambda x, y: wy.where(x > y, x * y, (x - y).softplus()),
        lambda x, y: jnp.where(x > y, x * y, jax.nn.softplus(x - y)),
        (normal(3, 4), normal(4)),
    ),
    Case(
        "activations",
        lambda x: x.gelu() + x.silu() * x.elu() - x.erf().relu(),
        lambda x: (
            jax.nn.gelu(x, approximate=False) + jax.nn.silu(x) * jax.nn.elu(x) - jax.nn.relu(jax.scipy.special.erf(x))
        ),
        (normal(5),),
    ),
    Case(
        "scatter",
        lambda x, v: x.scatter_add(ROWS, v.exp()).square(),
        lambda x, v: jnp.square(x.at[ROWS].add(jnp.exp(v))),
        (normal(3, 2), normal(4, 2)),
    ),
    Case(
        "vector-dot",
        lambda x, y: x.vector_dot(y) / (x.vector_dot(x) * y.vector_dot(y)).sqrt(),
        lambda x, y: (x * y).sum(-1) / jnp.sqrt((x * x).sum(-1) * (y * y).sum(-1)),
        (normal(5, 3), normal(3)),
    ),
]

every = pytest.mark.parametrize("case", CASES, ids=str)


class Oracle:
    """All results of JAX for a case, compiled together."""

    _known: ClassVar[dict[str, Oracle]] = {}

    def __init__(self, case: Case) -> None:
        places = tuple(range(len(case.operands)))
        self.weights = [_random.normal(size=np.shape(operand)) for operand in case.operands]
        self.tangents = tuple(_random.normal(size=np.shape(operand)) for operand in case.operands)
        theirs = case.theirs

        def along(gradients: Any) -> Any:
            return sum((g * w).sum() for g, w in zip(gradients, self.weights, strict=True))

        def total(*operands: Any) -> Any:
            return theirs(*operands).sum()

        first = jax.grad(total, places)
        second = jax.grad(lambda *operands: along(first(*operands)), places)
        third = jax.grad(lambda *operands: along(second(*operands)), places)

        def everything(operands: Any, cotangent: Any) -> tuple[Any, ...]:
            pulled = jax.vjp(theirs, *operands)[1](cotangent)
            last = third(*operands) if len(operands) == 1 else ()
            pushed = jax.jvp(theirs, operands, self.tangents)[1]
            return theirs(*operands), first(*operands), second(*operands), last, pulled, pushed

        with jax.enable_x64(True):
            operands = tuple(map(jnp.asarray, case.operands))
            self.cotangent = _random.normal(size=jax.eval_shape(theirs, *operands).shape)
            found = jax.jit(everything)(operands, self.cotangent)
        self.value, self.first, self.second, self.third, self.pulled, self.pushed = found

    @classmethod
    def of(cls, case: Case) -> Oracle:
        """Return the cached oracle of a case."""
        if case.name not in cls._known:
            cls._known[case.name] = cls(case)
        return cls._known[case.name]


def leaves(case: Case) -> list[Any]:
    return [wy.Parameter(np.asarray(operand)) for operand in case.operands]


def check(ours: Any, theirs: Any) -> None:
    for mine, other in zip(wy.run(ours), theirs, strict=True):
        np.testing.assert_allclose(mine, np.asarray(other), rtol=1e-9, atol=1e-10)


def along(gradients: list[Any], weights: list[Any]) -> Any:
    return sum((g * w).sum() for g, w in zip(gradients, weights, strict=True))


@every
def test_value_and_gradients(case: Case) -> None:
    oracle, parameters = Oracle.of(case), leaves(case)
    output = case.ours(*parameters)
    check([output], [oracle.value])
    check(wy.grad(output.sum(), parameters), oracle.first)
    output.sum().backward()
    for parameter, gradient in zip(parameters, oracle.first, strict=True):
        np.testing.assert_allclose(parameter.gradient, np.asarray(gradient), rtol=1e-9, atol=1e-10)


@every
def test_gradients_of_gradients(case: Case) -> None:
    oracle, parameters = Oracle.of(case), leaves(case)
    first = wy.grad(case.ours(*parameters).sum(), parameters)
    check(wy.grad(along(first, oracle.weights), parameters, allow_unused=True), oracle.second)


@pytest.mark.parametrize("case", [case for case in CASES if len(case.operands) == 1], ids=str)
def test_the_third_order(case: Case) -> None:
    oracle, parameters = Oracle.of(case), leaves(case)
    first = wy.grad(case.ours(*parameters).sum(), parameters)
    second = wy.grad(along(first, oracle.weights), parameters, allow_unused=True)
    check(wy.grad(along(second, oracle.weights), parameters, allow_unused=True), oracle.third)


@every
def test_vjp(case: Case) -> None:
    oracle, parameters = Oracle.of(case), leaves(case)
    output = case.ours(*parameters)
    check(wy.vjp(output, parameters, oracle.cotangent), oracle.pulled)
    check([wy.vjp(output, parameters[0], wy.Constant(oracle.cotangent))], oracle.pulled[:1])


@every
def test_jvp(case: Case) -> None:
    oracle, parameters = Oracle.of(case), leaves(case)
    check([wy.jvp(case.ours(*parameters), parameters, oracle.tangents)], [oracle.pushed])
