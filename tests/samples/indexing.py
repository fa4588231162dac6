"""Samples of rows and elements chosen by indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.samples.sample import Sample, integers, normal
from wyrm.ops.indexing import index, taking


def _scatter(x: Any, rows: Any, values: Any) -> Any:
    result = x.copy()
    np.add.at(result, rows, values)
    return result


def _place_along(x: Any, indices: Any, axis: int, to: tuple[int, ...]) -> Any:
    result = np.zeros(to, x.dtype)
    for position in np.ndindex(*indices.shape):
        target = list(position)
        target[axis] = indices[position]
        result[tuple(target)] += x[position]
    return result


def _dense_rows(gradient: Any, rows: Any, to: tuple[int, ...]) -> Any:
    return _scatter(np.zeros(to, gradient.dtype), rows.ravel(), gradient.reshape(-1, *to[1:]))


def samples() -> list[Sample]:
    return [
        Sample(index.Index, index.Index, (normal(5, 3), np.array([4, 0, 4])), lambda t, i: t[i], empty=False),
        Sample(
            index.Index, index.Index, (normal(5, 3), integers(5, 2, 3)), lambda t, i: t[i], name="Index-2d", empty=False
        ),
        Sample(
            index.Index,
            lambda t, i: t.take(i, axis=0),
            (normal(5, 3), integers(10, 2) - 5),
            lambda t, i: t.take(i, axis=0),
            name="Index-take",
            empty=False,
        ),
        Sample(
            index.RowGradient,
            lambda g, i: index.RowGradient(g, i, (5, 3)),
            (normal(4, 3), np.array([4, 0, 4, 1])),
            lambda g, i: _dense_rows(g, i, (5, 3)),
            empty=False,
        ),
        Sample(
            index.JoinRows,
            lambda x, y, i: index.JoinRows(index.RowGradient(x, i, (5, 3)), index.RowGradient(y, i, (5, 3))),
            (normal(4, 3), normal(4, 3), np.array([4, 0, 4, 1])),
            lambda x, y, i: _dense_rows(x + y, i, (5, 3)),
            empty=False,
        ),
        Sample(
            taking.TakeAlongAxis,
            lambda x, i: x.take_along_axis(i, axis=1),
            (normal(3, 5), integers(5, 3, 2)),
            lambda x, i: np.take_along_axis(x, i, 1),
            misfit=(normal(3, 5), integers(5, 4, 2)),
        ),
        Sample(
            taking.PlaceAlongAxis,
            lambda x, i: taking.PlaceAlongAxis(x, i, 1, (3, 5)),
            (normal(3, 2), integers(5, 3, 2)),
            lambda x, i: _place_along(x, i, 1, (3, 5)),
            empty=False,
        ),
        Sample(
            index.ScatterAdd,
            lambda x, i, v: x.scatter_add(i, v),
            (normal(5, 3), np.array([1, 1, 4]), normal(3, 3)),
            _scatter,
            empty=False,
            misfit=(normal(5, 3), np.array([1, 1, 4]), normal(3, 2)),
        ),
    ]
