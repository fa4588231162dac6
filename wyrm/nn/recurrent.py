"""Long short-term memories: over a whole sequence, and one step at a time."""

from __future__ import annotations

import math
from typing import Any, Generic, NamedTuple, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import DTypeLike
from typing_extensions import TypeVar

from wyrm.errors import ShapeError
from wyrm.nn.axes import sized_axis
from wyrm.nn.initializers import Uniform
from wyrm.nn.module import Module
from wyrm.nn.seeding import generator
from wyrm.node.base import describe
from wyrm.node.leaves import Parameter, as_constant
from wyrm.node.node import Node
from wyrm.ops import recurrent
from wyrm.types.dims import Times, product

In = TypeVar("In", default=Any)
Out = TypeVar("Out", default=Any)
B = TypeVar("B", default=Any)
T = TypeVar("T", default=Any)
M = TypeVar("M")
N = TypeVar("N")


class LSTMState(NamedTuple, Generic[B, Out]):
    """What a long short-term memory knows between two steps.

    >>> lstm = wy.nn.LSTM(3, 4)
    >>> start = LSTMState(wy.Input(dims=(2, 4)), wy.Input(dims=(2, 4)))
    >>> lstm(wy.Input(dims=(2, 5, 3)), start).state.hidden.shape
    (2, 4)
    """

    hidden: Node[Any, tuple[B, Out]]
    cell: Node[Any, tuple[B, Out]]


class LSTMOutput(NamedTuple, Generic[B, T, Out]):
    """The hidden states of all steps, and the state after the last one.

    >>> sequence, state = wy.nn.LSTM(3, 4)(wy.Input(dims=(2, 5, 3)))
    >>> sequence.shape, state.cell.shape
    ((2, 5, 4), (2, 4))
    """

    sequence: Node[Any, tuple[B, T, Out]]
    state: LSTMState[B, Out]


class _Options(TypedDict, total=False):
    coupled: bool
    forget_bias: float | None
    seed: int | None
    dtype: DTypeLike


