"""The states and outputs of recurrent layers, as named tuples, and the checks of states that a caller gives.

Their annotations are evaluated, because the reference shows those of named tuples.
"""

from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, NoReturn

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import DTypeError, ShapeError
from wyrm.graph.axes import Axis, unify
from wyrm.graph.base import BaseNode, describe
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import Node
from wyrm.ops.elementwise.elementwise import operand

Out = TypeVar("Out", default=Any)
B = TypeVar("B", default=Any)
T = TypeVar("T", default=Any)
# The last axis of the result of a stack, and the state of one layer in one direction.
Width = TypeVar("Width", default=Any)
State = TypeVar("State", default=Any)
# The results of the cells of a layer in all steps.
Made = TypeVar("Made", default=Any)


class LSTMState(NamedTuple, Generic[B, Out]):
    """The hidden state and the cell state between two steps, each of shape (batch, hidden_size).

    >>> lstm = wy.nn.LSTM(3, 4)
    >>> start = LSTMState(wy.Input(dims=(2, 4)), wy.Input(dims=(2, 4)))
    >>> lstm(wy.Input(dims=(2, 5, 3)), start).state.hidden.shape
    (2, 4)
    """

    hidden: Node[Any, tuple[B, Out]]
    cell: Node[Any, tuple[B, Out]]


class LSTMOutput(NamedTuple, Generic[B, T, Out]):
    """The hidden states of all steps, of shape (batch, time, hidden_size), and the state after the last step.

    >>> sequence, state = wy.nn.LSTM(3, 4)(wy.Input(dims=(2, 5, 3)))
    >>> sequence.shape, state.cell.shape
    ((2, 5, 4), (2, 4))
    """

    sequence: Node[Any, tuple[B, T, Out]]
    state: LSTMState[B, Out]


class GRUOutput(NamedTuple, Generic[B, T, Out]):
    """The states of all steps, of shape (batch, time, hidden_size), and the state after the last step.

    >>> sequence, state = wy.nn.GRU(3, 4)(wy.Input(dims=(2, 5, 3)))
    >>> sequence.shape, state.shape
    ((2, 5, 4), (2, 4))
    """

    sequence: Node[Any, tuple[B, T, Out]]
    state: Node[Any, tuple[B, Out]]


class StackedOutput(NamedTuple, Generic[B, T, Width, State]):
    """The states of the last layer after all steps, and the last states of all layers and directions.

    `sequence` has the axes (batch, time, hidden_size), or twice that with two directions: forward, then backward.
    `states` are in PyTorch's order: the layers from the first, each forward and, with two directions, backward.

    >>> output = wy.nn.StackedGRU(3, 4, num_layers=2, bidirectional=True)(wy.Input(dims=(2, 5, 3)))
    >>> output.sequence.shape, len(output.states), output.states[0].shape
    ((2, 5, 8), 4, (2, 4))
    """

    sequence: Node[Any, tuple[B, T, Width]]
    states: tuple[State, ...]


class RecurrentOutput(NamedTuple, Generic[Made, State]):
    """What the cells return in all steps, and the state after the last step.

    `sequence` has the axes (batch, time, ...), in the containers that a cell returns. `state` is as `Recurrent`
    takes it.

    >>> class Sum(wy.nn.Module):
    ...     def __call__(self, state, x):
    ...         return state + x, state
    >>> x = wy.Constant(np.ones((2, 3, 1)))
    >>> output = wy.nn.Recurrent(Sum())(x, np.zeros((2, 1)))
    >>> output.sequence.shape, output.state.forward().tolist()
    ((2, 3, 1), [[3.0], [3.0]])
    """

    sequence: Made
    state: State


def _absent(output: RecurrentOutput, name: str) -> NoReturn:
    told = f"; use .sequence, as in output.sequence.{name}" if hasattr(Node, name) else ""
    raise AttributeError(f"RecurrentOutput, a pair (sequence, state), has no attribute {name!r}{told}")


RecurrentOutput.__getattr__ = _absent  # type: ignore[attr-defined]  # type checkers know the fields, and no other


def _type_of(value: object) -> str:
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
            f"{layer}: {part} must be a node or an array of the axes (batch, hidden_size), not {_type_of(state)}"
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
        raise DTypeError(f"{layer} takes a state of two parts, wy.nn.LSTMState(hidden, cell), not {_type_of(state)}")
    parts = ("the hidden state", "the cell state")
    return LSTMState(*(initial_state(layer, *each, projected, hidden) for each in zip(parts, state, strict=True)))


def states_of_layers(layer: str, states: Any, count: int) -> Sequence[Any]:
    """Return the states of the layers of a stack, None for each without `states`; raise for another number of them."""
    if states is None:
        return [None] * count
    single = isinstance(states, LSTMState) or (isinstance(states, Node | np.ndarray) and states.ndim != 3)
    if single or not isinstance(states, Sequence | Node | np.ndarray):
        raise DTypeError(
            f"{layer} takes a list of states, one for each layer and direction, {count} here, not {_type_of(states)}"
        )
    if len(states) != count:
        raise ShapeError(f"{layer} takes {count} states, one for each layer and direction, not {len(states)}")
    return list(states)
