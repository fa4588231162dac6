"""Gated recurrent unit (GRU) layers: over a whole sequence, and one step at a time."""

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
from wyrm.nn.initial_states import initial_state
from wyrm.nn.initializers import Uniform
from wyrm.nn.module import Module
from wyrm.nn.recurrent_outputs import GRUOutput
from wyrm.nn.seeding import generator
from wyrm.ops.elementwise.elementwise import operand
from wyrm.ops.recurrence import gated_recurrent


class _Options(TypedDict, total=False):
    seed: int | None
    dtype: DTypeLike


class _GRU(Module, Generic[In, Out]):
    """The parameters of a GRU and the graph of its steps."""

    input_weight: Parameter[tuple[In, Times[Any, Out]]]
    recurrent_weight: Parameter[tuple[Out, Times[Any, Out]]]
    bias: Parameter[tuple[Times[Any, Out]]]
    recurrent_bias: Parameter[tuple[Out]]

    def _draw(
        self,
        input_size: Dim | int,
        hidden_size: Dim | int,
        *,
        seed: int | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        """Set the parameters; the options and their defaults are those of both subclasses."""
        layer = type(self).__name__
        features, hidden = sized_axis(layer, "input_size", input_size), sized_axis(layer, "hidden_size", hidden_size)
        bound = 1.0 / math.sqrt(max(int(hidden), 1))
        draw, rng = Uniform(-bound, bound), generator(seed)
        gates = product((3, hidden))
        axes: Any = {
            "input_weight": (features, gates),
            "recurrent_weight": (hidden, gates),
            "bias": (gates,),
            "recurrent_bias": (hidden,),
        }
        for name, dims in axes.items():
            values = draw(tuple(map(int, dims)), rng, dtype)
            setattr(self, name, Parameter(values, dims, name=name, dtype=dtype))

    def _states(self, projected: Node, state: Node | None, reset: Node | None) -> Node:
        """Return the states of all steps, (batch, time, hidden_size)."""
        width = self.recurrent_weight.dims[0]
        hidden = initial_state(type(self).__name__, "the state", state, projected, width)
        resets = () if reset is None else (reset,)
        return gated_recurrent.GRU(projected, self.recurrent_weight, self.recurrent_bias, hidden, *resets)

    def _check(self, x: Node, axes: str, count: int) -> None:
        if len(x.dims) != count:
            raise ShapeError(f"{type(self).__name__} takes the axes {axes}, not {describe(x)}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.input_weight.dims[0]!r}, {self.recurrent_weight.dims[0]!r})"


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

    @overload
    def __init__(self: GRU, input_size: int, hidden_size: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: GRU[Any, N], input_size: int, hidden_size: N, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: GRU[M], input_size: M, hidden_size: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: GRU[M, N], input_size: M, hidden_size: N, **options: Unpack[_Options]) -> None: ...
    def __init__(self, input_size: Dim | int, hidden_size: Dim | int, **options: Unpack[_Options]) -> None:
        self._draw(input_size, hidden_size, **options)

    def __call__(
        self, x: Tensor[B, T, In], state: Tensor[B, Out] | None = None, reset: Tensor[B, T] | None = None
    ) -> GRUOutput[B, T, Out]:
        """Return the states of all steps and the last one, from the initial `state` or zeros.

        Where `reset`, a mask of the axes (batch, time), is true, the state becomes zero before that step: one row may
        hold several sequences in turn. Raise `ShapeError` where axes do not match or time has size 0, `DTypeError` for
        another dtype or a `reset` that is not a mask.
        """
        sequence: Any = operand(x, self.input_weight)
        self._check(sequence, "(batch, time, input_size)", 3)
        states: Any = self._states(sequence @ self.input_weight + self.bias, state, reset)
        return GRUOutput(states, states[:, -1])


class GRUCell(_GRU[In, Out]):
    """One step of a gated recurrent unit: from (batch, input_size) and a state to the next state.

    Parameters, options and errors are those of `GRU`, which is faster where all inputs of a sequence are known.

    >>> cell, x = GRUCell(3, 4), wy.Input(dims=(2, 3))
    >>> state = cell(x)
    >>> cell(x, state).shape
    (2, 4)
    """

    @overload
    def __init__(self: GRUCell, input_size: int, hidden_size: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: GRUCell[Any, N], input_size: int, hidden_size: N, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: GRUCell[M], input_size: M, hidden_size: int, **options: Unpack[_Options]) -> None: ...
    @overload
    def __init__(self: GRUCell[M, N], input_size: M, hidden_size: N, **options: Unpack[_Options]) -> None: ...
    def __init__(self, input_size: Dim | int, hidden_size: Dim | int, **options: Unpack[_Options]) -> None:
        self._draw(input_size, hidden_size, **options)

    def __call__(self, x: Tensor[B, In], state: Tensor[B, Out] | None = None) -> Tensor[B, Out]:
        """Return the state after one step from `state` or zeros; raise `ShapeError` where axes do not match."""
        row: Any = operand(x, self.input_weight)
        self._check(row, "(batch, input_size)", 2)
        projected: Node = row @ self.input_weight + self.bias
        result: Tensor[B, Out] = self._states(projected.expand_dims(1), state, None)[:, 0]
        return result
