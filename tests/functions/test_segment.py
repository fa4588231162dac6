"""Reductions by segments against JAX, and a graph neural network made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import jax
import numpy as np
import pytest

import wyrm as wy
from tests.samples.sample import distinct
from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError
from wyrm.testing import check_grads

IDS = np.array([4, 0, 4, 1, 0, 4, 6])


class Edges(wy.Dim): ...


class Nodes(wy.Dim): ...


class Width(wy.Dim): ...


class Hidden(wy.Dim): ...


@pytest.fixture(autouse=True)
def _float64() -> Any:
    with jax.enable_x64(True):
        yield


def _mean(data: Any, ids: Any, count: int) -> Any:
    total = jax.ops.segment_sum(data, ids, count)
    counts = jax.ops.segment_sum(jax.numpy.ones(len(ids)), ids, count)
    return total / jax.numpy.maximum(counts, 1.0).reshape(-1, *[1] * (data.ndim - 1))


def _softmax(data: Any, ids: Any, count: int) -> Any:
    exponentials = jax.numpy.exp(data)
    return exponentials / jax.ops.segment_sum(exponentials, ids, count)[ids]


EXPECTED: dict[str, Callable[..., Any]] = {
    "segment_sum": jax.ops.segment_sum,
    "segment_mean": _mean,
    "segment_max": jax.ops.segment_max,
    "segment_min": jax.ops.segment_min,
    "segment_softmax": _softmax,
}


@pytest.mark.parametrize("row", [(), (3,), (2, 3)])
@pytest.mark.parametrize("name", EXPECTED)
def test_values_and_gradients_are_those_of_jax(name: str, row: tuple[int, ...]) -> None:
    data = distinct(len(IDS), *row)
    x = wy.Parameter(data)
    result = getattr(wy, name)(x, IDS, 8)
    weights = distinct(*result.shape)
    present = np.isin(np.arange(8), IDS) if name != "segment_softmax" else np.ones(len(IDS), bool)
    weights = weights * present.reshape(-1, *[1] * len(row))

    def scalar(data: Any) -> Any:
        reduced = EXPECTED[name](data, IDS, 8)
        return (jax.numpy.where(weights != 0.0, reduced, 0.0) ** 2 * weights).sum()

    loss = (wy.where(weights != 0.0, result, 0.0).square() * weights).sum()
    gradient = wy.grad(loss, x)
    direction = distinct(*data.shape)
    second = wy.grad((gradient * direction).sum(), x)

    def derivatives(data: Any) -> Any:
        return EXPECTED[name](data, IDS, 8), jax.jvp(jax.grad(scalar), (data,), (direction,))

    expected, (expected_first, expected_second) = jax.jit(derivatives)(data)
    np.testing.assert_allclose(result.forward(), expected, rtol=1e-12)
    np.testing.assert_allclose(gradient.forward(), expected_first, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(second.forward(), expected_second, rtol=1e-9, atol=1e-12)
    for one, compiled in zip((result, gradient, second), wy.compile([result, gradient, second])(), strict=True):
        np.testing.assert_allclose(compiled, one.forward(), rtol=1e-12, atol=1e-12)


def test_equal_maxima_share_the_gradient() -> None:
    x = wy.Parameter([2.0, 2.0, 1.0])
    gradient = wy.grad(wy.segment_max(x, np.array([1, 1, 1]), 2)[1], x)
    np.testing.assert_allclose(gradient.forward(), [0.5, 0.5, 0.0])


@pytest.mark.parametrize("name", EXPECTED)
def test_an_id_out_of_range_is_an_error(name: str) -> None:
    reduce = getattr(wy, name)
    x = wy.Input(np.ones(3))
    for ids in (np.array([0, 1, 2]), np.array([0, -1, 1])):
        with pytest.raises(IndexOutOfRange):
            reduce(x, ids, 2)
    given = wy.IndexInput(dims=(3,))
    result = reduce(x, given, 2)
    with pytest.raises(IndexOutOfRange):
        given.set(np.array([0, 1, 2]))
    given.set(np.array([0, 1, 1]))
    result.forward()


def test_wrong_operands_are_errors() -> None:
    x = wy.Input(np.ones((3, 2)))
    with pytest.raises(ShapeError):
        wy.segment_sum(x, np.array([0, 1]), 2)
    with pytest.raises(ShapeError):
        wy.segment_max(x, np.zeros((3, 2), np.int64), 2)
    with pytest.raises(ShapeError):
        wy.segment_sum(wy.Input(1.0), np.array(0), 2)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(DTypeError):
        wy.segment_mean(x > 0.0, np.array([0, 1, 1]), 2)


@pytest.mark.parametrize("name", EXPECTED)
def test_vmap_maps_rows_and_ids(name: str) -> None:
    data = distinct(3, 5, 2)
    ids = np.array([[0, 1, 1, 0, 2], [2, 2, 0, 1, 0], [1, 1, 0, 2, 2]])
    reduce = getattr(wy, name)
    mapped = wy.vmap(lambda x, i: reduce(x, i, 3))(data, ids)
    for row, own, values in zip(data, ids, mapped, strict=True):
        np.testing.assert_allclose(values, reduce(wy.Constant(row), own, 3).forward(), rtol=1e-12)
    shared = wy.vmap(lambda x: reduce(x, ids[0], 3))(data)
    np.testing.assert_allclose(shared[1], reduce(wy.Constant(data[1]), ids[0], 3).forward(), rtol=1e-12)


def test_the_axis_of_segments_may_take_its_size_from_the_data() -> None:
    nodes, edges = Nodes(), Edges()
    features, receivers = wy.Input(dims=(nodes, 2)), wy.IndexInput(dims=(edges,))
    senders = wy.IndexInput(dims=(edges,))
    aggregated: Any = features + wy.segment_sum(features.take(senders, axis=0), receivers, nodes)
    run = wy.compile(aggregated)
    for count in (3, 5):
        values, sources, targets = np.ones((count, 2)), np.array([0, 1, 2, 0]), np.array([1, 1, 1, count - 1])
        expected = values.copy()
        np.add.at(expected, targets, values[sources])
        np.testing.assert_allclose(run({features: values, senders: sources, receivers: targets}), expected)
        with pytest.raises(IndexOutOfRange):
            run({features: values, senders: sources, receivers: np.array([1, 1, 1, count])})


def test_axes_are_typed() -> None:
    messages = wy.Input(np.ones((7, 3)), dims=(Edges(7), Width(3)))
    ids = wy.IndexInput(IDS, dims=(Edges(7),))
    assert_type(wy.segment_sum(messages, ids, Nodes(8)), wy.Tensor[Nodes, Width])
    assert_type(wy.segment_max(messages, ids, Nodes(8)), wy.Tensor[Nodes, Width])
    assert_type(wy.segment_mean(messages, ids, 8), wy.Tensor[Any, Width])
    assert_type(wy.segment_softmax(messages, ids, 8), wy.Tensor[Edges, Width])
    assert wy.segment_sum(messages, ids, Nodes(8)).dims == (Nodes(8), Width(3))


class MessagePassing(wy.nn.Module):
    """`relu(own(x) + neighbours(sum of the senders' x))`."""

    def __init__(self, width: int, hidden: int) -> None:
        self.own = wy.nn.Linear(width, hidden, dtype=np.float64)
        self.neighbours = wy.nn.Linear(width, hidden, bias=False, dtype=np.float64)

    def __call__(self, x: Any, senders: Any, receivers: Any) -> Any:
        received = wy.segment_sum(x.take(senders, axis=0), receivers, x.dims[0])
        return (self.own(x) + self.neighbours(received)).tanh()


def test_a_graph_neural_network_trains_as_in_jax() -> None:
    random = np.random.default_rng(0)
    wy.nn.seed(0)
    count, width = 9, 4
    features, target = random.normal(size=(count, width)), random.normal(size=count)
    senders, receivers = random.integers(0, count, 20), random.integers(0, count, 20)
    layers = [MessagePassing(width, 5), MessagePassing(5, 3)]
    x: Any = wy.Constant(features)
    for layer in layers:
        x = layer(x, senders, receivers)
    loss = (x.sum(axis=1) - target).square().mean()

    def expected(weights: Any) -> Any:
        h = features
        for own, bias, neighbours in weights:
            received = jax.ops.segment_sum(h[senders], receivers, count)
            h = jax.numpy.tanh(h @ own + bias + received @ neighbours)
        return ((h.sum(1) - target) ** 2).mean()

    # The layers have a bias.
    weights = [
        (layer.own.weight.value, layer.own.bias.value, layer.neighbours.weight.value)  # type: ignore[union-attr]
        for layer in layers
    ]
    weights = jax.tree.map(jax.numpy.asarray, weights)
    parameters = [p for layer in layers for p in layer.parameters()]
    train = wy.compile(loss, wy.optim.SGD(parameters, learning_rate=0.1))
    losses = [train() for _ in range(5)]
    derived = jax.jit(jax.value_and_grad(expected))
    for value in losses:
        wanted, gradients = derived(weights)
        np.testing.assert_allclose(value, wanted, rtol=1e-9)
        weights = jax.tree.map(lambda w, g: w - 0.1 * g, weights, gradients)
    assert losses[-1] < losses[0]


def test_the_gradient_of_a_small_network_is_right_to_second_order() -> None:
    x = wy.Parameter(distinct(4, 2))
    layer = MessagePassing(2, 2)
    check_grads(layer(x, np.array([0, 1, 2, 3, 0]), np.array([1, 2, 2, 0, 0])), [x])
