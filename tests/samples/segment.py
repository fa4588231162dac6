"""Samples of the reductions by segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.samples.sample import Sample, distinct
from wyrm.ops.indexing.segment import SegmentMax

IDS = np.array([3, 0, 3, 1, 2, 3])


def _largest(x: Any, ids: Any) -> Any:
    result = np.full((4, *x.shape[1:]), -np.inf, x.dtype)
    np.maximum.at(result, ids, x)
    return result


def samples() -> list[Sample]:
    """Return samples of rows of several shapes."""
    return [
        Sample(
            SegmentMax,
            lambda x, ids: SegmentMax(x, ids, 4),
            (distinct(6, *row), IDS),
            _largest,
            name=f"SegmentMax-{row}",
            misfit=(distinct(5, *row), IDS),
            empty=False,
        )
        for row in ((), (3,), (2, 2))
    ]
