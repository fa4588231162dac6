"""Samples of the ops on labels."""

from __future__ import annotations

import numpy as np

from tests.samples.sample import Sample
from wyrm.ops.cross_entropy.labels import CountedLabels


def samples() -> list[Sample]:
    """Return samples of labels with ignored ones."""
    return [
        Sample(
            CountedLabels,
            lambda labels: CountedLabels(labels, 4, -100),
            (np.array([[3, -100, 0], [-100, 1, 2]]),),
            lambda labels: np.where(labels == -100, 0, labels),
            differentiable=False,
        )
    ]
