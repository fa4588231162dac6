"""Fused long short-term memory (LSTM) over a whole sequence, with one matrix product per step for all gates.

Residuals have the axes (batch, time, entries * hidden) here. The entries of a step are those of `LSTMResiduals`.

The caller projects the inputs with one ordinary product for all steps. `wyrm.ops.recurrence.recurrence` tells how the
three ops work together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from wyrm.graph.axes import Axis, Dims, axis_size, product
from wyrm.graph.base import ZERO, Gradient
from wyrm.graph.index_maps import IndexMap
from wyrm.graph.loop_form import LOOPS, Gathered
from wyrm.graph.node import Node
from wyrm.graph.op import ArrayNamespace
from wyrm.graph.typing import BoolArray, FloatArray
from wyrm.ops.elementwise.comparison import where
from wyrm.ops.elementwise.elementwise import Axes
from wyrm.ops.elementwise.fast_math import sigmoid, tanh
from wyrm.ops.kernels.sums import shared_turns
from wyrm.ops.products.product import multiply_into
from wyrm.ops.recurrence.recurrence import (
    Axes3,
    GradientLoops,
    Recurrent,
    Residuals,
    ResidualsGradient,
    ResidualsLoops,
    StepFormulas,
    transpose_into,
)


def step_forward(
    input_gates: FloatArray,
    forget_gates: FloatArray,
    candidates: FloatArray,
    output_gates: FloatArray,
    tanh_cells: FloatArray,
    previous_cell: FloatArray,
    hidden: FloatArray,
    cells: FloatArray,
) -> None:
    """Compute one step; the gates hold their pre-activations on entry and their values on return.

    If `forget_gates` is empty, the forget gate is 1 minus the input gate.
    """
    # The kinds of forget gates have loops of their own: loops with conditional stores have no vectors on many machines.
    for k in range(input_gates.size):
        input_gates[k] = sigmoid(input_gates[k])
    kept = tanh_cells  # until the last loop
    if forget_gates.size == 0:
        for k in range(input_gates.size):
            kept[k] = 1 - input_gates[k]
    else:
        for k in range(input_gates.size):
            forget_gates[k] = sigmoid(forget_gates[k])
            kept[k] = forget_gates[k]
    for k in range(input_gates.size):
        candidate, output_gate = tanh(candidates[k]), sigmoid(output_gates[k])
        cell = kept[k] * previous_cell[k] + input_gates[k] * candidate
        tanh_cell = tanh(cell)
        candidates[k], output_gates[k] = candidate, output_gate
        tanh_cells[k], cells[k], hidden[k] = tanh_cell, cell, output_gate * tanh_cell


def start_step(row: FloatArray, hidden: FloatArray, cell: FloatArray, projected: FloatArray, reset: bool) -> None:
    """Write the projected input and the state before the step into the row of residuals."""
    width, first = hidden.size, projected.size + hidden.size
    for k in range(projected.size):
        row[k] = projected[k]
    for k in range(width):
        row[first + k] = 0 if reset else hidden[k]
    for k in range(width):
        row[first + width + k] = 0 if reset else cell[k]


def forward_rows(
    projected: FloatArray,
    weights: FloatArray,
    hidden: FloatArray,
    cell: FloatArray,
    resets: BoolArray,
    residuals: FloatArray,
) -> None:
    """Fill `residuals`; `resets` is empty where there is no mask."""
    width, gates = weights.shape
    split, end = gates - 2 * width, residuals.shape[2]  # the candidate starts at `split`
    for t in range(residuals.shape[1]):
        for b in range(residuals.shape[0]):
            row, reset = residuals[b, t], resets.size > 0 and resets[b, t]
            if t == 0:
                start_step(row, hidden[b], cell[b], projected[b, t], reset)
            else:
                before = residuals[b, t - 1, end - 2 * width :]
                start_step(row, before[:width], before[width:], projected[b, t], reset)
        multiply_into(residuals[:, t, gates + width : gates + 2 * width], weights, residuals[:, t, :gates], 1)
        for b in range(residuals.shape[0]):
            row = residuals[b, t]
            previous_cell, hidden_after = row[gates + 2 * width : gates + 3 * width], row[end - 2 * width : end - width]
            step_forward(
                row[:width], row[width:split], row[split : split + width], row[split + width : gates],
                row[gates : gates + width], previous_cell, hidden_after, row[end - width :],
            )  # fmt: skip


def forward_kernel(
    projected: FloatArray,
    weights: FloatArray,
    hidden: FloatArray,
    cell: FloatArray,
    resets: BoolArray,
    residuals: FloatArray,
    slots: int,
) -> None:
    """Fill `residuals` with the steps of all rows; threads share the slots of consecutive rows."""
    batch = residuals.shape[0]
    for slot in shared_turns(slots, batch * residuals.shape[1] * weights.size // slots):
        low, high = batch * slot // slots, batch * (slot + 1) // slots
        forward_rows(
            projected[low:high], weights, hidden[low:high], cell[low:high], resets[low:high], residuals[low:high]
        )


def step_backward(
    input_gates: FloatArray,
    forget_gates: FloatArray,
    candidates: FloatArray,
    output_gates: FloatArray,
    tanh_cells: FloatArray,
    previous_cell: FloatArray,
    hidden_gradient: FloatArray,
    input_gates_gradient: FloatArray,
    forget_gates_gradient: FloatArray,
    candidates_gradient: FloatArray,
    output_gates_gradient: FloatArray,
    cell_gradient: FloatArray,
) -> None:
    """Compute the gradients with respect to the pre-activations and the previous cell for one step.

    `cell_gradient` holds the gradient with respect to the new cell on entry, to the previous cell on return. Unlike the
    step derived from `step_forward`, it reads the gates where the step left them, and records nothing beside them.
    """
    # As in `step_forward`, no store is conditional.
    for k in range(input_gates.size):
        candidate, output_gate, tanh_cell = candidates[k], output_gates[k], tanh_cells[k]
        flow = hidden_gradient[k] * output_gate
        total = cell_gradient[k] + flow - flow * tanh_cell * tanh_cell
        output_gates_gradient[k] = hidden_gradient[k] * tanh_cell * (output_gate - output_gate * output_gate)
        inward = total * input_gates[k]
        candidates_gradient[k] = inward - inward * candidate * candidate
        cell_gradient[k] = total
    if forget_gates.size == 0:
        for k in range(input_gates.size):
            total, gate = cell_gradient[k], input_gates[k]
            input_gates_gradient[k] = total * (candidates[k] - previous_cell[k]) * (gate - gate * gate)
            cell_gradient[k] = total - total * gate
    else:
        for k in range(input_gates.size):
            total, gate, forget_gate = cell_gradient[k], input_gates[k], forget_gates[k]
            input_gates_gradient[k] = total * candidates[k] * (gate - gate * gate)
            forget_gates_gradient[k] = total * previous_cell[k] * (forget_gate - forget_gate * forget_gate)
            cell_gradient[k] = total * forget_gate


def add_gradients(
    states_gradient: FloatArray, later: FloatArray, last: bool, hidden_gradient: FloatArray, cell_gradient: FloatArray
) -> None:
    """Sum the gradients with respect to the states of a step from the result and from the later steps."""
    for k in range(hidden_gradient.size):
        hidden_gradient[k] = states_gradient[0, k] if last else states_gradient[0, k] + hidden_gradient[k]
    for k in range(hidden_gradient.size):
        cell_gradient[k] = states_gradient[1, k] if last else states_gradient[1, k] + later[k]


def backward_rows(
    residuals: FloatArray,
    weights: FloatArray,
    states_gradient: FloatArray,
    resets: BoolArray,
    out: FloatArray,
    hidden_gradient: FloatArray,
    transposed: FloatArray,
) -> None:
    """Fill `out`, of the axes (batch, time, (gates + 1) * hidden), with the entries of `LSTMGradient`.

    `transposed` is `weights.T`, or empty: a product would pack a strided `weights.T` at each step.
    """
    width, gates = weights.shape
    split, steps = gates - 2 * width, out.shape[1]  # the candidate starts at `split`
    for t in range(steps - 1, -1, -1):
        for b in range(out.shape[0]):
            row, result = residuals[b, t], out[b, t]
            later, cell_gradient = out[b, t if t == steps - 1 else t + 1, gates:], result[gates:]
            add_gradients(states_gradient[b, t], later, t == steps - 1, hidden_gradient[b], cell_gradient)
            step_backward(
                row[:width], row[width:split], row[split : split + width], row[split + width : gates],
                row[gates : gates + width], row[gates + 2 * width : gates + 3 * width], hidden_gradient[b],
                result[:width], result[width:split], result[split : split + width], result[split + width : gates],
                cell_gradient,
            )  # fmt: skip
        if transposed.size > 0:
            multiply_into(out[:, t, :gates], transposed, hidden_gradient, 0)
        else:
            multiply_into(out[:, t, :gates], weights.T, hidden_gradient, 0)
        for b in range(out.shape[0]):
            if resets.size > 0 and resets[b, t]:
                hidden_gradient[b] = 0
                out[b, t, gates:] = 0


def backward_kernel(
    residuals: FloatArray,
    weights: FloatArray,
    states_gradient: FloatArray,
    resets: BoolArray,
    out: FloatArray,
    hidden_gradient: FloatArray,
    transposed: FloatArray,
    slots: int,
) -> None:
    """Fill `out` with the gradients of all rows, in slots; `transposed` is scratch memory for `weights.T`, or empty."""
    batch = out.shape[0]
    transpose_into(weights, transposed)
    for slot in shared_turns(slots, batch * out.shape[1] * weights.size // slots):
        low, high = batch * slot // slots, batch * (slot + 1) // slots
        backward_rows(
            residuals[low:high], weights, states_gradient[low:high], resets[low:high], out[low:high],
            hidden_gradient[low:high], transposed,
        )  # fmt: skip


# The residuals of a step after its gates, by index from the end.
_TANH_CELL, _PREVIOUS_HIDDEN, _PREVIOUS_CELL, _HIDDEN, _CELL = -5, -4, -3, -2, -1
_STATE_ENTRIES = 5


class _LSTMCell(StepFormulas):
    layer = "an LSTM"
    states = 2

    def forward(
        self, inputs: Node, products: Node, parameters: Sequence[Node], states: Sequence[Node], axes: Axes3
    ) -> tuple[list[Node], list[Node]]:
        _, cell = states
        preactivations: Node = (inputs + products).reshape(axes)
        *cell_gates, candidate, output = (preactivations[:, k] for k in range(axes[1]))
        gates: list[Node] = [*(gate.sigmoid() for gate in cell_gates), candidate.tanh(), output.sigmoid()]
        forget = 1.0 - gates[0] if len(gates) == 3 else gates[1]
        new_cell = forget * cell + gates[0] * gates[-2]
        tanh_cell = new_cell.tanh()
        return [*gates, tanh_cell], [gates[-1] * tanh_cell, new_cell]

    def backward(
        self, entry: Callable[[int], Node], cotangents: Sequence[Node], gates: int
    ) -> tuple[list[Node], list[Node], Node]:
        hidden_gradient, cell_gradient = cotangents
        *cell_gates, candidate, output = (entry(k) for k in range(gates))
        tanh_cell, previous = entry(gates), entry(_PREVIOUS_CELL)
        cell_gradient = cell_gradient + hidden_gradient * output * (1.0 - tanh_cell * tanh_cell)
        forget: Node = 1.0 - cell_gates[0] if len(cell_gates) == 1 else cell_gates[1]
        cell_gate_factors: list[Node] = [candidate - previous] if len(cell_gates) == 1 else [candidate, previous]
        parts: list[Node] = [
            cell_gradient * factor * gate * (1.0 - gate)
            for factor, gate in zip(cell_gate_factors, cell_gates, strict=True)
        ]
        parts += [
            cell_gradient * cell_gates[0] * (1.0 - candidate * candidate),
            hidden_gradient * tanh_cell * output * (1.0 - output),
        ]
        return parts, parts, cell_gradient * forget

    def before(self, hidden: Node, direct: Node) -> list[Node]:
        return [hidden, direct]


_CELL_OF_LSTM = _LSTMCell()


class LSTMResiduals(Residuals[Axes]):
    """The residuals of an LSTM, of the axes (batch, time, entries, hidden); see `LSTM` for the operands.

    The entries of a step are the gates, tanh(cell), the previous hidden state and cell (zeros after a reset), and the
    new hidden state and cell.
    """

    __slots__ = ("coupled",)
    written = "lstm"
    cell: ClassVar[StepFormulas] = _CELL_OF_LSTM
    coupled: bool

    def __init__(
        self, projected: Node, weights: Node, hidden: Node, cell: Node, *resets: Node, coupled: bool = False
    ) -> None:
        self._construct((projected, weights, hidden, cell, *resets), coupled=coupled)

    @property
    def gates(self) -> int:
        return 3 if self.coupled else 4

    def shape_rule(self) -> Dims:
        batch, time, width = self.common_axes(self.gates, (2, 3))
        return batch, time, self.gates + _STATE_ENTRIES, width


@LOOPS.register(LSTMResiduals)
class _LSTMResidualsLoops(ResidualsLoops):
    kernel = staticmethod(forward_kernel)


class LSTM(Recurrent[Axes]):
    """The states of a long short-term memory, of the axes (batch, time, 2, hidden): hidden at 0, cell at 1.

    `projected`, of the axes (batch, time, gates * hidden), is the inputs times their weights, plus the bias. `weights`,
    of the axes (hidden, gates * hidden), multiplies the hidden state. `hidden` and `cell`, of the axes (batch, hidden),
    are the initial state. With input gate i, forget gate f, candidate g and output gate o, in this order:
    `c = f * c + i * g`, `h = o * tanh(c)`, where i, f and o are sigmoids and g is a tanh (Hochreiter and Schmidhuber,
    "Long short-term memory", 1997; Gers et al., "Learning to forget", 2000). With `coupled`, the gates are i, g and o,
    and `f = 1 - i` (Greff et al., "LSTM: a search space odyssey", 2017). Where the optional mask `resets`, of the axes
    (batch, time), is true, the state is set to zero before that step.

    The axes of batch and time may get their sizes from the data.

    Raise `ShapeError` for axes that do not match or a time axis of size 0, `DTypeError` unless `resets` is bool and
    the other operands have one float dtype.

    >>> gates, weights = wy.Constant(np.zeros((2, 5, 12))), wy.Constant(np.zeros((3, 12)))
    >>> start = wy.Constant(np.ones((2, 3)))
    >>> wy.ops.recurrence.lstm.LSTM(gates, weights, start, start).forward()[0, :, 1, 0].tolist()
    [0.5, 0.25, 0.125, 0.0625, 0.03125]
    """

    __slots__ = ()
    cell: ClassVar[StepFormulas] = _CELL_OF_LSTM
    residual_parents: ClassVar[frozenset[int]] = frozenset([0])

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
class _LSTMLoops(Gathered):
    def gather_index(self, node: LSTM, index: IndexMap) -> IndexMap:
        batch, time, state, width = index
        return batch, time, node.parents[0].dims[2] + _HIDDEN + state, width


class LSTMGradient(ResidualsGradient[Axes]):
    """The VJP of an LSTM, of the axes (batch, time, gates + 1, hidden), from the cotangent of its states.

    The entries of a step are the gradients with respect to the pre-activations of the gates and, last, with respect to
    the previous cell.
    """

    __slots__ = ()
    cell: ClassVar[StepFormulas] = _CELL_OF_LSTM

    @property
    def gates(self) -> int:
        dims: Any = self.dims
        return int(dims[2]) - 1

    def gradients(self, entries: Axis) -> int:
        return (axis_size(entries) or 0) - _STATE_ENTRIES + 1


@LOOPS.register(LSTMGradient)
class _LSTMGradientLoops(GradientLoops):
    kernel = staticmethod(backward_kernel)
