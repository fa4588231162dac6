"""Activations against PyTorch, and under vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.against_torch import check_against_torch
from tests.pytorch import functional, torch
from tests.samples.sample import distinct
from wyrm.errors import ShapeError

CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "relu6": (wy.nn.relu6, functional.relu6),
    "mish": (wy.nn.mish, functional.mish),
    "selu": (wy.nn.selu, functional.selu),
    "elu": (wy.nn.elu, functional.elu),
    "celu": (wy.nn.celu, functional.celu),
    "celu-alpha": (lambda x: x.celu(0.5), lambda x: functional.celu(x, 0.5)),
    "leaky_relu": (wy.nn.leaky_relu, functional.leaky_relu),
    "hardswish": (wy.nn.hardswish, functional.hardswish),
    "hardsigmoid": (wy.nn.hardsigmoid, lambda x: functional.relu6(x + 3) / 6),
    "hardtanh": (wy.nn.hardtanh, functional.hardtanh),
    "hardtanh-bounds": (lambda x: x.hardtanh(-0.4, 2.0), lambda x: functional.hardtanh(x, -0.4, 2.0)),
    "softsign": (wy.nn.softsign, functional.softsign),
    "log_sigmoid": (wy.nn.log_sigmoid, functional.logsigmoid),
    "glu": (wy.nn.glu, functional.glu),
    "glu-axis": (lambda x: x.reshape((6, 5, 2)).glu(axis=0), lambda x: functional.glu(x.reshape(6, 5, 2), 0)),
    "swiglu": (wy.nn.swiglu, lambda x: x.chunk(2, -1)[0] * functional.silu(x.chunk(2, -1)[1])),
    "geglu": (wy.nn.geglu, lambda x: x.chunk(2, -1)[0] * functional.gelu(x.chunk(2, -1)[1])),
    "reglu": (wy.nn.reglu, lambda x: x.chunk(2, -1)[0] * functional.relu(x.chunk(2, -1)[1])),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_pytorchs(name: str) -> None:
    ours, theirs = CASES[name]
    check_against_torch(ours, theirs, [distinct(3, 20) * 0.8])


@pytest.mark.parametrize("name", ["relu6", "mish", "selu", "celu", "hardswish", "softsign", "log_sigmoid"])
def test_vmap_is_the_activation_of_all_rows(name: str) -> None:
    x = distinct(3, 8)
    function = CASES[name][0]
    np.testing.assert_allclose(wy.vmap(lambda row: function(row))(x), function(wy.Constant(x)).forward(), rtol=1e-12)


@pytest.mark.parametrize("name", ["mish", "log_sigmoid", "selu", "celu", "hardswish", "softsign"])
def test_large_values_stay_finite(name: str) -> None:
    x = wy.Parameter(np.array([-1e4, 1e4], np.float32))
    value = CASES[name][0](x)
    assert np.isfinite(value.forward()).all()
    assert np.isfinite(wy.grad(value.sum(), x).forward()).all()


def test_the_derivative_of_relu6_at_0_is_0_like_that_of_relu() -> None:
    x = wy.Parameter(0.0)
    assert wy.grad(x.relu6(), x).forward() == 0.0


def test_prelu_has_one_slope_or_one_for_each_feature() -> None:
    x, slopes = distinct(4, 3, 5), np.array([0.1, 0.5, -0.3])

    def channels(x: Any, slope: Any) -> Any:
        layer = wy.nn.PReLU(3, axis=1, dtype=np.float64)
        layer.weight = slope
        return layer(x)

    check_against_torch(channels, functional.prelu, [x, slopes])
    layer = wy.nn.PReLU(dtype=np.float64)
    expected = functional.prelu(torch.tensor(x), torch.tensor([0.25], dtype=torch.float64))
    np.testing.assert_allclose(layer(wy.Constant(x)).forward(), expected.numpy())
    with pytest.raises(ShapeError, match=r"PReLU: axis 1 of constant .* is not features: 4 against 3"):
        wy.nn.PReLU(3, axis=1)(wy.Constant(np.zeros((2, 4))))
    with pytest.raises(ShapeError, match=r"PReLU: nothing says which axis of constant .* give axis=1"):
        wy.nn.PReLU(3)(wy.Constant(np.zeros((2, 3, 3))))


def test_the_gated_feed_forward_layer_is_its_formula() -> None:
    layer = wy.nn.GatedFeedForward(4, 6, activation=wy.nn.gelu, bias=True, dtype=np.float64)
    x = distinct(2, 3, 4)
    weights = [(p.weight.value, p.bias.value) for p in (layer.gate, layer.value, layer.output) if p.bias is not None]

    def expected(x: Any) -> Any:
        (gate, gate_bias), (value, value_bias), (output, output_bias) = (
            (torch.tensor(w), torch.tensor(b)) for w, b in weights
        )
        return (functional.gelu(x @ gate + gate_bias) * (x @ value + value_bias)) @ output + output_bias

    check_against_torch(layer, expected, [x])


def test_an_axis_of_odd_size_has_no_halves() -> None:
    with pytest.raises(ShapeError, match="even size"):
        wy.Constant(np.zeros((2, 3))).glu()
