"""Samples of connectionist temporal classification; the expected values are sums over all paths."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.samples.sample import Sample, normal
from wyrm.ops.ctc import CTC, CTCGradient

LABELS, STEPS, LENGTHS = np.array([[1, 2], [2, 2], [1, 0]]), np.array([4, 4, 3]), np.array([2, 2, 1])


def _merged(path: tuple[int, ...]) -> list[int]:
    return [c for c, _ in itertools.groupby(path) if c != 0]


def _paths(rows: Any, labels: Any, steps: int, length: int) -> list[tuple[tuple[int, ...], float]]:
    """Return the paths that become the labels, each with its probability."""
    paths = itertools.product(range(rows.shape[1]), repeat=steps)
    chosen = [path for path in paths if _merged(path) == list(labels[:length])]
    return [(path, float(np.exp(sum(rows[t, c] for t, c in enumerate(path))))) for path in chosen]


def ctc_losses(*operands: Any) -> Any:
    """Return the loss of each sequence."""
    return np.array([-np.log(sum(p for _, p in _paths(*each))) for each in zip(*operands, strict=True)])


def ctc_gradient(log_probability: Any, *operands: Any) -> Any:
    """Return the gradient of each loss: minus the share of the paths that have a class at a step."""
    result = np.zeros_like(log_probability)
    for slopes, *each in zip(result, log_probability, *operands, strict=True):
        paths = _paths(*each)
        for path, probability in paths:
            slopes[np.arange(len(path)), path] -= probability / sum(p for _, p in paths)
    return result


def samples() -> list[Sample]:
    """Return a sample of the losses and one of their gradients."""
    operands = (normal(3, 4, 3), LABELS, STEPS, LENGTHS)
    wrong = (normal(2, 4, 3), *operands[1:])
    return [
        Sample(
            CTC,
            lambda x, labels, steps, lengths: CTC(x, labels, steps, lengths, 0),
            operands,
            ctc_losses,
            misfit=wrong,
            empty=False,
        ),
        Sample(
            CTCGradient,
            lambda x, labels, steps, lengths: CTCGradient(x, labels, steps, lengths, 0),
            operands,
            ctc_gradient,
            misfit=wrong,
            empty=False,
        ),
    ]
