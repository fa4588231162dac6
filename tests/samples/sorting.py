"""Samples of sorting and searching."""

from __future__ import annotations

import numpy as np

import wyrm as wy
from tests.samples.sample import Sample, distinct, normal
from wyrm.ops.indexing.taking import TakeAlongAxis
from wyrm.ops.reducing.positions import TopIndices
from wyrm.ops.reducing.sorting import ArgSort, SearchSorted


def samples() -> list[Sample]:
    """Samples with and without ties."""
    tied = np.array([[2.0, 1.0, 2.0, 1.0, 1.0, -3.0, 7.0], [0.0, 9.0, 0.0, 5.0, 5.0, 5.0, -1.0]])
    ascending, values = np.array([-1.0, 0.0, 0.0, 2.0]), np.array([[-2.0, -1.0, 0.0], [2.0, 5.0, 1.0]])
    return [
        Sample(
            ArgSort,
            lambda x: x.argsort(),
            (tied,),
            lambda x: np.argsort(x, stable=True),
            name="ArgSort-tied",
            differentiable=False,
        ),
        Sample(
            ArgSort,
            lambda x: x.argsort(axis=0),
            (distinct(9, 2),),
            lambda x: np.argsort(x, axis=0),
            name="ArgSort-0",
            differentiable=False,
        ),
        Sample(
            ArgSort, lambda x: x.argsort(axis=None), (distinct(3, 4),), lambda x: np.argsort(x, axis=None),
            name="ArgSort-all", differentiable=False,
        ),
        Sample(
            ArgSort,
            lambda x, parts: ArgSort(x, 0, parts),
            (tied.T, np.array([3, 3, 3, 3, 5, 5, 9])),
            lambda x, parts: np.stack([np.lexsort((column, parts)) for column in x.T], axis=1),
            name="ArgSort-parts",
            differentiable=False,
            misfit=(tied.T, np.zeros((7, 2), np.int64)),
        ),
        *(
            Sample(
                TakeAlongAxis,
                lambda x, a=axis: x.sort(axis=a),
                (distinct(3, 5, 2),),
                lambda x, a=axis: np.sort(x, axis=a),
                name=f"sort-{axis}",
            )
            for axis in (-1, 0, 1, None)
        ),
        *(
            Sample(
                TopIndices,
                lambda x, a=axis: TopIndices(x, 2, a),
                (values,),
                lambda x, a=axis: np.take(np.argsort(-x, axis=a, stable=True), [0, 1], axis=a),
                name=f"TopIndices-{name}",
                differentiable=False,
                empty=False,
            )
            for name, axis, values in (("last", -1, distinct(3, 5)), ("first", 0, distinct(4, 3)), ("tied", 1, tied))
        ),
        Sample(
            TakeAlongAxis, lambda x: wy.top_k(x, 3, axis=1)[0], (distinct(2, 5, 3),),
            lambda x: -np.sort(-x, axis=1)[:, :3], name="top_k",
        ),
        *(
            Sample(
                SearchSorted,
                lambda a, v, s=side: SearchSorted(a, v, s),
                (ascending, values),
                lambda a, v, s=side: np.searchsorted(a, v, s),
                name=f"SearchSorted-{side}",
                differentiable=False,
                misfit=(normal(2, 2), normal(3)),
            )
            for side in ("left", "right")
        ),
        Sample(
            SearchSorted,
            lambda a, v: SearchSorted(a, v, batch=1),
            (np.sort(distinct(3, 5)), distinct(3, 2)),
            lambda a, v: np.stack([np.searchsorted(*rows) for rows in zip(a, v, strict=True)]),
            name="SearchSorted-rows",
            differentiable=False,
            empty=False,
        ),
    ]  # fmt: skip
