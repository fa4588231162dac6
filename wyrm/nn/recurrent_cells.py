"""`Recurrent`: a layer over sequences from a step of one's own, whose results are checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, overload

import numpy as np
from typing_extensions import TypeVar, TypeVarTuple, Unpack

from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.functions.carries import dtype_of, leaf_nodes
from wyrm.functions.creation import arange
from wyrm.functions.loops import scan_of
from wyrm.functions.pytree import flatten, unflatten
from wyrm.graph.axes import Axis, Dim
from wyrm.graph.base import BaseNode, describe, format_dims
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.shapes import same_sizes
from wyrm.module import Module
from wyrm.nn.axes import B, In, M, N, Out, T
from wyrm.nn.dropout import Dropout
from wyrm.nn.past import Past
from wyrm.nn.recurrent import GRUCell, LSTMCell, Sequences, chosen, counted_steps, mapped, mask_by_time
from wyrm.nn.recurrent_states import RecurrentOutput
from wyrm.support.options import whole


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


def _leaves_as_nodes(tree: object) -> tuple[list[Any], Any]:
    """Return the leaves of a tree as nodes, and its structure."""
    leaves, structure = flatten(tree, "a state or result of Recurrent")
    return leaf_nodes(leaves, dtype_of(leaves)), structure


def _alike(one: object, other: object) -> bool:
    """Return whether two trees have the same structure and axes."""
    (nodes, structure), (others, beside) = _leaves_as_nodes(one), _leaves_as_nodes(other)
    return structure == beside and all(same_sizes(x.dims, y.dims) for x, y in zip(nodes, others, strict=True))


def check_state(cell: str, state: object, rows: Sequences) -> None:
    """Raise `ShapeError` for a first state whose first axis is not the batch of `x`."""
    x = rows.leaves[0]
    for node in _leaves_as_nodes(state)[0]:
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
        f"Recurrent: the state of {cell} changes from {shown(before)} to {_nodes_with_lines(after)}: a cell returns "
        f"(state, y), whose state keeps its structure and axes from step to step{swapped}"
    )


def _nodes_with_lines(tree: object) -> str:
    """Return the nodes of a state or result with the lines that made them."""
    found = [describe(node) for node in _leaves_as_nodes(tree)[0]]
    return found[0] if len(found) == 1 else f"[{', '.join(found)}]"


def check_fed_back(again: object, fed: object, has_feedback: bool) -> None:
    """Raise `ShapeError` if what a step feeds back is not like the `x` of a step."""
    if _alike(again, fed):
        return
    what = "feedback(y)" if has_feedback else "y"
    remedy = "let feedback return what a step takes" if has_feedback else "give feedback="
    raise ShapeError(
        f"Recurrent: {what} is {_nodes_with_lines(again)} and the x of a step is {shown(fed)}: {remedy}, such as "
        f"feedback=lambda y: y.argmax(axis=-1)"
    )


def first_row(first: Any, state: Any) -> Any:
    """Return the `x` of the first step with the axis of the batch, which a number takes from the `state`."""
    integers = isinstance(first, list) and all(isinstance(each, int) for each in first)
    if integers or (isinstance(first, int | np.integer) and not isinstance(first, bool)):
        first = np.asarray(first)  # else a list is a tree of its elements, and a number becomes a float
    batch: Axis | None = next(
        (node.dims[0] for node in ([] if state is None else _leaves_as_nodes(state)[0]) if node.dims), None
    )
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


State = TypeVar("State", default=Any)
Rest = TypeVarTuple("Rest", default=Unpack[tuple[Any, ...]])
# The state and the last axes of `x` and of the result of a cell, of which type checkers want their own variables.
CellState = TypeVar("CellState")
CellIn = TypeVar("CellIn")
CellOut = TypeVar("CellOut")


class RecurrentCell(Protocol[CellState, CellIn, CellOut]):
    """One step: from a state and a row for each sequence to the next state and the result of the step."""

    def __call__(self, state: CellState, x: Tensor[Any, CellIn], /) -> tuple[CellState, Tensor[Any, CellOut]]: ...


class AnyResult(Dim):
    """In the place of the last axis, for type checkers: the results of a cell may be anything."""


class Recurrent(Module, Generic[State, In, Out]):
    """A layer that applies a cell to each step of sequences: (batch, time, ...) to (batch, time, ...).

    A cell is a module, or another function of nodes, `(state, x) -> (state, y)`: from the state and a row of `x` for
    each sequence, (batch, ...), it returns the next state and the result of the step. States, `x` and `y` may be nested
    tuples, lists and dicts of nodes, whose first axis is the batch. With `context`, the cell is called as
    `cell(state, x, context)`, the same in all steps: what an attention looks at.

    - Several cells, as a list, are layers: each gets the results of the one below, with `dropout` between them while
      `training`. The state is then a tuple of theirs.
    - `backward` has a cell for each of them that runs from the last step to the first. Its results are concatenated to
      the others along the last axis; a state is then a pair `(forward, backward)`.
    - `mask` of (batch, time), or `lengths` of (batch,), says which steps count. In the others, a sequence keeps its
      state, and `y` is zero.
    - `forced` of (), (time,) or (batch, time) says which steps get `x` (teacher forcing). Each other one gets
      `feedback(y)` of the step before, and the first step always gets `x`. `run` never forces. For a model that
      predicts the next token, the `x` of step t is the target of step t - 1. To force 3 steps of 4, give
      `wy.random.uniform((batch, time)) < 0.75`.

    A cell that has a method `initial_state(x)` says where to start: `x` has the axes (batch, ...) of a step. Otherwise
    the call gives a `state`. One loop in the graph computes a layer (`wy.scan`), so batch and time may come from data.
    For LSTM and GRU, `wy.nn.LSTM` and `wy.nn.GRU` are faster.

    Raise `TypeError` for a cell that cannot be called, `OptionError` for lists of different lengths or options that do
    not go together, `ShapeError` where axes do not match, `DTypeError` for a `mask` or `forced` that is not a mask.

    >>> class Leaky(wy.nn.Module):
    ...     def __init__(self) -> None:
    ...         self.decay = wy.Parameter(0.5)
    ...     def initial_state(self, x):
    ...         return wy.zeros_like(x)
    ...     def __call__(self, state, x):
    ...         state = self.decay * state + x
    ...         return state, state.tanh()
    >>> layer = wy.nn.Recurrent(Leaky())
    >>> x = wy.Constant(np.ones((1, 4, 1), np.float32))
    >>> layer(x).state.forward().tolist(), layer(x, lengths=[2]).state.forward().tolist()
    ([[1.875]], [[1.5]])
    """

    @overload
    def __init__(
        self,
        cells: RecurrentCell[State, In, Out],
        *,
        dropout: float = 0.0,
        feedback: Callable[..., object] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Recurrent[Any, Any, AnyResult],
        cells: Callable[..., tuple[Any, Any]] | Sequence[Callable[..., tuple[Any, Any]]],
        *,
        backward: Callable[..., tuple[Any, Any]] | Sequence[Callable[..., tuple[Any, Any]]] | None = None,
        dropout: float = 0.0,
        feedback: Callable[..., object] | None = None,
    ) -> None: ...
    def __init__(
        self,
        cells: Any,
        *,
        backward: Any = None,
        dropout: float = 0.0,
        feedback: Callable[..., object] | None = None,
    ) -> None:
        self.cells: list[Any] = _cells(cells, "cells")
        self.backward_cells: list[Any] = [] if backward is None else _cells(backward, "backward")
        self.dropout: Dropout = Dropout(dropout)
        self.feedback = feedback
        self._single = not isinstance(cells, Sequence)
        if backward is not None and len(self.backward_cells) != len(self.cells):
            raise OptionError(
                f"Recurrent: backward has {len(self.backward_cells)} cells for {len(self.cells)} layers: give one for "
                f"each"
            )
        if backward is not None and feedback is not None:
            raise OptionError("Recurrent: feedback goes forward in time, and backward runs from the last step")

    @overload
    def __call__(
        self: Recurrent[State, In, AnyResult],
        x: Any,
        state: State | None = None,
        *,
        context: object = None,
        mask: Any = None,
        lengths: Any = None,
        forced: Any = None,
        past: Past | None = None,
    ) -> RecurrentOutput[Any, State]: ...
    @overload
    def __call__(
        self,
        x: Tensor[B, T, In],
        state: State | None = None,
        *,
        context: object = None,
        mask: Tensor[B, T] | np.ndarray | None = None,
        lengths: IndexNode[tuple[B]] | Sequence[int] | np.ndarray | None = None,
        forced: Tensor[B, T] | Tensor[T] | Tensor[()] | np.ndarray | bool | None = None,
        past: Past | None = None,
    ) -> RecurrentOutput[Tensor[B, T, Out], State]: ...
    @overload
    def __call__(
        self,
        x: Tensor[B, T, M, N, *Rest] | IndexNode | tuple[Any, ...] | list[Any] | dict[str, Any],
        state: State | None = None,
        *,
        context: object = None,
        mask: Any = None,
        lengths: Any = None,
        forced: Any = None,
        past: Past | None = None,
    ) -> RecurrentOutput[Any, State]: ...
    def __call__(
        self,
        x: Any,
        state: Any = None,
        *,
        context: object = None,
        mask: Any = None,
        lengths: Any = None,
        forced: Any = None,
        past: Past | None = None,
    ) -> Any:
        """Return the results of all steps and the last state, from the initial `state` or the cell's own.

        With a `past`, as a `CachedDecoder` gives, the steps follow earlier ones, before the first of which the state is
        the initial one. Other arguments and errors are those of the class; raise `OptionError` for a `past` beside
        `forced` or `backward`.
        """
        rows = Sequences.of(x)
        counted = counted_steps(rows, mask, lengths)
        if past is not None:
            self._check_direction("past")
            if forced is not None:
                raise OptionError("Recurrent: past is for given tokens, so it takes no forced")
        if forced is None:
            return self._by_layers(rows, state, context, counted, past)
        self._check_direction("forced")
        masks = mask_by_time("forced", forced, rows, per_row=False), counted
        return self._by_steps(rows.at_step(0), state, context, (rows.by_time, *masks), None)

    @overload
    def run(
        self: Recurrent[State, In, AnyResult],
        first: Any,
        steps: int,
        state: State | None = None,
        *,
        context: object = None,
    ) -> RecurrentOutput[Any, State]: ...
    @overload
    def run(
        self, first: Tensor[B, In], steps: int, state: State | None = None, *, context: object = None
    ) -> RecurrentOutput[Tensor[B, Any, Out], State]: ...
    @overload
    def run(
        self, first: Any, steps: int, state: State | None = None, *, context: object = None
    ) -> RecurrentOutput[Any, State]: ...
    def run(self, first: Any, steps: int, state: Any = None, *, context: object = None) -> Any:
        """Return the results of `steps` steps that run freely: each gets `feedback(y)` of the step before.

        `first` is the `x` of the first step, (batch, ...), or one number for all sequences, such as the token that
        begins them. Without `feedback`, a step gets `y` itself.

        Raise `ShapeError` for a `first` of other axes and for a `feedback(y)` that is not like it.

        >>> class Double(wy.nn.Module):
        ...     def __call__(self, state, x):
        ...         return state + 1, x * 2.0
        >>> layer = wy.nn.Recurrent(Double())
        >>> layer.run(np.ones(1), 3, wy.IndexConstant([0])).sequence.forward().tolist()
        [[2.0, 4.0, 8.0]]
        >>> class Count(wy.nn.Module):
        ...     def __call__(self, state, token):
        ...         return state, wy.one_hot((token + 1) % 5, 5)
        >>> layer = wy.nn.Recurrent(Count(), feedback=lambda y: y.argmax(axis=-1))
        >>> layer.run(2, 4, np.zeros((1, 3))).sequence.argmax(axis=-1).forward().tolist()
        [[3, 4, 0, 1]]
        """
        count = whole("Recurrent.run: steps", steps, 1)
        self._check_direction("run")
        return self._by_steps(first_row(first, state), state, context, None, count)

    # --- the loops ------------------------------------------------------------------------------------------------

    def _by_layers(self, rows: Sequences, state: Any, context: object, counted: Any, past: Past | None) -> Any:
        """Return the output of a loop for each layer and direction."""
        directions = [self.cells, self.backward_cells] if self.backward_cells else [self.cells]
        last: list[Any] = []
        for level, cells in enumerate(zip(*directions, strict=True)):
            given = self._state_of(state, level)
            starts = [given] if len(cells) == 1 else [None, None] if given is None else list(given)
            if level:
                rows = Sequences(list(map(self._dropped, rows.leaves)), rows.structure)
            made, states = [], []
            for position, (cell, start) in enumerate(zip(cells, starts, strict=True)):
                found, after = _layer(cell, rows, start, context, counted, past, reverse=position > 0)
                made.append(found)
                states.append(after)
            last.append(states[0] if len(states) == 1 else tuple(states))
            rows = made[0] if len(made) == 1 else made[0].joined(made[1])
        return RecurrentOutput(rows.tree, last[0] if self._single else tuple(last))

    def _by_steps(
        self,
        first: Any,
        state: Any,
        context: object,
        xs: tuple[Any, Any, Any] | None,
        length: int | None,
    ) -> Any:
        """Return the output of one loop over all layers, in which a step may get the result of the one before.

        `xs` has for each step its `x`, the mask of what is forced, and the mask of what counts, None if all steps do.
        """
        x, states = first, []
        for level, cell in enumerate(self.cells):
            start = self._state_of(state, level)
            states.append(_initial(cell, x) if start is None else start)
            if level + 1 < len(self.cells):
                x = _applied(cell, states[-1], x, context)[1]

        def step(carry: Any, each: Any) -> Any:
            before, fed = carry
            given, forced, counted = (fed, None, None) if each is None else each
            x = fed if forced is None else chosen(forced, given, fed)
            after = []
            for level, cell in enumerate(self.cells):
                if level:
                    x = mapped(self._dropped, x)
                new, x = _applied(cell, before[level], x, context)
                after.append(new)
            again = x if self.feedback is None else self.feedback(x)
            check_fed_back(again, fed, self.feedback is not None)
            if counted is not None:
                after = [chosen(counted, new, old) for new, old in zip(after, before, strict=True)]
                again, x = chosen(counted, again, fed), chosen(counted, x, None)
            return (tuple(after), again), x

        names = {f"carry[0][{level}]": f"the state of {_cell_name(cell)}" for level, cell in enumerate(self.cells)}
        names |= {"carry[1]": "x of a step", "x[0]": "x of a step", "x[1]": "forced", "x[2]": "mask"}
        start = (tuple(states), first)
        (after, _), made = scan_of(step, start, xs, length, "Recurrent", called=partial(path_in_words, names))
        sequences = Sequences.from_time(made)
        return RecurrentOutput(sequences.tree, after[0] if self._single else after)

    # --- checks ---------------------------------------------------------------------------------------------------

    def _check_direction(self, what: str) -> None:
        if self.backward_cells:
            raise OptionError(f"Recurrent: {what} feeds results forward in time, and backward runs from the last step")

    def _state_of(self, state: Any, level: int) -> Any:
        """Return the given state of a layer, None for its own."""
        if state is None or self._single:
            return state
        if not isinstance(state, tuple | list) or len(state) != len(self.cells):
            raise ShapeError(f"Recurrent takes a tuple of {len(self.cells)} states, one for each layer, not {state!r}")
        return state[level]

    def _dropped(self, y: Any) -> Any:
        return self.dropout(y) if isinstance(y, Node) and y.dtype.kind == "f" else y


def _layer(
    cell: Any, rows: Sequences, start: Any, context: object, counted: Any, past: Past | None, reverse: bool
) -> tuple[Sequences, Any]:
    """Return the results of a cell in all steps and its last state."""

    def step(state: Any, each: Any) -> Any:
        x, counts = each
        after, y = _applied(cell, state, x, context)
        if counts is not None:
            after, y = chosen(counts, after, state), chosen(counts, y, None)
        return after, y

    state = _initial(cell, rows.at_step(-1 if reverse else 0)) if start is None else start
    check_state(_cell_name(cell), state, rows)
    if past is not None:
        state = past.carry(state)
    names = {"carry": f"the state of {_cell_name(cell)}", "x[0]": f"x of a step{rows.origin}", "x[1]": "mask"}
    called, xs = partial(path_in_words, names), (rows.by_time, counted)
    last, made = scan_of(step, state, xs, None, "Recurrent", reverse=reverse, called=called)
    if past is not None:
        past.keep(state, last)
    return Sequences.from_time(made), last


def _applied(cell: Any, state: Any, x: Any, context: object) -> tuple[Any, Any]:
    """Return the next state and the result of a cell."""
    try:
        found = cell(state, x) if context is None else cell(state, x, context)
    except (ShapeError, DTypeError) as error:
        beside = "" if context is None else ", context"
        error.add_note(
            f"Recurrent calls {_cell_name(cell)}(state, x{beside}) with state {shown(state)} and x {shown(x)}"
        )
        raise
    except TypeError:
        if context is None and _takes_context(cell):
            raise TypeError(f"Recurrent: {_cell_name(cell)} takes a context: give context= to the layer") from None
        raise
    if not isinstance(found, tuple) or len(found) != 2:
        raise ShapeError(f"Recurrent: {_cell_name(cell)} must return a pair (state, y), not {found!r}")
    check_next_state(_cell_name(cell), state, *found)
    return found


def _takes_context(cell: Any) -> bool:
    """Return whether a cell has three arguments that must be given."""
    try:
        parameters = inspect.signature(cell).parameters.values()
    except (TypeError, ValueError):  # as of some builtins
        return False
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return sum(each.default is each.empty for each in positional) == 3


def _initial(cell: Any, x: Any) -> Any:
    """Return the state that a cell starts from."""
    own = getattr(cell, "initial_state", None)
    if own is None:
        raise OptionError(
            f"Recurrent: {_cell_name(cell)} has no method initial_state(x): give the first state, as in "
            f"layer(x, state), or define the method, as in `return wy.zeros_like(x)`"
        )
    return own(x)


def _cells(given: Any, name: str) -> list[Any]:
    cells = list(given) if isinstance(given, Sequence) else [given]
    if not cells:
        raise OptionError(f"Recurrent: {name} must have at least one cell")
    for cell in cells:
        if isinstance(cell, GRUCell | LSTMCell):
            layer = type(cell).__name__.removesuffix("Cell")
            raise TypeError(f"Recurrent takes cells (state, x) -> (state, y): for {_cell_name(cell)} use wy.nn.{layer}")
        if not callable(cell) or isinstance(cell, type):
            made = ", an instance of it" if isinstance(cell, type) else ""
            raise TypeError(f"Recurrent takes cells (state, x) -> (state, y){made}, not {cell!r}")
    return cells


def _cell_name(cell: Any) -> str:
    return str(getattr(cell, "__name__", type(cell).__name__))
