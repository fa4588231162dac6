"""Samples of the ops whose value is their first operand."""

from __future__ import annotations

import numpy as np

import wyrm as wy
from tests.samples.sample import Sample, normal
from wyrm.ops.control.checkpoint import Checkpoint, OptimizationBarrier
from wyrm.ops.control.custom import Custom
from wyrm.ops.control.pass_through import Alias, DenseGradient
from wyrm.ops.control.updating import Updating


def samples() -> list[Sample]:
    """Return a sample of each op."""
    return [
        Sample(
            Updating,
            lambda x: wy.updating(x, {wy.Buffer(np.zeros(4), dtype=x.dtype): x.mean(0)}),
            (normal(3, 4),),
            lambda x: x,
            empty=False,
        ),
        Sample(
            Custom,
            lambda x: Custom(x * x, x, count=1, rule=lambda parents, gradient: (2.0 * parents[0] * gradient,)),
            (normal(3, 4),),
            lambda x: x * x,
            empty=False,
        ),
        Sample(Alias, Alias, (normal(3, 4),), lambda x: x),
        Sample(DenseGradient, DenseGradient, (normal(3, 4),), lambda x: x),
        Sample(OptimizationBarrier, OptimizationBarrier, (normal(3, 4), normal(2)), lambda x, after: x, empty=False),
        Sample(
            Checkpoint,
            lambda x, y: wy.checkpoint(lambda x: (x * y).tanh() * x, x),
            (normal(3, 4), normal(4)),
            lambda x, y: np.tanh(x * y) * x,
            empty=False,
        ),
    ]
