"""`Recurrent`: cells of one's own over sequences, beside PyTorch's packed sequences and loops of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from tests.pytorch import torch
from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.testing import check_grads


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


RANDOM = np.random.default_rng(0)


class HandmadeGRU(wy.nn.Module):
    """A gated recurrent unit in PyTorch's notation, with its weights."""

    def __init__(self, inputs: int, hidden: int) -> None:
        sizes: dict[str, Any] = {
            "w_ih": (3 * hidden, inputs),
            "w_hh": (3 * hidden, hidden),
            "b_ih": 3 * hidden,
            "b_hh": 3 * hidden,
        }
        for name, shape in sizes.items():
            setattr(self, name, wy.Parameter(RANDOM.normal(size=shape) * 0.4, name=name))
        self.hidden = hidden

    def initial_state(self, x: Any) -> Any:
        return wy.zeros((x.shape[0], self.hidden), dtype=x.dtype)

    def __call__(self, state: Any, x: Any) -> Any:
        own: Any = self
        inputs, recurrent, h = x @ own.w_ih.T + own.b_ih, state @ own.w_hh.T + own.b_hh, self.hidden
        r = (inputs[:, :h] + recurrent[:, :h]).sigmoid()
        z = (inputs[:, h : 2 * h] + recurrent[:, h : 2 * h]).sigmoid()
        n = (inputs[:, 2 * h :] + r * recurrent[:, 2 * h :]).tanh()
        state = (1.0 - z) * n + z * state
        return state, state


class Decoder(wy.nn.Module):
    """A cell with two states that feeds back what it emits."""

    def __init__(self, width: int = 3) -> None:
        self.w = wy.Parameter(RANDOM.normal(size=(width, width)) * 0.5, name="w")

    def initial_state(self, x: Any) -> Any:
        return {"h": wy.zeros_like(x), "n": wy.zeros_like(x)}

    def __call__(self, state: Any, x: Any) -> Any:
        h = (state["h"] @ self.w + x).tanh()
        return {"h": h, "n": state["n"] + 1.0}, h * 1.5


def data(rows: int, steps: int, width: int = 3) -> np.ndarray:
    return np.random.default_rng(rows).normal(size=(rows, steps, width))


def torch_gru(layer: Any, layers: int, directions: int) -> Any:
    module = torch.nn.GRU(3, 4, num_layers=layers, bidirectional=directions == 2, batch_first=True).double()
    cells = [layer.cells, layer.backward_cells][:directions]
    with torch.no_grad():
        for level in range(layers):
            for direction, suffix in zip(range(directions), ("", "_reverse"), strict=False):
                cell = cells[direction][level]
                for name, ours in (
                    ("weight_ih", "w_ih"),
                    ("weight_hh", "w_hh"),
                    ("bias_ih", "b_ih"),
                    ("bias_hh", "b_hh"),
                ):
                    getattr(module, f"{name}_l{level}{suffix}").copy_(torch.tensor(getattr(cell, ours).value))
    return module


