"""`Recurrent`: a layer over sequences from a step of one's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, overload

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import OptionError
from wyrm.functions.pytree import unflatten
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.module import Module
from wyrm.nn.axes import B, In, Out, T
from wyrm.nn.dropout import Dropout
from wyrm.support.options import whole

State = TypeVar("State", default=Any)
StateIn = TypeVar("StateIn", default=Any)


class RecurrentOutput(NamedTuple, Generic[B, T, Out, State]):
    """What the cells return in all steps, and the state after the last step.

    `sequence` has the axes (batch, time, ...). `state` is as `Recurrent` takes it.

    >>> class Sum(wy.nn.Module):
    ...     def __call__(self, state, x):
    ...         return state + x, state
    >>> x = wy.Constant(np.ones((2, 3, 1)))
    >>> output = wy.nn.Recurrent(Sum())(x, np.zeros((2, 1)))
    >>> output.sequence.shape, output.state.forward().tolist()
    ((2, 3, 1), [[3.0], [3.0]])
    """

    sequence: Node[Any, tuple[B, T, Out]]
    state: State


class Cell(Protocol[StateIn, In, Out]):
    """One step: from a state and a row for each sequence, (batch, ...), to the next state and the result of the step."""

    def __call__(self, state: StateIn, x: Tensor[Any, In], /) -> tuple[StateIn, Tensor[Any, Out]]: ...


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
    - `forced` of (time,) or (batch, time) says which steps get `x` (teacher forcing). Each other one gets
      `feedback(y)` of the step before, and the first step always gets `x`. `run` never forces.

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
        cells: Cell[State, In, Out],
        *,
        dropout: float = 0.0,
        feedback: Callable[..., object] | None = None,
    ) -> None: ...
    @overload
    def __init__(
        self: Recurrent[Any, Any, Any],
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
        self.cells = _cells(cells, "cells")
        self.backward_cells = [] if backward is None else _cells(backward, "backward")
        self.dropout = Dropout(dropout)
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
        self,
        x: Tensor[B, T, In],
        state: State | None = None,
        *,
        context: object = None,
        mask: Tensor[B, T] | np.ndarray | None = None,
        lengths: IndexNode[tuple[B]] | Sequence[int] | np.ndarray | None = None,
        forced: Tensor[B, T] | Tensor[T] | np.ndarray | None = None,
    ) -> RecurrentOutput[B, T, Out, State]: ...
    @overload
    def __call__(
        self,
        x: Any,
        state: Any = None,
        *,
        context: object = None,
        mask: Any = None,
        lengths: Any = None,
        forced: Any = None,
    ) -> RecurrentOutput[Any, Any, Any, State]: ...
    def __call__(
        self,
        x: Any,
        state: Any = None,
        *,
        context: object = None,
        mask: Any = None,
        lengths: Any = None,
        forced: Any = None,
    ) -> Any:
        """Return the results of all steps and the last state, from the initial `state` or the cell's own.

        Arguments and errors are those of the class.
        """
        rows = _Rows(x, "x")
        counts = _counted(rows, mask, lengths)
        if forced is None:
            return self._by_layers(rows, state, context, counts)
        if self.backward_cells:
            raise OptionError("Recurrent: forced goes forward in time, and backward runs from the last step")
        return self._fed_back(rows, state, context, counts, _mask("forced", forced, rows))

    def run(
        self, first: Any, steps: int, state: State | None = None, *, context: object = None
    ) -> RecurrentOutput[Any, Any, Out, State]:
        """Return the results of `steps` steps that run freely: each gets `feedback(y)` of the step before.

        `first` is the `x` of the first step, (batch, ...). Without `feedback`, a step gets `y` itself.

        >>> class Double(wy.nn.Module):
        ...     def __call__(self, state, x):
        ...         return state + 1, x * 2.0
        >>> wy.nn.Recurrent(Double()).run(np.ones(1), 3, wy.IndexConstant([0])).sequence.forward().tolist()
        [[2.0, 4.0, 8.0]]
        """
        count = whole("Recurrent.run: steps", steps, 1)
        if self.backward_cells:
            raise OptionError("Recurrent.run goes forward in time, and backward runs from the last step")
        leaves, structure = _flat(first, "first of Recurrent.run")
        result, _ = self._scanned(
            unflatten(structure, leaves), self._states(state, unflatten(structure, leaves)), context, None, count
        )
        return result

    # --- the loops ------------------------------------------------------------------------------------------------

    def _by_layers(self, rows: _Rows, state: Any, context: object, counts: Any) -> RecurrentOutput:
        directions = [self.cells, self.backward_cells] if self.backward_cells else [self.cells]
        given = self._given(state)
        last: list[Any] = []
        sequence = rows
        for level, cells in enumerate(zip(*directions, strict=True)):
            if level:
                sequence = sequence.mapped(lambda y: self.dropout(y) if isinstance(y, Node) else y)
            pairs = [given[level]] if len(cells) == 1 else given[level] or (None, None)
            made, states = [], []
            for backward, (cell, start) in enumerate(zip(cells, pairs, strict=True)):
                found, after = _one_layer(cell, sequence, start, context, counts, bool(backward))
                made.append(found)
                states.append(after)
            last.append(states[0] if len(states) == 1 else tuple(states))
            sequence = made[0] if len(made) == 1 else made[0].joined(made[1])
        return RecurrentOutput(sequence.tree, last[0] if self._single else tuple(last))
