"""The kernels of the recurrent ops.

Residuals have the axes (batch, time, entries * hidden) here. The entries of a step are those of `LSTMResiduals`.
"""

from __future__ import annotations

from wyrm.graph.typing import BoolArray, FloatArray
from wyrm.ops.elementwise.fast_math import sigmoid, tanh
from wyrm.ops.products.product import multiply_into


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


def forward_kernel(
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
                start_step(
                    row,
                    residuals[b, t - 1, end - 2 * width : end - width],
                    residuals[b, t - 1, end - width :],
                    projected[b, t],
                    reset,
                )
        multiply_into(residuals[:, t, gates + width : gates + 2 * width], weights, residuals[:, t, :gates], 1)
        for b in range(residuals.shape[0]):
            row = residuals[b, t]
            previous_cell, hidden_after = row[gates + 2 * width : gates + 3 * width], row[end - 2 * width : end - width]
            step_forward(
                row[:width], row[width:split], row[split : split + width], row[split + width : gates],
                row[gates : gates + width], previous_cell, hidden_after, row[end - width :],
            )  # fmt: skip


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

    `cell_gradient` holds the gradient with respect to the new cell on entry, to the previous cell on return.
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


def transpose_into(x: FloatArray, transposed: FloatArray) -> None:
    """Write `x.T` into `transposed`, which may be empty."""
    for i in range(transposed.shape[0]):
        for j in range(transposed.shape[1]):
            transposed[i, j] = x[j, i]


def backward_kernel(
    residuals: FloatArray,
    weights: FloatArray,
    states_gradient: FloatArray,
    resets: BoolArray,
    out: FloatArray,
    hidden_gradient: FloatArray,
    transposed: FloatArray,
) -> None:
    """Fill `out`, of the axes (batch, time, (gates + 1) * hidden), with the entries of `LSTMGradient`.

    `transposed` is scratch memory for `weights.T`, or empty: a product would pack a strided `weights.T` at each step.
    """
    width, gates = weights.shape
    split, steps = gates - 2 * width, out.shape[1]  # the candidate starts at `split`
    transpose_into(weights, transposed)
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
