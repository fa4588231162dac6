"""Recurrent layers, LSTM and GRU: over a whole sequence, and one step at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Generic, TypedDict, Unpack

import numpy as np

from wyrm.errors import ShapeError
from wyrm.graph.axes import Times, product
from wyrm.graph.base import describe
from wyrm.graph.node import Node, Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.typing import DTypeLike, Unnamed
from wyrm.module import Module
from wyrm.nn.axes import B, In, M, N, Out, T, sized_axes
from wyrm.nn.initializers import Uniform
from wyrm.nn.recurrent_states import GRUOutput, LSTMOutput, LSTMState, initial_lstm_state, initial_state
from wyrm.nn.seeding import generator
from wyrm.ops.elementwise.elementwise import operand
from wyrm.ops.recurrence import gru, lstm
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import number


class _Recurrent(Module, Generic[In, Out]):
    """Base class of the layers: their parameters, and the graph of their steps."""

    input_weight: Parameter[tuple[In, Times[Any, Out]]]
    recurrent_weight: Parameter[tuple[Out, Times[Any, Out]]]
    bias: Parameter[tuple[Times[Any, Out]]]

    def _draw(
        self, input_size: object, hidden_size: object, gates: int, names: Sequence[str], seed: int | None,
        dtype: DTypeLike, forget_bias: float | None = None,
    ) -> None:  # fmt: skip
        """Set the parameters called `names`, drawn in this order."""
        layer = type(self).__name__
        features, hidden = sized_axes(layer, input_size=input_size, hidden_size=hidden_size)
        size, wide = int(hidden), product((gates, hidden))
        axes: dict[str, Any] = {
            "input_weight": (features, wide),
            "recurrent_weight": (hidden, wide),
            "bias": (wide,),
            "recurrent_bias": (hidden,),
        }
        bound = 1.0 / math.sqrt(max(size, 1))
        draw, random = Uniform(-bound, bound), generator(seed)
        drawn = {name: draw(tuple(map(int, axes[name])), random, dtype) for name in names}
        if forget_bias is not None:
            drawn["bias"][size : 2 * size] = number(f"{layer}: forget_bias", forget_bias)
        for name in axes:
            if name in drawn:
                setattr(self, name, Parameter(drawn[name], axes[name], name=name, dtype=dtype))

    def _states(self, projected: Any, state: Any, reset: Node | None) -> Any:
        """Return the states after all steps, from `x @ input_weight + bias`, (batch, time, gates)."""
        raise NotImplementedError

    def _sequence(self, x: Node, state: object, reset: Node | None) -> Any:
        """Return the states after all steps of `x`, (batch, time, input_size)."""
        return self._states(self._projected(x, "(batch, time, input_size)", 3), state, reset)

    def _step(self, x: Node, state: object) -> Any:
        """Return the states after the step of `x`, (batch, input_size), with an axis of time of size 1."""
        return self._states(self._projected(x, "(batch, input_size)", 2).expand_dims(1), state, None)

    def _projected(self, x: Node, axes: str, count: int) -> Any:
        x = operand(x, self.input_weight)
        if x.ndim != count:
            raise ShapeError(f"{type(self).__name__} takes the axes {axes}, not {describe(x)}")
        return x @ self.input_weight + self.bias

    def __repr__(self) -> str:
        coupled = ", coupled=True" if getattr(self, "coupled", False) else ""
        return f"{type(self).__name__}({self.input_weight.dims[0]!r}, {self.recurrent_weight.dims[0]!r}{coupled})"


class LSTMOptions(TypedDict, total=False):
    """The options of `LSTM` besides its sizes."""

    coupled: bool
    forget_bias: float | None
    seed: int | None
    dtype: DTypeLike


class _LSTM(_Recurrent[In, Out]):
    def _begin(
        self, input_size: object, hidden_size: object, *, coupled: bool = False, forget_bias: float | None = None,
        seed: int | None = None, dtype: DTypeLike = np.float32,
    ) -> None:  # fmt: skip
        if coupled and forget_bias is not None:
            raise ValueError(f"{type(self).__name__}: forget_bias needs a forget gate, which coupled=True leaves out")
        self.coupled: bool = bool(coupled)
        names = ("bias", "input_weight", "recurrent_weight")
        self._draw(input_size, hidden_size, 3 if coupled else 4, names, seed, dtype, forget_bias)

    def _states(self, projected: Any, state: Any, reset: Node | None) -> Any:
        """Return the hidden and cell states after all steps, (batch, time, 2, hidden_size)."""
        width = self.recurrent_weight.dims[0]
        hidden, cell = initial_lstm_state(type(self).__name__, state, projected, width)
        resets = () if reset is None else (reset,)
        return lstm.LSTM(projected, self.recurrent_weight, hidden, cell, *resets, coupled=self.coupled)


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

    def __init__(
        self: LSTM[M, N], input_size: M | Unnamed[M], hidden_size: N | Unnamed[N], **options: Unpack[LSTMOptions]
    ) -> None:
        self._begin(input_size, hidden_size, **options)

    @explains_keywords
    def __call__(
        self, x: Tensor[B, T, In], state: LSTMState[B, Out] | None = None, reset: Tensor[B, T] | None = None
    ) -> LSTMOutput[B, T, Out]:
        """Return the hidden states of all steps and the last state, from the initial `state` or zeros.

        Where `reset`, a mask of the axes (batch, time), is true, the state becomes zero before that step: one row may
        hold several sequences in turn. For sequences of several lengths, the state of each after its last step is
        `sequence[wy.arange(batch), lengths - 1]`; `wy.nn.Recurrent` takes `lengths`. Raise `ShapeError` where axes do
        not match or time has size 0, `DTypeError` for another dtype or a `reset` that is not a mask.
        """
        states = self._sequence(x, state, reset)
        return LSTMOutput(states[:, :, 0], LSTMState(states[:, -1, 0], states[:, -1, 1]))


class LSTMCell(_LSTM[In, Out]):
    """One step of a long short-term memory: from (batch, input_size) and a state to the next state.

    Parameters, options and errors are those of `LSTM`, which is faster where all inputs of a sequence are known.

    >>> cell, x = LSTMCell(3, 4), wy.Input(dims=(2, 3))
    >>> state = cell(x)
    >>> cell(x, state).hidden.shape
    (2, 4)
    """

    def __init__(
        self: LSTMCell[M, N], input_size: M | Unnamed[M], hidden_size: N | Unnamed[N], **options: Unpack[LSTMOptions]
    ) -> None:
        self._begin(input_size, hidden_size, **options)

    def __call__(self, x: Tensor[B, In], state: LSTMState[B, Out] | None = None) -> LSTMState[B, Out]:
        """Return the state after one step from `state` or zeros; raise `ShapeError` where axes do not match."""
        states = self._step(x, state)
        return LSTMState(states[:, 0, 0], states[:, 0, 1])


class GRUOptions(TypedDict, total=False):
    """The options of `GRU` besides its sizes."""

    seed: int | None
    dtype: DTypeLike


class _GRU(_Recurrent[In, Out]):
    recurrent_bias: Parameter[tuple[Out]]

    def _begin(
        self, input_size: object, hidden_size: object, *, seed: int | None = None, dtype: DTypeLike = np.float32
    ) -> None:
        names = ("input_weight", "recurrent_weight", "bias", "recurrent_bias")
        self._draw(input_size, hidden_size, 3, names, seed, dtype)

    def _states(self, projected: Any, state: Any, reset: Node | None) -> Any:
        """Return the states after all steps, (batch, time, hidden_size)."""
        width = self.recurrent_weight.dims[0]
        hidden = initial_state(type(self).__name__, "the state", state, projected, width)
        resets = () if reset is None else (reset,)
        return gru.GRU(projected, self.recurrent_weight, self.recurrent_bias, hidden, *resets)


class GRU(_GRU[In, Out]):
    """A gated recurrent unit over sequences: (batch, time, input_size) to (batch, time, hidden_size).

    From `x @ input_weight + bias` and `hidden @ recurrent_weight`, a step computes the reset gate r and the update gate
    z, which are sigmoids of the sum, the candidate `n = tanh(input_n + r * (recurrent_n + recurrent_bias))`, and
    `hidden = (1 - z) * n + z * hidden` (Cho et al., "Learning phrase representations", 2014). Without an initial state,
    sequences start from zeros.

    `input_weight` has the axes (input_size, 3 * hidden_size), `recurrent_weight` (hidden_size, 3 * hidden_size), `bias`
    (3 * hidden_size,) and `recurrent_bias` (hidden_size,); the order of the gates is r, z, n. They are the transposed
    weights of `torch.nn.GRU`, whose two biases of r and z add up to `bias`; for n they are `bias` and `recurrent_bias`.
    They start uniform within `1 / sqrt(hidden_size)` of 0, as there, drawn from `seed`, or without one from the
    script's next seed (see `wyrm.nn.seed`). `dtype` is float32 or float64.

    Raise `ShapeError` for an axis without a size or below 1, `DTypeError` for an axis or a dtype of another kind.

    >>> sequence, state = GRU(3, 4)(wy.Input(dims=(2, 5, 3)))
    >>> sequence.shape, state.shape
    ((2, 5, 4), (2, 4))
    """

    def __init__(
        self: GRU[M, N], input_size: M | Unnamed[M], hidden_size: N | Unnamed[N], **options: Unpack[GRUOptions]
    ) -> None:
        self._begin(input_size, hidden_size, **options)

    @explains_keywords
    def __call__(
        self, x: Tensor[B, T, In], state: Tensor[B, Out] | None = None, reset: Tensor[B, T] | None = None
    ) -> GRUOutput[B, T, Out]:
        """Return the states of all steps and the last one, from the initial `state` or zeros.

        `reset` and errors are those of `LSTM`.
        """
        states = self._sequence(x, state, reset)
        return GRUOutput(states, states[:, -1])


class GRUCell(_GRU[In, Out]):
    """One step of a gated recurrent unit: from (batch, input_size) and a state to the next state.

    Parameters, options and errors are those of `GRU`, which is faster where all inputs of a sequence are known.

    >>> cell, x = GRUCell(3, 4), wy.Input(dims=(2, 3))
    >>> state = cell(x)
    >>> cell(x, state).shape
    (2, 4)
    """

    def __init__(
        self: GRUCell[M, N], input_size: M | Unnamed[M], hidden_size: N | Unnamed[N], **options: Unpack[GRUOptions]
    ) -> None:
        self._begin(input_size, hidden_size, **options)

    def __call__(self, x: Tensor[B, In], state: Tensor[B, Out] | None = None) -> Tensor[B, Out]:
        """Return the state after one step from `state` or zeros; raise `ShapeError` where axes do not match."""
        result: Tensor[B, Out] = self._step(x, state)[:, 0]
        return result
