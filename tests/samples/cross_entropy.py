"""Samples of softmax and cross-entropy."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from tests.samples.sample import Sample, integers, normal, positive
from wyrm.ops.cross_entropy import softmax


def _log_softmax(x: Any, axis: int = -1) -> Any:
    return special.log_softmax(x, axis=axis)


def _cross_entropy(logits: Any, labels: Any) -> Any:
    return -np.take_along_axis(_log_softmax(logits), labels[..., None], -1)[..., 0]


def samples() -> list[Sample]:
    return [
        Sample(softmax.Softmax, lambda x: x.softmax(), (normal(3, 4),), lambda x: special.softmax(x, -1)),
        Sample(
            softmax.Softmax,
            lambda x: x.softmax(axis=0),
            (normal(3, 4),),
            lambda x: special.softmax(x, 0),
            name="Softmax-0",
            empty=False,
        ),
        Sample(softmax.LogSoftmax, lambda x: x.log_softmax(), (normal(3, 4),), _log_softmax),
        Sample(
            softmax.CrossEntropy,
            lambda x, i: x.cross_entropy(i),
            (normal(3, 4), integers(4, 3)),
            lambda x, i: _cross_entropy(x, i).mean(),
            empty=False,
            misfit=(normal(3, 4), integers(4, 2)),
        ),
        Sample(
            softmax.CrossEntropy,
            lambda x, i: x.cross_entropy(i, reduction="sum"),
            (normal(2, 3, 4), integers(4, 2, 3)),
            lambda x, i: _cross_entropy(x, i).sum(),
            name="CrossEntropy-sum",
            empty=False,
        ),
        Sample(
            softmax.CrossEntropy,
            lambda x, i: x.cross_entropy(i, reduction="none"),
            (normal(2, 3, 4), integers(4, 2, 3)),
            _cross_entropy,
            name="CrossEntropy-none",
            empty=False,
        ),
        Sample(
            softmax.CrossEntropyCount,
            lambda x, i: softmax.CrossEntropyCount(i, x.dtype),
            (normal(), integers(4, 3)),
            lambda x, i: np.asarray(3.0),
            differentiable=False,
            empty=False,
        ),
        Sample(
            softmax.CrossEntropyGradient,
            softmax.CrossEntropyGradient,
            (positive(3, 4), integers(4, 3), normal(3)),
            lambda p, i, w: (p - np.eye(4)[i]) * w[:, None],
            empty=False,
        ),
    ]
