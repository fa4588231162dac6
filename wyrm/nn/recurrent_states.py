"""The states and outputs of recurrent layers, as named tuples, and the checks of what cells get and return.

Their annotations are evaluated, because the reference shows those of named tuples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, NoReturn

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import DTypeError, ShapeError
from wyrm.functions.carries import dtype_of, leaf_nodes
from wyrm.functions.creation import arange
from wyrm.functions.pytree import flatten, unflatten
from wyrm.graph.axes import Axis, unify
from wyrm.graph.base import BaseNode, describe, format_dims
from wyrm.graph.leaves import as_constant
from wyrm.graph.node import IndexNode, Node
from wyrm.graph.shapes import same_sizes
from wyrm.nn.sequences import Sequences
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


def path_in_words(names: Mapping[str, str], path: str) -> str:
    """Return the name of a carry or row of a loop for messages, from its path; `names` has one for each prefix."""
    for start, name in names.items():
        if path.startswith(start):
            rest = path.removeprefix(start)
            return f"{name}, {rest}" if rest else name
    return path


def shown(tree: object) -> str:
    """Return the axes and dtypes of a state or row."""
    leaves, _ = flatten(tree, "a state or x of Recurrent")
    found = [
        f"{format_dims(leaf.dims)} {leaf.dtype}" if isinstance(leaf, BaseNode) else str(np.shape(leaf))
        for leaf in leaves
    ]
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


def _nodes(tree: object) -> tuple[list[Any], Any]:
    """Return the leaves of a tree as nodes, and its structure."""
    leaves, structure = flatten(tree, "a state or result of Recurrent")
    return leaf_nodes(leaves, dtype_of(leaves)), structure


def _alike(one: object, other: object) -> bool:
    """Return whether two trees have the same structure and axes."""
    (nodes, structure), (others, beside) = _nodes(one), _nodes(other)
    return structure == beside and all(same_sizes(x.dims, y.dims) for x, y in zip(nodes, others, strict=True))


def check_state(cell: str, state: object, rows: Sequences) -> None:
    """Raise `ShapeError` for a first state whose first axis is not the batch of `x`."""
    x = rows.leaves[0]
    for node in _nodes(state)[0]:
        if node.dims and not same_sizes(node.dims[:1], x.dims[:1]):
            raise ShapeError(
                f"Recurrent: the state of {cell} is {describe(node)} and x is {describe(x)}: a state has the axes "
                f"(batch, ...) and x (batch, time, ...), with the same batch"
            )


def check_next_state(cell: str, before: object, after: object, y: object) -> None:
    """Raise `ShapeError` if a cell returns a state of other axes or another structure than it got."""
    if _alike(before, after):
        return
    swapped = "; y is like the state: return (state, y), in this order" if _alike(before, y) else ""
    raise ShapeError(
        f"Recurrent: the state of {cell} changes from {shown(before)} to {_described(after)}: a cell returns "
        f"(state, y), whose state keeps its structure and axes from step to step{swapped}"
    )


def _described(tree: object) -> str:
    """Return the nodes of a state or result with the lines that made them."""
    found = [describe(node) for node in _nodes(tree)[0]]
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


def check_fed_back(again: object, fed: object, has_feedback: bool) -> None:
    """Raise `ShapeError` if what a step feeds back is not like the `x` of a step."""
    if _alike(again, fed):
        return
    what = "feedback(y)" if has_feedback else "y"
    remedy = "let feedback return what a step takes" if has_feedback else "give feedback="
    raise ShapeError(
        f"Recurrent: {what} is {_described(again)} and the x of a step is {shown(fed)}: {remedy}, such as "
        f"feedback=lambda y: y.argmax(axis=-1)"
    )


def first_row(first: Any, state: Any) -> Any:
    """Return the `x` of the first step with the axis of the batch, which a number takes from the `state`."""
    integers = isinstance(first, list) and all(isinstance(each, int) for each in first)
    if integers or (isinstance(first, int | np.integer) and not isinstance(first, bool)):
        first = np.asarray(first)  # else a list is a tree of its elements, and a number becomes a float
    batch: Axis | None = next((node.dims[0] for node in ([] if state is None else _nodes(state)[0]) if node.dims), None)
    leaves, structure = flatten(first, "first of Recurrent.run")
    made = []
    for leaf, node in zip(leaves, leaf_nodes(leaves, dtype_of(leaves)), strict=True):
        if not node.dims and batch is not None:
            made.append(_for_each(node, batch))
        elif not node.dims or (batch is not None and not same_sizes(node.dims[:1], (batch,))):
            of_state = "" if batch is None else f" with the batch of the state, {batch!r}"
            raise ShapeError(f"Recurrent.run: first must have the axes (batch, ...){of_state}, not {describe(node)}")
        else:
            made.append(leaf)
    return unflatten(structure, made)


def _for_each(number: Any, batch: Any) -> Any:
    """Return a scalar for each sequence of a batch."""
    if isinstance(number, IndexNode):
        positions: Any = arange(batch)
        return positions * 0 + number
    return number.broadcast_to((batch,))
