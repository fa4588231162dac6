"""GRU layers, and stacks of GRU and LSTM layers, against PyTorch."""

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


FEATURES, HIDDEN = Features(3), Hidden(4)
TOLERANCE = {np.float32: 1e-5, np.float64: 1e-9}


def load(ours: Any, theirs: Any, suffix: str) -> None:
    """Copy the parameters of one of our layers to one layer and direction of PyTorch's."""
    bias = ours.bias.value
    recurrent_bias = np.zeros_like(bias)
    if isinstance(ours, wy.nn.GRU):
        recurrent_bias[-len(ours.recurrent_bias.value) :] = ours.recurrent_bias.value
    values = {
        "weight_ih": ours.input_weight.value.T,
        "weight_hh": ours.recurrent_weight.value.T,
        "bias_ih": bias,
        "bias_hh": recurrent_bias,
    }
    with torch.no_grad():
        for name, value in values.items():
            getattr(theirs, f"{name}_{suffix}").copy_(torch.tensor(value.copy()))


def parameter(dtype: Any, *shape: int) -> wy.Parameter[Any]:
    return wy.Parameter(np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype))


def same(ours: Any, theirs: Any, dtype: Any) -> None:
    np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("steps", [1, 7, 70])
def test_values_and_gradients_are_pytorchs(dtype: Any, steps: int) -> None:
    gru = wy.nn.GRU(3, 4, seed=0, dtype=dtype)
    other = torch.nn.GRU(3, 4, batch_first=True, dtype=getattr(torch, np.dtype(dtype).name))
    load(gru, other, "l0")
    x, start = parameter(dtype, 5, steps, 3), parameter(dtype, 5, 4)
    sequence, state = gru(x, start)
    loss = sequence.square().mean() + state.sum()
    leaves = [x, start, *gru.parameters()]
    gradients = wy.grad(loss, leaves)

    tensors = [torch.tensor(leaf.value, requires_grad=True) for leaf in (x, start)]
    their_sequence, their_state = other(tensors[0], tensors[1][None])
    ((their_sequence**2).mean() + their_state.sum()).backward()
    expected = [
        tensors[0].grad, tensors[1].grad, other.weight_ih_l0.grad.T, other.weight_hh_l0.grad.T, other.bias_ih_l0.grad,
        other.bias_hh_l0.grad[-4:],
    ]  # fmt: skip
    same(sequence.forward(), their_sequence, dtype)
    same(state.forward(), their_state[0], dtype)
    compiled = wy.compile([sequence, *gradients])()
    same(compiled[0], their_sequence, dtype)
    for gradient, native, theirs in zip(gradients, compiled[1:], expected, strict=True):
        same(gradient.forward(), theirs, dtype)
        same(native, theirs, dtype)


def test_a_reset_starts_a_new_sequence_in_the_same_row() -> None:
    gru = wy.nn.GRU(3, 4, seed=0, dtype=np.float64)
    x, start = parameter(np.float64, 1, 6, 3), parameter(np.float64, 1, 4)
    reset = wy.Input(np.array([[False, False, True, False, False, False]]))
    joined = gru(x, start, reset)
    apart = wy.concatenate([gru(x[:, :2], start).sequence, gru(x[:, 2:]).sequence], axis=1)
    np.testing.assert_allclose(joined.sequence.forward(), apart.forward(), rtol=1e-12)
    leaves = [x, start, *gru.parameters()]
    ours, theirs = (wy.grad(node.square().sum(), leaves) for node in (joined.sequence, apart))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.forward(), other.forward(), rtol=1e-9, atol=1e-12)


def test_gradients_to_second_order() -> None:
    gru = wy.nn.GRU(2, 2, seed=0, dtype=np.float64)
    reset = wy.Input(np.array([[False, True, False], [False, False, True]]))
    check_grads(gru(parameter(np.float64, 2, 3, 2), reset=reset).sequence.square().sum())


