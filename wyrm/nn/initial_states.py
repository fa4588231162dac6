"""Checks of the initial states that recurrent layers are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, unify
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import Node
from wyrm.nn.lstm_state import LSTMState
from wyrm.ops.elementwise.elementwise import operand


def _shown(value: object) -> str:
    if isinstance(value, tuple | list):
        return f"{type(value).__name__} of {len(value)}"
    return describe(value) if isinstance(value, BaseNode) else type(value).__name__


def initial_state(layer: str, part: str, state: object, projected: Node, hidden: Axis) -> Node:
    """Return a state as a node of the axes (batch, hidden_size), zeros for None; else raise an error naming `part`.

    `projected` has the axes (batch, time, gates), `hidden` is the axis of a state.
    """
    batch = projected.dims[0]
    if state is None:
        axes: Any = (batch, hidden)
        return as_constant(0.0, projected.dtype).broadcast_to(axes)
    if not isinstance(state, Node | np.ndarray):
        raise DTypeError(
            f"{layer}: {part} must be a node or an array of the axes (batch, hidden_size), not {_shown(state)}"
        )
    node: Node = operand(state, projected)
    if node.ndim != 2:
        layers = ", without PyTorch's first axis, that of layers" if node.ndim == 3 else ""
        raise ShapeError(f"{layer}: {part} must have the axes (batch, hidden_size){layers}, not {describe(node)}")
    for axis, wanted, name in zip(node.dims, (batch, hidden), ("batch of x", "hidden_size"), strict=True):
        try:
            unify(axis, wanted)
        except ShapeError as error:
            raise ShapeError(f"{layer}: {describe(node)} as {part}: {error}, the {name}") from None
    return node


def initial_lstm_state(layer: str, state: object, projected: Node, hidden: Axis) -> LSTMState:
    """Return the two parts of an LSTM's state as `initial_state` does."""
    if state is None:
        zeros = initial_state(layer, "the state", None, projected, hidden)
        return LSTMState(zeros, zeros)
    if not isinstance(state, tuple | list) or len(state) != 2:
        raise DTypeError(f"{layer} takes a state of two parts, wy.nn.LSTMState(hidden, cell), not {_shown(state)}")
    parts = ("the hidden state", "the cell state")
    return LSTMState(*(initial_state(layer, *each, projected, hidden) for each in zip(parts, state, strict=True)))


def states_of_layers(layer: str, states: Any, count: int) -> Sequence[Any]:
    """Return the states of the layers of a stack, None for each without `states`; raise for another number of them."""
    if states is None:
        return [None] * count
    single = isinstance(states, LSTMState) or (isinstance(states, Node | np.ndarray) and states.ndim != 3)
    if single or not isinstance(states, Sequence | Node | np.ndarray):
        raise DTypeError(
            f"{layer} takes a list of states, one for each layer and direction, {count} here, not {_shown(states)}"
        )
    if len(states) != count:
        raise ShapeError(f"{layer} takes {count} states, one for each layer and direction, not {len(states)}")
    return list(states)
