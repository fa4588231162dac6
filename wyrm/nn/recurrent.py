"""Recurrent layers, LSTM and GRU: over a whole sequence, one step at a time, and one above the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypedDict, Unpack, overload

import numpy as np
from typing_extensions import TypeVar

from wyrm.errors import DTypeError, OptionError, ShapeError
from wyrm.functions.carries import dtype_of, leaf_nodes
from wyrm.functions.creation import arange
from wyrm.functions.pytree import PyTreeDef, flatten, unflatten
from wyrm.graph.axes import Times, axis_size, product
from wyrm.graph.base import BaseNode, describe, format_dims
from wyrm.graph.index_leaves import IndexConstant
from wyrm.graph.leaves import Constant
from wyrm.graph.node import IndexNode, Node, Tensor
from wyrm.graph.parameters import Parameter
from wyrm.graph.shapes import same_sizes
from wyrm.graph.typing import DTypeLike, Unnamed
from wyrm.module import Module
from wyrm.nn.axes import B, In, M, N, Out, T, sized_axes, sized_axis
from wyrm.nn.dropout import Dropout
from wyrm.nn.initializers import Uniform
from wyrm.nn.past import Past
from wyrm.nn.recurrent_states import (
    GRUOutput,
    LSTMOutput,
    LSTMState,
    StackedOutput,
    initial_lstm_state,
    initial_state,
    states_of_layers,
)
from wyrm.nn.seeding import generator
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import operand
from wyrm.ops.indexing.joining import concatenate
from wyrm.ops.recurrence import gru, lstm
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import number, whole

Width = TypeVar("Width", default=Any)  # the last axis of the result
# The class of the layers.
Recurrent = TypeVar("Recurrent", default=Any)


class Sequences:
    """Nodes of the axes (batch, time, ...), in the structure of `x` or of the results."""

    def __init__(self, leaves: Sequence[Any], structure: PyTreeDef) -> None:
        self.leaves: list[Any] = list(leaves)
        self.structure = structure

    @classmethod
    def of(cls, x: Any) -> Sequences:
        """Return `x` as sequences; raise `ShapeError` unless all of it have the same first two axes."""
        leaves, structure = flatten(x, "x of Recurrent")
        nodes = leaf_nodes(leaves, dtype_of(leaves))
        if not nodes:
            raise ShapeError("Recurrent: x has no arrays")
        for node in nodes:
            if node.ndim < 2 or not same_sizes(node.dims[:2], nodes[0].dims[:2]):
                raise ShapeError(
                    f"Recurrent takes the axes (batch, time, ...), not {describe(node)}"
                    + (f" beside {describe(nodes[0])}" if node is not nodes[0] else "")
                )
        return cls(nodes, structure)

    @classmethod
    def from_time(cls, made: Any) -> Sequences:
        """Return results that have the axis of time first."""
        leaves, structure = flatten(made, "the results of Recurrent")
        return cls(list(map(_swapped, leaves)), structure)

    @property
    def origin(self) -> str:
        """What messages say after a step of it: the name of the only node, if it has one."""
        name = self.leaves[0].name if len(self.leaves) == 1 else None
        return f" of {name}" if name else ""

    @property
    def tree(self) -> Any:
        """The nodes in their structure."""
        return unflatten(self.structure, self.leaves)

    @property
    def by_time(self) -> Any:
        """The same with the axis of time first."""
        return mapped(_swapped, self.tree)

    def at_step(self, position: int) -> Any:
        """Return the rows of one step."""
        return unflatten(self.structure, [leaf[:, position] for leaf in self.leaves])

    def joined(self, other: Sequences) -> Sequences:
        """Return the nodes concatenated with those of `other` along the last axis."""
        pairs = zip(self.leaves, other.leaves, strict=True)
        return Sequences([concatenate(list(pair), axis=-1) for pair in pairs], self.structure)


def _swapped(node: Any) -> Any:
    """Return a node with its first two axes exchanged."""
    return node.transpose(1, 0, *range(2, node.ndim))


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return a tree of what `function` makes of the leaves."""
    leaves, structure = flatten(tree, "a result of a cell of Recurrent")
    return unflatten(structure, list(map(function, leaves)))


