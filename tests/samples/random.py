"""Samples of the ops that draw random numbers; SciPy computes the expected values from the random words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special, stats

from tests.samples.sample import Sample, normal
from wyrm.ops.random import draws
from wyrm.ops.random.draws import LoopSteps
from wyrm.ops.random.dropout import RandomKey
from wyrm.ops.random.gamma_draws import RandomPoisson, StandardLogGamma
from wyrm.ops.random.philox import STEP, philox_block
from wyrm.ops.random.rejection import ATTEMPTS
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


def _first_accepted(x: Any, attempt: Callable[[Any, int, float], float | None]) -> Any:
    first, second = philox_block(0, 0, SEED, STREAM)[:2]
    found = []
    for position, value in enumerate(np.ravel(x)):
        words = lambda count, at=position: position_words(at, first, (int(second) + count) % 2**32)  # noqa: E731
        found.append(next(y for y in (attempt(words, number, value) for number in range(ATTEMPTS)) if y is not None))
    return np.array(found).reshape(np.shape(x))


def _uniform(words: Any) -> float:
    return float(((int(words[0]) >> 5) * 2**26 + (int(words[1]) >> 6)) * 2.0**-53)


def _normal(words: Any) -> float:
    a, b = map(int, words)
    quantile = special.ndtri(((a & 0x7FFFFFFF) * 2**32 + b + 0.5) * 2.0**-64)
    return float(-quantile if a >= 2**31 else quantile)


def _log_gamma(words: Any, number: int, concentration: float) -> float | None:
    d = (concentration + (concentration < 1.0)) - 1.0 / 3.0
    x, u = _normal(words(2 * number)), _uniform(words(2 * number + 1))
    v = (1.0 + x / np.sqrt(9.0 * d)) ** 3
    if v <= 0.0 or np.log(u) >= 0.5 * x * x + d - d * v + d * np.log(v):
        return None
    a, b = map(int, words(2 * ATTEMPTS - 1))
    rest = ((a & 0x7FFFFFFF) * 2**32 + b + 0.5) * 2.0**-64
    boost = -_exponential(a >= 2**31, rest) / concentration if concentration < 1.0 else 0.0
    return float(np.log(d * v) + boost)


def _poisson(words: Any, number: int, rate: float) -> float | None:
    if rate < 10.0:
        return float(stats.poisson.ppf(_uniform(words(0)), rate))
    u, v = _uniform(words(2 * number)) - 0.5, _uniform(words(2 * number + 1))
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    us = 0.5 - abs(u)
    k = np.floor((2.0 * a / us + b) * u + rate + 0.43)
    if us >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2.0):
        return float(k)
    if k < 0.0 or (us < 0.013 and v > us):
        return None
    left = np.log(v * (1.1239 + 1.1328 / (b - 3.4)) / (a / us**2 + b))
    return float(k) if left <= k * np.log(rate) - rate - special.gammaln(k + 1.0) else None


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
        Sample(
            StandardLogGamma,
            lambda x: StandardLogGamma(key(), x, x.dims),
            (np.array([[0.1, 0.4, 0.9, 1.0], [1.5, 3.0, 7.0, 40.0], [0.01, 2.0, 1e3, 0.6]]),),
            lambda x: _first_accepted(x, _log_gamma),
            differentiable=False,
            tags=random | {"implicit gradient"},
        ),
        Sample(
            RandomPoisson,
            lambda x: RandomPoisson(key(), x, x.dims),
            (np.array([[0.1, 4.0, 9.9, 10.0], [30.0, 15.5, 300.0, 1e6], [0.5, 2.0, 12.0, 1.0]]),),
            lambda x: _first_accepted(x, _poisson).astype(np.int64),
            differentiable=False,
            tags=random,
        ),
    ]