def test_a_cell_step_by_step_is_the_layer_over_the_sequence() -> None:
    gru, cell = wy.nn.GRU(3, 4, seed=0, dtype=np.float64), wy.nn.GRUCell(3, 4, seed=0, dtype=np.float64)
    x = parameter(np.float64, 2, 4, 3)
    state = cell(x[:, 0])
    for t in range(1, 4):
        state = cell(x[:, t], state)
    np.testing.assert_allclose(state.forward(), gru(x).state.forward(), rtol=1e-12)
    last, states = wy.scan(
        lambda h, row: (cell(row, h), cell(row, h)), wy.Constant(np.zeros((2, 4))), x.transpose(1, 0, 2)
    )
    np.testing.assert_allclose(last.forward(), state.forward(), rtol=1e-12)
    np.testing.assert_allclose(states.forward(), gru(x).sequence.forward().transpose(1, 0, 2), rtol=1e-12)


def test_vmap_is_a_loop_over_sequences() -> None:
    gru = wy.nn.GRU(3, 4, seed=0, dtype=np.float64)
    x = np.random.default_rng(0).normal(size=(3, 2, 5, 3))
    mapped = wy.vmap(lambda row: gru(row).sequence)(x)
    for row, values in zip(x, mapped, strict=True):
        np.testing.assert_allclose(values, gru(wy.Constant(row)).sequence.forward(), rtol=1e-12)


def test_batch_and_time_get_their_sizes_from_the_data() -> None:
    gru = wy.nn.GRU(FEATURES, HIDDEN, seed=0)
    other = torch.nn.GRU(3, 4, batch_first=True)
    load(gru, other, "l0")
    x = wy.Input(dims=(Batch(), Time(), FEATURES))
    loss = gru(x).state.square().sum()
    for batch, steps in ((2, 5), (3, 1), (1, 8)):
        x.set(np.random.default_rng(0).normal(size=(batch, steps, 3)))
        expected, _ = other(torch.tensor(x.value))
        np.testing.assert_allclose(loss.forward(), (expected[:, -1] ** 2).sum().item(), rtol=1e-5)
        loss.backward()
    assert gru.recurrent_weight.gradient.any()


def test_axes_are_typed_and_kept() -> None:
    batch = Batch()
    gru = wy.nn.GRU(FEATURES, HIDDEN)
    assert_type(gru, wy.nn.GRU[Features, Hidden])
    x = wy.Input(dims=(batch, Time(5), FEATURES))
    sequence, state = gru(x)
    assert_type(sequence, wy.Tensor[Batch, Time, Hidden])
    assert_type(state, wy.Tensor[Batch, Hidden])
    assert sequence.dims == (batch, Time(5), HIDDEN)
    assert state.dims == (batch, HIDDEN)
    assert_type(wy.nn.GRUCell(FEATURES, HIDDEN)(wy.Input(dims=(batch, FEATURES))), wy.Tensor[Batch, Hidden])
    stacked = wy.nn.StackedLSTM(FEATURES, HIDDEN, num_layers=2)
    assert_type(stacked(x).sequence, wy.Tensor[Batch, Time, Hidden])
    assert_type(stacked(x).states[0], wy.nn.LSTMState[Batch, Hidden])
    both = wy.nn.StackedGRU(FEATURES, HIDDEN, bidirectional=True)
    assert_type(both(x).sequence, wy.Tensor[Batch, Time, Any])
    assert_type(both(x).states[0], wy.Tensor[Batch, Hidden])
    assert both(x).sequence.dims[:2] == (batch, Time(5)) and int(both(x).sequence.dims[2]) == 8


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
@pytest.mark.parametrize(("num_layers", "bidirectional"), [(1, True), (2, False), (3, True)])
def test_stacks_are_pytorchs(kind: str, num_layers: int, bidirectional: bool) -> None:
    stack: Any = getattr(wy.nn, f"Stacked{kind}")(
        3, 4, num_layers, bidirectional=bidirectional, seed=0, dtype=np.float64
    )
    other: Any = getattr(torch.nn, kind)(
        3, 4, num_layers, batch_first=True, bidirectional=bidirectional, dtype=torch.float64
    )
    for i in range(num_layers):
        load(stack.forward_layers[i], other, f"l{i}")
        if bidirectional:
            load(stack.backward_layers[i], other, f"l{i}_reverse")
    count = num_layers * (1 + bidirectional)
    x, starts = parameter(np.float64, 5, 6, 3), [parameter(np.float64, 5, 4) for _ in range(2 * count)]
    states = starts[:count] if kind == "GRU" else list(map(wy.nn.LSTMState, starts[:count], starts[count:]))
    sequence, last = stack(x, states)
    hidden = [state if kind == "GRU" else state.hidden for state in last]

    tensor = torch.tensor(x.value, requires_grad=True)
    theirs = torch.tensor(np.stack([start.value for start in starts[:count]]))
    their_sequence, their_last = other(tensor, theirs if kind == "GRU" else (theirs, theirs))
    their_hidden = their_last if kind == "GRU" else their_last[0]
    same(sequence.forward(), their_sequence, np.float64)
    for one, expected in zip(hidden, their_hidden, strict=True):
        same(one.forward(), expected, np.float64)

    loss = sequence.square().sum()
    for i, state in enumerate(hidden):
        loss = loss + (state * (i + 1)).sum()
    ((their_sequence**2).sum() + sum((h * (i + 1)).sum() for i, h in enumerate(their_hidden))).backward()
    layers = [(layer, f"l{i}") for i, layer in enumerate(stack.forward_layers)]
    layers += [(layer, f"l{i}_reverse") for i, layer in enumerate(stack.backward_layers)]
    pairs = [(x, tensor.grad)]
    pairs += [(layer.input_weight, getattr(other, f"weight_ih_{suffix}").grad.T) for layer, suffix in layers]
    pairs += [(layer.recurrent_weight, getattr(other, f"weight_hh_{suffix}").grad.T) for layer, suffix in layers]
    pairs += [(layer.bias, getattr(other, f"bias_ih_{suffix}").grad) for layer, suffix in layers]
    gradients = wy.grad(loss, [leaf for leaf, _ in pairs])
    for native, (_, expected) in zip(wy.compile(gradients)(), pairs, strict=True):
        same(native, expected, np.float64)