def chosen(mask: Any, new: Any, old: Any) -> Any:
    """Return the leaves of `new` where a mask of (batch,) or () is true, elsewhere those of `old`; None means zeros."""
    leaves, structure = flatten(new, "a state or result of Recurrent")
    others: Sequence[Any] = [None] * len(leaves)
    if old is not None:
        others, before = flatten(old, "a state or result of Recurrent")
        if before != structure:
            raise ShapeError(f"Recurrent: a cell changes the structure of {old!r} to {new!r}")
    return unflatten(structure, [_chosen_state(mask, x, y) for x, y in zip(leaves, others, strict=True)])


def _chosen_state(mask: Any, new: Any, old: Any) -> Any:
    if mask.ndim and not (new.ndim and same_sizes(new.dims[:1], mask.dims)):
        raise ShapeError(
            f"Recurrent: a mask chooses for each sequence, so states and results need the batch as their first axis, "
            f"unlike {describe(new)}"
        )
    zero = {"i": 0, "b": False}.get(new.dtype.kind, 0.0)
    wide = mask.reshape(*mask.dims, *[1] * (new.ndim - 1)) if mask.ndim else mask
    return where(wide, new, zero if old is None else old)


def counted_steps(rows: Sequences, mask: Any, lengths: Any) -> Any:
    """Return the mask of the steps that count, time first; None if all do."""
    if mask is not None and lengths is not None:
        raise OptionError("Recurrent takes a mask or lengths, not both")
    if mask is not None:
        return mask_by_time("mask", mask, rows)
    if lengths is None:
        return None
    batch, time = rows.leaves[0].dims[:2]
    counts = lengths if isinstance(lengths, IndexNode) else IndexConstant(np.asarray(lengths))
    if not same_sizes(counts.dims, (batch,)):
        as_input = f"; give a wy.IndexInput(dims=({batch!r},))" if axis_size(batch) is None else ""
        raise ShapeError(
            f"Recurrent: lengths must have the axes ({batch!r},), those of the batch, not {describe(counts)}{as_input}"
        )
    positions: Any = arange(time)
    return positions.expand_dims(1) < counts


def mask_by_time(name: str, mask: Any, rows: Sequences, per_row: bool = True) -> Any:
    """Return a mask of (batch, time) with time first; unless `per_row`, one of (time,) is fine too."""
    batch, time = rows.leaves[0].dims[:2]
    node: Any = mask if isinstance(mask, BaseNode) else Constant(np.asarray(mask))
    if node.dtype.kind != "b":
        such = "lengths > positions" if per_row else f"wy.random.uniform({format_dims((batch, time))}) < 0.75"
        raise DTypeError(f"Recurrent: {name} must be a mask, such as {such}, not {describe(node)}")
    if not per_row and len(node.dims) < 2 and same_sizes(node.dims, (time,)[: len(node.dims)]):
        return node.broadcast_to((time,))
    if not same_sizes(node.dims, (batch, time)):
        axes = format_dims((batch, time)) if per_row else f"(), {format_dims((time,))} or {format_dims((batch, time))}"
        raise ShapeError(f"Recurrent: {name} must have the axes {axes}, not {describe(node)}")
    return _swapped(node)


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

    def _sequence(self, x: Node, state: object, reset: Node | None, past: Past | None) -> tuple[Any, Any]:
        """Return the states after all steps of `x`, (batch, time, input_size), and the last one."""
        projected = self._projected(x, "(batch, time, input_size)", 3)
        if past is not None:
            state = past.carry(self._initial(state, projected))
        states = self._states(projected, state, reset)
        last = self._last(states)
        if past is not None:
            past.keep(state, last)
        return states, last

    def _initial(self, state: object, projected: Node) -> Any:
        """Return the state before the first step: `state`, or zeros."""
        raise NotImplementedError

    def _last(self, states: Any) -> Any:
        """Return the state after the last of all steps."""
        raise NotImplementedError

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
        hidden, cell = self._initial(state, projected)
        resets = () if reset is None else (reset,)
        return lstm.LSTM(projected, self.recurrent_weight, hidden, cell, *resets, coupled=self.coupled)

    def _initial(self, state: object, projected: Node) -> LSTMState:
        return initial_lstm_state(type(self).__name__, state, projected, self.recurrent_weight.dims[0])

    def _last(self, states: Any) -> LSTMState:
        return LSTMState(states[:, -1, 0], states[:, -1, 1])


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
        self,
        x: Tensor[B, T, In],
        state: LSTMState[B, Out] | None = None,
        reset: Tensor[B, T] | None = None,
        *,
        past: Past | None = None,
    ) -> LSTMOutput[B, T, Out]:
        """Return the hidden states of all steps and the last state, from the initial `state` or zeros.

        Where `reset`, a mask of the axes (batch, time), is true, the state becomes zero before that step: one row may
        hold several sequences in turn. For sequences of several lengths, the state of each after its last step is
        `sequence[wy.arange(batch), lengths - 1]`; `wy.nn.Recurrent` takes `lengths`. With a `past`, as a
        `CachedDecoder` gives, the steps follow earlier ones, before the first of which the state is the initial one.
        Raise `ShapeError` where axes do not match or time has size 0, `DTypeError` for another dtype or a `reset` that
        is not a mask.
        """
        states, last = self._sequence(x, state, reset, past)
        return LSTMOutput(states[:, :, 0], last)


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
        resets = () if reset is None else (reset,)
        hidden = self._initial(state, projected)
        return gru.GRU(projected, self.recurrent_weight, self.recurrent_bias, hidden, *resets)

    def _initial(self, state: object, projected: Node) -> Node:
        return initial_state(type(self).__name__, "the state", state, projected, self.recurrent_weight.dims[0])

    def _last(self, states: Any) -> Any:
        return states[:, -1]


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
        self,
        x: Tensor[B, T, In],
        state: Tensor[B, Out] | None = None,
        reset: Tensor[B, T] | None = None,
        *,
        past: Past | None = None,
    ) -> GRUOutput[B, T, Out]:
        """Return the states of all steps and the last one, from the initial `state` or zeros.

        `reset`, `past` and errors are those of `LSTM`.
        """
        states, last = self._sequence(x, state, reset, past)
        return GRUOutput(states, last)


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