@pytest.mark.parametrize("engine", ["numpy", "native", "jax"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("directions", [1, 2])
def test_layers_directions_and_lengths_beside_torch(engine: str, layers: int, directions: int) -> None:
    import jax

    width = 4 * directions
    cells = [[HandmadeGRU(width if level else 3, 4) for level in range(layers)] for _ in range(directions)]
    layer = wy.nn.Recurrent(cells[0], backward=cells[1] if directions == 2 else None)
    x, lengths = wy.Input(dims=(Batch(), Time(), 3), dtype=np.float64), wy.IndexInput(dims=(Batch(),))
    output = layer(x, lengths=lengths)
    loss = (output.sequence * output.sequence).sum() + output.state[-1][0].sum()
    outputs = [output.sequence, *wy.grad(loss, layer.parameters())]
    module = torch_gru(layer, layers, directions)
    with jax.enable_x64(True):
        program = None if engine == "numpy" else wy.compile(outputs, engine=engine)
        for rows, steps in [(3, 5), (2, 4)]:
            values, counts = data(rows, steps), np.array([steps, 2, 3][:rows])
            x.set(values)
            lengths.set(counts)
            sequence, *gradients = wy.run(outputs) if program is None else program()
            packed = torch.nn.utils.rnn.pack_padded_sequence(
                torch.tensor(values), torch.tensor(counts), batch_first=True, enforce_sorted=False
            )
            made, last = module(packed)
            expected, _ = torch.nn.utils.rnn.pad_packed_sequence(made, batch_first=True, total_length=steps)
            np.testing.assert_allclose(sequence, expected.detach(), rtol=1e-9, atol=1e-12)
            module.zero_grad()
            top = last[-directions:]
            ((expected * expected).sum() + (top[0] if directions == 2 else top[0][0]).sum()).backward()
            first = next(g for g, p in zip(gradients, layer.parameters(), strict=True) if p is layer.cells[0].w_hh)
            np.testing.assert_allclose(first, module.weight_hh_l0.grad, rtol=1e-8, atol=1e-11)


def test_mask_of_any_steps() -> None:
    cell, values = HandmadeGRU(3, 4), data(2, 5)
    mask = np.array([[True, False, True, True, False], [False, True, True, False, True]])
    output = wy.nn.Recurrent(cell)(wy.Constant(values), mask=mask)
    for row in range(2):
        kept = wy.nn.Recurrent(cell)(wy.Constant(values[row : row + 1][:, mask[row]]))
        np.testing.assert_allclose(output.sequence.forward()[row][mask[row]], kept.sequence.forward()[0])
        np.testing.assert_allclose(output.state.forward()[row], kept.state.forward()[0])
        assert not output.sequence.forward()[row][~mask[row]].any()


def test_running_freely_and_with_forcing() -> None:
    cell, values = Decoder(), data(2, 6)
    layer = wy.nn.Recurrent(cell, feedback=lambda y: y * 0.5)
    forced = np.array([True, False, True, True, False, False])
    for chosen in (forced, np.stack([forced, ~forced])):
        h, x, expected = np.zeros((2, 3)), values[:, 0], []
        for t in range(6):
            on = np.broadcast_to(chosen[..., t], 2)[:, None]
            x = np.where(on | (t == 0), values[:, t], x)
            h = np.tanh(h @ cell.w.value + x)
            expected.append(h * 1.5)
            x = expected[-1] * 0.5
        output = layer(wy.Constant(values), forced=chosen)
        np.testing.assert_allclose(output.sequence.forward(), np.stack(expected, 1))
        assert output.state["n"].forward().tolist() == [[6.0] * 3] * 2
    free = layer.run(values[:, 0], 6)
    np.testing.assert_allclose(
        free.sequence.forward(), layer(wy.Constant(values), forced=False).sequence.forward(), rtol=1e-12
    )
    np.testing.assert_allclose(
        layer(wy.Constant(values)).sequence.forward(), layer(wy.Constant(values), forced=True).sequence.forward()
    )


def test_tokens_run_freely_through_two_layers() -> None:
    table = wy.Parameter(RANDOM.normal(size=(7, 3)), name="table")

    def embed(state: Any, token: Any) -> Any:
        return state, table[token]

    layer = wy.nn.Recurrent([embed, Decoder()], feedback=lambda y: (y @ table.value.T).argmax(axis=-1))
    start = wy.IndexConstant([1, 4])
    states = (wy.zeros((2, 1), dtype=np.float64), Decoder().initial_state(wy.zeros((2, 3), dtype=np.float64)))
    output = layer.run(start, 5, states)
    token, h, expected = np.array([1, 4]), np.zeros((2, 3)), []
    for _ in range(5):
        h = np.tanh(h @ layer.cells[1].w.value + table.value[token])
        expected.append(h * 1.5)
        token = (expected[-1] @ table.value.T).argmax(-1)
    np.testing.assert_allclose(output.sequence.forward(), np.stack(expected, 1))


def test_context_is_the_same_in_all_steps() -> None:
    memory = wy.Parameter(RANDOM.normal(size=(2, 4, 3)), name="memory")

    def attend(state: Any, x: Any, memory: Any) -> Any:
        weights = (memory @ (state + x).expand_dims(2))[:, :, 0].softmax(axis=-1)
        read = (weights.expand_dims(2) * memory).sum(axis=1)
        return read, read

    x = wy.Constant(data(2, 3))
    output = wy.nn.Recurrent(attend)(x, np.zeros((2, 3)), context=memory)
    state = np.zeros((2, 3))
    for t in range(3):
        scores = np.einsum("bmf,bf->bm", memory.value, state + x.value[:, t])
        weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        state = np.einsum("bm,bmf->bf", weights, memory.value)
        np.testing.assert_allclose(output.sequence.forward()[:, t], state)
    check_grads(output.sequence.sum(), [memory], engines=())


def test_dropout_between_layers_is_for_training() -> None:
    layer = wy.nn.Recurrent([HandmadeGRU(3, 4), HandmadeGRU(4, 4)], dropout=0.5)
    x = wy.Constant(data(2, 3))
    assert (layer(x).sequence.forward() != layer.eval()(x).sequence.forward()).any()
    plain = wy.nn.Recurrent(layer.cells)
    np.testing.assert_allclose(layer(x).sequence.forward(), plain(x).sequence.forward())


def test_parameters_of_cells_have_paths() -> None:
    layer = wy.nn.Recurrent([HandmadeGRU(3, 4), Decoder(4)])
    assert [name for name, _ in layer.named_parameters()][-1] == "cells.1.w"
    assert len(layer.parameters()) == 5


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: wy.nn.Recurrent(wy.nn.GRUCell(3, 4)), TypeError, "for GRUCell use wy.nn.GRU"),
        (lambda x: wy.nn.Recurrent(Decoder), TypeError, "an instance of it"),
        (lambda x: wy.nn.Recurrent([]), OptionError, "at least one cell"),
        (lambda x: wy.nn.Recurrent([Decoder()], backward=[Decoder(), Decoder()]), OptionError, "2 cells for 1 layers"),
        (lambda x: wy.nn.Recurrent(Decoder())(x[:, 0, 0]), ShapeError, r"the axes \(batch, time, ...\), not"),
        (lambda x: wy.nn.Recurrent(lambda s, x: (s, x))(x), OptionError, r"no method initial_state\(x\): give"),
        (lambda x: wy.nn.Recurrent(Decoder())(x, lengths=[1, 2]), ShapeError, r"give a wy.IndexInput\(dims=\(Batch"),
        (lambda x: wy.nn.Recurrent(Decoder())(x, mask=np.ones((2, 5))), DTypeError, "mask must be a mask"),
        (lambda x: wy.nn.Recurrent([Decoder()])(x, x), ShapeError, "a tuple of 1 states"),
        (lambda x: wy.nn.Recurrent(lambda s, x: x)(x, x[:, 0]), ShapeError, r"must return a pair \(state, y\)"),
        (lambda x: wy.nn.Recurrent(Decoder(), backward=Decoder()).run(x[:, 0], 3), OptionError, "forward in time"),
        (lambda x: wy.nn.Recurrent(Decoder())(x, lengths=[1], mask=x > 0.0), OptionError, "not both"),
    ],
)
def test_mistakes(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(wy.Input(dims=(Batch(), Time(), 3), name="x", dtype=np.float64))
