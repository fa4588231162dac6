"""Samples of reductions."""

from __future__ import annotations

import numpy as np
from scipy import special

from tests.samples.sample import Sample, distinct, normal, reducing
from wyrm.ops.normalization import statistics
from wyrm.ops.reducing import base, positions, reduction


def samples() -> list[Sample]:
    return [
        *reducing(reduction.Sum, np.sum, empty=True),
        *reducing(reduction.Mean, np.mean),
        *reducing(reduction.Max, np.max),
        *reducing(reduction.Min, np.min),
        *reducing(statistics.LogSumExp, special.logsumexp),
        *reducing(statistics.Variance, np.var),
        *reducing(statistics.Variance, np.var, ddof=1),
        *reducing(statistics.Std, np.std),
        *reducing(statistics.Std, np.std, ddof=1),
        Sample(
            base.Count,
            lambda x: base.Count(x, (0, 2)),
            (normal(2, 3, 4),),
            lambda x: np.asarray(8.0, x.dtype),
            differentiable=False,
            empty=False,
        ),
        Sample(
            positions.ArgMax,
            lambda x: x.argmax(-1),
            (distinct(3, 4),),
            lambda x: np.argmax(x, -1),
            differentiable=False,
        ),
        Sample(
            positions.ArgMax,
            lambda x: x.argmax(0, keepdims=True),
            (distinct(3, 4),),
            lambda x: np.argmax(x, 0, keepdims=True),
            name="ArgMax-0",
            differentiable=False,
            empty=False,
        ),
    ]