class _LSTM(Module, Generic[In, Out]):
    """The parameters of an LSTM, and the graph of its steps."""

    input_weight: Parameter[tuple[In, Times[Any, Out]]]
    recurrent_weight: Parameter[tuple[Out, Times[Any, Out]]]
    bias: Parameter[tuple[Times[Any, Out]]]

    def _draw(
        self,
        features: Any,
        hidden: Any,
        *,
        coupled: bool = False,
        forget_bias: float | None = None,
        seed: int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        """Set the parameters; the options of both classes, with their defaults, are these."""
        layer = type(self).__name__
        if coupled and forget_bias is not None:
            raise ValueError(f"{layer}: with coupled=True there is no forget gate to give a bias to")
        inputs, width = sized_axis(layer, "feature", features), sized_axis(layer, "hidden", hidden)
        sums = product((3 if coupled else 4, width))
        random, size = generator(seed), int(width)
        bound = 1.0 / math.sqrt(max(size, 1))
        draw = Uniform(-bound, bound)
        bias = draw((int(sums),), random, dtype)
        if forget_bias is not None:
            bias[size : 2 * size] = forget_bias
        of_inputs, of_hidden = draw((int(inputs), int(sums)), random, dtype), draw((size, int(sums)), random, dtype)
        axes: Any = (inputs, sums), (width, sums), (sums,)
        self.coupled = bool(coupled)
        self.input_weight = Parameter(of_inputs, axes[0], name="input_weight", dtype=dtype)
        self.recurrent_weight = Parameter(of_hidden, axes[1], name="recurrent_weight", dtype=dtype)
        self.bias = Parameter(bias, axes[2], name="bias", dtype=dtype)

    def _states(self, projected: Any, state: Any, reset: Any) -> Any:
        """The states of all steps, of the axes (batch, time, 2, hidden)."""
        if state is None:
            axes: Any = projected.dims[0], self.recurrent_weight.dims[0]
            zero = as_constant(0.0, projected.dtype).broadcast_to(axes)
            state = LSTMState(zero, zero)
        hidden, cell = state
        resets = () if reset is None else (reset,)
        return recurrent.LSTM(projected, self.recurrent_weight, hidden, cell, *resets, coupled=self.coupled)

    def _check(self, x: Any, axes: str, count: int) -> None:
        if len(x.dims) != count:
            raise ShapeError(f"{type(self).__name__} takes the axes {axes}, not {describe(x)}")

    def __repr__(self) -> str:
        features, hidden = self.input_weight.dims[0], self.recurrent_weight.dims[0]
        return f"{type(self).__name__}({features!r}, {hidden!r}{', coupled=True' if self.coupled else ''})"


class LSTM(_LSTM[In, Out]):
    """A long short-term memory over sequences: `(batch, time, features)` becomes `(batch, time, hidden)`.

    Each step has an input gate i, a forget gate f, a candidate g and an output gate o, made of
    `x @ input_weight + hidden @ recurrent_weight + bias`, and computes `cell = f * cell + i * g` and
    `hidden = o * tanh(cell)` (Hochreiter and Schmidhuber, "Long short-term memory", 1997; Gers et al., "Learning to
    forget", 2000). `coupled` leaves the forget gate out: `f = 1 - i` (Greff et al., "LSTM: a search space odyssey",
    2017). Without an initial state, sequences start from zeros.

    `input_weight` has the axes (features, gates * hidden), `recurrent_weight` (hidden, gates * hidden), `bias`
    (gates * hidden,), the gates in the order i, f, g, o: transposed, those of `torch.nn.LSTM`, whose two biases add up
    to this one. All are drawn uniformly within `1 / sqrt(hidden)` of 0, as there, from `seed`, or without one from the
    next seed of the script (see `wyrm.nn.seed`); `forget_bias` is what the bias of the forget gate starts from instead
    (1 helps to remember long). `dtype` is float32 or float64.

    Raises `ShapeError` for an axis without a size or below 0, `DTypeError` for what is no axis or no such dtype,
    `ValueError` for a forget bias where the forget gate is coupled.

    >>> lstm = LSTM(3, 4, forget_bias=1.0)
    >>> sequence, state = lstm(wy.Input(dims=(2, 5, 3)))
    >>> sequence.shape, state.hidden.shape
    ((2, 5, 4), (2, 4))
    """

    @overload
    def __init__(self: LSTM[Any, Any], features: int, hidden: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: LSTM[Any, N], features: int, hidden: N, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: LSTM[M, Any], features: M, hidden: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self, features: In, hidden: Out, **options: Unpack[_Options]) -> None: ...
    def __init__(self, features: Any, hidden: Any, **options: Unpack[_Options]) -> None:
        self._draw(features, hidden, **options)

    def __call__(
        self,
        x: Node[Any, tuple[B, T, In]],
        state: LSTMState[B, Out] | None = None,
        reset: Node[Any, tuple[B, T]] | None = None,
    ) -> LSTMOutput[B, T, Out]:
        """The hidden states of all steps, from `state` or zeros, and the last state.

        Where `reset`, a mask of the axes (batch, time), is true, the state is set to zero before that step, so that one
        row may hold several sequences, one after the other. `ShapeError` where axes do not fit or time has size 0,
        `DTypeError` where a float type is another or `reset` is no mask.
        """
        self._check(x, "(batch, time, features)", 3)
        states = self._states(x @ self.input_weight + self.bias, state, reset)
        return LSTMOutput(states[:, :, 0], LSTMState(states[:, -1, 0], states[:, -1, 1]))


class LSTMCell(_LSTM[In, Out]):
    """One step of a long short-term memory: `(batch, features)` and a state become the next state.

    Parameters, options and errors are those of `LSTM`, which is faster where all inputs of a sequence are known.

    >>> cell, x = LSTMCell(3, 4), wy.Input(dims=(2, 3))
    >>> state = cell(x)
    >>> cell(x, state).hidden.shape
    (2, 4)
    """

    @overload
    def __init__(self: LSTMCell[Any, Any], features: int, hidden: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: LSTMCell[Any, N], features: int, hidden: N, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: LSTMCell[M, Any], features: M, hidden: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self, features: In, hidden: Out, **options: Unpack[_Options]) -> None: ...
    def __init__(self, features: Any, hidden: Any, **options: Unpack[_Options]) -> None:
        self._draw(features, hidden, **options)

    def __call__(self, x: Node[Any, tuple[B, In]], state: LSTMState[B, Out] | None = None) -> LSTMState[B, Out]:
        """The state after one step from `state` or zeros. `ShapeError` where axes do not fit."""
        self._check(x, "(batch, features)", 2)
        projected: Any = x @ self.input_weight + self.bias
        states = self._states(projected.expand_dims(1), state, None)
        return LSTMState(states[:, 0, 0], states[:, 0, 1])
