"""LSTM layers: over a whole sequence, and one step at a time."""

from __future__ import annotations

import math
from typing import Any, Generic, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import DTypeLike

from wyrm.errors import ShapeError
from wyrm.graph.axes import Dim, Times, product
from wyrm.graph.base import describe
from wyrm.graph.leaves import Parameter
from wyrm.graph.node import Node, Tensor
from wyrm.nn.axes import B, In, M, N, Out, T, sized_axis
from wyrm.nn.initial_states import initial_lstm_state
from wyrm.nn.initializers import Uniform
from wyrm.nn.lstm_state import LSTMOutput, LSTMState
from wyrm.nn.module import Module
from wyrm.nn.seeding import generator
from wyrm.ops.elementwise.elementwise import operand
from wyrm.ops.recurrence import recurrent
from wyrm.support.options import number


class _Options(TypedDict, total=False):
    coupled: bool
    forget_bias: float | None
    seed: int | None
    dtype: DTypeLike


class _LSTM(Module, Generic[In, Out]):
    """The parameters of an LSTM and the graph of its steps."""

    input_weight: Parameter[tuple[In, Times[Any, Out]]]
    recurrent_weight: Parameter[tuple[Out, Times[Any, Out]]]
    bias: Parameter[tuple[Times[Any, Out]]]

    def _draw(
        self,
        input_size: Dim | int,
        hidden_size: Dim | int,
        *,
        coupled: bool = False,
        forget_bias: float | None = None,
        seed: int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        """Set the parameters; the options and their defaults are those of both subclasses."""
        layer = type(self).__name__
        if coupled and forget_bias is not None:
            raise ValueError(f"{layer}: forget_bias needs a forget gate, which coupled=True leaves out")
        features, hidden = sized_axis(layer, "input_size", input_size), sized_axis(layer, "hidden_size", hidden_size)
        gates = product((3 if coupled else 4, hidden))
        rng, size = generator(seed), int(hidden)
        bound = 1.0 / math.sqrt(max(size, 1))
        draw = Uniform(-bound, bound)
        bias = draw((int(gates),), rng, dtype)
        if forget_bias is not None:
            forget_bias = number(f"{layer}: forget_bias", forget_bias)
            bias[size : 2 * size] = forget_bias
        of_input, of_hidden = draw((int(features), int(gates)), rng, dtype), draw((size, int(gates)), rng, dtype)
        axes: Any = (features, gates), (hidden, gates), (gates,)
        self.coupled = bool(coupled)
        self.input_weight = Parameter(of_input, axes[0], name="input_weight", dtype=dtype)
        self.recurrent_weight = Parameter(of_hidden, axes[1], name="recurrent_weight", dtype=dtype)
        self.bias = Parameter(bias, axes[2], name="bias", dtype=dtype)

    def _states(self, projected: Node, state: LSTMState | None, reset: Node | None) -> Node:
        """Return the hidden and cell states of all steps, (batch, time, 2, hidden_size)."""
        width = self.recurrent_weight.dims[0]
        hidden, cell = initial_lstm_state(type(self).__name__, state, projected, width)
        resets = () if reset is None else (reset,)
        return recurrent.LSTM(projected, self.recurrent_weight, hidden, cell, *resets, coupled=self.coupled)

    def _check(self, x: Node, axes: str, count: int) -> None:
        if len(x.dims) != count:
            raise ShapeError(f"{type(self).__name__} takes the axes {axes}, not {describe(x)}")

    def __repr__(self) -> str:
        features, hidden = self.input_weight.dims[0], self.recurrent_weight.dims[0]
        return f"{type(self).__name__}({features!r}, {hidden!r}{', coupled=True' if self.coupled else ''})"


class LSTM(_LSTM[In, Out]):
    """A long short-term memory over sequences: (batch, time, input_size) to (batch, time, hidden_size).

    A step computes the input gate i, the forget gate f, the candidate g and the output gate o from
    `x @ input_weight + hidden @ recurrent_weight + bias`, then `cell = f * cell + i * g` and `hidden = o * tanh(cell)`
    (Hochreiter and Schmidhuber, "Long short-term memory", 1997; Gers et al., "Learning to forget", 2000). `coupled`
    replaces the forget gate by `f = 1 - i` (Greff et al., "LSTM: a search space odyssey", 2017). Without an initial
    state, sequences start from zeros.

    With n = gates * hidden_size, `input_weight` has the axes (input_size, n), `recurrent_weight` (hidden_size, n) and
    `bias` (n,); the order of the gates is i, f, g, o. They are the transposed weights of `torch.nn.LSTM`, whose two
    biases add up to this one, and start uniform within `1 / sqrt(hidden_size)` of 0, as there. They are drawn from
    `seed`, or without one from the script's next seed (see `wyrm.nn.seed`). `forget_bias` sets the initial bias of the
    forget gate; 1 helps to remember long. `dtype` is float32 or float64.

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis or a dtype of another kind,
    `ValueError` for a `forget_bias` together with `coupled`.

    >>> lstm = LSTM(3, 4, forget_bias=1.0)
    >>> sequence, state = lstm(wy.Input(dims=(2, 5, 3)))
    >>> sequence.shape, state.hidden.shape
    ((2, 5, 4), (2, 4))
    """

    @overload
    def __init__(self: LSTM, input_size: int, hidden_size: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: LSTM[Any, N], input_size: int, hidden_size: N, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: LSTM[M], input_size: M, hidden_size: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: LSTM[M, N], input_size: M, hidden_size: N, **options: Unpack[_Options]) -> None: ...
    def __init__(self, input_size: Dim | int, hidden_size: Dim | int, **options: Unpack[_Options]) -> None:
        self._draw(input_size, hidden_size, **options)

    def __call__(
        self,
        x: Tensor[B, T, In],
        state: LSTMState[B, Out] | None = None,
        reset: Tensor[B, T] | None = None,
    ) -> LSTMOutput[B, T, Out]:
        """Return the hidden states of all steps and the last state, from the initial `state` or zeros.

        Where `reset`, a mask of the axes (batch, time), is true, the state becomes zero before that step: one row may
        hold several sequences in turn. Raise `ShapeError` where axes do not match or time has size 0, `DTypeError` for
        another dtype or a `reset` that is not a mask.
        """
        sequence: Any = operand(x, self.input_weight)
        self._check(sequence, "(batch, time, input_size)", 3)
        states = self._states(sequence @ self.input_weight + self.bias, state, reset)
        return LSTMOutput(states[:, :, 0], LSTMState(states[:, -1, 0], states[:, -1, 1]))


class LSTMCell(_LSTM[In, Out]):
    """One step of a long short-term memory: from (batch, input_size) and a state to the next state.

    Parameters, options and errors are those of `LSTM`, which is faster where all inputs of a sequence are known.

    >>> cell, x = LSTMCell(3, 4), wy.Input(dims=(2, 3))
    >>> state = cell(x)
    >>> cell(x, state).hidden.shape
    (2, 4)
    """

    @overload
    def __init__(self: LSTMCell, input_size: int, hidden_size: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: LSTMCell[Any, N], input_size: int, hidden_size: N, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: LSTMCell[M], input_size: M, hidden_size: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: LSTMCell[M, N], input_size: M, hidden_size: N, **options: Unpack[_Options]) -> None: ...
    def __init__(self, input_size: Dim | int, hidden_size: Dim | int, **options: Unpack[_Options]) -> None:
        self._draw(input_size, hidden_size, **options)

    def __call__(self, x: Tensor[B, In], state: LSTMState[B, Out] | None = None) -> LSTMState[B, Out]:
        """Return the state after one step from `state` or zeros; raise `ShapeError` where axes do not match."""
        row: Any = operand(x, self.input_weight)
        self._check(row, "(batch, input_size)", 2)
        projected: Node = row @ self.input_weight + self.bias
        states = self._states(projected.expand_dims(1), state, None)
        return LSTMState(states[:, 0, 0], states[:, 0, 1])
