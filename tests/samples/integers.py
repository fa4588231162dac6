"""Samples of ops of integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.samples.sample import Sample, integers, mask
from wyrm.ops.elementwise.integers import IndexWhere
from wyrm.ops.indexing.taking import IndexTakeAlongAxis
from wyrm.ops.reducing.cumulative import IndexCumSum
from wyrm.ops.reducing.index_reduction import IndexMax, IndexMin, IndexSum


def whole(*shape: int) -> Any:
    """Return integers of both signs."""
    return integers(19, *shape) - 9


def samples() -> list[Sample]:
    """Samples of reductions, sorting and selection."""
    reductions: list[tuple[Any, Any]] = [(IndexSum, np.sum), (IndexMax, np.max), (IndexMin, np.min)]
    return [
        *(
            Sample(
                op,
                lambda i, op=op, axis=axis: op(i, axis, False),
                (whole(3, 4, 2),),
                lambda i, function=function, axis=axis: function(i, axis=axis),
                name=f"{op.__name__}-{axis}",
                differentiable=False,
                empty=axis > 0,
            )
            for op, function in reductions
            for axis in (0, 1, 2)
        ),
        Sample(
            IndexSum,
            lambda i: IndexSum(i, 1, True),
            (whole(3, 4),),
            lambda i: np.sum(i, 1, keepdims=True),
            name="IndexSum-kept",
            differentiable=False,
        ),
        *(
            Sample(
                IndexCumSum,
                lambda i, axis=axis: i.cumsum(axis=axis),
                (whole(3, 4),),
                lambda i, axis=axis: np.cumsum(i, axis=axis),
                name=f"IndexCumSum-{axis}",
                differentiable=False,
                empty=axis is not None,
            )
            for axis in (0, 1, None)
        ),
        *(
            Sample(
                IndexTakeAlongAxis,
                lambda i, axis=axis: i.sort(axis=axis),
                (whole(3, 4),),
                lambda i, axis=axis: np.sort(i, axis=axis),
                name=f"IndexTakeAlongAxis-sort-{axis}",
                differentiable=False,
                empty=axis is not None,
            )
            for axis in (0, -1, None)
        ),
        Sample(
            IndexTakeAlongAxis,
            lambda i, j: i.take_along_axis(j, axis=1),
            (whole(3, 4), integers(4, 3, 2)),
            lambda i, j: np.take_along_axis(i, j, axis=1),
            differentiable=False,
            misfit=(whole(3, 4), integers(4, 2, 2)),
        ),
        *(
            Sample(
                IndexWhere,
                IndexWhere,
                operands,
                np.where,
                name=f"IndexWhere-{name}",
                differentiable=False,
                misfit=(mask(3, 4), whole(3, 4), whole(3)),
            )
            for name, operands in {
                "same": (mask(3, 4), whole(3, 4), whole(3, 4)),
                "spread": (mask(3, 1), whole(3, 4), whole(1, 4)),
            }.items()
        ),
    ]
