"""Samples of dropout and of random rows."""

from __future__ import annotations

from typing import Any

import numpy as np

import wyrm as wy
from tests.samples.sample import Sample, integers, normal
from wyrm.ops.random.dropout import Dropout
from wyrm.ops.random.philox import STEP
from wyrm.ops.random.sampling import RandomIndex


def _negatives(users: Any, dims: tuple[int, ...] = (3, 4), **options: Any) -> Any:
    known = (np.array([0, 2, 2, 5]), np.array([1, 4, 0, 2, 6]))
    return wy.random.index(7, dims, exclude=known, rows=users, seed=3, stream=5, **options)


def _drawn(node: Any) -> Any:
    return node.evaluate(np, *(parent.value for parent in node.parents), shape=node.shape)


def samples() -> list[Sample]:
    return [
        Sample(
            Dropout,
            lambda x: Dropout(x, 0.4, 3, 5),
            (normal(3, 4),),
            lambda x: Dropout(wy.Constant(x), 0.4, 3, 5).evaluate(np, x, int(STEP.value), shape=x.shape),
            tags=frozenset(["random"]),
        ),
        Sample(
            RandomIndex,
            lambda: wy.random.index(7, (3, 5), seed=3, stream=5),
            (),
            lambda: _drawn(wy.random.index(7, (3, 5), seed=3, stream=5)),
            differentiable=False,
            empty=False,
            tags=frozenset(["random"]),
        ),
        Sample(
            RandomIndex,
            _negatives,
            (integers(3, 3, 4),),
            lambda users: _drawn(_negatives(wy.IndexConstant(users))),
            name="RandomIndex-known",
            differentiable=False,
            empty=False,
            misfit=(integers(3, 3, 5),),
            tags=frozenset(["random"]),
        ),
        Sample(
            RandomIndex,
            lambda users: _negatives(users, weights=np.arange(7.0)),
            (integers(3, 3, 4),),
            lambda users: _drawn(_negatives(wy.IndexConstant(users), weights=np.arange(7.0))),
            name="RandomIndex-weights",
            differentiable=False,
            empty=False,
            tags=frozenset(["random"]),
        ),
        Sample(
            RandomIndex,
            lambda lists: wy.random.index(7, (3, 4), exclude=lists, seed=3, stream=5),
            (integers(7, 3, 5),),
            lambda lists: _drawn(wy.random.index(7, (3, 4), exclude=lists, seed=3, stream=5)),
            name="RandomIndex-lists",
            differentiable=False,
            empty=False,
            misfit=(integers(7, 2, 5),),
            tags=frozenset(["random"]),
        ),
    ]
