"""The kernels of the gated recurrent unit.

Residuals have the axes (batch, time, 6 * hidden) here. The entries of a step are those of `GRUResiduals`.
"""

from __future__ import annotations

from wyrm.graph.typing import BoolArray, FloatArray
from wyrm.ops.elementwise.fast_math import sigmoid, tanh
from wyrm.ops.products.product import multiply_into
from wyrm.ops.recurrence.lstm_kernels import transpose_into


def start_step(row: FloatArray, hidden: FloatArray, projected: FloatArray, bias: FloatArray, reset: bool) -> None:
    """Write what the matrix product of a step adds to, and the state before the step, into the row of residuals."""
    width = hidden.size
    for k in range(2 * width):
        row[k] = projected[k]
    for k in range(width):
        row[2 * width + k] = bias[k]
    for k in range(width):
        row[4 * width + k] = 0 if reset else hidden[k]


def step_forward(
    reset_gates: FloatArray,
    update_gates: FloatArray,
    recurrent: FloatArray,
    candidates: FloatArray,
    previous: FloatArray,
    hidden: FloatArray,
    projected: FloatArray,
) -> None:
    """Compute one step; the gates hold their pre-activations on entry and their values on return."""
    for k in range(reset_gates.size):
        reset_gate, update_gate = sigmoid(reset_gates[k]), sigmoid(update_gates[k])
        candidate = tanh(projected[k] + reset_gate * recurrent[k])
        reset_gates[k], update_gates[k], candidates[k] = reset_gate, update_gate, candidate
        hidden[k] = candidate + update_gate * (previous[k] - candidate)


def forward_kernel(
    projected: FloatArray,
    weights: FloatArray,
    bias: FloatArray,
    hidden: FloatArray,
    resets: BoolArray,
    residuals: FloatArray,
) -> None:
    """Fill `residuals`; `resets` is empty where there is no mask."""
    width = weights.shape[0]
    for t in range(residuals.shape[1]):
        for b in range(residuals.shape[0]):
            row, reset = residuals[b, t], resets.size > 0 and resets[b, t]
            if t == 0:
                start_step(row, hidden[b], projected[b, t], bias, reset)
            else:
                start_step(row, residuals[b, t - 1, 5 * width :], projected[b, t], bias, reset)
        multiply_into(residuals[:, t, 4 * width : 5 * width], weights, residuals[:, t, : 3 * width], 1)
        for b in range(residuals.shape[0]):
            row = residuals[b, t]
            step_forward(
                row[:width], row[width : 2 * width], row[2 * width : 3 * width], row[3 * width : 4 * width],
                row[4 * width : 5 * width], row[5 * width :], projected[b, t, 2 * width :],
            )  # fmt: skip


def step_backward(
    row: FloatArray,
    hidden_gradient: FloatArray,
    reset_gradient: FloatArray,
    update_gradient: FloatArray,
    candidate_gradient: FloatArray,
    recurrent_gradient: FloatArray,
    direct_gradient: FloatArray,
) -> None:
    """Compute the entries of `GRUGradient` for one step from the gradient with respect to the new state."""
    width = hidden_gradient.size
    for k in range(width):
        reset_gate, update_gate, recurrent = row[k], row[width + k], row[2 * width + k]
        candidate, previous, gradient = row[3 * width + k], row[4 * width + k], hidden_gradient[k]
        inward = (gradient - gradient * update_gate) * (1 - candidate * candidate)
        candidate_gradient[k] = inward
        recurrent_gradient[k] = inward * reset_gate
        reset_gradient[k] = inward * recurrent * (reset_gate - reset_gate * reset_gate)
        update_gradient[k] = gradient * (previous - candidate) * (update_gate - update_gate * update_gate)
        direct_gradient[k] = gradient * update_gate


def backward_kernel(
    residuals: FloatArray,
    weights: FloatArray,
    states_gradient: FloatArray,
    resets: BoolArray,
    out: FloatArray,
    hidden_gradient: FloatArray,
    transposed: FloatArray,
) -> None:
    """Fill `out`, of the axes (batch, time, 5 * hidden), with the entries of `GRUGradient`.

    `transposed` is scratch memory for `weights.T`, or empty: a product would pack a strided `weights.T` at each step.
    """
    width, steps = weights.shape[0], out.shape[1]
    transpose_into(weights, transposed)
    for t in range(steps - 1, -1, -1):
        for b in range(out.shape[0]):
            result, later = out[b, t], out[b, t if t == steps - 1 else t + 1, 4 * width :]
            for k in range(width):
                from_later = 0 if t == steps - 1 else hidden_gradient[b, k] + later[k]
                hidden_gradient[b, k] = states_gradient[b, t, k] + from_later
            step_backward(
                residuals[b, t], hidden_gradient[b], result[:width], result[width : 2 * width],
                result[2 * width : 3 * width], result[3 * width : 4 * width], result[4 * width :],
            )  # fmt: skip
        gates, candidates = out[:, t, : 2 * width], out[:, t, 3 * width : 4 * width]
        if transposed.size > 0:
            multiply_into(gates, transposed[: 2 * width], hidden_gradient, 0)
            multiply_into(candidates, transposed[2 * width :], hidden_gradient, 1)
        else:
            multiply_into(gates, weights[:, : 2 * width].T, hidden_gradient, 0)
            multiply_into(candidates, weights[:, 2 * width :].T, hidden_gradient, 1)
        for b in range(out.shape[0]):
            if resets.size > 0 and resets[b, t]:
                hidden_gradient[b] = 0
                out[b, t, 4 * width :] = 0
