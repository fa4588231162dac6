"""Modules as arguments and results of functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy


class Model(wy.nn.Module):
    def __init__(self) -> None:
        self.hidden: wy.nn.Linear[Any, Any] = wy.nn.Linear(3, 4, seed=0)
        self.rest = [wy.nn.Linear(4, 4, seed=1), wy.nn.Linear(4, 1, seed=2)]
        self.dropout = wy.nn.Dropout(0.5)

    def __call__(self, x: Any) -> Any:
        x = self.dropout(self.hidden(x).tanh())
        for layer in self.rest:
            x = layer(x)
        return x


X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)


@pytest.fixture(params=["reference", "native"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_the_gradient_by_a_module_is_a_module(engine: Any) -> None:
    model = Model()
    model.eval()
    loss = wy.function(lambda model, x: model(x).square().mean(), engine=engine)
    value, gradient = loss.value_and_grad()(model, X)
    expected = model(wy.Constant(X)).square().mean()
    np.testing.assert_allclose(value, expected.forward(), rtol=1e-6)
    expected.backward()
    assert isinstance(gradient, Model)
    assert list(dict(gradient.named_parameters())) == list(dict(model.named_parameters()))
    for name, parameter in model.named_parameters():
        found = dict(gradient.named_parameters())[name]
        assert found.dims == parameter.dims
        np.testing.assert_allclose(found.value, parameter.gradient, rtol=1e-5, atol=1e-7)


def test_a_call_takes_the_parameters_as_they_are_then(engine: Any) -> None:
    model = Model()
    model.eval()
    total = wy.function(lambda model: model.hidden.weight.sum(), engine=engine)
    before = float(total(model))
    model.hidden.weight.set(model.hidden.weight.value + 1.0)
    assert float(total(model)) == pytest.approx(before + 12.0, rel=1e-5)


def test_training_by_functions_alone() -> None:
    model, target = Model(), X.sum(axis=1, keepdims=True)
    model.eval()
    loss = wy.function(lambda model, x, y: (model(x) - y).square().mean(), engine="native").value_and_grad()
    losses = []
    for _ in range(200):
        value, gradient = loss(model, X, target)
        losses.append(float(value))
        for parameter, slope in zip(model.parameters(), gradient.parameters(), strict=True):
            parameter.set(parameter.value - 0.05 * slope.value)
    assert losses[-1] < 0.05 * losses[0]


def test_training_and_evaluating_are_different_traces() -> None:
    model = Model()
    traces = []

    @wy.function
    def run(model: Any, x: Any) -> Any:
        traces.append(model.training)
        return model(x)

    run(model, X)
    run(model.eval(), X)
    run(model, X)
    assert traces == [True, False]


def test_parameters_that_are_shared_stay_so() -> None:
    model = Model()
    model.rest[1] = model.rest[0]
    model.eval()
    gradient = wy.function(lambda model, x: model(x).sum()).grad()(model, X)
    assert gradient.rest[0].weight is gradient.rest[1].weight
    assert len(gradient.parameters()) == 4


def test_a_part_of_a_module_is_an_argument_too() -> None:
    model = Model()
    inner = wy.function(lambda layer, x: layer(x).sum())
    outer = wy.function(lambda model, x: inner.grad()(model.hidden, x).weight.square().sum())
    expected = 4.0 * float((X.sum(axis=0) ** 2).sum())
    assert float(outer(model, X)) == pytest.approx(expected, rel=1e-5)


def test_the_second_order_by_a_module() -> None:
    model = Model()
    model.eval()
    loss = wy.function(lambda model, x: model(x).square().mean())
    curvature = wy.function(lambda model, x: loss.grad()(model, x).hidden.weight.square().sum())
    gradient = curvature.grad()(model, X)
    direction = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    shift = 1e-2
    values = []
    for sign in (1.0, -1.0):
        weight = model.hidden.weight.value
        model.hidden.weight.set(weight + sign * shift * direction)
        values.append(float(curvature(model, X)))
        model.hidden.weight.set(weight)
    slope = (values[0] - values[1]) / (2.0 * shift)
    assert slope == pytest.approx(float((gradient.hidden.weight.value * direction).sum()), rel=2e-2)


def test_parameters_of_an_argument_are_counted() -> None:
    layer = wy.nn.Linear(3, 2, dtype=np.float64)

    @wy.function
    def penalty(model: Any) -> Any:
        total = sum((p.square().sum() for p in model.parameters()), wy.Constant(0.0, dtype=np.float64))
        return total + sum(p.sum() for p in model.parameters())

    expected = sum(np.square(p.value).sum() + p.value.sum() for p in layer.parameters())
    np.testing.assert_allclose(penalty(layer), expected, rtol=1e-12)
    np.testing.assert_allclose(penalty.grad()(layer).weight.value, 2.0 * layer.weight.value + 1.0, rtol=1e-12)
