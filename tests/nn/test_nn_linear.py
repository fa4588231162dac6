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


class Classes(wy.Dim): ...


FEATURES, HIDDEN, CLASSES = Features(4), Hidden(3), Classes(2)
RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("leading", [(), (5,), (6, 5), (2, 6, 5), (0,)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_are_pytorchs(leading: tuple[int, ...], bias: bool) -> None:
    layer = wy.nn.Linear(4, 3, bias=bias, bias_initializer=wy.nn.initializers.Normal(), seed=1, dtype=np.float64)
    x = wy.Parameter(RANDOM.normal(size=(*leading, 4)))
    weights = RANDOM.normal(size=(*leading, 3))
    result = layer(x)
    assert result.shape == (*leading, 3)
    (result * weights).sum().backward()

    twin = torch.nn.Linear(4, 3, bias=bias, dtype=torch.float64)
    with torch.no_grad():
        twin.weight.copy_(torch.tensor(layer.weight.value.T))
        if layer.bias is not None:
            twin.bias.copy_(torch.tensor(layer.bias.value))
    inputs = torch.tensor(x.value, requires_grad=True)
    expected = twin(inputs)
    (expected * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(result.forward(), expected.detach().numpy(), rtol=1e-9)
    np.testing.assert_allclose(x.gradient, inputs.grad.numpy(), rtol=1e-9)
    np.testing.assert_allclose(layer.weight.gradient, twin.weight.grad.numpy().T, rtol=1e-9, atol=1e-12)
    if layer.bias is not None:
        np.testing.assert_allclose(layer.bias.gradient, twin.bias.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_gradients_to_second_order() -> None:
    layer = wy.nn.Linear(4, 3, seed=0, dtype=np.float64)
    check_grads(layer(wy.Parameter(RANDOM.normal(size=(2, 5, 4)))).tanh())


def test_named_axes_are_kept_for_every_number_of_leading_axes() -> None:
    layer = wy.nn.Linear(FEATURES, HIDDEN)
    assert_type(layer, wy.nn.Linear[Features, Hidden])
    batch = Batch()
    vector = layer(wy.Input(dims=(FEATURES,)))
    rows = layer(wy.Input(dims=(batch, FEATURES)))
    sequence = layer(wy.Input(dims=(batch, Time(6), FEATURES)))
    assert_type(vector, wy.Tensor[Hidden])
    assert_type(rows, wy.Tensor[Batch, Hidden])
    assert_type(sequence, wy.Tensor[Batch, Time, Hidden])
    assert vector.dims == (HIDDEN,)
    assert rows.dims == (batch, HIDDEN)
    assert sequence.dims == (batch, Time(6), HIDDEN)


def test_numbers_as_axes_are_unchecked_by_mypy_and_fit_named_ones() -> None:
    both, left, right = wy.nn.Linear(4, 3), wy.nn.Linear(4, HIDDEN), wy.nn.Linear(FEATURES, 3)
    assert_type(both, wy.nn.Linear[Any, Any])
    assert_type(left, wy.nn.Linear[Any, Hidden])
    assert_type(right, wy.nn.Linear[Features, Any])
    x = wy.Input(dims=(Batch(5), FEATURES))
    declared: wy.nn.Linear[Features, Hidden] = both
    wanted: wy.Tensor[Batch, Hidden] = declared(x) + both(x) + left(x) + right(x)
    assert wanted.dims == (Batch(5), HIDDEN)
    assert both(x).dims == (Batch(5), 3)


def test_input_of_an_unknown_shape_is_no_false_alarm() -> None:
    layer = wy.nn.Linear(FEATURES, HIDDEN)
    wanted: wy.Tensor[Batch, Hidden] = layer(wy.Input(dims=(5, 4)))
    assert wanted.shape == (5, 3)
    assert (layer(wy.Input(dims=(5, 4))) + layer(wy.Input(dims=(5, 4)))).relu().sum().shape == ()


def test_parameters_have_plain_names_and_the_layers_axes() -> None:
    layer = wy.nn.Linear(FEATURES, HIDDEN)
    assert layer.weight.dims == (FEATURES, HIDDEN) and layer.weight.name == "weight"
    assert layer.bias is not None
    assert layer.bias.dims == (HIDDEN,) and layer.bias.name == "bias"
    assert list(dict(layer.named_parameters())) == ["weight", "bias"]


def test_without_bias_there_is_one_parameter() -> None:
    layer = wy.nn.Linear(4, 3, bias=False, seed=0, dtype=np.float64)
    assert layer.bias is None
    assert list(dict(layer.named_parameters())) == ["weight"]
    x = np.ones((1, 4))
    np.testing.assert_allclose(layer(wy.Constant(x)).forward(), layer.weight.value.sum(0)[None])


def test_the_bias_starts_at_zero_and_the_weight_within_its_bound() -> None:
    layer = wy.nn.Linear(100, 50)
    assert layer.bias is not None and not layer.bias.value.any()
    bound = np.sqrt(6 / 150)
    assert 0.9 * bound < np.abs(layer.weight.value).max() <= bound


def test_initializers_may_be_chosen() -> None:
    constant = wy.nn.initializers.Constant
    layer = wy.nn.Linear(2, 3, initializer=constant(0.5), bias_initializer=constant(-1.0))
    assert layer.bias is not None
    assert (layer.weight.value == 0.5).all() and (layer.bias.value == -1.0).all()


def test_an_initializer_of_another_shape_is_an_error() -> None:
    def transposed(shape: tuple[int, ...], seed: Any, dtype: Any = None) -> Any:
        return np.zeros(shape[::-1])

    with pytest.raises(ShapeError, match=r"declared as \(2, 3\), but the array has shape \(3, 2\)"):
        wy.nn.Linear(2, 3, initializer=transposed)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype(dtype: Any) -> None:
    layer = wy.nn.Linear(4, 3, dtype=dtype)
    assert {parameter.dtype for parameter in layer.parameters()} == {np.dtype(dtype)}
    assert layer(wy.Input(dims=(5, 4), dtype=dtype)).dtype == dtype


def test_a_float64_layer_starts_where_its_float32_twin_does() -> None:
    narrow, wide = wy.nn.Linear(4, 3, seed=5), wy.nn.Linear(4, 3, seed=5, dtype=np.float64)
    np.testing.assert_array_equal(wide.weight.value.astype(np.float32), narrow.weight.value)


def test_one_layer_in_two_places_sums_its_gradients() -> None:
    layer = wy.nn.Linear(3, 3, seed=0)
    x = wy.Constant(np.ones((2, 3), np.float32))
    layer(layer(x)).sum().backward()
    assert len(layer.parameters()) == 2
    assert layer.bias is not None
    np.testing.assert_allclose(layer.bias.gradient, 2.0 * (layer.weight.value.sum(axis=1) + 1.0), rtol=1e-6)


def test_repr() -> None:
    assert repr(wy.nn.Linear(FEATURES, HIDDEN)) == "Linear(Features(4), Hidden(3))"
    assert repr(wy.nn.Linear(4, 3, bias=False)) == "Linear(4, 3, bias=False)"


def test_layers_in_the_wrong_order_are_an_error() -> None:
    hidden, output = wy.nn.Linear(FEATURES, HIDDEN), wy.nn.Linear(HIDDEN, CLASSES)
    x = wy.Input(dims=(Batch(), FEATURES), name="x")
    assert output(hidden(x)).dims == (Batch(), CLASSES)
    with pytest.raises(ShapeError, match=r"Features\(4\) against Hidden\(3\)") as error:
        hidden(output(x))  # type: ignore[arg-type]  # the mistake that mypy finds
    assert "weight (Hidden(3), Classes(2)) float32" in str(error.value)
    assert "hidden(output(x))" in str(error.value)


def test_equal_sizes_of_different_names_are_an_error() -> None:
    layer = wy.nn.Linear(FEATURES, HIDDEN)
    x = wy.Input(dims=(Batch(5), Classes(4)))
    with pytest.raises(ShapeError, match="equal sizes, different names"):
        layer(x)  # type: ignore[arg-type]  # the mistake that mypy finds


def test_a_scalar_is_an_error() -> None:
    with pytest.raises(ShapeError, match="operands must have at least one axis"):
        wy.nn.Linear(4, 3)(wy.Input())  # type: ignore[arg-type]  # the mistake that mypy finds


def test_another_float_type_is_an_error() -> None:
    with pytest.raises(DTypeError, match=r"float64.*float32"):
        wy.nn.Linear(4, 3)(wy.Input(dims=(5, 4), dtype=np.float64))


def test_integers_as_input_are_an_error() -> None:
    with pytest.raises(DTypeError, match="holds integers"):
        wy.nn.Linear(4, 3)(wy.IndexInput(dims=(5, 4)))  # type: ignore[arg-type]  # the mistake that mypy finds


def test_swapped_axes_are_a_static_error() -> None:
    wrong: wy.nn.Linear[Features, Hidden] = wy.nn.Linear(HIDDEN, FEATURES)  # type: ignore[arg-type]
    assert repr(wrong) == "Linear(Hidden(3), Features(4))"


def test_an_input_axis_without_a_size_is_an_error() -> None:
    with pytest.raises(ShapeError, match=r"Linear: in_features is Features\(\).*as in Features\(32\)"):
        wy.nn.Linear(Features(), HIDDEN)


def test_an_output_axis_without_a_size_is_an_error() -> None:
    with pytest.raises(ShapeError, match=r"Linear: out_features is Hidden\(\).*as in Hidden\(32\)"):
        wy.nn.Linear(FEATURES, Hidden())


def test_a_class_as_axis_is_an_error() -> None:
    with pytest.raises(DTypeError, match=r"in_features is the class Features.*as in Features\(32\)"):
        wy.nn.Linear(Features, HIDDEN)  # type: ignore[arg-type]  # the mistake


def test_a_negative_axis_is_an_error() -> None:
    with pytest.raises(ShapeError, match="out_features must be at least 1, not -3"):
        wy.nn.Linear(4, -3)


def test_a_fraction_as_axis_is_an_error() -> None:
    with pytest.raises(DTypeError, match=r"in_features must be a Dim or an integer, not 4\.5"):
        wy.nn.Linear(4.5, 3)  # type: ignore[arg-type]  # the mistake


def test_a_truth_value_as_axis_is_an_error() -> None:
    with pytest.raises(DTypeError, match="must be a Dim or an integer, not True"):
        wy.nn.Linear(4, True)


def test_another_dtype_is_an_error() -> None:
    with pytest.raises(DTypeError, match="float32"):
        wy.nn.Linear(4, 3, dtype=np.int64)


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        wy.nn.Linear(4, 3, biases=False)  # type: ignore[call-arg]  # the mistake that mypy finds


IMAGE: Any = wy.Input(dims=(wy.Dim(), 32, 7, 7), name="image")


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            32,
            r"Linear: in_features, 32, is axis 1 of image .*, not the last axis; use x\.mean\(axis=\(-2, -1\)\) or",
        ),
        (1568, r"Linear: in_features, 1568, are all elements of a row of image .*: use x\.flatten\(1\)"),
    ],
)
def test_an_image_is_no_row(features: int, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        wy.nn.Linear(features, 10)(IMAGE)
    assert wy.nn.Linear(32, 10)(IMAGE.mean(axis=(-2, -1))).shape[1] == 10
    assert wy.nn.Linear(1568, 10)(IMAGE.flatten(1)).shape[1] == 10