def test_dropout_acts_between_layers_while_training() -> None:
    stack = wy.nn.StackedGRU(3, 4, num_layers=2, dropout=0.5, seed=0)
    x = wy.Constant(np.ones((2, 5, 3), np.float32))
    training = stack(x).sequence.forward()
    plain = stack.eval()(x).sequence.forward()
    lower, upper = stack.forward_layers
    np.testing.assert_allclose(plain, upper(lower(x).sequence).sequence.forward(), rtol=1e-6)
    assert not np.allclose(training, plain)
    assert len({layer.recurrent_weight.value.tobytes() for layer in stack.forward_layers}) == 2


def test_wrong_options_and_operands_are_errors() -> None:
    x = wy.Constant(np.ones((2, 5, 3), np.float32))
    with pytest.raises(ValueError, match="num_layers"):
        wy.nn.StackedLSTM(3, 4, num_layers=0)
    with pytest.raises(ValueError, match="bidirectional"):
        wy.nn.StackedGRU(3, 4, bidirectional=True)(x, reset=wy.Constant(np.zeros((2, 5), bool)))
    with pytest.raises(ShapeError, match="2 states"):
        wy.nn.StackedGRU(3, 4, num_layers=2)(x, [wy.Constant(np.zeros((2, 4), np.float32))])
    with pytest.raises(ShapeError, match="GRU takes the axes"):
        wy.nn.GRU(3, 4)(wy.Constant(np.ones((2, 3), np.float32)))
    with pytest.raises(DTypeError, match="resets must have dtype bool"):
        wy.nn.GRU(3, 4)(x, reset=wy.Constant(np.zeros((2, 5), np.float32)))


def test_repr_and_names() -> None:
    assert repr(wy.nn.GRU(FEATURES, HIDDEN)) == "GRU(Features(3), Hidden(4))"
    stack = wy.nn.StackedLSTM(3, 4, num_layers=2, bidirectional=True)
    assert repr(stack) == "StackedLSTM(3, 4, num_layers=2, bidirectional=True)"
    assert next(iter(dict(stack.named_parameters()))) == "forward_layers.0.input_weight"
    assert [p.name for p in wy.nn.GRU(3, 4).parameters()] == [
        "input_weight", "recurrent_weight", "bias", "recurrent_bias"
    ]  # fmt: skip
