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


def twin(lstm: wy.nn.LSTM[Any, Any]) -> torch.nn.LSTM:
    """PyTorch's layer with the same parameters."""
    features, sums = lstm.input_weight.shape
    other = torch.nn.LSTM(features, sums // 4, batch_first=True, dtype=getattr(torch, str(lstm.bias.dtype)))
    with torch.no_grad():
        other.weight_ih_l0.copy_(torch.tensor(lstm.input_weight.value.T.copy()))
        other.weight_hh_l0.copy_(torch.tensor(lstm.recurrent_weight.value.T.copy()))
        other.bias_ih_l0.copy_(torch.tensor(lstm.bias.value))
        other.bias_hh_l0.zero_()
    return other


def parameter(dtype: Any, *shape: int) -> wy.Parameter[Any]:
    return wy.Parameter(np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("steps", [1, 7])
def test_values_and_gradients_are_those_of_pytorch(dtype: Any, steps: int) -> None:
    lstm = wy.nn.LSTM(3, 4, seed=0, dtype=dtype)
    other = twin(lstm)
    x, hidden, cell = parameter(dtype, 5, steps, 3), parameter(dtype, 5, 4), parameter(dtype, 5, 4)
    sequence, state = lstm(x, wy.nn.LSTMState(hidden, cell))
    (sequence.square().mean() + state.hidden.sum() + (state.cell * 0.5).square().mean()).backward()

    tensors = [torch.tensor(leaf.value, requires_grad=True) for leaf in (x, hidden, cell)]
    their_sequence, (their_hidden, their_cell) = other(tensors[0], (tensors[1][None], tensors[2][None]))
    ((their_sequence**2).mean() + their_hidden.sum() + ((their_cell * 0.5) ** 2).mean()).backward()

    pairs = [(sequence.value, their_sequence), (state.hidden.value, their_hidden[0]), (state.cell.value, their_cell[0])]
    pairs += [(leaf.gradient, tensor.grad) for leaf, tensor in zip((x, hidden, cell), tensors, strict=True)]
    pairs += [
        (lstm.input_weight.gradient, other.weight_ih_l0.grad.T),
        (lstm.recurrent_weight.gradient, other.weight_hh_l0.grad.T),
        (lstm.bias.gradient, other.bias_ih_l0.grad),
    ]
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_coupled_variant_is_its_formula_composed_of_plain_nodes(dtype: Any) -> None:
    lstm = wy.nn.LSTM(3, 4, coupled=True, seed=0, dtype=dtype)
    x = parameter(dtype, 2, 5, 3)
    hidden = cell = wy.Constant(np.zeros((2, 4), dtype))
    outputs: list[Any] = []
    for t in range(5):
        sums: Any = x[:, t] @ lstm.input_weight + hidden @ lstm.recurrent_weight + lstm.bias
        opened = sums[:, :4].sigmoid()
        cell = (1.0 - opened) * cell + opened * sums[:, 4:8].tanh()
        hidden = sums[:, 8:].sigmoid() * cell.tanh()
        outputs.append(hidden)
    leaves = [x, *lstm.parameters()]
    composed = wy.stack(outputs, axis=1)
    sequence = lstm(x).sequence
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(sequence.forward(), composed.forward(), rtol=tolerance, atol=tolerance)
    ours, theirs = (wy.grad(node.square().sum(), leaves) for node in (sequence, composed))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.forward(), other.forward(), rtol=tolerance, atol=tolerance)


def test_a_reset_starts_a_new_sequence_in_the_same_row() -> None:
    lstm = wy.nn.LSTM(3, 4, seed=0, dtype=np.float64)
    x, start = parameter(np.float64, 1, 6, 3), wy.nn.LSTMState(parameter(np.float64, 1, 4), parameter(np.float64, 1, 4))
    reset = wy.Input(np.array([[False, False, True, False, False, False]]))
    joined = lstm(x, start, reset)
    first, second = lstm(x[:, :2], start), lstm(x[:, 2:])
    apart = wy.concatenate([first.sequence, second.sequence], axis=1)
    np.testing.assert_allclose(joined.sequence.forward(), apart.forward(), rtol=1e-12)
    np.testing.assert_allclose(joined.state.cell.forward(), second.state.cell.forward(), rtol=1e-12)
    leaves = [x, start.hidden, start.cell, *lstm.parameters()]
    ours, theirs = (wy.grad(node.square().sum(), leaves) for node in (joined.sequence, apart))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.forward(), other.forward(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("coupled", [False, True])
def test_gradients_to_second_order(coupled: bool) -> None:
    lstm = wy.nn.LSTM(2, 2, coupled=coupled, seed=0, dtype=np.float64)
    reset = wy.Input(np.array([[False, True, False], [False, False, True]]))
    sequence, state = lstm(parameter(np.float64, 2, 3, 2), reset=reset)
    check_grads(sequence.square().sum() + (state.hidden * state.cell).sum())


@pytest.mark.parametrize("coupled", [False, True])
def test_a_cell_step_by_step_is_the_layer_over_the_sequence(coupled: bool) -> None:
    lstm = wy.nn.LSTM(3, 4, coupled=coupled, seed=0, dtype=np.float64)
    cell = wy.nn.LSTMCell(3, 4, coupled=coupled, seed=0, dtype=np.float64)
    x = parameter(np.float64, 2, 4, 3)
    state = cell(x[:, 0])
    for t in range(1, 4):
        state = cell(x[:, t], state)
    last = lstm(x).state
    for one, other in zip(state, last, strict=True):
        np.testing.assert_allclose(one.forward(), other.forward(), rtol=1e-12)
    for mine, theirs in zip(
        wy.grad((state.hidden * state.cell).sum(), cell.parameters()),
        wy.grad((last.hidden * last.cell).sum(), lstm.parameters()),
        strict=True,
    ):
        np.testing.assert_allclose(mine.forward(), theirs.forward(), rtol=1e-10, atol=1e-12)


def test_axes_are_typed_and_kept() -> None:
    batch = Batch()
    lstm = wy.nn.LSTM(FEATURES, HIDDEN)
    assert_type(lstm, wy.nn.LSTM[Features, Hidden])
    x = wy.Input(dims=(batch, Time(5), FEATURES))
    sequence, state = lstm(x)
    assert_type(sequence, wy.Tensor[Batch, Time, Hidden])
    assert_type(state.hidden, wy.Tensor[Batch, Hidden])
    assert_type(state, wy.nn.LSTMState[Batch, Hidden])
    assert sequence.dims == (batch, Time(5), HIDDEN)
    assert state.hidden.dims == state.cell.dims == (batch, HIDDEN)
    cell = wy.nn.LSTMCell(FEATURES, HIDDEN)
    assert_type(cell(wy.Input(dims=(batch, FEATURES))), wy.nn.LSTMState[Batch, Hidden])
    assert_type(wy.nn.LSTM(3, HIDDEN), wy.nn.LSTM[Any, Hidden])
    assert_type(wy.nn.LSTM(FEATURES, 4), wy.nn.LSTM[Features, Any])


def test_batch_and_time_get_their_sizes_from_the_data() -> None:
    lstm = wy.nn.LSTM(FEATURES, HIDDEN, seed=0)
    x = wy.Input(dims=(Batch(), Time(), FEATURES))
    loss = lstm(x).state.hidden.square().sum()
    for batch, steps in ((2, 5), (3, 1), (1, 8)):
        x.set(np.random.default_rng(0).normal(size=(batch, steps, 3)))
        expected, _ = twin(lstm)(torch.tensor(x.value))
        np.testing.assert_allclose(loss.forward(), (expected[:, -1] ** 2).sum().item(), rtol=1e-5)
        loss.backward()
    assert lstm.recurrent_weight.gradient.any()


def test_the_second_order_with_a_batch_of_the_datas_size() -> None:
    lstm = wy.nn.LSTM(FEATURES, HIDDEN, seed=0, dtype=np.float64)
    x = wy.Input(dims=(Batch(), Time(3), FEATURES), dtype=np.float64)
    gradients = wy.grad(lstm(x).sequence.square().sum())
    x.set(np.random.default_rng(0).normal(size=(2, 3, 3)))
    check_grads(gradients[0].square().sum(), order=1)


def test_two_layers_and_a_decoder_that_starts_where_they_ended() -> None:
    lower, upper = wy.nn.LSTM(FEATURES, HIDDEN, seed=0), wy.nn.LSTM(HIDDEN, HIDDEN, seed=1)
    x = wy.Input(np.ones((2, 5, 3)), dims=(Batch(2), Time(5), FEATURES), dtype=np.float32)
    sequence, state = upper(lower(x).sequence)
    again = upper(sequence, state)
    again.sequence.square().sum().backward()
    assert all(p.gradient.any() for p in (*lower.parameters(), *upper.parameters()))


def test_parameters_have_plain_names_and_the_layers_axes() -> None:
    lstm = wy.nn.LSTM(FEATURES, HIDDEN)
    assert list(dict(lstm.named_parameters())) == ["input_weight", "recurrent_weight", "bias"]
    assert [p.name for p in lstm.parameters()] == ["input_weight", "recurrent_weight", "bias"]
    assert [p.shape for p in lstm.parameters()] == [(3, 16), (4, 16), (16,)]
    assert [p.shape for p in wy.nn.LSTM(3, 4, coupled=True).parameters()] == [(3, 12), (4, 12), (12,)]


def test_parameters_are_drawn_as_in_pytorch_and_the_forget_bias_as_asked() -> None:
    lstm = wy.nn.LSTM(50, 100, seed=0, forget_bias=1.0)
    for p in (lstm.input_weight, lstm.recurrent_weight):
        assert 0.099 < np.abs(p.value).max() <= 0.1
    assert (lstm.bias.value[100:200] == 1.0).all()
    assert np.abs(np.delete(lstm.bias.value, slice(100, 200))).max() <= 0.1
    np.testing.assert_array_equal(wy.nn.LSTM(50, 100, seed=0).input_weight.value, lstm.input_weight.value)


def test_repr() -> None:
    assert repr(wy.nn.LSTM(FEATURES, HIDDEN)) == "LSTM(Features(3), Hidden(4))"
    assert repr(wy.nn.LSTMCell(3, 4, coupled=True)) == "LSTMCell(3, 4, coupled=True)"


def test_wrong_wiring_is_an_error() -> None:
    lstm = wy.nn.LSTM(FEATURES, HIDDEN)
    with pytest.raises(ShapeError, match=r"Hidden\(4\) against Features\(3\)") as error:
        lstm(wy.Input(dims=(Batch(2), Time(5), HIDDEN)))  # type: ignore[arg-type]  # the mistake that mypy finds
    assert "lstm(wy.Input(" in str(error.value)
    with pytest.raises(ShapeError, match=r"LSTM takes the axes \(batch, time, input_size\), not .*\(Batch\(2\), "):
        lstm(wy.Input(dims=(Batch(2), FEATURES)))  # type: ignore[arg-type]  # the mistake that mypy finds
    with pytest.raises(ShapeError, match=r"LSTMCell takes the axes \(batch, input_size\)"):
        wy.nn.LSTMCell(3, 4)(wy.Input(dims=(2, 5, 3)))


def test_a_state_of_another_batch_is_an_error() -> None:
    state = wy.nn.LSTMState(wy.Input(dims=(3, 4)), wy.Input(dims=(3, 4)))
    with pytest.raises(ShapeError, match=r"LSTM: input \(3, 4\) .* as the hidden state: 3 against 2, the batch of x"):
        wy.nn.LSTM(3, 4)(wy.Input(dims=(2, 5, 3)), state)


def test_numbers_as_reset_are_an_error() -> None:
    with pytest.raises(DTypeError, match="resets must have dtype bool"):
        wy.nn.LSTM(3, 4)(wy.Input(dims=(2, 5, 3)), reset=wy.Input(dims=(2, 5)))


def test_options_that_contradict_each_other_are_an_error() -> None:
    with pytest.raises(ValueError, match="LSTM: forget_bias needs a forget gate"):
        wy.nn.LSTM(3, 4, coupled=True, forget_bias=1.0)


def test_an_axis_without_a_size_is_an_error() -> None:
    with pytest.raises(ShapeError, match=r"LSTM: input_size is Features\(\)"):
        wy.nn.LSTM(Features(), HIDDEN)
    with pytest.raises(ShapeError, match=r"LSTMCell: hidden_size is Hidden\(\)"):
        wy.nn.LSTMCell(FEATURES, Hidden())
