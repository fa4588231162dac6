"""Samples of reshaping, transposing, slicing and joining."""

from __future__ import annotations

from typing import Any

import numpy as np

import wyrm as wy
from tests.samples.sample import Sample, integers, normal
from wyrm.ops.indexing import joining, slicing
from wyrm.ops.shaping import arange, shape, transpose


def _slice(key: Any, name: str) -> Sample:
    return Sample(
        slicing.Slice, lambda x: x[key], (normal(4, 5, 3),), lambda x: x[key], name=f"Slice-{name}", empty=False
    )


def _placed(x: Any) -> Any:
    result = np.zeros((4, 6), x.dtype)
    result[1:3, ::2] = x
    return result


def samples() -> list[Sample]:
    return [
        Sample(
            shape.Reshape,
            lambda x: x.reshape(4, -1),
            (normal(2, 6),),
            lambda x: x.reshape(4, -1),
            empty=False,
            misfit=(normal(3, 3),),
        ),
        Sample(
            shape.IndexReshape,
            lambda i: i.reshape(2, 6),
            (integers(5, 3, 4),),
            lambda i: i.reshape(2, 6),
            differentiable=False,
            empty=False,
            misfit=(integers(5, 3, 3),),
        ),
        Sample(
            transpose.Transpose,
            lambda x: x.transpose(2, 0, 1),
            (normal(2, 3, 4),),
            lambda x: x.transpose(2, 0, 1),
            misfit=(normal(2, 3),),
        ),
        Sample(transpose.Transpose, lambda x: x.T, (normal(2, 3),), lambda x: x.T, name="Transpose-T"),
        Sample(
            transpose.IndexTranspose,
            lambda x: x.transpose(2, 0, 1),
            (integers(9, 2, 3, 4),),
            lambda x: x.transpose(2, 0, 1),
            differentiable=False,
        ),
        Sample(
            transpose.Transpose,
            lambda x: x.swapaxes(0, -1),
            (normal(2, 3, 4),),
            lambda x: x.swapaxes(0, -1),
            name="Transpose-swap",
        ),
        Sample(
            shape.BroadcastTo,
            lambda x: x.broadcast_to((5, 3, 4)),
            (normal(3, 1),),
            lambda x: np.broadcast_to(x, (5, 3, 4)),
            empty=False,
            misfit=(normal(3, 2),),
        ),
        Sample(
            shape.WithSizes,
            lambda x, y: shape.WithSizes(x, [y]),
            (normal(3, 4), normal(5)),
            lambda x, y: x,
            empty=False,
        ),
        _slice((slice(1, 3), Ellipsis), "range"),
        _slice((2,), "number"),
        _slice((-1, slice(None), 0), "numbers"),
        _slice((slice(None, None, -2), None, slice(None), slice(0, 2)), "step"),
        _slice((1, 2, 0), "element"),
        Sample(slicing.IndexSlice, lambda i: i[:, 1:], (integers(5, 3, 4),), lambda i: i[:, 1:], differentiable=False),
        Sample(
            slicing.PlaceSlice,
            lambda x: slicing.PlaceSlice(x, ((1, 3, None), (None, None, 2)), (4, 6)),
            (normal(2, 3),),
            _placed,
            empty=False,
        ),
        Sample(
            joining.Concatenate,
            lambda *p: wy.concatenate(p, axis=1),
            (normal(2, 3), normal(2, 1), normal(2, 2)),
            lambda *p: np.concatenate(p, axis=1),
            misfit=(normal(2, 3), normal(3, 1), normal(2, 2)),
        ),
        Sample(
            joining.Stack,
            lambda *p: wy.stack(p, axis=1),
            (normal(2, 3), normal(2, 3)),
            lambda *p: np.stack(p, axis=1),
            misfit=(normal(2, 3), normal(2, 4)),
        ),
        Sample(
            arange.Arange,
            lambda i: arange.Arange(i, wy.Dim(4)),
            (np.array([3]),),
            lambda i: i + np.arange(4),
            differentiable=False,
            empty=False,
            misfit=(np.array([3, 4]),),
        ),
    ]
