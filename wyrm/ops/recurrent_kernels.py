"""The loops of the recurrent ops, for an engine that compiles: what belongs to one step lies side by side.

A tape is seen with the axes (batch, time, what is kept of a step); what that is, `wyrm.ops.recurrent` says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wyrm.ops.fast_math import float32_sigmoid, float32_tanh


def squash_all(x: Any) -> None:
    """The hyperbolic tangent in place."""
    if x.itemsize == 4:
        for k in range(x.size):
            x[k] = float32_tanh(x[k])
    else:
        for k in range(x.size):
            x[k] = np.tanh(x[k])


def open_all(x: Any) -> None:
    """The sigmoid in place."""
    if x.itemsize == 4:
        for k in range(x.size):
            x[k] = float32_sigmoid(x[k])
    else:
        for k in range(x.size):
            power = np.exp(-abs(x[k]))
            x[k] = (1.0 if x[k] >= 0.0 else power) / (1.0 + power)


def add_product(x: Any, weights: Any, out: Any) -> None:
    """`out += x @ weights` of a vector, four rows of the weights at a time."""
    fours = x.size - x.size % 4
    for j in range(0, fours, 4):
        a, b, c, d = x[j], x[j + 1], x[j + 2], x[j + 3]
        for k in range(out.size):
            out[k] += a * weights[j, k] + b * weights[j + 1, k] + c * weights[j + 2, k] + d * weights[j + 3, k]
    for j in range(fours, x.size):
        a = x[j]
        for k in range(out.size):
            out[k] += a * weights[j, k]


def transposed_product(x: Any, weights: Any, out: Any) -> None:
    """`out = weights @ x` of a vector, four rows of the weights at a time."""
    fours = out.size - out.size % 4
    for j in range(0, fours, 4):
        a = b = c = d = x.dtype.type(0)
        for k in range(x.size):
            a += x[k] * weights[j, k]
            b += x[k] * weights[j + 1, k]
            c += x[k] * weights[j + 2, k]
            d += x[k] * weights[j + 3, k]
        out[j], out[j + 1], out[j + 2], out[j + 3] = a, b, c, d
    for j in range(fours, out.size):
        a = x.dtype.type(0)
        for k in range(x.size):
            a += x[k] * weights[j, k]
        out[j] = a


def forward_kernel(projected: Any, weights: Any, hidden: Any, cell: Any, resets: Any, tape: Any) -> None:
    """Fill the tape, of the axes (batch, time, what is kept of a step); `resets` is empty where there are none."""
    width, sums = weights.shape
    opened = sums - 2 * width
    for b in range(tape.shape[0]):
        for t in range(tape.shape[1]):
            row = tape[b, t]
            gates = row[:sums]
            squashed, previous_hidden = row[sums : sums + width], row[sums + width : sums + 2 * width]
            previous_cell, new_hidden = row[sums + 2 * width : sums + 3 * width], row[sums + 3 * width : -width]
            new_cell = row[-width:]
            if resets.size > 0 and resets[b, t]:
                previous_hidden[:] = 0.0
                previous_cell[:] = 0.0
            elif t == 0:
                previous_hidden[:] = hidden[b]
                previous_cell[:] = cell[b]
            else:
                previous_hidden[:] = tape[b, t - 1, -2 * width : -width]
                previous_cell[:] = tape[b, t - 1, -width:]
            gates[:] = projected[b, t]
            add_product(previous_hidden, weights, gates)
            open_all(gates[:opened])
            squash_all(gates[opened:-width])
            open_all(gates[-width:])
            candidate, output = gates[opened:-width], gates[-width:]
            for k in range(width):
                new_cell[k] = gates[k] * candidate[k]
            if opened == width:  # the coupled forget gate
                for k in range(width):
                    new_cell[k] += previous_cell[k] - gates[k] * previous_cell[k]
            else:
                forget = gates[width:opened]
                for k in range(width):
                    new_cell[k] += forget[k] * previous_cell[k]
            squashed[:] = new_cell
            squash_all(squashed)
            for k in range(width):
                new_hidden[k] = output[k] * squashed[k]


def backward_kernel(tape: Any, weights: Any, by_states: Any, resets: Any, out: Any, scratch: Any) -> None:
    """Fill `out`, of the axes (batch, time, gradients by the sums and by the cell before)."""
    width, sums = weights.shape
    opened = sums - 2 * width
    by_hidden = scratch
    for b in range(out.shape[0]):
        for t in range(out.shape[1] - 1, -1, -1):
            row, result = tape[b, t], out[b, t]
            gates, squashed = row[:sums], row[sums : sums + width]
            previous = row[sums + 2 * width : sums + 3 * width]
            candidate, output = gates[opened:-width], gates[-width:]
            by_cell, by_gates = result[sums:], result[:sums]
            by_input, by_candidate, by_output = by_gates[:width], by_gates[opened:-width], by_gates[-width:]
            if t == out.shape[1] - 1:
                by_hidden[:] = by_states[b, t, 0]
                by_cell[:] = by_states[b, t, 1]
            else:
                by_hidden += by_states[b, t, 0]
                by_cell[:] = out[b, t + 1, sums:]
                by_cell += by_states[b, t, 1]
            for k in range(width):
                flow = by_hidden[k] * output[k]
                by_cell[k] += flow - flow * squashed[k] * squashed[k]
            for k in range(width):
                by_output[k] = by_hidden[k] * squashed[k] * (output[k] - output[k] * output[k])
            for k in range(width):
                flow = by_cell[k] * gates[k]
                by_candidate[k] = flow - flow * candidate[k] * candidate[k]
            if opened == width:
                for k in range(width):
                    by_input[k] = by_cell[k] * (candidate[k] - previous[k]) * (gates[k] - gates[k] * gates[k])
                    by_cell[k] -= by_cell[k] * gates[k]
            else:
                forget, by_forget = gates[width:opened], by_gates[width:opened]
                for k in range(width):
                    by_input[k] = by_cell[k] * candidate[k] * (gates[k] - gates[k] * gates[k])
                for k in range(width):
                    by_forget[k] = by_cell[k] * previous[k] * (forget[k] - forget[k] * forget[k])
                for k in range(width):
                    by_cell[k] *= forget[k]
            if resets.size > 0 and resets[b, t]:
                by_cell[:] = 0.0
                by_hidden[:] = 0.0
            else:
                transposed_product(by_gates, weights, by_hidden)


def states_kernel(tape: Any, out: Any) -> None:
    """Fill `out`, of the axes (batch, time, 2, hidden), with the states of the tape."""
    out[:] = tape[:, :, -2:]
