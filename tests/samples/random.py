"""Samples of the ops that draw random numbers; SciPy computes the expected values from the random words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from tests.samples.sample import Sample, normal
from wyrm.ops.random import draws
from wyrm.ops.random.drawing import LoopSteps
from wyrm.ops.random.dropout import RandomKey
from wyrm.ops.random.philox import STEP, philox_block
from wyrm.ops.random.standard_draws import position_words

SEED, STREAM, SHAPE = 3, 5, (3, 4)


def _words(count: int) -> Any:
    """Return two words for each of the first positions in step 0, as Python integers."""
    first, second = philox_block(0, 0, SEED, STREAM)[:2]
    return [tuple(map(int, position_words(position, first, second))) for position in range(count)]


def _quantiles(x: Any, quantile: Callable[[bool, float], float]) -> Any:
    """Return `quantile` of whether a draw lies in the upper half, and of the probability beyond it."""
    found = [quantile(a >= 2**31, ((a & 0x7FFFFFFF) * 2**32 + b + 0.5) * 2.0**-64) for a, b in _words(np.size(x))]
    return np.array(found, np.float64).reshape(np.shape(x))


def _exponential(upper: bool, tail: float) -> float:
    return float(-np.log(tail) if upper else -np.log1p(-tail))


def _loop_step(position: int) -> int:
    first, second = map(int, philox_block(2**62 + position, 0, 0, 0)[:2])
    return (first << 30) ^ second


def _permutations(x: Any) -> Any:
    rows = []
    for row in np.array([((a << 32) + b) for a, b in _words(np.size(x))], object).reshape(np.shape(x)):
        numbers: list[int] = []
        for i, word in enumerate(row):
            at = word * (i + 1) >> 64
            numbers.append(numbers[at] if at < i else i)
            numbers[at] = i
        rows.append(numbers)
    return np.array(rows, np.int64).reshape(np.shape(x))


_EXPECTED: list[tuple[Any, Callable[[Any], Any]]] = [
    (draws.StandardNormal, lambda x: _quantiles(x, lambda up, tail: special.ndtri(tail) * (-1.0 if up else 1.0))),
    (draws.StandardExponential, lambda x: _quantiles(x, _exponential)),
    (draws.StandardGumbel, lambda x: _quantiles(x, lambda up, tail: -np.log(_exponential(up, tail)))),
    (draws.StandardLaplace, lambda x: _quantiles(x, lambda up, tail: np.log(2 * tail) * (-1.0 if up else 1.0))),
    (
        draws.StandardUniform,
        lambda x: np.array([((a >> 5) * 2**26 + (b >> 6)) * 2.0**-53 for a, b in _words(np.size(x))]).reshape(
            np.shape(x)
        ),
    ),
]


def samples() -> list[Sample]:
    """Return samples of the ops that draw."""
    random = frozenset(["random"])
    key: Callable[[], Any] = lambda: RandomKey(STEP, SEED, STREAM)  # noqa: E731
    return [
        *(
            Sample(
                op,
                lambda x, op=op: op(key(), x.dims, x.dtype),
                (normal(*SHAPE),),
                expected,
                differentiable=False,
                tags=random,
            )
            for op, expected in _EXPECTED
        ),
        Sample(
            LoopSteps,
            lambda x: LoopSteps(STEP, x.dims),
            (normal(*SHAPE),),
            lambda x: np.array([_loop_step(i) for i in range(np.size(x))], np.int64).reshape(np.shape(x)),
            differentiable=False,
            tags=random,
        ),
        Sample(
            draws.RandomInteger,
            lambda x: draws.RandomInteger(key(), x.dims, -3, 10),
            (normal(*SHAPE),),
            lambda x: np.array([((a << 32) + b) * 10 // 2**64 - 3 for a, b in _words(np.size(x))]).reshape(np.shape(x)),
            differentiable=False,
            tags=random,
        ),
        Sample(
            draws.RandomPermutation,
            lambda x: draws.RandomPermutation(key(), x.dims),
            (normal(*SHAPE),),
            _permutations,
            differentiable=False,
            tags=random,
        ),
    ]
