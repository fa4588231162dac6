"""Random graphs with shared nodes: values and gradients equal JAX's, and a rerun equals a new graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wyrm as wy

ROWS = np.array([2, 0, 2])
# Offset of ops with kinks and ties, so that no rounding difference between two computations decides a branch.
APART = np.sin(np.arange(12.0)).reshape(3, 4)
SHAPES = [(3, 4), (4,), (3, 1), ()]


class Op(NamedTuple):
    """An op in wyrm and in JAX, with its number of operands; operands broadcast to (3, 4), and so does the result."""

    name: str
    arity: int
    ours: Callable[..., Any]
    theirs: Callable[..., Any]


OPS = [
    Op("add", 2, lambda x, y: x + y, lambda x, y: x + y),
    Op("subtract", 2, lambda x, y: x - y, lambda x, y: x - y),
    Op("multiply", 2, lambda x, y: x * y, lambda x, y: x * y),
    Op("divide", 2, lambda x, y: x / (y * y + 1.0), lambda x, y: x / (y * y + 1.0)),
    Op("maximum", 2, lambda x, y: x.maximum(y + 0.123), lambda x, y: jnp.maximum(x, y + 0.123)),
    Op(
        "where",
        2,
        lambda x, y: wy.where(x > y + 0.123, x.sin(), y),
        lambda x, y: jnp.where(x > y + 0.123, jnp.sin(x), y),
    ),
    Op("power", 2, lambda x, y: (x * x + 1.0) ** y.tanh(), lambda x, y: (x * x + 1.0) ** jnp.tanh(y)),
    Op("tanh", 1, lambda x: x.tanh(), jnp.tanh),
    Op("exp", 1, lambda x: (-(x * x)).exp(), lambda x: jnp.exp(-(x * x))),
    Op("softplus", 1, lambda x: x.softplus(), jax.nn.softplus),
    Op("absolute", 1, lambda x: abs(x + 0.123), lambda x: jnp.abs(x + 0.123)),
    Op("relu", 1, lambda x: (x + 0.123).relu(), lambda x: jax.nn.relu(x + 0.123)),
    Op("number", 1, lambda x: 0.5 - x * 2.0, lambda x: 0.5 - x * 2.0),
    Op("sum", 1, lambda x: whole(x).sum(axis=1, keepdims=True), lambda x: full(x).sum(1, keepdims=True)),
    Op("mean", 1, lambda x: whole(x).mean(axis=0), lambda x: full(x).mean(0)),
    Op("max", 1, lambda x: (x + APART).max(), lambda x: (x + APART).max()),
    Op("softmax", 1, lambda x: whole(x).softmax(), lambda x: jax.nn.softmax(full(x))),
    Op("matmul", 2, lambda x, y: whole(x) @ (whole(y).T @ whole(x)), lambda x, y: full(x) @ (full(y).T @ full(x))),
    Op("take", 1, lambda x: whole(x).take(ROWS, axis=0), lambda x: full(x)[ROWS]),
    Op(
        "parts",
        2,
        lambda x, y: wy.concatenate([whole(x)[1:], whole(y)[:1]]),
        lambda x, y: jnp.concatenate([full(x)[1:], full(y)[:1]]),
    ),
    Op("flat", 1, lambda x: whole(x).T.reshape(3, 4), lambda x: full(x).T.reshape(3, 4)),
    Op("stop", 1, lambda x: x.stop_gradient() * x, lambda x: jax.lax.stop_gradient(x) * x),
]


def whole(x: Any) -> Any:
    return x.broadcast_to((3, 4))


def full(x: Any) -> Any:
    return jnp.broadcast_to(x, (3, 4))


class Graph(NamedTuple):
    """The ops of a graph, each with the positions of its operands among the leaves and the previous ops."""

    steps: tuple[tuple[int, tuple[int, ...]], ...]
    seed: int

    def data(self, seed: int) -> list[Any]:
        random = np.random.default_rng([self.seed, seed])
        return [random.normal(size=shape) for shape in SHAPES]

    def build(self, leaves: list[Any], ours: bool) -> list[Any]:
        nodes = list(leaves)
        for op, operands in self.steps:
            function = OPS[op].ours if ours else OPS[op].theirs
            nodes.append(function(*(nodes[i] for i in operands)))
        return nodes

    def loss(self, leaves: list[Any], ours: bool) -> Any:
        # Scaled so that products of products do not overflow.
        last = self.build(leaves, ours)[-3:]
        return sum((node * 0.1).sum() for node in last)

    def __repr__(self) -> str:
        lines = [f"{len(SHAPES) + i}: {OPS[op].name}{operands}" for i, (op, operands) in enumerate(self.steps)]
        return f"Graph(seed={self.seed}; {'; '.join(lines)})"


@st.composite
def graphs(draw: st.DrawFn, most: int = 10) -> Graph:
    steps: list[tuple[int, tuple[int, ...]]] = []
    for i in range(draw(st.integers(1, most))):
        op = draw(st.integers(0, len(OPS) - 1))
        places = st.integers(0, len(SHAPES) + i - 1)
        steps.append((op, tuple(draw(places) for _ in range(OPS[op].arity))))
    return Graph(tuple(steps), draw(st.integers(0, 100)))


slow = [HealthCheck.too_slow]


def finite(values: Any) -> bool:
    """Whether the values are small enough that they can differ by rounding only."""
    return all(np.abs(np.asarray(value)).max() < 1e6 for value in values)


def compare(mine: Any, other: Any) -> None:
    other = np.asarray(other)
    np.testing.assert_allclose(mine, other, rtol=1e-8, atol=1e-9 * max(1.0, float(np.abs(other).max())))


@settings(max_examples=40, deadline=None, suppress_health_check=slow)
@given(graphs())
def test_values_and_gradients_are_jaxs(graph: Graph) -> None:
    data = graph.data(0)
    leaves = [wy.Parameter(value) for value in data]
    loss = graph.loss(leaves, ours=True)
    with jax.enable_x64(True):
        expected, gradients = jax.jit(jax.value_and_grad(lambda arrays: graph.loss(arrays, ours=False)))(data)
    if not finite([expected, *gradients]):
        return
    loss.backward()
    compare(loss.forward(), expected)
    for leaf, gradient in zip(leaves, gradients, strict=True):
        compare(leaf.gradient, gradient)


@settings(max_examples=100, deadline=None)
@given(graphs(), st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=4), st.booleans()), max_size=5))
def test_running_again_computes_what_a_fresh_graph_would(graph: Graph, changes: list[tuple[list[int], bool]]) -> None:
    data = graph.data(0)
    leaves = [wy.Parameter(value) for value in data]
    nodes = graph.build(leaves, ours=True)
    loss = graph.loss(leaves, ours=True)
    for round_, (changed, backward) in enumerate(changes, 1):
        for place, value in enumerate(graph.data(round_)):
            if place in changed:
                data[place] = value
                leaves[place].set(value)
        fresh = [wy.Parameter(value) for value in data]
        other = graph.loss(fresh, ours=True)
        np.testing.assert_array_equal(loss.forward(), other.forward())
        if backward and loss.parameters():
            loss.zero_gradient()
            loss.backward()
            other.backward()
            for leaf, twin in zip(leaves, fresh, strict=True):
                np.testing.assert_array_equal(leaf.gradient if leaf in set(loss.parameters()) else 0.0, twin.gradient)
        inner = nodes[len(SHAPES) + round_ % len(graph.steps)]
        np.testing.assert_array_equal(
            inner.forward(), graph.build(fresh, ours=True)[len(SHAPES) + round_ % len(graph.steps)].forward()
        )


@settings(max_examples=25, deadline=None, suppress_health_check=slow)
@given(graphs(most=5))
def test_gradients_of_gradients_are_jaxs(graph: Graph) -> None:
    data = graph.data(0)
    leaves = [wy.Parameter(value) for value in data]
    gradients = wy.grad(graph.loss(leaves, ours=True), leaves, allow_unused=True)
    total: Any = sum((g * g).sum() for g in gradients)
    second = wy.grad(total, leaves, allow_unused=True)

    def squares(arrays: Any) -> Any:
        return sum((g * g).sum() for g in jax.grad(lambda a: graph.loss(a, ours=False))(arrays))

    with jax.enable_x64(True):
        expected = jax.jit(jax.grad(squares))(data)
    if finite(expected):
        for mine, other in zip(wy.run(second), expected, strict=True):
            compare(mine, other)
