"""The long short-term memory over a whole sequence, fused: one product per step for all gates, and its gradient.

The products of the inputs with their weights are ordinary nodes, one product for all steps. The fused ops compute what
depends on the step before. `LSTMResiduals` runs the steps and stores what the gradient needs, `LSTM` is the part of it
that a user sees, and `LSTMGradient` runs the steps backwards. The formulas are written twice: in `_forward` and
`_backward` for arrays and nodes, and as loops in the kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np

from wyrm.errors import DTypeError, ShapeError
from wyrm.node.base import ZERO, Gradient, Undefined, format_dims, label
from wyrm.node.index_maps import IndexMap
from wyrm.node.loop_form import LOOPS, KernelArgument, LoopForm
from wyrm.node.node import Node
from wyrm.ops.comparison import where
from wyrm.ops.composite_gradient import composite_vjp
from wyrm.ops.elementwise import Axes, common_dtype
from wyrm.ops.recurrent_kernels import backward_kernel, forward_kernel, states_kernel
from wyrm.ops.scratch import scratch
from wyrm.ops.slicing import stack
from wyrm.types.dims import Axis, Dims, axis_size, product, unify
from wyrm.types.namespace import ArrayNamespace
from wyrm.types.typing import Array, FloatArray

# What a tape holds of each step after the gates, counted from its end.
TANH_CELL, PREVIOUS_HIDDEN, PREVIOUS_CELL, HIDDEN, CELL = -5, -4, -3, -2, -1
_KEPT = 5
# For a gradient of so many rows and steps, or more, the weights are turned first.
_TURNED_FROM = 256


# --- the formulas, for arrays and for nodes ---------------------------------------------------------------------------

# The formulas work on arrays and on nodes.
Value = TypeVar("Value", FloatArray, Node)


class _Functions(NamedTuple, Generic[Value]):
    """What the formulas call besides operators: of an array namespace, or of nodes."""

    sigmoid: Callable[[Value], Value]
    tanh: Callable[[Value], Value]
    where: Callable[[Value, float, Value], Value]
    stack: Callable[[list[Value], int], Value]


_OF_NODES: _Functions[Node] = _Functions(lambda x: x.sigmoid(), lambda x: x.tanh(), where, stack)


def _of_arrays(xp: ArrayNamespace) -> _Functions[FloatArray]:
    def sigmoid(x: FloatArray) -> FloatArray:
        power = xp.exp(-xp.abs(x))
        return xp.where(x < 0.0, power, 1.0) / (1.0 + power)

    return _Functions(sigmoid, xp.tanh, xp.where, xp.stack)


def _forward(of: _Functions[Value], steps: int, operands: Sequence[Any], axes: tuple[Axis, int, Axis]) -> Value:
    """The tape; `axes` are those of the gates of one step: (batch, gates, hidden)."""
    projected, weights, hidden, cell, *resets = operands
    residuals: list[Value] = []
    for t in range(steps):
        for mask in resets:
            hidden, cell = (of.where(mask[:, t, None], 0.0, state) for state in (hidden, cell))
        sums = (projected[:, t] + hidden @ weights).reshape(axes)
        *opened, candidate, output = (sums[:, k] for k in range(axes[1]))
        gates: list[Any] = [*map(of.sigmoid, opened), of.tanh(candidate), of.sigmoid(output)]
        forget = 1.0 - gates[0] if len(gates) == 3 else gates[1]
        new_cell = forget * cell + gates[0] * gates[-2]
        tanh_cell = of.tanh(new_cell)
        new_hidden = gates[-1] * tanh_cell
        residuals.append(of.stack([*gates, tanh_cell, hidden, cell, new_hidden, new_cell], 1))
        hidden, cell = new_hidden, new_cell
    return of.stack(residuals, 1)


def _backward(of: _Functions[Value], steps: int, operands: Sequence[Any], axes: tuple[Axis, int, Axis]) -> Value:
    """The gradients by the sums that enter the gates, and by the cell before each step; `axes` as in `_forward`."""
    residuals, weights, by_states, *resets = operands
    batch, gates, width = axes
    result: list[Value] = []
    by_hidden, by_cell = by_states[:, -1, 0], by_states[:, -1, 1]
    for t in reversed(range(steps)):
        *opened, candidate, output = (residuals[:, t, k] for k in range(gates))
        tanh_cell, previous = residuals[:, t, gates], residuals[:, t, PREVIOUS_CELL]
        by_cell = by_cell + by_hidden * output * (1.0 - tanh_cell * tanh_cell)
        if len(opened) == 1:
            forget, by_opened = 1.0 - opened[0], [candidate - previous]
        else:
            forget, by_opened = opened[1], [candidate, previous]
        parts: list[Any] = [by_cell * by * gate * (1.0 - gate) for by, gate in zip(by_opened, opened, strict=True)]
        parts += [
            by_cell * opened[0] * (1.0 - candidate * candidate),
            by_hidden * tanh_cell * output * (1.0 - output),
        ]
        by_cell = by_cell * forget
        by_hidden = of.stack(parts, 1).reshape((batch, product((gates, width)))) @ weights.T
        for mask in resets:
            by_hidden, by_cell = (of.where(mask[:, t, None], 0.0, by) for by in (by_hidden, by_cell))
        result.append(of.stack([*parts, by_cell], 1))
        if t > 0:
            by_hidden, by_cell = by_hidden + by_states[:, t - 1, 0], by_cell + by_states[:, t - 1, 1]
    return of.stack(result[::-1], 1)


# --- the ops ----------------------------------------------------------------------------------------------------------


class _Recurrent(Node[tuple[Node, ...], Axes], abstract=True):
    __slots__ = ()

    def dtype_rule(self) -> np.dtype:
        return common_dtype(self.parents)


def _mask_rows(resets: Sequence[Array]) -> Array:
    """The mask of resets for a kernel, empty where there is none."""
    return resets[0] if resets else np.zeros((0, 0), np.bool_)


class LSTMResiduals(_Recurrent[Axes]):
    """All that a long short-term memory computes, of the axes (batch, time, what is kept, hidden).

    Of each step the gates are kept, the squashed cell, the hidden state and the cell before the step (zeros where it
    was reset), and those after it. See `LSTM`.
    """

    __slots__ = ("coupled",)
    coupled: bool

    def __init__(
        self, projected: Node, weights: Node, hidden: Node, cell: Node, *resets: Node, coupled: bool = False
    ) -> None:
        self._construct((projected, weights, hidden, cell, *resets), coupled=coupled)

    def _own(self) -> LSTMResiduals[Axes]:
        return self

    @property
    def gates(self) -> int:
        """The number of gates, the candidate for the cell among them."""
        return 3 if self.coupled else 4

    @classmethod
    def op_name(cls) -> str:
        return "lstm_residuals"

    def dtype_rule(self) -> np.dtype:
        for mask in self.parents[4:]:
            if mask.dtype.kind != "b":
                raise DTypeError(f"the resets are a mask, such as x > 0; {label(mask)} is {mask.dtype}")
        for parent in self.parents[:4]:
            if parent.dtype.kind == "b":
                raise DTypeError(f"{label(parent)} is a mask; convert it with .astype(np.float32)")
        return super().dtype_rule()

    def shape_rule(self) -> Dims:
        projected, weights, hidden, cell, *resets = self.parents
        roles = (projected, 3), (weights, 2), (hidden, 2), (cell, 2), *((mask, 2) for mask in resets)
        for parent, axes in roles:
            if len(parent.dims) != axes:
                raise ShapeError(f"{label(parent)} has {axes} axes here, not {format_dims(parent.dims)}")
        batch, time, sums = projected.dims
        width = weights.dims[0]
        wanted = product((self.gates, width))
        for what, axis in (("projected input", sums), ("recurrent weights", weights.dims[1])):
            if axis_size(axis) != axis_size(wanted):
                raise ShapeError(f"the last axis of the {what} is {self.gates} times {width!r}, not {axis!r}")
        for state in (hidden, cell):
            batch, width = unify(batch, state.dims[0]), unify(width, state.dims[1])
        for mask in resets:
            batch, time = unify(batch, mask.dims[0]), unify(time, mask.dims[1])
        if axis_size(time) == 0:
            raise ShapeError("there is no step to run: the time axis has size 0")
        return batch, time, self.gates + _KEPT, width

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        return "rows" if rows[1] is None and all(row in (0, None) for row in rows) else None

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        if 0 in shape:
            return xp.zeros(shape, self.dtype)
        return _forward(_of_arrays(xp), shape[1], operands, (shape[0], self.gates, shape[3]))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        dims: Any = self.dims
        batch, time, _, width = dims
        steps = axis_size(time)
        if steps is None:
            return _open_time(self, time)
        composed = _forward(_OF_NODES, steps, self.parents, (batch, self.gates, width))
        return composite_vjp(composed, gradient, self.parents)


@LOOPS.register(LSTMResiduals)
class _LSTMResidualsLoops(LoopForm):
    kernel = staticmethod(forward_kernel)

    def kernel_arguments(
        self, node: LSTMResiduals, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        batch, time, kept, width = out.shape
        return (*operands[:4], _mask_rows(operands[4:]), out.reshape(batch, time, kept * width))


def _open_time(node: _Recurrent, time: Axis) -> tuple[Gradient, ...]:
    """What `vjp` of an op answers whose gradient is composed of one node or more for each step."""
    reason = (
        f"a gradient of the gradient of an LSTM needs a time axis with a size, and {time!r} gets its size from the "
        f"data of each run; give it one, as in {type(time).__name__}(20)"
    )
    return tuple(Undefined(reason) if parent.dtype.kind == "f" else ZERO for parent in node.parents)


class LSTM(_Recurrent[Axes]):
    """The states of a long short-term memory, of the axes (batch, time, 2, hidden): hidden at 0, cell at 1.

    `projected`, of the axes (batch, time, gates * hidden), is what the inputs give to the gates, biases included;
    `weights`, of the axes (hidden, gates * hidden), is what the hidden state gives; `hidden` and `cell`, of the axes
    (batch, hidden), are the state before the first step. With input gate i, forget gate f, candidate g and output
    gate o, in this order: `c = f * c + i * g`, `h = o * tanh(c)`, where i, f and o go through a sigmoid and g through
    tanh (Hochreiter and Schmidhuber, "Long short-term memory", 1997; Gers et al., "Learning to forget", 2000).
    `coupled` has three gates, i, g and o, and `f = 1 - i` (Greff et al., "LSTM: a search space odyssey", 2017). There
    may be one mask more, `resets`, of the axes (batch, time): where it is true, the state is zero before that step.

    The axes of batch and time may get their sizes from the data; for a second order gradient, time needs one.

    Raises `ShapeError` for axes that do not fit or a time axis of size 0, `DTypeError` for masks in place of numbers,
    for numbers in place of the mask, and for two float types.

    >>> gates, weights = wy.Constant(np.zeros((2, 5, 12))), wy.Constant(np.zeros((3, 12)))
    >>> start = wy.Constant(np.ones((2, 3)))
    >>> wy.ops.recurrent.LSTM(gates, weights, start, start).forward()[0, :, 1, 0].tolist()
    [0.5, 0.25, 0.125, 0.0625, 0.03125]
    """

    __slots__ = ()
    residual_parents = frozenset([0])

    def __init__(
        self, projected: Node, weights: Node, hidden: Node, cell: Node, *resets: Node, coupled: bool = False
    ) -> None:
        residuals = LSTMResiduals(projected, weights, hidden, cell, *resets, coupled=coupled)
        self._construct((residuals, *residuals.parents))

    def _own(self) -> LSTM[Axes]:
        return self

    @classmethod
    def op_name(cls) -> str:
        return "lstm"

    def shape_rule(self) -> Dims:
        batch, time, _, width = self.parents[0].dims
        return batch, time, 2, width

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return operands[0][:, :, HIDDEN:]

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        residuals, projected, weights, _, _, *resets = self.parents
        batch, time, kept, width = residuals.dims
        by_gates = LSTMGradient(residuals, weights, gradient, *resets)
        by_sums = by_gates[:, :, : kept - _KEPT].reshape(projected.dims)
        rows = product((batch, time))
        previous = residuals[:, :, PREVIOUS_HIDDEN].reshape((rows, width))
        by_weights = previous.T @ by_sums.reshape((rows, projected.dims[-1]))
        by_hidden: Node = by_sums[:, 0] @ weights.T
        by_cell = by_gates[:, 0, -1]
        for mask in resets:
            by_hidden = where(mask[:, 0, None], 0.0, by_hidden)
        return ZERO, by_sums, by_weights, by_hidden, by_cell, *(ZERO for _ in resets)


@LOOPS.register(LSTM)
class _LSTMLoops(LoopForm):
    kernel = staticmethod(states_kernel)

    def gather_index(self, node: LSTM, index: IndexMap) -> IndexMap:
        batch, time, state, width = index
        return batch, time, node.parents[0].dims[2] + HIDDEN + state, width

    def kernel_arguments(self, node: LSTM, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return operands[0], out


class LSTMGradient(_Recurrent[Axes]):
    """The gradients of an LSTM, of the axes (batch, time, gates + 1, hidden), from those by its states.

    They are by the sums that enter the gates, and, as the last entry, by the cell before the step.
    """

    __slots__ = ()

    def __init__(self, residuals: Node, weights: Node, by_states: Node, *resets: Node) -> None:
        self._construct((residuals, weights, by_states, *resets))

    def _own(self) -> LSTMGradient[Axes]:
        return self

    @classmethod
    def op_name(cls) -> str:
        return "lstm_gradient"

    def shape_rule(self) -> Dims:
        batch, time, kept, width = self.parents[0].dims
        for axis, other in zip((batch, time, 2, width), self.parents[2].dims, strict=True):
            unify(axis, other)
        return batch, time, kept - _KEPT + 1, width

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        if 0 in shape:
            return xp.zeros(shape, self.dtype)
        return _backward(_of_arrays(xp), shape[1], operands, (shape[0], shape[2] - 1, shape[3]))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        dims: Any = self.dims
        batch, time, parts, width = dims
        steps = axis_size(time)
        if steps is None:
            return _open_time(self, time)
        composed = _backward(_OF_NODES, steps, self.parents, (batch, parts - 1, width))
        return composite_vjp(composed, gradient, self.parents)


@LOOPS.register(LSTMGradient)
class _LSTMGradientLoops(LoopForm):
    kernel = staticmethod(backward_kernel)

    def kernel_arguments(self, node: LSTMGradient, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        residuals, weights, by_states, *resets = operands
        batch, time, parts, width = out.shape
        rows = residuals.reshape(batch, time, residuals.shape[2] * width), out.reshape(batch, time, parts * width)
        # To turn the weights takes as long as a product with a few rows gains by it.
        turned = scratch(weights.shape[::-1] if batch * time >= _TURNED_FROM else (0, 0), out.dtype)
        by_hidden = scratch((batch, width), out.dtype)
        return rows[0], weights, by_states, _mask_rows(resets), rows[1], by_hidden, turned
