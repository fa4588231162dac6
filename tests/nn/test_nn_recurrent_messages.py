"""Mistakes with `Recurrent`: each message names what users wrote and says what to write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wyrm as wy
from wyrm.errors import DTypeError, IndexOutOfRange, ShapeError


class Batch(wy.Dim): ...


class Time(wy.Dim): ...


BATCH = Batch()
HIDDEN, CLASSES = 4, 6


class Cell(wy.nn.Module):
    """A decoder of tokens that adds what it is given as context."""

    def __init__(self) -> None:
        self.embedding = wy.nn.Embedding(CLASSES, HIDDEN, seed=0)
        self.gru, self.output = wy.nn.GRUCell(HIDDEN, HIDDEN, seed=1), wy.nn.Linear(HIDDEN, CLASSES, seed=2)

    def __call__(self, state: Any, token: Any) -> Any:
        state = self.gru(self.embedding(token), state)
        return state, self.output(state)


class Swapped(Cell):
    def __call__(self, state: Any, token: Any) -> Any:
        return super().__call__(state, token)[::-1]


class Grown(Cell):
    def __call__(self, state: Any, token: Any) -> Any:
        state, y = super().__call__(state, token)
        return (state, state), y


class TokenFirst(Cell):
    def __call__(self, token: Any, state: Any) -> Any:  # type: ignore[override]  # the mistake
        return super().__call__(state, token)


class Attends(Cell):
    def __call__(self, state: Any, token: Any, context: Any) -> Any:  # type: ignore[override]  # as users write it
        return super().__call__(state + context, token)


def tokens() -> Any:
    return wy.IndexInput(dims=(BATCH, 10), name="tokens")


def state() -> Any:
    return wy.Input(dims=(BATCH, HIDDEN), name="state")


def argmax(y: Any) -> Any:
    return y.argmax(axis=-1)


def test_what_a_cell_returns() -> None:
    with pytest.raises(
        ShapeError, match=r"state of Swapped changes from \(Batch\(\), 4\) float32 to add .*: return \(state, y\)"
    ):
        wy.nn.Recurrent(Swapped())(tokens(), state())
    with pytest.raises(ShapeError, match=r"the state of Grown changes from .* to \[.*keeps its structure and axes"):
        wy.nn.Recurrent(Grown())(tokens(), state())


def test_what_a_cell_gets() -> None:
    with pytest.raises(DTypeError, match="the state of TokenFirst holds float32; indices must be integers") as info:
        wy.nn.Recurrent(TokenFirst())(tokens(), state())
    assert info.value.__notes__ == [
        "Recurrent calls TokenFirst(state, x) with state (Batch(), 4) float32 and x (Batch(),) int64"
    ]
    with pytest.raises(TypeError, match="Recurrent: Attends takes a context: give context= to the layer"):
        wy.nn.Recurrent(Attends())(tokens(), state())
    float_tokens = wy.Input(dims=(BATCH, 10), name="floats")
    with pytest.raises(DTypeError, match="x of a step of floats holds float32; indices must be integers"):
        wy.nn.Recurrent(Cell())(float_tokens, state())


def test_axes_of_the_state_and_of_x() -> None:
    told = r"the same batch"
    with pytest.raises(ShapeError, match=told):
        wy.nn.Recurrent(Cell())(tokens(), np.zeros(HIDDEN, np.float32))
    with pytest.raises(ShapeError, match=rf"x is tokens \(10, Batch\(\)\).* x \(batch, time, ...\), with {told}"):
        wy.nn.Recurrent(Cell())(wy.IndexInput(dims=(10, BATCH), name="tokens"), state())


def test_what_is_fed_back() -> None:
    free = wy.nn.Recurrent(Cell())
    told = (
        r"Recurrent: y is add \(Batch\(\), 6\) .* and the x of a step is \(Batch\(\),\) int64: give feedback=, such as"
    )
    with pytest.raises(ShapeError, match=told):
        free.run(0, 10, state())
    with pytest.raises(ShapeError, match=r"Recurrent: feedback\(y\) is argmax \(6,\) .* such as feedback=lambda y"):
        wy.nn.Recurrent(Cell(), feedback=lambda y: y.argmax(axis=0)).run(0, 10, state())


@pytest.mark.parametrize("first", [2, np.int64(2), [2, 2], wy.IndexConstant(2), np.array([2, 2])])
def test_the_first_token_may_be_a_number(first: Any) -> None:
    wy.nn.seed(0)
    layer, start = wy.nn.Recurrent(Cell(), feedback=argmax), np.ones((2, HIDDEN), np.float32)
    expected = layer.run(wy.IndexConstant([2, 2]), 5, start).sequence.forward()
    np.testing.assert_array_equal(layer.run(first, 5, start).sequence.forward(), expected)
    if np.ndim(first if not isinstance(first, wy.IndexConstant) else 0) == 0:
        given = state()
        made = wy.compile(layer.run(first, 5, given).sequence)({given: start})
        np.testing.assert_allclose(made, expected, rtol=1e-4, atol=1e-6)


def test_a_first_token_of_other_axes() -> None:
    layer = wy.nn.Recurrent(Cell(), feedback=argmax)
    with pytest.raises(
        ShapeError, match=r"first must have the axes \(batch, ...\) with the batch of the state, Batch\(\)"
    ):
        layer.run([2, 2], 5, state())


def test_the_mask_of_what_is_forced() -> None:
    layer = wy.nn.Recurrent(Cell(), feedback=argmax)
    with pytest.raises(DTypeError, match=r"such as wy.random.uniform\(\(Batch\(\), 10\)\) < 0.75, not constant"):
        layer(tokens(), state(), forced=0.75)
    with pytest.raises(ShapeError, match=r"forced must have the axes \(\), \(10,\) or \(Batch\(\), 10\), not"):
        layer(tokens(), state(), forced=wy.IndexInput(dims=(BATCH,)) > 3)
    with pytest.raises(ShapeError, match=r"Recurrent: mask must have the axes \(Batch\(\), 10\), not"):
        layer(tokens(), state(), mask=np.ones((3, 10), bool))


def test_an_index_that_is_fed_back_is_named() -> None:
    layer = wy.nn.Recurrent(Cell(), feedback=lambda y: argmax(y) + CLASSES)
    with pytest.raises(IndexOutOfRange, match=r"x of a step .* but index of weight at .*, in step 1 of the loop at"):
        layer.run(0, 3, np.zeros((1, HIDDEN), np.float32)).sequence.forward()


def test_the_result_names_its_sequence() -> None:
    made: Any = wy.nn.Recurrent(Cell())(tokens(), state())
    with pytest.raises(AttributeError, match=r"use \.sequence, as in output\.sequence\.cross_entropy"):
        _ = made.cross_entropy
    assert not hasattr(made, "nothing")


def test_lengths_of_fused_layers_and_what_other_libraries_call_it() -> None:
    x, lengths = wy.Input(dims=(BATCH, 5, 3)), wy.IndexInput(dims=(BATCH,))
    for layer in (wy.nn.GRU, wy.nn.LSTM, wy.nn.StackedGRU, wy.nn.StackedLSTM):
        made: Any = layer(3, HIDDEN)
        with pytest.raises(TypeError, match=r"no keyword 'lengths': .*sequence\[wy.arange\(batch\), lengths - 1\]"):
            made(x, lengths=lengths)
    nn: Any = wy.nn
    with pytest.raises(AttributeError, match=r"wy.nn.Recurrent\(cell\) for a step of your own"):
        _ = nn.RNNCell
    with pytest.raises(AttributeError, match=r"for pack_padded_sequence wy.nn.Recurrent\(cell\), which takes lengths"):
        _ = nn.utils
    with pytest.raises(AttributeError, match=r"wy.nn.MultiHeadAttention\(embed_dim, num_heads\), or a product"):
        _ = nn.Attention
    logits: Any = wy.Constant(np.ones((2, 3)))
    with pytest.raises(TypeError, match=r"wy.losses.cross_entropy\(logits, labels, ignore_index=...\) takes it"):
        logits.cross_entropy(wy.IndexConstant([0, 1]), ignore_index=0)
    with pytest.raises(DTypeError, match=r"wy.full_like\(index_node, 11\) repeats one"):
        wy.full((3,), 11, dtype=np.int64)
