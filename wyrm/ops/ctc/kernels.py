"""The kernels of connectionist temporal classification.

A path goes through the states blank, label 0, blank, label 1, ..., blank: label `s // 2` where s is odd. Forward row t
has the log-probability of each state after t steps; backward values are the log-probability of the rest from there.
"""

from __future__ import annotations

import math

import numpy as np

from wyrm.graph.typing import FloatArray, IntegerArray


def log_add(x: float, y: float) -> float:
    """Return `log(exp(x) + exp(y))` of numbers that may be minus infinity."""
    if x == -math.inf:
        return y
    if y == -math.inf:
        return x
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


def forward_row(
    log_probability: FloatArray, labels: IntegerArray, blank: int, before: FloatArray, after: FloatArray
) -> None:
    """Write the forward values after one step into `after`."""
    for s in range(after.size):
        label = blank if s % 2 == 0 else labels[s // 2]
        total = before[s]
        if s > 0:
            total = log_add(total, before[s - 1])
        if s > 2 and s % 2 == 1 and label != labels[s // 2 - 1]:
            total = log_add(total, before[s - 2])
        after[s] = total + log_probability[label]


def forward_values(
    log_probability: FloatArray, labels: IntegerArray, steps: int, blank: int, forward: FloatArray
) -> float:
    """Fill rows 0 to `steps` of `forward` and return the log-probability of the labels."""
    states = 2 * labels.size + 1
    for s in range(states):
        forward[0, s] = 0 if s == 0 else -math.inf
    for t in range(steps):
        forward_row(log_probability[t], labels, blank, forward[t, :states], forward[t + 1, :states])
    return log_add(forward[steps, states - 1], -math.inf if states == 1 else forward[steps, states - 2])


def backward_row(
    log_probability: FloatArray, labels: IntegerArray, blank: int, after: FloatArray, before: FloatArray
) -> None:
    """Write the backward values before a step into `before`, from those after it."""
    for s in range(before.size):
        label = blank if s % 2 == 0 else labels[s // 2]
        total = after[s] + log_probability[label]
        if s + 1 < before.size:
            following = labels[s // 2] if s % 2 == 0 else blank
            total = log_add(total, after[s + 1] + log_probability[following])
        if s % 2 == 1 and s + 2 < before.size and labels[s // 2 + 1] != label:
            total = log_add(total, after[s + 2] + log_probability[labels[s // 2 + 1]])
        before[s] = total


def ctc_kernel(
    log_probability: FloatArray,
    labels: IntegerArray,
    steps: IntegerArray,
    lengths: IntegerArray,
    blank: int,
    forward: FloatArray,
    out: FloatArray,
) -> None:
    """Write the loss of each sequence into `out`; `forward`, (time + 1, states), is scratch memory."""
    for b in range(out.size):
        out[b] = -forward_values(log_probability[b], labels[b, : lengths[b]], steps[b], blank, forward)


def ctc_gradient_kernel(
    log_probability: FloatArray,
    labels: IntegerArray,
    steps: IntegerArray,
    lengths: IntegerArray,
    blank: int,
    forward: FloatArray,
    backward: FloatArray,
    out: FloatArray,
) -> None:
    """Write the gradient of each loss into `out`; `backward`, (2, states), is scratch memory too."""
    out[:] = 0
    for b in range(out.shape[0]):
        own, states = labels[b, : lengths[b]], 2 * lengths[b] + 1
        total = forward_values(log_probability[b], own, steps[b], blank, forward)
        if total == -math.inf:
            continue
        last = steps[b]
        for s in range(states):
            backward[last % 2, s] = 0 if s >= states - 2 else -math.inf
        for t in range(last, 0, -1):
            after = backward[t % 2, :states]
            for s in range(states):
                label = blank if s % 2 == 0 else own[s // 2]
                out[b, t - 1, label] -= np.exp(forward[t, s] + after[s] - total)
            backward_row(log_probability[b, t - 1], own, blank, after, backward[(t - 1) % 2, :states])
