"""The state and the output of an LSTM layer, as named tuples."""

from typing import Any, Generic, NamedTuple

from typing_extensions import TypeVar

from wyrm.graph.node import Node

Out = TypeVar("Out", default=Any)
B = TypeVar("B", default=Any)
T = TypeVar("T", default=Any)


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