class StackOptions(TypedDict, total=False):
    """The options of the stacks, of LSTMs and of GRUs, that both have."""

    dropout: float
    dropout_seed: int
    seed: int | None
    dtype: DTypeLike


class _Stack(Module, Generic[Recurrent]):
    """The layers of a stack and the graph of their steps."""

    forward_layers: list[Recurrent]
    backward_layers: list[Recurrent]

    def _build(
        self,
        layer: Any,
        input_size: Any,
        hidden_size: Any,
        num_layers: int,
        bidirectional: bool,
        *,
        dropout: float = 0.0,
        dropout_seed: int = 0,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        """Set the layers; the options and their defaults are those of both subclasses."""
        name = type(self).__name__
        hidden = sized_axis(name, "hidden_size", hidden_size)
        count = whole(f"{name}: num_layers", num_layers, 1)
        self.dropout: Dropout = Dropout(dropout, dropout_seed)
        inner: Any = 2 * int(hidden) if bidirectional else hidden
        sizes = [input_size, *[inner] * (count - 1)]

        def layers(first_seed: int) -> list[Any]:
            seeds = [None if seed is None else seed + first_seed + i for i in range(count)]
            return [layer(size, hidden, seed=own, **options) for size, own in zip(sizes, seeds, strict=True)]

        self.forward_layers = layers(0)
        self.backward_layers = layers(count) if bidirectional else []

    def _run(
        self, x: Node, states: Sequence[Any] | None, reset: Node | None, past: Past | None
    ) -> StackedOutput[Any, Any, Any, Any]:
        """Return the output of all layers."""
        directions = [self.forward_layers, self.backward_layers] if self.backward_layers else [self.forward_layers]
        count, name = len(directions) * len(self.forward_layers), type(self).__name__
        for word, given in (("reset", reset), ("past", past)):
            if given is not None and self.backward_layers:
                raise ValueError(f"{name}: {word} is for one direction of time, and bidirectional=True has two")
        starts = iter(states_of_layers(name, states, count))
        sequence, last = x, []
        for level, layers in enumerate(zip(*directions, strict=True)):
            if level > 0:
                sequence = self.dropout(sequence)
            parts: list[Node] = []
            for is_backward, layer in enumerate(layers):
                output = layer(sequence[:, ::-1] if is_backward else sequence, next(starts), reset, past=past)
                parts.append(output.sequence[:, ::-1] if is_backward else output.sequence)
                last.append(output.state)
            sequence = parts[0] if len(parts) == 1 else concatenate(parts, axis=2)
        return StackedOutput(sequence, tuple(last))

    def __repr__(self) -> str:
        first: Any = self.forward_layers[0]
        sizes = f"{first.input_weight.dims[0]!r}, {first.recurrent_weight.dims[0]!r}"
        both = ", bidirectional=True" if self.backward_layers else ""
        return f"{type(self).__name__}({sizes}, num_layers={len(self.forward_layers)}{both})"


class StackedLSTM(_Stack[LSTM], Generic[In, Out, Width]):
    """Layers of `LSTM`, each over the states of the layer below; `torch.nn.LSTM` with `batch_first`.

    With `bidirectional`, each layer also runs from the last step to the first, and the states of both directions are
    concatenated; time then needs a size (Schuster and Paliwal, 1997). While `training`, `dropout` is the rate for the
    states between layers. `forward_layers` and `backward_layers` hold the layers, whose parameters, options and errors
    are those of `LSTM`; layer i of a direction draws from `seed + i`, the backward ones from after that.

    Raise `ValueError` for fewer layers than one or a rate outside [0, 1), and the errors of `LSTM`.

    >>> lstm = StackedLSTM(3, 4, num_layers=2, bidirectional=True, dropout=0.1)
    >>> sequence, states = lstm(wy.Input(dims=(2, 5, 3)))
    >>> sequence.shape, len(states), states[0].hidden.shape
    ((2, 5, 8), 4, (2, 4))
    """

    @overload
    def __init__(
        self: StackedLSTM[M, N, N], input_size: M | Unnamed[M], hidden_size: N | Unnamed[N], num_layers: int = 1,
        *, bidirectional: Literal[False] = False, **options: Unpack[StackOptions],
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self: StackedLSTM[M, N, Any], input_size: M | Unnamed[M], hidden_size: N | Unnamed[N], num_layers: int = 1,
        *, bidirectional: bool, **options: Unpack[StackOptions],
    ) -> None: ...  # fmt: skip
    def __init__(
        self, input_size: Any, hidden_size: Any, num_layers: int = 1, *, bidirectional: bool = False,
        **options: Unpack[StackOptions],
    ) -> None:  # fmt: skip
        self._build(LSTM, input_size, hidden_size, num_layers, bidirectional, **options)

    @explains_keywords
    def __call__(
        self,
        x: Tensor[B, T, In],
        states: Sequence[LSTMState[B, Out]] | None = None,
        reset: Tensor[B, T] | None = None,
        *,
        past: Past | None = None,
    ) -> StackedOutput[B, T, Width, LSTMState[B, Out]]:
        """Return the states of the last layer and the last states of all, from initial `states` or zeros.

        `reset` and `past` are those of `LSTM`, for one direction. Raise `ShapeError` where axes or the number of states
        do not match, `ValueError` for a `reset` or a `past` with two directions.
        """
        return self._run(x, states, reset, past)


class StackedGRU(_Stack[GRU], Generic[In, Out, Width]):
    """Layers of `GRU`, each over the states of the layer below; `torch.nn.GRU` with `batch_first`.

    Directions, dropout, options and errors are those of `StackedLSTM`.

    >>> gru = StackedGRU(3, 4, num_layers=3)
    >>> sequence, states = gru(wy.Input(dims=(2, 5, 3)))
    >>> sequence.shape, len(states), states[0].shape
    ((2, 5, 4), 3, (2, 4))
    """

    @overload
    def __init__(
        self: StackedGRU[M, N, N], input_size: M | Unnamed[M], hidden_size: N | Unnamed[N], num_layers: int = 1,
        *, bidirectional: Literal[False] = False, **options: Unpack[StackOptions],
    ) -> None: ...  # fmt: skip
    @overload
    def __init__(
        self: StackedGRU[M, N, Any], input_size: M | Unnamed[M], hidden_size: N | Unnamed[N], num_layers: int = 1,
        *, bidirectional: bool, **options: Unpack[StackOptions],
    ) -> None: ...  # fmt: skip
    def __init__(
        self, input_size: Any, hidden_size: Any, num_layers: int = 1, *, bidirectional: bool = False,
        **options: Unpack[StackOptions],
    ) -> None:  # fmt: skip
        self._build(GRU, input_size, hidden_size, num_layers, bidirectional, **options)

    @explains_keywords
    def __call__(
        self,
        x: Tensor[B, T, In],
        states: Sequence[Tensor[B, Out]] | None = None,
        reset: Tensor[B, T] | None = None,
        *,
        past: Past | None = None,
    ) -> StackedOutput[B, T, Width, Tensor[B, Out]]:
        """Return the states of the last layer and the last states of all, as `StackedLSTM`."""
        return self._run(x, states, reset, past)
