"""Kernels around the steps of an epoch: they order rows, at random or by blocks, and copy and check whole arrays."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wyrm.ops.kernels.sums import natural

if TYPE_CHECKING:
    from wyrm.engines.native.llvm.calling import BoundFunction


def shuffle(order: np.ndarray, seed: int, random_positions: np.ndarray) -> None:
    """Shuffle `order` in place: Fisher-Yates with SplitMix64 (Steele et al., 2014); `random_positions` is scratch.

    It is filled at once, in vectors, for as many swaps as it has elements.
    """
    for start in range(0, order.shape[0] - 1, random_positions.shape[0]):
        count = min(random_positions.shape[0], order.shape[0] - 1 - start)
        for i in range(count):
            state = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(start + i + 1)
            mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed = (mixed ^ (mixed >> np.uint64(31))) >> np.uint64(32)
            random_positions[i] = (mixed * np.uint64(order.shape[0] - start - i)) >> np.uint64(32)
        for i in range(count):
            last, chosen = natural(order.shape[0] - 1 - start - i), natural(int(random_positions[i]))
            order[last], order[chosen] = order[chosen], order[last]


def by_block(
    first: np.ndarray, second: np.ndarray, count: int, blocks: np.ndarray, starts: np.ndarray, order: np.ndarray
) -> None:
    """Sort the rows by block into `order`, and write where each block starts into `starts`; `blocks` is scratch.

    The block of a row is (stripe of `first`, stripe of `second`). A stripe is every count-th group of 16 numbers, so
    that no two stripes share a cache line.
    """
    stripes = np.uint32(count)
    starts[:] = 0
    for i in range(len(first)):
        blocks[i] = (np.uint32(first[i] >> 4) % stripes) * stripes + np.uint32(second[i] >> 4) % stripes
        starts[blocks[i] + 1] += 1
    for block in range(1, len(starts)):
        starts[block] += starts[block - 1]
    for i in range(len(first)):
        order[starts[blocks[i]]] = i
        starts[blocks[i]] += 1
    for block in range(len(starts) - 1, 0, -1):
        starts[block] = starts[block - 1]
    starts[0] = 0


def fingerprint(column: np.ndarray) -> int:
    """Return a 64-bit hash of the integers and their order."""
    total = np.uint64(0)
    for i in range(column.shape[0]):
        mixed = np.uint64(column[i]) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(i + 1)
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
        total += mixed ^ (mixed >> np.uint64(32))
    return int(total)


def count_up(order: np.ndarray, start: int) -> None:
    """Fill `order` with `start`, `start + 1` and so on."""
    for i in range(order.shape[0]):
        order[i] = start + i


def copy(source: np.ndarray, target: np.ndarray) -> None:
    """Copy one array to another of its length."""
    for i in range(source.shape[0]):
        target[i] = source[i]


def put_pair(target: np.ndarray, first: int, second: int) -> None:
    """Write two numbers."""
    target[0] = first
    target[1] = second


def is_finite(array: np.ndarray) -> int:
    """Return 1 if no number is a NaN or an infinity, else 0."""
    others = 0
    for i in range(array.shape[0]):
        others += int(not np.isfinite(array[i]))
    return 1 if others == 0 else 0


def are_within(array: np.ndarray, low: int, high: int, ignored: int, ignores: int) -> int:
    """Return 1 if all integers are at least `low` and below `high`, or `ignored` if `ignores` is 1, else 0."""
    others = 0
    for i in range(array.shape[0]):
        others += int((array[i] < low or array[i] >= high) and (array[i] != ignored or ignores == 0))
    return 1 if others == 0 else 0


@cache
def compiled(function: Any) -> Any:
    """Return one of these functions as native code."""
    from wyrm.engines.native.kernels.functions import KernelFunction
    from wyrm.engines.native.llvm.library import CompiledFunction

    return CompiledFunction(KernelFunction(function))


# A call for each function and kind of arguments, of empty arrays: to copy it is ten times faster than to make one.
_bound: dict[tuple[object, ...], BoundFunction] = {}


def bound(function: Any, *arguments: object) -> BoundFunction:
    """Return a call of one of these functions with these arguments."""
    from wyrm.engines.native.llvm.calling import BoundFunction

    key = function, *[(each.dtype, each.ndim) if isinstance(each, np.ndarray) else type(each) for each in arguments]
    like = _bound.get(key)
    if like is None:
        empty = [np.empty([0] * each.ndim, each.dtype) if isinstance(each, np.ndarray) else each for each in arguments]
        like = _bound[key] = BoundFunction(compiled(function), empty, (), ())
    found = like.copy()
    return found if found.take(arguments, ()) else BoundFunction(compiled(function), arguments, (), ())


# How many swaps a shuffle draws at once.
PLACES = 512


class Shuffle:
    """Shuffles orders of rows, for one thread; see `wyrm.engines.epochs.RowShuffle`."""

    def __init__(self) -> None:
        self._places = np.empty(PLACES, np.uint64)
        self._bound: BoundFunction | None = None

    def __call__(self, order: NDArray[np.int64], seed: int) -> None:
        """Shuffle `order` in place by `seed`, which is at least 0 and below 2**63."""
        if self._bound is None or not self._bound.take((order, seed, self._places), ()):
            self._bound = bound(shuffle, order, seed, self._places)
        self._bound()
