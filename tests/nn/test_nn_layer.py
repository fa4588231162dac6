from __future__ import annotations

import pickle
from typing import Any, assert_type

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import ShapeError


class Batch(wy.Dim): ...


class Features(wy.Dim): ...


class Hidden(wy.Dim): ...


class Classes(wy.Dim): ...


FEATURES, HIDDEN, CLASSES = Features(4), Hidden(3), Classes(2)
X = wy.Constant(np.linspace(-1.0, 1.0, 20).reshape(5, 4).astype(np.float32), (Batch(5), FEATURES))


def test_a_chain_applies_its_layers_in_order() -> None:
    first, second = wy.nn.Linear(FEATURES, HIDDEN), wy.nn.Linear(HIDDEN, CLASSES)
    network = first >> wy.nn.tanh >> second
    assert_type(network, wy.nn.Layer[Features, Classes])
    result = network(X)
    assert_type(result, wy.Tensor[Batch, Classes])
    assert result.dims == (Batch(5), CLASSES)
    np.testing.assert_array_equal(result.forward(), second(first(X).tanh()).forward())


def test_a_chain_finds_its_parameters_as_one_list() -> None:
    network = wy.nn.Linear(4, 3) >> (wy.nn.relu >> wy.nn.Linear(3, 3)) >> (wy.nn.Dropout(0.5) >> wy.nn.tanh)
    assert list(dict(network.named_parameters())) == [
        "layers.0.weight",
        "layers.0.bias",
        "layers.2.weight",
        "layers.2.bias",
    ]
    assert [type(module).__name__ for module in network.modules()] == [
        "Sequential", "Linear", "Activation", "Linear", "Dropout", "Activation",
    ]  # fmt: skip


def test_a_long_chain_is_no_deep_nest() -> None:
    network: wy.nn.Layer[Any, Any] = wy.nn.Linear(4, 4)
    for _ in range(1500):
        network = network >> wy.nn.relu
    assert len(repr(network).splitlines()) == 1502
    assert len(network.modules()) == 3
    assert network(X).shape == (5, 4)


def test_eval_reaches_the_dropout_in_a_chain() -> None:
    network = wy.nn.Linear(4, 100) >> wy.nn.Dropout(0.5)
    assert (network(X).forward() == 0.0).any()
    network.eval()
    assert not (network(X).forward() == 0.0).any()
    assert network.train().training


def test_what_keeps_every_axis_is_composed_too() -> None:
    both = wy.nn.relu >> wy.nn.Dropout(0.5)
    assert_type(both, wy.nn.Pointwise)
    assert_type(both(X), wy.Tensor[Batch, Features])
    assert both.eval()(X).dims == X.dims
    before = both >> wy.nn.Linear(FEATURES, HIDDEN)
    assert_type(before, wy.nn.Layer[Features, Hidden])
    assert before(X).dims == (Batch(5), HIDDEN)


def test_a_layer_of_ones_own_composes() -> None:
    class Residual(wy.nn.Layer[Features, Features]):
        def __init__(self) -> None:
            self.inner = wy.nn.Linear(FEATURES, HIDDEN) >> wy.nn.relu >> wy.nn.Linear(HIDDEN, FEATURES)

        def __call__(self, x: Any) -> Any:
            return x + self.inner(x)

    network = Residual() >> Residual() >> wy.nn.Linear(FEATURES, CLASSES)
    assert_type(network, wy.nn.Layer[Features, Classes])
    assert network(X).dims == (Batch(5), CLASSES)
    assert len(network.parameters()) == 10


def test_layers_that_do_not_fit_are_an_error() -> None:
    first, second = wy.nn.Linear(FEATURES, HIDDEN), wy.nn.Linear(FEATURES, CLASSES)
    network = first >> second  # type: ignore[operator]  # the mistake that mypy finds
    with pytest.raises(ShapeError, match=r"Hidden\(3\) against Features\(4\)"):
        network(X)


