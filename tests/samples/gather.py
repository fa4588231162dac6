"""Samples of gathering by several arrays of indices."""

from __future__ import annotations

from typing import Any

import numpy as np

import wyrm as wy
from tests.samples.sample import Sample, integers, normal
from wyrm.ops.indexing.advanced_indexing import FromEnd
from wyrm.ops.indexing.gather import Gather, IndexGather, Place
from wyrm.ops.indexing.index_update import LastWriter, Replaced


def _place(values: Any, rows: Any, columns: Any) -> Any:
    result = np.zeros((4, 3, 5))
    key: Any = (rows, slice(None), columns)
    np.add.at(result, key, values)
    return result


def _place_side_by_side(values: Any, rows: Any) -> Any:
    result = np.zeros((2, 4, 3))
    key: Any = (slice(None), rows)
    np.add.at(result, key, values)
    return result


def _replaced(x: Any, values: Any, positions: Any) -> Any:
    result = x.copy()
    np.put_along_axis(result, np.broadcast_to(positions, values.shape), values, -1)
    return result


def samples() -> list[Sample]:
    """Samples with arrays side by side and apart, broadcast, repeated and negative indices."""
    rows, columns = np.array([3, 0, 3, 1]), np.array([[2], [-5]])
    return [
        Sample(
            Gather,
            lambda x, i, j: x[i, :, j],
            (normal(4, 3, 5), rows, columns),
            lambda x, i, j: x[i, :, j],
            name="Gather-apart",
            empty=False,
            misfit=(normal(4, 3, 5), rows, np.array([1, 2])),
        ),
        Sample(
            Gather,
            lambda x, i, j: x[:, i, j],
            (normal(3, 4, 5), rows, columns),
            lambda x, i, j: x[:, i, j],
            name="Gather-together",
            empty=False,
        ),
        Sample(
            Gather,
            lambda x: x[..., [2, 0, 2], None],
            (normal(2, 4, 3),),
            lambda x: x[..., [2, 0, 2], None],
            name="Gather-last",
        ),
        Sample(
            Place,
            lambda x, i, j: Place(x, (i, j), (0, 2), 0, (4, 3, 5)),
            (normal(2, 4, 3), integers(4, 4), integers(5, 2, 1)),
            _place,
            name="Place-apart",
            empty=False,
            misfit=(normal(2, 4, 2), integers(4, 4), integers(5, 2, 1)),
        ),
        Sample(
            Place,
            lambda x, i: Place(x, (i,), (1,), 1, (2, 4, 3)),
            (normal(2, 5, 3), integers(4, 5)),
            _place_side_by_side,
            name="Place-together",
            empty=False,
        ),
        Sample(
            Gather,
            lambda x, i: x.take(i, axis=1),
            (normal(4, 5, 3), integers(10, 2) - 5),
            lambda x, i: x.take(i, axis=1),
            name="Gather-take",
            empty=False,
        ),
        Sample(
            IndexGather,
            lambda x, i: x[:, i],
            (integers(9, 3, 4), rows),
            lambda x, i: x[:, i],
            empty=False,
            differentiable=False,
        ),
        *(
            Sample(
                Replaced,
                Replaced,
                (normal(*rows, 5), normal(*rows, 2), positions),
                _replaced,
                name=f"Replaced-{name}",
                empty=False,
                misfit=(normal(*rows, 5), normal(*rows, 3), positions),
            )
            for name, rows, positions in (
                ("flat", (), np.array([4, 1])),
                ("same", (3,), np.array([4, 1])),
                ("rows", (3,), np.array([[4, 1], [0, 2], [3, 0]])),
            )
        ),
        Sample(
            LastWriter,
            lambda i: LastWriter(i, 5),
            (np.array([[0, 4, 0], [3, 3, 2]]),),
            lambda i: np.array([[2, 4, 5, 6, 1], [3, 4, 2, 1, 7]]),
            differentiable=False,
            empty=False,
        ),
        Sample(
            FromEnd,
            lambda i: FromEnd(i, wy.Constant(np.zeros((2, 5))), 1),
            (columns,),
            lambda i: np.where(i < 0, i + 5, i),
            differentiable=False,
        ),
    ]
