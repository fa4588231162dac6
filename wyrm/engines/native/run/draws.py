"""Fills large arrays with random numbers, on all processors.

A number is a function of a key and its position alone, so the number of threads does not change it; see
`wyrm.ops.random.standard_draws`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from wyrm.engines.native.products.pool import processors
from wyrm.engines.native.run.shuffle import compiled
from wyrm.ops.random.standard_draws import normal_at, uniform_at

# The numbers that a thread draws at a time, and the positions that a key has.
_CHUNK = 2**20
POSITIONS = 2**32

Fill = Callable[[NDArray[np.floating], int, int, int, float, float], None]


def fill_normal(out: np.ndarray, start: int, first: int, second: int, mean: float, deviation: float) -> None:
    """Draw numbers of a normal distribution, for the positions from `start` of the key (first, second).

    The standard normal number has the 24 bits of a float32, so that float32 results are float64 results rounded.
    """
    for i in range(out.size):
        out[i] = mean + deviation * np.float64(normal_at(start + i, first, second, np.float32(0.0)))


def fill_uniform(out: np.ndarray, start: int, first: int, second: int, low: float, high: float) -> None:
    """Draw numbers of the uniform distribution over [low, high), for the positions from `start` of a key."""
    for i in range(out.size):
        out[i] = low + (high - low) * uniform_at(start + i, first, second, np.float64(0.0))


def fill(
    kernel: Fill, out: NDArray[np.floating], begin: int, *, keys: Sequence[tuple[int, int]], a: float, b: float
) -> None:
    """Fill a flat array with the numbers from position `begin` on, by `fill_normal` or `fill_uniform`.

    `keys` has one key for each `POSITIONS` numbers.
    """
    from concurrent.futures import ThreadPoolExecutor

    function, end = compiled(kernel), begin + out.size

    def draw(start: int) -> None:
        low, high = max(start, begin), min(start + _CHUNK, end)
        first, second = keys[start // POSITIONS]
        function(out[low - begin : high - begin], low % POSITIONS, first, second, a, b)

    with ThreadPoolExecutor(processors()) as pool:
        list(pool.map(draw, range(begin // _CHUNK * _CHUNK, end, _CHUNK)))