@pytest.mark.parametrize("name", ["relu", "gelu", "silu", "tanh", "sigmoid", "softplus"])
def test_activations_are_the_methods_of_nodes(name: str) -> None:
    module: wy.nn.Activation = getattr(wy.nn, name)
    np.testing.assert_array_equal(module(X).forward(), getattr(X, name)().forward())
    assert module.parameters() == []
    assert repr(module) == f"{name}()"


def test_an_activation_has_options() -> None:
    module = wy.nn.Activation("leaky_relu", negative_slope=0.5)
    np.testing.assert_array_equal(module(X).forward(), X.leaky_relu(0.5).forward())
    assert repr(module) == "leaky_relu(negative_slope=0.5)"


def test_activations_can_be_pickled() -> None:
    network = pickle.loads(pickle.dumps(wy.nn.Linear(4, 3) >> wy.nn.relu))
    assert network(X).shape == (5, 3)


def test_an_activation_that_is_no_method_is_an_error() -> None:
    with pytest.raises(ValueError, match="nodes have no method 'swoosh'"):
        wy.nn.Activation("swoosh")


def test_an_activation_that_is_no_method_but_an_attribute_is_an_error() -> None:
    with pytest.raises(ValueError, match="nodes have no method 'dims'"):
        wy.nn.Activation("dims")


def test_a_layer_without_a_call_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match=r"must define __call__\(self, x\)"):
        wy.nn.Layer[Features, Hidden]()(X)


def test_a_pointwise_module_without_a_call_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match=r"must define __call__\(self, x\)"):
        wy.nn.Pointwise()(X)


def test_composing_a_layer_with_something_else_is_an_error() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        wy.nn.Linear(4, 3) >> 3  # type: ignore[operator]


def test_composing_an_activation_with_something_else_is_an_error() -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        wy.nn.relu >> "tanh"  # type: ignore[operator]


def test_a_sequential_is_what_the_composition_makes() -> None:
    layers = wy.nn.Linear(4, 3), wy.nn.relu, wy.nn.Linear(3, 2)
    network = wy.nn.Sequential(*layers)
    np.testing.assert_array_equal(network(X).forward(), (layers[0] >> layers[1] >> layers[2])(X).forward())
    assert network.layers == layers
    assert wy.nn.Sequential(network, wy.nn.tanh).layers == (*layers, wy.nn.tanh)
    assert wy.nn.Sequential()(X) is X


def test_a_sequential_takes_any_module_that_can_be_called() -> None:
    class Doubled(wy.nn.Module):
        def __call__(self, x: Any) -> Any:
            return x * 2.0

    np.testing.assert_array_equal(wy.nn.Sequential(Doubled(), Doubled())(X).forward(), 4.0 * X.value)


@pytest.mark.parametrize("wrong", [[wy.nn.relu], lambda x: x, wy.nn.Module(), wy.nn.Linear])
def test_a_sequential_of_what_is_no_module_is_an_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"Sequential takes modules one by one, not .*: write Sequential\(\*layers\)"):
        wy.nn.Sequential(wrong)


def test_any_modules_compose() -> None:
    class Doubled(wy.nn.Module):
        def __call__(self, x: wy.Node) -> wy.Node:
            return x * 2.0

    model = wy.nn.Conv2d(1, 4, 3) >> wy.nn.AdaptiveAvgPool2d(1) >> wy.nn.Flatten() >> wy.nn.Linear(4, 3) >> Doubled()
    assert isinstance(model, wy.nn.Sequential)
    assert [type(layer).__name__ for layer in model.layers][-2:] == ["Linear", "Doubled"]
    assert model(wy.Input(dims=(5, 1, 8, 8))).shape == (5, 3)
    words = wy.nn.Embedding(9, 4) >> wy.nn.Linear(4, 2)
    assert words(wy.IndexInput(dims=(5, 6))).shape == (5, 6, 2)
    for before in (wy.nn.Linear(4, 3), wy.nn.relu, wy.nn.Flatten()):
        assert isinstance(before >> Doubled(), wy.nn.Sequential)
        with pytest.raises(TypeError, match="unsupported operand"):
            before >> np.tanh  # type: ignore[operator]  # a function is no module
