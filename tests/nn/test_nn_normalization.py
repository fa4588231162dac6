from __future__ import annotations

from typing import Any, assert_type

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import DTypeError, ShapeError
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


class Features(wy.Dim): ...


class Hidden(wy.Dim): ...


FEATURES, HIDDEN = Features(4), Hidden(3)
RANDOM = np.random.default_rng(0)


def module(kind: str, features: Any, **options: Any) -> Any:
    if kind == "rms":
        return wy.nn.RMSNorm(features, **options)
    return wy.nn.LayerNorm(features, bias=kind == "layer", **options)


def pytorch(kind: str, epsilon: float) -> Any:
    if kind == "rms":
        return torch.nn.RMSNorm(4, eps=epsilon, dtype=torch.float64)
    return torch.nn.LayerNorm(4, eps=epsilon, bias=kind == "layer", dtype=torch.float64)


@pytest.mark.parametrize("leading", [(), (5,), (6, 5), (2, 6, 5), (0,)])
@pytest.mark.parametrize("kind", ["layer", "layer-without-bias", "rms"])
def test_values_and_gradients_are_pytorchs(kind: str, leading: tuple[int, ...]) -> None:
    layer, twin = module(kind, 4, epsilon=1e-3, dtype=np.float64), pytorch(kind, 1e-3)
    assert [name for name, _ in layer.named_parameters()] == [name for name, _ in twin.named_parameters()]
    for name, parameter in twin.named_parameters():
        ours = dict(layer.named_parameters())[name]
        np.testing.assert_array_equal(ours.value, parameter.detach().numpy())
        ours.set(RANDOM.normal(size=4))
        with torch.no_grad():
            parameter.copy_(torch.tensor(ours.value))
    x, weights = wy.Parameter(RANDOM.normal(size=(*leading, 4))), RANDOM.normal(size=(*leading, 4))
    result = layer(x)
    (result * weights).sum().backward()
    inputs = torch.tensor(x.value, requires_grad=True)
    expected = twin(inputs)
    (expected * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(result.forward(), expected.detach().numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(x.gradient, inputs.grad.numpy(), rtol=1e-9, atol=1e-12)
    for name, parameter in twin.named_parameters():
        ours = dict(layer.named_parameters())[name]
        np.testing.assert_allclose(ours.gradient, parameter.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["layer", "layer-without-bias", "rms"])
def test_gradients_to_second_order(kind: str) -> None:
    check_grads(module(kind, 4, dtype=np.float64)(wy.Parameter(RANDOM.normal(size=(2, 3, 4)))).tanh())


def test_named_axes_are_kept_for_every_number_of_leading_axes() -> None:
    layer, root = wy.nn.LayerNorm(FEATURES), wy.nn.RMSNorm(FEATURES)
    assert_type(layer, wy.nn.LayerNorm[Features])
    assert_type(root, wy.nn.RMSNorm[Features])
    row, rows = wy.Input(dims=(FEATURES,)), wy.Input(dims=(Batch(), FEATURES))
    sequence = wy.Input(dims=(Batch(), Time(6), FEATURES))
    assert_type(layer(row), wy.Tensor[Features])
    assert_type(layer(rows), wy.Tensor[Batch, Features])
    assert_type(root(sequence), wy.Tensor[Batch, Time, Features])
    assert layer(row).dims == (FEATURES,)
    assert layer(rows).dims == (Batch(), FEATURES)
    assert root(sequence).dims == (Batch(), Time(6), FEATURES)


def test_numbers_as_axes_are_unchecked_by_mypy_and_fit_named_ones() -> None:
    layer, root = wy.nn.LayerNorm(4), wy.nn.RMSNorm(4)
    assert_type(layer, wy.nn.LayerNorm[Any])
    assert_type(root, wy.nn.RMSNorm[Any])
    x = wy.Input(dims=(Batch(5), FEATURES))
    declared: wy.nn.LayerNorm[Features] = layer
    wanted: wy.Tensor[Batch, Features] = declared(x) + layer(x) + root(x)
    assert wanted.dims == (Batch(5), FEATURES)


def test_input_of_an_unknown_shape_is_no_false_alarm() -> None:
    wanted: wy.Tensor[Batch, Features] = wy.nn.LayerNorm(FEATURES)(wy.Input(dims=(5, 4)))
    assert wanted.shape == (5, 4)


def test_they_are_layers_that_compose() -> None:
    network = wy.nn.Linear(FEATURES, HIDDEN) >> wy.nn.LayerNorm(HIDDEN) >> wy.nn.relu >> wy.nn.RMSNorm(HIDDEN)
    assert_type(network, wy.nn.Layer[Features, Hidden])
    assert network(wy.Input(dims=(5, 4))).shape == (5, 3)
    # The mistake that mypy finds.
    wrong = wy.nn.Linear(FEATURES, HIDDEN) >> wy.nn.LayerNorm(FEATURES)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"Hidden\(3\) against Features\(4\)"):
        wrong(wy.Input(dims=(5, 4)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_dtype(kind: str, dtype: Any) -> None:
    layer = module(kind, 4, dtype=dtype)
    assert {parameter.dtype for parameter in layer.parameters()} == {np.dtype(dtype)}
    assert layer(wy.Input(dims=(5, 4), dtype=dtype)).dtype == dtype


def test_parameters_have_plain_names_and_the_layers_axis() -> None:
    layer = wy.nn.LayerNorm(FEATURES)
    assert layer.bias is not None
    assert layer.weight.dims == layer.bias.dims == (FEATURES,)
    assert (layer.weight.name, layer.bias.name) == ("weight", "bias")
    assert wy.nn.LayerNorm(FEATURES, bias=False).bias is None


def test_epsilon_may_be_chosen() -> None:
    x = wy.Constant([[1.0, 3.0]])
    np.testing.assert_allclose(wy.nn.LayerNorm(2, epsilon=3.0)(x).forward(), [[-0.5, 0.5]])
    np.testing.assert_allclose(wy.nn.RMSNorm(2, 11.0)(x).forward(), [[0.25, 0.75]])


def test_repr() -> None:
    assert repr(wy.nn.LayerNorm(FEATURES)) == "LayerNorm(Features(4))"
    assert repr(wy.nn.LayerNorm(4, 1e-6, bias=False)) == "LayerNorm(4, epsilon=1e-06, bias=False)"
    assert repr(wy.nn.RMSNorm(FEATURES)) == "RMSNorm(Features(4))"
    assert repr(wy.nn.RMSNorm(4, epsilon=0.5)) == "RMSNorm(4, epsilon=0.5)"


def test_another_axis_is_an_error() -> None:
    layer, root = wy.nn.LayerNorm(FEATURES), wy.nn.RMSNorm(FEATURES)
    x = wy.Input(dims=(Batch(), HIDDEN), name="x")
    with pytest.raises(ShapeError, match=r"Hidden\(3\) against Features\(4\)") as error:
        layer(x)  # type: ignore[arg-type]  # the mistake that mypy finds
    assert "layer(x)" in str(error.value)
    with pytest.raises(ShapeError, match="equal sizes, different names"):
        root(wy.Input(dims=(Batch(), Hidden(4))))  # type: ignore[arg-type]  # the mistake that mypy finds
    with pytest.raises(ShapeError, match="is a scalar"):
        root(wy.Input())  # type: ignore[arg-type]  # the mistake that mypy finds


def test_another_float_type_is_an_error() -> None:
    with pytest.raises(DTypeError, match="do not mix"):
        wy.nn.LayerNorm(4)(wy.Input(dims=(5, 4), dtype=np.float64))


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_what_is_no_axis_epsilon_or_dtype_is_an_error(kind: str) -> None:
    with pytest.raises(ShapeError, match=r"Norm: features is Features\(\).*as in Features\(32\)"):
        module(kind, Features())
    with pytest.raises(DTypeError, match="features is the class Features"):
        module(kind, Features)
    with pytest.raises(ShapeError, match="features must be at least 1, not -3"):
        module(kind, -3)
    with pytest.raises(DTypeError, match="Norm: epsilon must be a number, not '1'"):
        module(kind, 4, epsilon="1")
    with pytest.raises(ValueError, match="Norm: epsilon must be finite and at least 0, not -1"):
        module(kind, 4, epsilon=-1.0)
    with pytest.raises(DTypeError, match="float32"):
        module(kind, 4, dtype=np.int64)
