"""The loops of the recurrent ops, for an engine that compiles: what belongs to one step lies side by side.

A tape is seen with the axes (batch, time, what is kept of a step); what that is, `wyrm.ops.recurrent` says.
"""

from __future__ import annotations

from wyrm.ops.fast_math import sigmoid, tanh
from wyrm.ops.product import multiply_into
from wyrm.types.typing import BoolArray, FloatArray


def advance(
    entering: FloatArray,
    staying: FloatArray,
    candidates: FloatArray,
    outputs: FloatArray,
    tanh_cell: FloatArray,
    before: FloatArray,
    hidden: FloatArray,
    cells: FloatArray,
) -> None:
    """From the sums of the gates, in their places, and the cell before, all that a tape keeps of a step.

    Without numbers in `staying` the forget gate is coupled to the input gate.
    """
    coupled = staying.size == 0
    for k in range(entering.size):
        enter, candidate, output = sigmoid(entering[k]), tanh(candidates[k]), sigmoid(outputs[k])
        if coupled:
            stay = 1 - enter
        else:
            stay = sigmoid(staying[k])
            staying[k] = stay
        cell = stay * before[k] + enter * candidate
        small = tanh(cell)
        entering[k], candidates[k], outputs[k] = enter, candidate, output
        tanh_cell[k], cells[k], hidden[k] = small, cell, output * small


def begin(row: FloatArray, hidden: FloatArray, cell: FloatArray, sums: FloatArray, from_zero: bool) -> None:
    """Put the state before a step, and the sums of its gates so far, into its row of the tape."""
    width, first = hidden.size, sums.size + hidden.size
    for k in range(sums.size):
        row[k] = sums[k]
    for k in range(width):
        row[first + k] = 0 if from_zero else hidden[k]
    for k in range(width):
        row[first + width + k] = 0 if from_zero else cell[k]


def forward_kernel(
    projected: FloatArray,
    weights: FloatArray,
    hidden: FloatArray,
    cell: FloatArray,
    resets: BoolArray,
    residuals: FloatArray,
) -> None:
    """Fill the tape, of the axes (batch, time, what is kept of a step); `resets` is empty where there are none."""
    width, sums = weights.shape
    opened, end = sums - 2 * width, residuals.shape[2]
    for t in range(residuals.shape[1]):
        for b in range(residuals.shape[0]):
            row, from_zero = residuals[b, t], resets.size > 0 and resets[b, t]
            if t == 0:
                begin(row, hidden[b], cell[b], projected[b, t], from_zero)
            else:
                begin(
                    row,
                    residuals[b, t - 1, end - 2 * width : end - width],
                    residuals[b, t - 1, end - width :],
                    projected[b, t],
                    from_zero,
                )
        multiply_into(residuals[:, t, sums + width : sums + 2 * width], weights, residuals[:, t, :sums], 1)
        for b in range(residuals.shape[0]):
            row = residuals[b, t]
            before, hidden_after = row[sums + 2 * width : sums + 3 * width], row[end - 2 * width : end - width]
            advance(
                row[:width], row[width:opened], row[opened : opened + width], row[opened + width : sums],
                row[sums : sums + width], before, hidden_after, row[end - width :],
            )  # fmt: skip


def recede(
    entering: FloatArray,
    staying: FloatArray,
    candidates: FloatArray,
    outputs: FloatArray,
    tanh_cell: FloatArray,
    before: FloatArray,
    by_hidden: FloatArray,
    by_entering: FloatArray,
    by_staying: FloatArray,
    by_candidates: FloatArray,
    by_outputs: FloatArray,
    by_cell: FloatArray,
) -> None:
    """The gradients by the sums of the gates and by the cell before, from those by the hidden state and the cell."""
    coupled = staying.size == 0
    for k in range(entering.size):
        enter, candidate, output, small = entering[k], candidates[k], outputs[k], tanh_cell[k]
        flow = by_hidden[k] * output
        total = by_cell[k] + flow - flow * small * small
        by_outputs[k] = by_hidden[k] * small * (output - output * output)
        inward = total * enter
        by_candidates[k] = inward - inward * candidate * candidate
        if coupled:
            by_entering[k] = total * (candidate - before[k]) * (enter - enter * enter)
            by_cell[k] = total - inward
        else:
            stay = staying[k]
            by_entering[k] = total * candidate * (enter - enter * enter)
            by_staying[k] = total * before[k] * (stay - stay * stay)
            by_cell[k] = total * stay


def gather(by_states: FloatArray, later: FloatArray, last: bool, by_hidden: FloatArray, by_cell: FloatArray) -> None:
    """Add the gradients by the states of a step to those that come from the steps after it."""
    for k in range(by_hidden.size):
        by_hidden[k] = by_states[0, k] if last else by_states[0, k] + by_hidden[k]
    for k in range(by_hidden.size):
        by_cell[k] = by_states[1, k] if last else by_states[1, k] + later[k]


def turn(x: FloatArray, turned: FloatArray) -> None:
    """Write `x.T` into `turned`."""
    for i in range(turned.shape[0]):
        for j in range(turned.shape[1]):
            turned[i, j] = x[j, i]


def backward_kernel(
    residuals: FloatArray,
    weights: FloatArray,
    by_states: FloatArray,
    resets: BoolArray,
    out: FloatArray,
    by_hidden: FloatArray,
    turned: FloatArray,
) -> None:
    """Fill `out`, of the axes (batch, time, gradients by the sums and by the cell before).

    `turned` is empty, or has room for `weights.T`: of rows that lie apart, BLAS would make its own copy at each step.
    """
    width, sums = weights.shape
    opened, steps = sums - 2 * width, out.shape[1]
    turn(weights, turned)
    for t in range(steps - 1, -1, -1):
        for b in range(out.shape[0]):
            row, result = residuals[b, t], out[b, t]
            later, by_cell = out[b, t if t == steps - 1 else t + 1, sums:], result[sums:]
            gather(by_states[b, t], later, t == steps - 1, by_hidden[b], by_cell)
            recede(
                row[:width], row[width:opened], row[opened : opened + width], row[opened + width : sums],
                row[sums : sums + width], row[sums + 2 * width : sums + 3 * width], by_hidden[b], result[:width],
                result[width:opened], result[opened : opened + width], result[opened + width : sums], by_cell,
            )  # fmt: skip
        if turned.size > 0:
            multiply_into(out[:, t, :sums], turned, by_hidden, 0)
        else:
            multiply_into(out[:, t, :sums], weights.T, by_hidden, 0)
        for b in range(out.shape[0]):
            if resets.size > 0 and resets[b, t]:
                by_hidden[b] = 0
                out[b, t, sums:] = 0


def states_kernel(residuals: FloatArray, out: FloatArray) -> None:
    """Fill `out`, of the axes (batch, time, 2, hidden), with the states of the tape."""
    out[:] = residuals[:, :, -2:]
