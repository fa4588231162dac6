"""Fused long short-term memory (LSTM) over a whole sequence, with one matrix product per step for all gates.

The caller projects the inputs with one ordinary product for all steps. `LSTMResiduals` runs the recurrence and stores
what the backward pass needs, `LSTM` selects the states from it, and `LSTMGradient` runs the backward pass. `_forward`
and `_backward` define the formulas for arrays and nodes; the kernels implement them as loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from wyrm.graph.axes import Axis, Dims, axis_size, product, unify
from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.index_maps import IndexMap
from wyrm.graph.jax_form import JAX
from wyrm.graph.loop_form import LOOPS, KernelArgument, LoopForm
from wyrm.graph.namespace import ArrayNamespace
from wyrm.graph.node import Node
from wyrm.graph.typing import Array, FloatArray
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.gradients.composite_gradient import composite_vjp
from wyrm.ops.kernels.scratch import scratch
from wyrm.ops.recurrence.jax_form import LSTMGradientForm, LSTMResidualsForm
from wyrm.ops.recurrence.kernels import backward_kernel, forward_kernel, states_kernel
from wyrm.ops.recurrence.parts import (
    OF_NODES,
    TRANSPOSE_FROM,
    Functions,
    Recurrent,
    Residuals,
    Value,
    mask_rows,
    of_arrays,
    unsized_time,
)

# The residuals of a step after its gates, by index from the end.
_TANH_CELL, _PREVIOUS_HIDDEN, _PREVIOUS_CELL, _HIDDEN, _CELL = -5, -4, -3, -2, -1
_STATE_ENTRIES = 5


# --- the formulas, for arrays and for nodes ---------------------------------------------------------------------------


def _forward(of: Functions[Value], steps: int, operands: Sequence[Any], axes: tuple[Axis, int, Axis]) -> Value:
    """Return the residuals; `axes` is the shape of the gates of one step: (batch, gates, hidden)."""
    projected, weights, hidden, cell, *resets = operands
    residuals: list[Value] = []
    for t in range(steps):
        for mask in resets:
            hidden, cell = (of.where(mask[:, t, None], 0.0, state) for state in (hidden, cell))
        preactivations = (projected[:, t] + of.matmul(hidden, weights)).reshape(axes)
        *cell_gates, candidate, output = (preactivations[:, k] for k in range(axes[1]))
        gates: list[Any] = [*map(of.sigmoid, cell_gates), of.tanh(candidate), of.sigmoid(output)]
        forget = 1.0 - gates[0] if len(gates) == 3 else gates[1]
        new_cell = forget * cell + gates[0] * gates[-2]
        tanh_cell = of.tanh(new_cell)
        new_hidden = gates[-1] * tanh_cell
        residuals.append(of.stack([*gates, tanh_cell, hidden, cell, new_hidden, new_cell], 1))
        hidden, cell = new_hidden, new_cell
    return of.stack(residuals, 1)


def _backward(of: Functions[Value], steps: int, operands: Sequence[Any], axes: tuple[Axis, int, Axis]) -> Value:
    """Return the entries of `LSTMGradient`; `axes` is as in `_forward`."""
    residuals, weights, states_gradient, *resets = operands
    batch, gates, width = axes
    result: list[Value] = []
    hidden_gradient, cell_gradient = states_gradient[:, -1, 0], states_gradient[:, -1, 1]
    for t in reversed(range(steps)):
        *cell_gates, candidate, output = (residuals[:, t, k] for k in range(gates))
        tanh_cell, previous = residuals[:, t, gates], residuals[:, t, _PREVIOUS_CELL]
        cell_gradient = cell_gradient + hidden_gradient * output * (1.0 - tanh_cell * tanh_cell)
        if len(cell_gates) == 1:
            forget, cell_gate_factors = 1.0 - cell_gates[0], [candidate - previous]
        else:
            forget, cell_gate_factors = cell_gates[1], [candidate, previous]
        parts: list[Any] = [
            cell_gradient * factor * gate * (1.0 - gate)
            for factor, gate in zip(cell_gate_factors, cell_gates, strict=True)
        ]
        parts += [
            cell_gradient * cell_gates[0] * (1.0 - candidate * candidate),
            hidden_gradient * tanh_cell * output * (1.0 - output),
        ]
        cell_gradient = cell_gradient * forget
        hidden_gradient = of.matmul(of.stack(parts, 1).reshape((batch, product((gates, width)))), weights.T)
        for mask in resets:
            hidden_gradient, cell_gradient = (
                of.where(mask[:, t, None], 0.0, x) for x in (hidden_gradient, cell_gradient)
            )
        result.append(of.stack([*parts, cell_gradient], 1))
        if t > 0:
            hidden_gradient, cell_gradient = (
                hidden_gradient + states_gradient[:, t - 1, 0],
                cell_gradient + states_gradient[:, t - 1, 1],
            )
    return of.stack(result[::-1], 1)


# --- the ops ----------------------------------------------------------------------------------------------------------


class LSTMResiduals(Residuals[Axes]):
    """The residuals of an LSTM, of the axes (batch, time, entries, hidden); see `LSTM` for the operands.

    The entries of a step are the gates, tanh(cell), the previous hidden state and cell (zeros after a reset), and the
    new hidden state and cell.
    """

    __slots__ = ("coupled",)
    layer = "an LSTM"
    coupled: bool

    def __init__(
        self, projected: Node, weights: Node, hidden: Node, cell: Node, *resets: Node, coupled: bool = False
    ) -> None:
        self._construct((projected, weights, hidden, cell, *resets), coupled=coupled)

    @property
    def gates(self) -> int:
        """The number of gates, including the candidate."""
        return 3 if self.coupled else 4

    def shape_rule(self) -> Dims:
        batch, time, width = self.common_axes(self.gates, (2, 3))
        return batch, time, self.gates + _STATE_ENTRIES, width

    def by_rows(self, rows: Sequence[int | None]) -> Literal["rows", "mean"] | None:
        return "rows" if rows[1] is None and all(row in (0, None) for row in rows) else None

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        if 0 in shape:
            return xp.zeros(shape, self.dtype)
        return _forward(of_arrays(xp), shape[1], operands, (shape[0], self.gates, shape[3]))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        dims: Any = self.dims
        batch, time, _, width = dims
        steps = axis_size(time)
        if steps is None:
            return unsized_time(self, time)
        composed = _forward(OF_NODES, steps, self.parents, (batch, self.gates, width))
        return composite_vjp(composed, gradient, self.parents)


@LOOPS.register(LSTMResiduals)
class _LSTMResidualsLoops(LoopForm):
    kernel = staticmethod(forward_kernel)

    def kernel_arguments(
        self, node: LSTMResiduals, operands: Sequence[Array], out: Array
    ) -> tuple[KernelArgument, ...]:
        batch, time, entries, width = out.shape
        return (*operands[:4], mask_rows(operands[4:]), out.reshape(batch, time, entries * width))


JAX.register(LSTMResiduals)(LSTMResidualsForm(_forward))


class LSTM(Recurrent[Axes]):
    """The states of a long short-term memory, of the axes (batch, time, 2, hidden): hidden at 0, cell at 1.

    `projected`, of the axes (batch, time, gates * hidden), is the inputs times their weights, plus the bias. `weights`,
    of the axes (hidden, gates * hidden), multiplies the hidden state. `hidden` and `cell`, of the axes (batch, hidden),
    are the initial state. With input gate i, forget gate f, candidate g and output gate o, in this order:
    `c = f * c + i * g`, `h = o * tanh(c)`, where i, f and o are sigmoids and g is a tanh (Hochreiter and Schmidhuber,
    "Long short-term memory", 1997; Gers et al., "Learning to forget", 2000). With `coupled`, the gates are i, g and o,
    and `f = 1 - i` (Greff et al., "LSTM: a search space odyssey", 2017). Where the optional mask `resets`, of the axes
    (batch, time), is true, the state is set to zero before that step.

    The axes of batch and time may get their sizes from the data; a second-order gradient needs the size of time.

    Raise `ShapeError` for axes that do not match or a time axis of size 0, `DTypeError` unless `resets` is bool and
    the other operands have one float dtype.

    >>> gates, weights = wy.Constant(np.zeros((2, 5, 12))), wy.Constant(np.zeros((3, 12)))
    >>> start = wy.Constant(np.ones((2, 3)))
    >>> wy.ops.recurrence.recurrent.LSTM(gates, weights, start, start).forward()[0, :, 1, 0].tolist()
    [0.5, 0.25, 0.125, 0.0625, 0.03125]
    """

    __slots__ = ()
    layer = "an LSTM"
    residual_parents = frozenset([0])

    def __init__(
        self, projected: Node, weights: Node, hidden: Node, cell: Node, *resets: Node, coupled: bool = False
    ) -> None:
        residuals = LSTMResiduals(projected, weights, hidden, cell, *resets, coupled=coupled)
        self._construct((residuals, *residuals.parents))

    def shape_rule(self) -> Dims:
        batch, time, _, width = self.parents[0].dims
        return batch, time, 2, width

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        return operands[0][:, :, _HIDDEN:]

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        residuals, projected, weights, _, _, *resets = self.parents
        batch, time, entries, width = residuals.dims
        gates_gradient = LSTMGradient(residuals, weights, gradient, *resets)
        preactivations_gradient = gates_gradient[:, :, : entries - _STATE_ENTRIES].reshape(projected.dims)
        rows = product((batch, time))
        previous = residuals[:, :, _PREVIOUS_HIDDEN].reshape((rows, width))
        weights_gradient = previous.T @ preactivations_gradient.reshape((rows, projected.dims[-1]))
        hidden_gradient: Node = preactivations_gradient[:, 0] @ weights.T
        cell_gradient = gates_gradient[:, 0, -1]
        for mask in resets:
            hidden_gradient = where(mask[:, 0, None], 0.0, hidden_gradient)
        return ZERO, preactivations_gradient, weights_gradient, hidden_gradient, cell_gradient, *(ZERO for _ in resets)


@LOOPS.register(LSTM)
class _LSTMLoops(LoopForm):
    kernel = staticmethod(states_kernel)

    def gather_index(self, node: LSTM, index: IndexMap) -> IndexMap:
        batch, time, state, width = index
        return batch, time, node.parents[0].dims[2] + _HIDDEN + state, width

    def kernel_arguments(self, node: LSTM, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        return operands[0], out


class LSTMGradient(Recurrent[Axes]):
    """The VJP of an LSTM, of the axes (batch, time, gates + 1, hidden), from the cotangent of its states.

    The entries of a step are the gradients with respect to the pre-activations of the gates and, last, with respect to
    the previous cell.
    """

    __slots__ = ()
    layer = "an LSTM"

    def __init__(self, residuals: Node, weights: Node, states_gradient: Node, *resets: Node) -> None:
        self._construct((residuals, weights, states_gradient, *resets))

    def shape_rule(self) -> Dims:
        batch, time, entries, width = self.parents[0].dims
        for axis, other in zip((batch, time, 2, width), self.parents[2].dims, strict=True):
            unify(axis, other)
        return batch, time, entries - _STATE_ENTRIES + 1, width

    def evaluate(self, xp: ArrayNamespace, *operands: FloatArray, shape: tuple[int, ...]) -> FloatArray:
        if 0 in shape:
            return xp.zeros(shape, self.dtype)
        return _backward(of_arrays(xp), shape[1], operands, (shape[0], shape[2] - 1, shape[3]))

    def vjp(self, gradient: Node) -> tuple[Gradient, ...]:
        dims: Any = self.dims
        batch, time, parts, width = dims
        steps = axis_size(time)
        if steps is None:
            return unsized_time(self, time)
        composed = _backward(OF_NODES, steps, self.parents, (batch, parts - 1, width))
        return composite_vjp(composed, gradient, self.parents)


@LOOPS.register(LSTMGradient)
class _LSTMGradientLoops(LoopForm):
    kernel = staticmethod(backward_kernel)

    def kernel_arguments(self, node: LSTMGradient, operands: Sequence[Array], out: Array) -> tuple[KernelArgument, ...]:
        residuals, weights, states_gradient, *resets = operands
        batch, time, parts, width = out.shape
        rows = residuals.reshape(batch, time, residuals.shape[2] * width), out.reshape(batch, time, parts * width)
        # For few rows the copy costs more than the products gain.
        transposed = scratch(weights.shape[::-1] if batch * time >= TRANSPOSE_FROM else (0, 0), out.dtype)
        hidden_gradient = scratch((batch, width), out.dtype)
        return rows[0], weights, states_gradient, mask_rows(resets), rows[1], hidden_gradient, transposed


JAX.register(LSTMGradient)(LSTMGradientForm(_backward))
