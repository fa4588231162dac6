"""Summaries: layers, axes and parameters of models, and FLOPs as PyTorch counts them."""

from __future__ import annotations

from typing import Any

import pytest

import wyrm as wy
from tests.pytorch import flop_counter, torch
from wyrm.errors import OptionError
from wyrm.ops.convolution.convolution import Convolution, ConvolutionInputGradient, ConvolutionOptions


class Batch(wy.Dim): ...


def torch_flops(model: Any, *shape: int) -> int:
    with flop_counter.FlopCounterMode(display=False) as counter:
        model(torch.zeros(shape))
    return int(counter.get_total_flops())


def test_a_perceptron() -> None:
    model = wy.nn.Linear(784, 128) >> wy.nn.relu >> wy.nn.Linear(128, 10)
    x = wy.Input(dims=(Batch(), 784), name="x")
    found = wy.summary(model, x)
    assert [(row.name, row.kind, row.parameters) for row in found.rows] == [
        ("layers.0", "Linear", 784 * 128 + 128),
        ("layers.2", "Linear", 128 * 10 + 10),
    ]
    theirs = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    assert found.flops == torch_flops(theirs, 1, 784) and found.sizes == {"Batch": 1}
    assert wy.summary(model, x, sizes={Batch: 32}).flops == torch_flops(theirs, 32, 784)
    assert found.parameters == sum(parameter.numel() for parameter in theirs.parameters())


def test_a_convolution() -> None:
    x = wy.Input(dims=(Batch(), 4, 13, 11))
    weight = wy.Parameter.zeros((6, 2, 3, 3))
    options: ConvolutionOptions = {"stride": (2, 2), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 2}
    theirs = torch.nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2, bias=False)
    assert wy.summary(Convolution(x, weight, **options)).flops == torch_flops(theirs, 1, 4, 13, 11)
    back = wy.Input(dims=(Batch(), 6, 7, 6))
    transposed = ConvolutionInputGradient(back, weight, sizes=(13, 11), **options)
    back_theirs = torch.nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, groups=2, bias=False)
    assert wy.summary(transposed).flops == torch_flops(back_theirs, 1, 6, 7, 6)


def test_attention_is_between_layers() -> None:
    attention = wy.nn.MultiHeadAttention(32, 4)
    found = wy.summary(attention, wy.Input(dims=(2, 9, 32)))
    products = 2 * 2 * 9 * 32 * (3 * 32 + 32)
    assert found.rows[-1].name == "(between layers)" and found.rows[-1].flops == 4 * 2 * 9 * 9 * 32
    assert found.flops == products + 4 * 2 * 9 * 9 * 32


def test_recurrent_layers() -> None:
    x = wy.Input(dims=(3, 6, 5))
    found = wy.summary(wy.nn.LSTM(5, 7), x)
    assert found.flops == 2 * 3 * 6 * (5 + 7) * 4 * 7 and not found.uncounted


def test_a_loop_counts_each_step() -> None:
    weight = wy.Parameter.zeros((4, 4), name="weight")
    xs = wy.Input(dims=(10, 4), name="xs")

    def step(state: Any, x: Any) -> Any:
        following = (state @ weight + x).tanh()
        return following, following

    _, states = wy.scan(step, wy.zeros((4,)), xs)
    found = wy.summary(states)
    assert [(row.name, row.flops) for row in found.rows] == [("weight", 10 * 2 * 4 * 4)]


def test_a_shared_and_a_nested_parameter() -> None:
    class Model(wy.nn.Module):
        def __init__(self) -> None:
            self.scale = wy.Parameter.zeros((3,), name="scale")
            self.blocks = [wy.nn.Linear(3, 3), wy.nn.Linear(3, 3, bias=False)]
            self.blocks[1].weight = self.blocks[0].weight
            self.loose = {"shift": wy.Parameter.zeros((3,), name="shift")}

        def __call__(self, x: Any) -> list[Any]:
            return [self.blocks[1](self.blocks[0](x)) * self.scale + self.loose["shift"]]

    model = Model()
    found = wy.summary(model, wy.Input(dims=(1, 3)))
    assert [(row.name, row.axes) for row in found.rows] == [
        ("(model)", "scale (3,), loose.shift (3,)"),
        ("blocks.0", "weight (3, 3), bias (3,)"),
    ]
    assert found.parameters == sum(parameter.size for parameter in model.parameters())
    assert found.flops == 2 * (2 * 3 * 3)


def test_the_table_of_a_model_without_inputs_has_no_flops() -> None:
    text = str(wy.summary(wy.nn.Linear(2, 3)))
    assert text.splitlines()[2] == "(model)  Linear  weight (2, 3), bias (3,)           9"
    assert "FLOPs:" not in text
    assert wy.summary(wy.nn.Linear(2, 3)).flops is None


def test_what_has_no_formula_is_named() -> None:
    x = wy.Input(dims=(2, 3, 5))
    loss = wy.nn.LSTM(5, 7)(x)[0].sum()
    gradients = wy.grad(loss, loss.parameters())
    found = wy.summary(gradients)
    assert found.uncounted == ("lstm_gradient",) and "not counted: lstm_gradient" in str(found)


def test_wrong_arguments() -> None:
    untyped: Any = wy.summary
    x = wy.Input(dims=(3, 2))
    with pytest.raises(OptionError, match=r"Batch is not an open axis .* none"):
        wy.summary(wy.nn.Linear(2, 3), x, sizes={Batch: 4})
    with pytest.raises(TypeError, match="not of float"):
        untyped(3.0)
    with pytest.raises(TypeError, match="a node has its graph already"):
        untyped(x.sum(), x)
