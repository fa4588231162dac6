"""The outputs of GRU layers and of stacks of layers, as named tuples."""

from typing import Any, Generic, NamedTuple

from typing_extensions import TypeVar

from wyrm.graph.node import Node

Out = TypeVar("Out", default=Any)
B = TypeVar("B", default=Any)
T = TypeVar("T", default=Any)
# The last axis of the result of a stack, and the state of one layer in one direction.
Width = TypeVar("Width", default=Any)
State = TypeVar("State", default=Any)


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
