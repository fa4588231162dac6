"""Several LSTM or GRU layers, one above the other, in one or both directions of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, Literal, TypedDict, Unpack, overload

from typing_extensions import TypeVar

from wyrm.graph.node import Node, Tensor
from wyrm.graph.typing import DTypeLike, Unnamed
from wyrm.module import Module
from wyrm.nn.axes import B, In, M, N, Out, T, sized_axis
from wyrm.nn.dropout import Dropout
from wyrm.nn.recurrent import GRU, LSTM
from wyrm.nn.recurrent_states import LSTMState, StackedOutput, states_of_layers
from wyrm.ops.indexing.joining import concatenate
from wyrm.support.foreign_names import explains_keywords
from wyrm.support.options import whole

Width = TypeVar("Width", default=Any)  # the last axis of the result
# The class of the layers.
Recurrent = TypeVar("Recurrent", default=Any)


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

    def _run(self, x: Node, states: Sequence[Any] | None, reset: Node | None) -> StackedOutput[Any, Any, Any, Any]:
        """Return the output of all layers."""
        directions = [self.forward_layers, self.backward_layers] if self.backward_layers else [self.forward_layers]
        count, name = len(directions) * len(self.forward_layers), type(self).__name__
        if reset is not None and self.backward_layers:
            raise ValueError(f"{name}: reset is for one direction of time, and bidirectional=True has two")
        given = iter(states_of_layers(name, states, count))
        sequence, last = x, []
        for level, layers in enumerate(zip(*directions, strict=True)):
            if level > 0:
                sequence = self.dropout(sequence)
            parts: list[Node] = []
            for is_backward, layer in enumerate(layers):
                output = layer(sequence[:, ::-1] if is_backward else sequence, next(given), reset)
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
    ) -> StackedOutput[B, T, Width, LSTMState[B, Out]]:
        """Return the states of the last layer and the last states of all, from initial `states` or zeros.

        `reset` is that of `LSTM`, for one direction. Raise `ShapeError` where axes or the number of states do not
        match, `ValueError` for a `reset` with two directions.
        """
        return self._run(x, states, reset)


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
    ) -> StackedOutput[B, T, Width, Tensor[B, Out]]:
        """Return the states of the last layer and the last states of all, as `StackedLSTM`."""
        return self._run(x, states, reset)
